//! What stands between the transport and the services: a panic ends its request and nothing else, and a message that
//! is too large gets an error which says how large it may be.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::error::{DaemonError, panic_message};

/// Puts [`Guard`] around every service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLayer {
    pub(crate) max_message_bytes: usize,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, limit: self.max_message_bytes }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Guard<S> {
    inner: S,
    limit: usize,
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limit = self.limit;
        let path = request.uri().path().to_owned();
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(future) => Box::pin(async move {
                match (Catch { future: Box::pin(future) }).await {
                    Ok(response) => response.map(|response| name_limit(response, limit)),
                    Err(panic) => Ok(answer(&path, panic.as_ref())),
                }
            }),
            Err(panic) => Box::pin(async move { Ok(answer(&path, panic.as_ref())) }),
        }
    }
}

fn answer(path: &str, panic: &(dyn Any + Send)) -> Response<Body> {
    let message = panic_message(panic);
    tracing::error!(path, "a request panicked: {message}");
    Status::from(DaemonError::Panic(message)).into_http()
}

/// A future whose panics are values.
struct Catch<F> {
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Catch<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

fn name_limit(response: Response<Body>, limit: usize) -> Response<Body> {
    match Status::from_header_map(response.headers()).and_then(|status| too_large(&status, limit)) {
        Some(error) => Status::from(error).into_http(),
        None => response,
    }
}

/// The transport's refusal of a long message as our error, if it is one.
pub(crate) fn too_large(status: &Status, limit: usize) -> Option<DaemonError> {
    let marker = "message length too large: found ";
    if status.code() != Code::OutOfRange {
        return None;
    }
    let (_, rest) = status.message().split_once(marker)?;
    let found = rest.split_whitespace().next()?.parse().unwrap_or_default();
    Some(DaemonError::MessageTooLarge { found, limit: limit as u64 })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt, service_fn};

    use super::*;

    async fn answer_of<F>(inner: fn(Request<Body>) -> F) -> Status
    where
        F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    {
        let service = GuardLayer { max_message_bytes: 1000 }.layer(service_fn(inner));
        let response = service.oneshot(Request::new(Body::empty())).await.unwrap();
        Status::from_header_map(response.headers()).unwrap()
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        async fn later(_: Request<Body>) -> Result<Response<Body>, Infallible> {
            tokio::task::yield_now().await;
            panic!("deep inside")
        }
        let status = answer_of(later).await;
        let error = crate::from_status(&status);
        assert_eq!((status.code(), error.detail.unwrap().reason.as_str()), (Code::Internal, "PANIC"));
        assert!(status.message().contains("deep inside"));

        fn at_once(_: Request<Body>) -> std::future::Ready<Result<Response<Body>, Infallible>> {
            panic!("at once")
        }
        assert!(answer_of(at_once).await.message().contains("at once"));
    }

    #[tokio::test]
    async fn other_answers_pass_unchanged() {
        async fn refuse(_: Request<Body>) -> Result<Response<Body>, Infallible> {
            Ok(Status::out_of_range("index 7").into_http())
        }
        let status = answer_of(refuse).await;
        assert_eq!((status.code(), status.message()), (Code::OutOfRange, "index 7"));
    }
}
