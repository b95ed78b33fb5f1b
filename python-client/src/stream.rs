//! The command stream of a session: commands go out in order, answers come back in the same order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tpud_proto::v1::execute_command::Command;
use tpud_proto::v1::execute_reply::Outcome;
use tpud_proto::v1::{Done, ExecuteCommand, ExecuteReply, Free};

use crate::error::ClientError;
use crate::segments::Lease;

/// The answer to one command, with the shared range that it used (so that the caller can still read it).
pub(crate) type Answer = Result<(Done, Option<Lease>), ClientError>;

/// What to do with an answer.
enum Waiter {
    /// Somebody waits.
    Caller(oneshot::Sender<Answer>),
    /// Nobody does: an error is kept for whoever uses these buffers.
    Later(Vec<u64>),
}

struct Pending {
    id: u64,
    waiter: Waiter,
    /// Kept until the answer is here, whatever becomes of the caller: the daemon may write into it until then.
    lease: Option<Lease>,
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct State {
    sender: Option<UnboundedSender<ExecuteCommand>>,
    next_id: u64,
    pending: VecDeque<Pending>,
    /// Why buffers do not exist, for those whose making failed with nobody waiting.
    failed: BTreeMap<u64, ClientError>,
    /// The first such error that no call has raised yet.
    unraised: Option<ClientError>,
    end: Option<ClientError>,
}

/// Shared by the callers and the task that reads answers.
#[derive(Default)]
pub(crate) struct CommandStream {
    state: Mutex<State>,
    /// Handles to release with the next command.
    freed: Mutex<Free>,
    has_failed: AtomicBool,
}

impl CommandStream {
    /// Attaches the sending half. False: there is one already, or the session ended.
    pub(crate) fn attach(&self, sender: UnboundedSender<ExecuteCommand>) -> bool {
        let mut state = self.lock();
        let first = state.sender.is_none() && state.end.is_none();
        if first {
            state.sender = Some(sender);
        }
        first
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.lock().sender.is_some()
    }

    /// Sends a command whose answer somebody waits for.
    pub(crate) fn call(
        &self,
        command: Command,
        lease: Option<Lease>,
    ) -> Result<oneshot::Receiver<Answer>, ClientError> {
        let (sender, receiver) = oneshot::channel();
        self.send(command, Waiter::Caller(sender), lease, None)?;
        Ok(receiver)
    }

    /// Sends a command that makes `buffers`; an error is raised by whoever uses them.
    pub(crate) fn post(
        &self,
        command: Command,
        buffers: Vec<u64>,
        lease: Option<Lease>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(), ClientError> {
        self.send(command, Waiter::Later(buffers), lease, permit)
    }

    fn send(
        &self,
        command: Command,
        waiter: Waiter,
        lease: Option<Lease>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(), ClientError> {
        let free = std::mem::take(&mut *self.freed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.lock();
        if !free.buffers.is_empty() || !free.executables.is_empty() {
            for handle in &free.buffers {
                state.failed.remove(handle);
            }
            state.push(Command::Free(free), Waiter::Later(Vec::new()), None, None)?;
        }
        state.push(command, waiter, lease, permit)
    }

    /// Releases a buffer with the next command.
    pub(crate) fn free_buffer(&self, handle: u64) {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).buffers.push(handle);
    }

    /// Releases an executable with the next command.
    pub(crate) fn free_executable(&self, handle: u64) {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).executables.push(handle);
    }

    /// Sends what was released when no command did so meanwhile.
    pub(crate) fn flush_freed(&self) -> Result<(), ClientError> {
        let free = std::mem::take(&mut *self.freed.lock().unwrap_or_else(PoisonError::into_inner));
        if free.buffers.is_empty() && free.executables.is_empty() {
            return Ok(());
        }
        self.send(Command::Free(free), Waiter::Later(Vec::new()), None, None)
    }

    /// Raises the error of a buffer whose making failed.
    pub(crate) fn check_buffer(&self, handle: u64) -> Result<(), ClientError> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.lock();
        let Some(error) = state.failed.get(&handle).cloned() else { return Ok(()) };
        state.unraised = None;
        Err(error)
    }

    /// The first error of a command that nobody waited for, once.
    pub(crate) fn take_unraised(&self) -> Option<ClientError> {
        self.lock().unraised.take()
    }

    /// Why the stream ended, if it did.
    pub(crate) fn end_reason(&self) -> Option<ClientError> {
        self.lock().end.clone()
    }

    /// Ends the stream; everybody who waits gets the reason. The first reason stays.
    pub(crate) fn end(&self, reason: &ClientError) {
        let pending = {
            let mut state = self.lock();
            state.end.get_or_insert_with(|| reason.clone());
            state.sender = None;
            std::mem::take(&mut state.pending)
        };
        for entry in pending {
            if let Waiter::Caller(sender) = entry.waiter {
                // The caller may have been interrupted and be gone.
                let _ = sender.send(Err(reason.clone()));
            }
        }
    }

    /// Hands an answer to whoever waits for it.
    pub(crate) fn answer(&self, reply: ExecuteReply) -> Result<(), ClientError> {
        let entry = {
            let mut state = self.lock();
            match state.pending.pop_front() {
                Some(entry) if entry.id == reply.id => entry,
                Some(entry) => {
                    let cause = format!("answer {} where {} was due", reply.id, entry.id);
                    state.pending.push_front(entry);
                    return Err(ClientError::BadReply { cause });
                }
                None => {
                    let cause = format!("answer {} to no command", reply.id);
                    return Err(ClientError::BadReply { cause });
                }
            }
        };
        let result = match reply.outcome {
            Some(Outcome::Done(done)) => Ok(done),
            Some(Outcome::Error(error)) => Err(ClientError::from_wire(error)),
            None => Err(ClientError::BadReply { cause: "an answer without an outcome".to_owned() }),
        };
        match entry.waiter {
            Waiter::Caller(sender) => {
                // The caller may have been interrupted and be gone; the lease is given back all the same.
                let _ = sender.send(result.map(|done| (done, entry.lease)));
            }
            Waiter::Later(buffers) => {
                if let Err(error) = result {
                    self.remember(&buffers, &error);
                }
            }
        }
        Ok(())
    }

    fn remember(&self, buffers: &[u64], error: &ClientError) {
        let mut state = self.lock();
        for &handle in buffers {
            state.failed.entry(handle).or_insert_with(|| error.clone());
        }
        state.unraised.get_or_insert_with(|| error.clone());
        self.has_failed.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Under one lock, so that commands are pending in the order in which they are sent.
    fn push(
        &mut self,
        command: Command,
        waiter: Waiter,
        lease: Option<Lease>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(), ClientError> {
        let closed = || self.end.clone().unwrap_or(ClientError::Closed);
        let sender = self.sender.as_ref().ok_or_else(closed)?;
        let id = self.next_id + 1;
        sender.send(ExecuteCommand { id, command: Some(command) }).map_err(|_| closed())?;
        self.next_id = id;
        self.pending.push_back(Pending { id, waiter, lease, _permit: permit });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tpud_proto::v1::{Download, Error as WireError, Upload};

    fn attached() -> (CommandStream, UnboundedReceiver<ExecuteCommand>) {
        let stream = CommandStream::default();
        let (sender, receiver) = unbounded_channel();
        assert!(stream.attach(sender));
        (stream, receiver)
    }

    fn done(id: u64) -> ExecuteReply {
        ExecuteReply { id, outcome: Some(Outcome::Done(Done::default())) }
    }

    fn failed(id: u64) -> ExecuteReply {
        let error = WireError { code: 8, message: "no memory".to_owned(), detail: None };
        ExecuteReply { id, outcome: Some(Outcome::Error(error)) }
    }

    #[test]
    fn frees_travel_with_the_next_command() {
        let (stream, mut commands) = attached();
        stream.free_buffer(3);
        stream.free_buffer(4);
        stream.free_executable(5);
        assert!(commands.try_recv().is_err(), "nothing is sent for a free alone");
        let mut answer = stream.call(Command::Download(Download::default()), None).unwrap();
        let free = commands.try_recv().unwrap();
        assert_eq!(free.command, Some(Command::Free(Free { buffers: vec![3, 4], executables: vec![5] })));
        assert_eq!(commands.try_recv().unwrap().id, 2);
        stream.answer(done(1)).unwrap();
        assert!(answer.try_recv().is_err());
        stream.answer(done(2)).unwrap();
        assert!(answer.try_recv().unwrap().is_ok());
    }

    #[test]
    fn a_failed_upload_is_raised_by_its_user() {
        let (stream, _commands) = attached();
        stream.post(Command::Upload(Upload::default()), vec![7], None, None).unwrap();
        assert!(stream.check_buffer(7).is_ok());
        stream.answer(failed(1)).unwrap();
        assert!(stream.check_buffer(8).is_ok());
        assert_eq!(stream.check_buffer(7).unwrap_err().to_string(), "no memory");
        assert!(stream.take_unraised().is_none(), "it was raised");
    }

    #[test]
    fn the_end_reaches_everybody_and_later_calls() {
        let (stream, _commands) = attached();
        let mut answer = stream.call(Command::Download(Download::default()), None).unwrap();
        stream.end(&ClientError::Lost { address: "a".to_owned(), cause: "gone".to_owned() });
        stream.end(&ClientError::Closed);
        assert!(matches!(answer.try_recv().unwrap(), Err(ClientError::Lost { .. })));
        let again = stream.call(Command::Download(Download::default()), None);
        assert!(matches!(again, Err(ClientError::Lost { .. })));
    }

    #[test]
    fn an_answer_out_of_order_is_an_error() {
        let (stream, _commands) = attached();
        assert!(matches!(stream.answer(done(1)), Err(ClientError::BadReply { .. })));
        let _answer = stream.call(Command::Download(Download::default()), None).unwrap();
        assert!(matches!(stream.answer(done(9)), Err(ClientError::BadReply { .. })));
    }
}
