//! One session with a daemon: the handshake, the lease, and unary calls.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::Python;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use tpud_proto::PROTOCOL_VERSIONS;
use tpud_proto::v1::execute_client::ExecuteClient;
use tpud_proto::v1::session_client::SessionClient;
use tpud_proto::v1::{CloseRequest, ExecuteReply, HeartbeatRequest, OpenReply, OpenRequest};

use crate::address::Address;
use crate::driver::Driver;
use crate::error::ClientError;
use crate::segments::Pool;
use crate::stream::CommandStream;
use crate::transfer::Stats;

/// How often a waiting call looks for signals (Ctrl-C).
const SIGNAL_PERIOD: Duration = Duration::from_millis(100);
/// How long `close` waits for a daemon that does not answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an ordinary question may take.
pub(crate) const UNARY_TIMEOUT: Duration = Duration::from_secs(60);
/// The message limit when the daemon names none.
const DEFAULT_MESSAGE_BYTES: u64 = 64 << 20;
/// Bytes of commands on their way that nobody waits for.
pub(crate) const WINDOW_BYTES: u32 = 256 << 20;

/// An open session. What Python holds is `Arc<Session>` in a `Handle`.
pub(crate) struct Session {
    pub(crate) pid: u32,
    pub(crate) address: String,
    pub(crate) hello: OpenReply,
    pub(crate) channel: Channel,
    pub(crate) driver: Driver,
    pub(crate) stream: Arc<CommandStream>,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) window: Arc<Semaphore>,
    pub(crate) stats: Stats,
    opening_stream: Mutex<()>,
    next_handle: AtomicU64,
    closed: AtomicBool,
}

impl Session {
    /// Connects and opens a session.
    pub(crate) fn open(
        address: &str,
        client_version: String,
        torch_version: String,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let parsed = Address::parse(address)?;
        let driver = Driver::start().map_err(|error| ClientError::Unreachable {
            address: address.to_owned(),
            cause: format!("no runtime: {error}"),
        })?;
        let request = OpenRequest {
            client_version,
            protocol_min: *PROTOCOL_VERSIONS.start(),
            protocol_max: *PROTOCOL_VERSIONS.end(),
            pid: std::process::id(),
            torch_version,
        };
        let greet = async {
            let channel = parsed.connect(timeout).await?;
            let hello = SessionClient::new(channel.clone()).open(request).await;
            let hello = hello.map_err(|status| ClientError::from_status(&status, address))?.into_inner();
            Ok((channel, hello))
        };
        let greet = async { tokio::time::timeout(timeout, greet).await };
        let greeted = match wait(&driver, greet) {
            Ok(Ok(greeted)) => greeted,
            Ok(Err(_)) => Err(ClientError::Deadline { seconds: timeout.as_secs_f64() }),
            Err(interrupted) => Err(interrupted),
        };
        let (channel, hello) = greeted.inspect_err(|_| driver.stop())?;
        if !PROTOCOL_VERSIONS.contains(&hello.protocol) {
            driver.stop();
            let cause = format!("the daemon chose protocol {}", hello.protocol);
            return Err(ClientError::BadReply { cause });
        }
        let session = Self::with(address, hello, channel, driver);
        session.driver.spawn(heartbeat(
            SessionClient::new(session.channel.clone()),
            session.hello.session_id.clone(),
            heartbeat_period(session.hello.lease_seconds),
            Arc::clone(&session.stream),
            session.address.clone(),
        ));
        Ok(session)
    }

    fn with(address: &str, hello: OpenReply, channel: Channel, driver: Driver) -> Self {
        let shared = &hello.shared_directory;
        let pool = (!shared.is_empty()).then(|| Pool::new(shared.into()));
        Self {
            pid: std::process::id(),
            address: address.to_owned(),
            hello,
            channel,
            driver,
            stream: Arc::default(),
            pool,
            window: Arc::new(Semaphore::new(WINDOW_BYTES as usize)),
            stats: Stats::default(),
            opening_stream: Mutex::default(),
            next_handle: AtomicU64::new(1),
            closed: AtomicBool::new(false),
        }
    }

    /// Refuses calls that cannot succeed: in a forked child, after `close`, after the connection died.
    pub(crate) fn guard(&self) -> Result<(), ClientError> {
        if self.pid != std::process::id() {
            return Err(ClientError::Forked { pid: self.pid });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed);
        }
        self.stream.end_reason().map_or(Ok(()), Err)
    }

    /// A handle that this session has not used yet.
    pub(crate) fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// The largest message in either direction.
    pub(crate) fn message_limit(&self) -> usize {
        let limit = self.hello.max_message_bytes;
        usize::try_from(if limit == 0 { DEFAULT_MESSAGE_BYTES } else { limit }).unwrap_or(usize::MAX)
    }

    /// Refuses a message that the daemon would not take.
    pub(crate) fn check_message(&self, bytes: usize) -> Result<(), ClientError> {
        let limit = self.message_limit();
        if bytes > limit {
            return Err(ClientError::MessageTooLarge { bytes: bytes as u64, limit: limit as u64 });
        }
        Ok(())
    }

    /// Waits for a future, looking for signals meanwhile. Call it with the GIL released.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, ClientError> {
        wait(&self.driver, future)
    }

    /// Waits for the answer of a unary call.
    pub(crate) fn unary<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ClientError> {
        self.guard()?;
        match self.wait(async { tokio::time::timeout(timeout, call).await })? {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(&status)),
            Err(_) => Err(ClientError::Deadline { seconds: timeout.as_secs_f64() }),
        }
    }

    /// The error of a status; the session ends if it says so.
    pub(crate) fn failed(&self, status: &Status) -> ClientError {
        let error = ClientError::from_status(status, &self.address);
        if error.ends_session() {
            self.stream.end(&error);
        }
        error
    }

    /// Opens the command stream unless it is open.
    pub(crate) fn ensure_stream(&self) -> Result<(), ClientError> {
        self.guard()?;
        if self.stream.is_attached() {
            return Ok(());
        }
        let _one_at_a_time = self.opening_stream.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stream.is_attached() {
            return Ok(());
        }
        let (sender, receiver) = unbounded_channel();
        let mut request = Request::new(UnboundedReceiverStream::new(receiver));
        let id = MetadataValue::try_from(&self.hello.session_id)
            .map_err(|_| ClientError::BadReply { cause: "the session id is not ASCII".to_owned() })?;
        request.metadata_mut().insert("tpud-session", id);
        let limit = self.message_limit();
        let mut client = ExecuteClient::new(self.channel.clone())
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit);
        let replies = self.unary(UNARY_TIMEOUT, client.stream(request))?;
        if self.stream.attach(sender) {
            self.driver.spawn(read(replies, Arc::clone(&self.stream), self.address.clone()));
        }
        Ok(())
    }

    /// Ends the session: the daemon releases all it holds. In a forked child it does nothing.
    pub(crate) fn close(&self) {
        if self.pid != std::process::id() || self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let alive = self.stream.end_reason().is_none();
        self.stream.end(&ClientError::Closed);
        if alive {
            let request = CloseRequest { session_id: self.hello.session_id.clone() };
            let mut client = SessionClient::new(self.channel.clone());
            // A daemon that does not hear it releases everything when the lease ends.
            let _ = self
                .driver
                .block_on(async { tokio::time::timeout(CLOSE_TIMEOUT, client.close(request)).await });
        }
        if let Some(pool) = &self.pool {
            pool.close();
        }
        self.driver.stop();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

/// A share of a session. In a forked child it is leaked: its threads are not there, and its socket is the parent's.
pub(crate) struct Handle(Option<Arc<Session>>);

impl Handle {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self(Some(session))
    }

    /// The session, if it still can be used.
    pub(crate) fn get(&self) -> Result<&Arc<Session>, ClientError> {
        let session = self.peek()?;
        session.guard()?;
        Ok(session)
    }

    /// The session, whatever its state.
    pub(crate) fn peek(&self) -> Result<&Arc<Session>, ClientError> {
        self.0.as_ref().ok_or(ClientError::Closed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(session) = self.0.take_if(|session| session.pid != std::process::id()) {
            std::mem::forget(session);
        }
    }
}

fn wait<F: Future>(driver: &Driver, future: F) -> Result<F::Output, ClientError> {
    let mut future = pin!(future);
    loop {
        let waited = driver.block_on(async { tokio::time::timeout(SIGNAL_PERIOD, future.as_mut()).await });
        match waited {
            Ok(output) => return Ok(output),
            Err(_) => check_signals()?,
        }
    }
}

fn check_signals() -> Result<(), ClientError> {
    let checked = Python::try_attach(|py| {
        py.check_signals().map_err(|raised| {
            // It is taken up again where the error becomes a Python exception.
            raised.restore(py);
            ClientError::Interrupted
        })
    });
    checked.unwrap_or(Ok(()))
}

fn heartbeat_period(lease_seconds: u32) -> Duration {
    Duration::from_secs_f64((f64::from(lease_seconds) / 3.0).max(0.5))
}

/// Extends the lease and sends frees that no command took along.
async fn heartbeat(
    mut client: SessionClient<Channel>,
    session_id: String,
    period: Duration,
    stream: Arc<CommandStream>,
    address: String,
) {
    loop {
        tokio::time::sleep(period).await;
        if stream.end_reason().is_some() {
            return;
        }
        if stream.is_attached() && stream.flush_freed().is_err() {
            return;
        }
        let request = HeartbeatRequest { session_id: session_id.clone() };
        let beat = tokio::time::timeout(period, client.heartbeat(request)).await;
        // One that is merely late is made good by the next; the daemon decides when the lease is over.
        if let Ok(Err(status)) = beat {
            let error = ClientError::from_status(&status, &address);
            if error.ends_session() {
                stream.end(&error);
                return;
            }
        }
    }
}

/// Reads answers until the stream ends.
async fn read(mut replies: Streaming<ExecuteReply>, stream: Arc<CommandStream>, address: String) {
    let reason = loop {
        match replies.message().await {
            Ok(Some(reply)) => {
                if let Err(error) = stream.answer(reply) {
                    break error;
                }
            }
            Ok(None) => {
                break ClientError::Lost { address, cause: "the daemon ended the stream".to_owned() };
            }
            Err(status) => break ClientError::from_status(&status, &address),
        }
    };
    stream.end(&reason);
}
