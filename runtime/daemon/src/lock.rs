//! The lock that makes one daemon out of many that start at once on the same socket.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Held while a daemon owns a socket path. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct SocketLock {
    file: File,
    path: PathBuf,
}

impl SocketLock {
    /// Whether the lock's file still has its name. If not, another daemon can make and lock a new one.
    pub(crate) fn is_in_place(&self) -> bool {
        match (self.file.metadata(), std::fs::symlink_metadata(&self.path)) {
            (Ok(ours), Ok(found)) => (ours.dev(), ours.ino()) == (found.dev(), found.ino()),
            _ => false,
        }
    }
}

/// What came of trying.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The socket is ours.
    Owned(SocketLock),
    /// A live daemon already answers on it.
    Served,
}

/// Why a socket can't be claimed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// The lock file can't be opened or locked.
    #[error("lock file {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody holds the lock but nobody answers.
    #[error("{path} is locked by a daemon that does not answer; end it and start again")]
    Stuck {
        /// The lock file.
        path: PathBuf,
    },
}

/// Claims `socket`. While another process holds the lock, waits until it answers (it is starting), or lets go
/// (it is going down), for at most `patience`.
pub(crate) fn claim(socket: &Path, patience: Duration) -> Result<Claim, LockError> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let failed = |source| LockError::Io { path: path.clone(), source };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(&path)
        .map_err(failed)?;
    let deadline = Instant::now() + patience;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Claim::Owned(SocketLock { file, path })),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(failed(error.into())),
        }
        if UnixStream::connect(socket).is_ok() {
            return Ok(Claim::Served);
        }
        if Instant::now() >= deadline {
            return Err(LockError::Stuck { path });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn one_of_many_claims_the_socket() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("daemon.sock");
        let Claim::Owned(lock) = claim(&socket, Duration::ZERO).unwrap() else {
            panic!("nobody else is there")
        };
        assert!(matches!(claim(&socket, Duration::from_millis(50)), Err(LockError::Stuck { .. })));
        let listener = UnixListener::bind(&socket).unwrap();
        let racers: Vec<_> = (0..16)
            .map(|_| {
                let socket = socket.clone();
                std::thread::spawn(move || {
                    matches!(claim(&socket, Duration::from_secs(1)).unwrap(), Claim::Served)
                })
            })
            .collect();
        assert!(racers.into_iter().all(|racer| racer.join().unwrap()));
        drop((listener, lock));
        assert!(matches!(claim(&socket, Duration::ZERO).unwrap(), Claim::Owned(_)));
    }
}
