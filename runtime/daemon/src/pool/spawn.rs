//! Starts worker processes. They ask the kernel to die with the *thread* that started them, so one thread that lives
//! as long as the daemon starts them all.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

type Request = (Command, oneshot::Sender<io::Result<Child>>);

/// A handle on the thread.
#[derive(Debug)]
pub(crate) struct Spawner {
    requests: mpsc::Sender<Request>,
}

impl Spawner {
    /// Must be called inside a tokio runtime, to which the children's pipes belong.
    pub(crate) fn start() -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel::<Request>();
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new().name("tpud-spawner".into()).spawn(move || {
            let _inside = runtime.enter();
            for (mut command, reply) in inbox {
                // When nobody waits any more the child is dropped here, which kills it.
                let _ = reply.send(command.kill_on_drop(true).spawn());
            }
        })?;
        Ok(Self { requests })
    }

    /// Starts a process.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the spawner thread has ended");
        self.requests.send((command, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
