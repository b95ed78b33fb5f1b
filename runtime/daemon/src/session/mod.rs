//! Sessions: a lease, and everything that ends with it.

mod account;
mod handles;
mod shared;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub(crate) use account::{Account, Reservation};
pub(crate) use handles::Handles;
pub(crate) use shared::SharedDirectory;
pub(crate) use shared::{SharedError, SharedRoot};
pub(crate) use table::{Opening, SessionTable};

use crate::error::{HandleKind, Result};
use crate::execute::{DeviceBuffer, Program};

/// What a client holds on this daemon.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) buffers: Handles<DeviceBuffer>,
    pub(crate) executables: Handles<Program>,
    pub(crate) memory: Arc<Account>,
    shared: Option<SharedDirectory>,
    /// The client's process, when it is on this machine.
    local_pid: Option<u32>,
    born: Instant,
    /// Milliseconds from `born` to the client's last sign of life.
    seen: AtomicU64,
    closed: watch::Sender<bool>,
}

impl Session {
    fn new(
        id: String,
        memory: Arc<Account>,
        shared: Option<SharedDirectory>,
        local_pid: Option<u32>,
    ) -> Self {
        Self {
            id,
            buffers: Handles::new(HandleKind::Buffer),
            executables: Handles::new(HandleKind::Executable),
            memory,
            shared,
            local_pid,
            born: Instant::now(),
            seen: AtomicU64::new(0),
            closed: watch::Sender::new(false),
        }
    }

    /// Extends the lease.
    pub(crate) fn touch(&self) {
        self.seen.store(u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How long the client has been silent.
    fn silence(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_millis(self.seen.load(Relaxed)))
    }

    fn client_is_dead(&self) -> bool {
        let pid =
            self.local_pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }

    /// The shared directory.
    pub(crate) fn shared(&self) -> Result<&SharedDirectory> {
        Ok(self.shared.as_ref().ok_or(SharedError::Remote)?)
    }

    /// Releases what the session holds and ends its streams.
    fn close(&self) {
        self.closed.send_replace(true);
        self.buffers.clear();
        self.executables.clear();
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Ends when the session does.
    pub(crate) async fn wait_closed(self: Arc<Self>) {
        let mut closed = self.closed.subscribe();
        // The sender lives in `self`, so this can't fail.
        let _ = closed.wait_for(|closed| *closed).await;
    }
}
