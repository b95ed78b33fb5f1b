//! The Unix socket of a daemon, which stays reachable although somebody deletes its file.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::lock::SocketLock;
use crate::state::Daemon;

/// How often the file is looked for: a client waits for a daemon of its own for several seconds.
const WATCH: Duration = Duration::from_millis(500);
/// Accepted connections that wait to be served.
const BACKLOG: usize = 64;

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    lock: Arc<SocketLock>,
    listener: UnixListener,
    /// Device and inode of the file.
    file: (u64, u64),
}

/// What became of the socket's file.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    InPlace,
    Gone,
    /// The lock's file is gone too, so that another daemon can own, or already owns, the path.
    Disowned,
}

impl Socket {
    /// Binds a socket whose lock is ours: a file in its place is what a dead daemon left. The file appears under its
    /// name with its permissions set, so that whoever finds it may connect to it or delete it at once.
    pub(crate) fn bind(path: &Path, lock: Arc<SocketLock>) -> std::io::Result<Self> {
        let staged = path.with_file_name(format!(".{}", std::process::id()));
        match std::fs::remove_file(&staged) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&staged)?;
        std::fs::set_permissions(&staged, Permissions::from_mode(0o600))?;
        let metadata = std::fs::symlink_metadata(&staged)?;
        std::fs::rename(&staged, path)?;
        Ok(Self { path: path.to_owned(), lock, listener, file: (metadata.dev(), metadata.ino()) })
    }

    fn look(&self) -> Found {
        if !self.lock.is_in_place() {
            return Found::Disowned;
        }
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.file => Found::InPlace,
            _ => Found::Gone,
        }
    }

    /// Connections of this user, until the daemon has ended.
    pub(crate) fn connections(self, daemon: Arc<Daemon>) -> ReceiverStream<std::io::Result<UnixStream>> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        tokio::spawn(self.accept(daemon, sender));
        ReceiverStream::new(receiver)
    }

    async fn accept(mut self, daemon: Arc<Daemon>, sender: mpsc::Sender<std::io::Result<UnixStream>>) {
        let mut watch = tokio::time::interval(WATCH);
        loop {
            tokio::select! {
                connection = self.listener.accept() => match connection {
                    Ok((stream, _)) if is_same_user(&stream) => {
                        if sender.send(Ok(stream)).await.is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => accept_failed(&error),
                },
                _ = watch.tick() => self = self.restore(&daemon),
                () = sender.closed() => return,
            }
        }
    }

    /// Puts the file back when it was deleted. When its directory was, there is nothing to come back to.
    fn restore(self, daemon: &Daemon) -> Self {
        let found = self.look();
        // Asked afterwards: a daemon that ends says so before it removes the file.
        if daemon.is_draining() {
            return self;
        }
        match found {
            Found::InPlace => self,
            Found::Gone => match Self::bind(&self.path, Arc::clone(&self.lock)) {
                Ok(socket) => {
                    tracing::warn!("{} was deleted and is there again", self.path.display());
                    socket
                }
                Err(error) => {
                    tracing::warn!("{} was deleted and can't be bound again: {error}", self.path.display());
                    self
                }
            },
            Found::Disowned => {
                daemon.stop("the lock of its socket was deleted");
                self
            }
        }
    }
}

/// Removes the socket's file, unless it is another daemon's.
pub(crate) fn remove(path: &Path, lock: &SocketLock) {
    if lock.is_in_place() {
        let _ = std::fs::remove_file(path);
    }
}

/// Turns away other users, whatever the socket's permissions.
fn is_same_user(stream: &UnixStream) -> bool {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == rustix::process::getuid().as_raw() => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection by another user was refused");
            false
        }
        Err(error) => {
            tracing::warn!("a connection without credentials was refused: {error}");
            false
        }
    }
}

/// An accept that fails (most likely there are no descriptors left) must not end the daemon, nor make it spin.
pub(crate) fn accept_failed(error: &std::io::Error) {
    tracing::warn!("a connection could not be accepted: {error}");
    std::thread::sleep(Duration::from_millis(20));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Claim, claim};

    fn bound(path: &Path) -> Socket {
        let Claim::Owned(lock) = claim(path, Duration::ZERO).unwrap() else { panic!("nobody else is there") };
        Socket::bind(path, Arc::new(lock)).unwrap()
    }

    #[tokio::test]
    async fn what_was_deleted_is_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("daemon.sock");
        let socket = bound(&path);
        assert_eq!(socket.look(), Found::InPlace);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(socket.look(), Found::Gone);
        std::fs::write(&path, "").unwrap();
        assert_eq!(socket.look(), Found::Gone);

        std::fs::remove_file(temp.path().join("daemon.sock.lock")).unwrap();
        assert_eq!(socket.look(), Found::Disowned);
        let other = bound(&path);
        assert_eq!((socket.look(), other.look()), (Found::Disowned, Found::InPlace));
        remove(&path, &socket.lock);
        assert_eq!(other.look(), Found::InPlace);
        remove(&path, &other.lock);
        assert_eq!(other.look(), Found::Gone);
    }
}
