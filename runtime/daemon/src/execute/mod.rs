//! Execution: the commands of a session's stream, in order, each with one reply.
//!
//! The stream of replies is driven by its reader and executes commands itself, so a call costs no task switch beyond
//! the transport's. While the client sends ahead, replies go out together; after a command that took long they go
//! out at once.

mod host;
mod program;
mod run;
mod runner;
mod transfer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio_stream::Stream;
use tonic::{Status, Streaming};
use tpud_proto::v1::{ExecuteCommand, ExecuteReply};

pub(crate) use program::{DeviceBuffer, Program};
use runner::Runner;

use crate::error::{DaemonError, Result};
use crate::guard::too_large;
use crate::session::Session;
use crate::state::Daemon;

/// Work after which replies are sent before more is begun.
const FLUSH_AFTER: Duration = Duration::from_micros(200);

/// The replies to a stream of commands.
pub(crate) struct ReplyStream {
    commands: Streaming<ExecuteCommand>,
    runner: Runner,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    limit: usize,
    /// Time spent on replies that may still sit in the transport's buffer.
    unsent: Duration,
    ended: bool,
}

impl ReplyStream {
    pub(crate) fn new(
        daemon: &Arc<Daemon>,
        session: Arc<Session>,
        commands: Streaming<ExecuteCommand>,
    ) -> Result<Self> {
        let limit = daemon.config.limits.max_message_bytes;
        let closed = Box::pin(Arc::clone(&session).wait_closed());
        let runner = Runner::new(daemon, session)?;
        Ok(Self { commands, runner, closed, limit, unsent: Duration::ZERO, ended: false })
    }

    fn end(&mut self, error: Option<Status>) -> Poll<Option<Result<ExecuteReply, Status>>> {
        self.ended = true;
        Poll::Ready(error.map(Err))
    }
}

impl Stream for ReplyStream {
    type Item = Result<ExecuteReply, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.unsent >= FLUSH_AFTER {
            self.unsent = Duration::ZERO;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match Pin::new(&mut self.commands).poll_next(context) {
            Poll::Ready(Some(Ok(command))) => {
                let started = Instant::now();
                let reply = self.runner.execute(&command);
                self.unsent += started.elapsed();
                Poll::Ready(Some(Ok(reply)))
            }
            Poll::Ready(Some(Err(status))) => {
                let error = too_large(&status, self.limit).map(Status::from);
                self.end(Some(error.unwrap_or_else(|| malformed(status))))
            }
            Poll::Ready(None) => self.end(None),
            Poll::Pending => {
                self.unsent = Duration::ZERO;
                if self.closed.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                let id = self.runner.session.id.clone();
                self.end(Some(DaemonError::SessionExpired(id).into()))
            }
        }
    }
}

/// What the transport says of bytes that are no message is INTERNAL; they are the client's fault.
fn malformed(status: Status) -> Status {
    if status.code() == tonic::Code::Internal {
        return DaemonError::MalformedMessage(status.message().to_owned()).into();
    }
    status
}
