//! One session's commands, one after the other.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tpud_device::Device;
use tpud_proto::v1::execute_command::Command;
use tpud_proto::v1::execute_reply::Outcome;
use tpud_proto::v1::{self, Done, ExecuteCommand, ExecuteReply};

use super::transfer::{Pending, Staged};
use crate::error::{DaemonError, Result, panic_message};
use crate::session::Session;
use crate::state::Daemon;

/// Executes commands.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) daemon: Arc<Daemon>,
    pub(super) session: Arc<Session>,
    pub(super) device: Arc<dyn Device>,
    pub(super) pending: BTreeMap<u64, Pending>,
    pub(super) staged: Option<Staged>,
    /// Something that may take long was launched and not waited for.
    pub(super) unfinished: bool,
}

impl Runner {
    pub(super) fn new(daemon: &Arc<Daemon>, session: Arc<Session>) -> Result<Self> {
        let device = Arc::clone(&daemon.device.as_ref().ok_or(DaemonError::NoDevice)?.device);
        let daemon = Arc::clone(daemon);
        Ok(Self { daemon, session, device, pending: BTreeMap::new(), staged: None, unfinished: false })
    }

    /// Executes a command. Whatever happens, there is a reply.
    pub(super) fn execute(&mut self, command: &ExecuteCommand) -> ExecuteReply {
        self.session.touch();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.dispatch(command)));
        let outcome = outcome.unwrap_or_else(|panic| Err(DaemonError::Panic(panic_message(panic.as_ref()))));
        let outcome = match outcome {
            Ok(done) => Outcome::Done(done),
            Err(error) => {
                tracing::debug!(session = %self.session.id, id = command.id, "command failed: {error}");
                let encoded = v1::Error::from(&error);
                // Down a chain of commands the first error is the one to know.
                let cause = match error {
                    DaemonError::HandleFailed { cause, .. } => cause,
                    other => Arc::new(other),
                };
                self.fail_handles(command, &cause);
                Outcome::Error(encoded)
            }
        };
        ExecuteReply { id: command.id, outcome: Some(outcome) }
    }

    fn dispatch(&mut self, command: &ExecuteCommand) -> Result<Done> {
        if self.session.is_closed() {
            return Err(DaemonError::SessionExpired(self.session.id.clone()));
        }
        match &command.command {
            Some(Command::Run(run)) => self.run(run),
            Some(Command::Upload(upload)) => self.upload(upload),
            Some(Command::Download(download)) => self.download(download),
            Some(Command::Free(free)) => self.free(free),
            None => Err(DaemonError::InvalidCommand(
                "an empty command (is the client newer than the daemon?)".into(),
            )),
        }
    }

    /// The handles that a failed command would have made become errors for whoever uses them.
    fn fail_handles(&self, command: &ExecuteCommand, cause: &Arc<DaemonError>) {
        match &command.command {
            Some(Command::Run(run)) => {
                for output in &run.outputs {
                    self.session.buffers.fail(output.buffer, cause);
                }
            }
            Some(Command::Upload(upload)) => self.session.buffers.fail(upload.buffer, cause),
            Some(Command::Download(_) | Command::Free(_)) | None => {}
        }
    }

    /// Does work that may block. Short work is done right here, other work after this thread's tasks were handed to
    /// another thread.
    pub(super) fn blocking_unless<R>(&mut self, short: bool, work: impl FnOnce(&mut Self) -> R) -> R {
        if short { work(self) } else { tokio::task::block_in_place(|| work(self)) }
    }
}
