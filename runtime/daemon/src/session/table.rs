//! All sessions, their leases, and the end of those whose client is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Account, Session, SharedRoot};
use crate::config::SessionConfig;
use crate::error::{DaemonError, Result};
use crate::sync::lock;

/// Who opens a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    /// The client is on this machine and the same user.
    pub(crate) local: bool,
    /// Its process, when it is local and the kernel says so.
    pub(crate) pid: Option<u32>,
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct SessionTable {
    config: SessionConfig,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    shared: Option<SharedRoot>,
    memory: Arc<Account>,
    /// When there last was a session; it is "now" while there is one.
    last_used: Mutex<Instant>,
    /// A session ended since `take_ended` was asked last.
    ended: AtomicBool,
}

impl SessionTable {
    pub(crate) fn new(config: SessionConfig, shared: Option<SharedRoot>) -> Self {
        let memory = Account::new(0, None);
        let (last_used, ended) = (Mutex::new(Instant::now()), AtomicBool::new(false));
        Self { config, sessions: Mutex::default(), shared, memory, last_used, ended }
    }

    /// Opens a session and gives its shared directory's path, if it has one.
    pub(crate) fn open(&self, opening: Opening) -> Result<Arc<Session>> {
        let id = crate::random::token()?;
        let shared = match &self.shared {
            Some(root) if opening.local => match root.session(&id) {
                Ok(directory) => Some(directory),
                Err(error) => {
                    tracing::warn!("no shared directory for a session ({error}); its tensors travel inline");
                    None
                }
            },
            _ => None,
        };
        let memory = Account::new(self.config.memory_bytes, Some(Arc::clone(&self.memory)));
        let session = Arc::new(Session::new(id.clone(), memory, shared, opening.pid));
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= self.config.max_sessions {
            return Err(DaemonError::TooManySessions { limit: self.config.max_sessions });
        }
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Finds a session and extends its lease.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Session>> {
        let session = lock(&self.sessions).get(id).cloned();
        let session = session.ok_or_else(|| DaemonError::SessionExpired(id.chars().take(64).collect()))?;
        session.touch();
        Ok(session)
    }

    /// Ends a session; true if there was one.
    pub(crate) fn close(&self, id: &str) -> bool {
        let session = lock(&self.sessions).remove(id);
        *lock(&self.last_used) = Instant::now();
        let found = session.map(|session| session.close()).is_some();
        self.ended.fetch_or(found, Relaxed);
        found
    }

    /// Whether a session ended since this was asked last.
    pub(crate) fn take_ended(&self) -> bool {
        self.ended.swap(false, Relaxed)
    }

    /// Ends all.
    pub(crate) fn close_all(&self) {
        let all = std::mem::take(&mut *lock(&self.sessions));
        for session in all.values() {
            session.close();
        }
    }

    /// Ends sessions whose lease ran out or whose local process is gone.
    pub(crate) fn reap(&self) {
        let lease = Duration::from_secs(self.config.lease_seconds.into());
        let over = |session: &Session| session.silence() > lease || session.client_is_dead();
        let ended: Vec<String> = lock(&self.sessions)
            .values()
            .filter(|session| over(session))
            .map(|session| session.id.clone())
            .collect();
        for id in ended {
            tracing::info!(session = %id, "session ended: its client is gone");
            self.close(&id);
        }
    }

    /// How long there has been no session.
    pub(crate) fn idle_for(&self) -> Duration {
        let mut last = lock(&self.last_used);
        if !lock(&self.sessions).is_empty() {
            *last = Instant::now();
        }
        last.elapsed()
    }

    /// Notes work without a session: it too keeps the daemon from idling out.
    pub(crate) fn touch(&self) {
        *lock(&self.last_used) = Instant::now();
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Device bytes that all sessions hold.
    pub(crate) fn memory_used(&self) -> u64 {
        self.memory.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(config: SessionConfig) -> SessionTable {
        SessionTable::new(config, None)
    }

    #[test]
    fn a_silent_session_expires_and_a_heartbeat_keeps_it() {
        let table = table(SessionConfig { lease_seconds: 1, ..SessionConfig::default() });
        let kept = table.open(Opening::default()).unwrap();
        let silent = table.open(Opening::default()).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        table.get(&kept.id).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        table.reap();
        assert!(silent.is_closed() && !kept.is_closed());
        assert!(matches!(table.get(&silent.id), Err(DaemonError::SessionExpired(_))));
        assert_eq!(table.idle_for().as_millis(), 0);
    }

    #[test]
    fn a_dead_local_client_is_noticed_before_its_lease_ends() {
        let table = table(SessionConfig::default());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let session = table.open(Opening { local: true, pid: Some(child.id()) }).unwrap();
        child.wait().unwrap();
        table.reap();
        assert!(session.is_closed());
    }

    #[test]
    fn there_are_only_so_many() {
        let table = table(SessionConfig { max_sessions: 1, ..SessionConfig::default() });
        let one = table.open(Opening::default()).unwrap();
        assert!(matches!(table.open(Opening::default()), Err(DaemonError::TooManySessions { limit: 1 })));
        assert!(!table.take_ended());
        assert!(table.close(&one.id) && !table.close(&one.id));
        assert!(table.take_ended() && !table.take_ended());
        table.open(Opening::default()).unwrap();
    }
}
