//! Where things are in a cache directory, and who is alive in it.
//!
//! ```text
//! lock                      held while opening; never while reading or writing entries
//! signing-key
//! v1/entries/ab/cdef…       one file per entry, sharded by the first byte of its key
//! v1/tmp/<process>/         half-written entries of one process, which holds a lock on its `alive` file
//! v1/quarantine/            entries that failed a check
//! ```
//! The format's version is a directory, so that daemons of different versions can share the root without taking each
//! other's entries for broken.
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::{FlockOperation, flock};

use crate::{CacheError, Key, SigningKey, fingerprint::hex};

const VERSION: &str = "v1";
const SIGNING_KEY: &str = "signing-key";
const ALIVE: &str = "alive";

/// The paths of one open cache directory.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    /// This process's place for half-written entries.
    own: PathBuf,
    /// Locked as long as this process lives; the system releases it however the process ends.
    alive: Mutex<File>,
    next: AtomicU64,
}

/// A half-written entry; removed on drop, unless it was given its name.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Layout {
    /// Makes or opens a cache directory, and removes what dead processes left in it.
    pub(super) fn open(root: &Path) -> Result<(Self, SigningKey), CacheError> {
        let _lock = lock_root(root)?;
        let tmp = root.join(VERSION).join("tmp");
        clean(&tmp)?;
        let signer = SigningKey::load_or_create(&root.join(SIGNING_KEY))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let own = tmp.join(format!("{}-{since:x}", std::process::id()));
        let alive = Mutex::new(claim(&own)?);
        Ok((Layout { root: root.to_owned(), own, alive, next: AtomicU64::new(0) }, signer))
    }

    /// The directory of the keys that begin with `shard`.
    pub(super) fn shard(&self, shard: u8) -> PathBuf {
        self.root.join(VERSION).join("entries").join(hex(&[shard]))
    }

    /// The file of an entry.
    pub(super) fn entry(&self, key: &Key) -> PathBuf {
        let [shard, rest @ ..] = key.as_bytes();
        self.shard(*shard).join(hex(rest))
    }

    /// The key of the file `name` in `shard`, if it is an entry's name.
    pub(super) fn key_of(shard: u8, name: &std::ffi::OsStr) -> Option<Key> {
        let digits = name.to_str().filter(|name| !name.contains(|c: char| c.is_ascii_uppercase()))?;
        format!("{}{digits}", hex(&[shard])).parse().ok()
    }

    /// The place for entries that failed a check.
    pub(super) fn quarantine(&self) -> PathBuf {
        self.root.join(VERSION).join("quarantine")
    }

    /// A new file to write an entry to.
    pub(super) fn temporary(&self, signer: &SigningKey) -> Result<(Temporary, File), CacheError> {
        let path = self.own.join(self.next.fetch_add(1, Relaxed).to_string());
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = match create() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.recreate(signer)?;
                create()
            }
            created => created,
        };
        let file = file.map_err(|error| CacheError::io("create", &path, error))?;
        Ok((Temporary(path), file))
    }

    /// Somebody has removed the directory under us: makes it again.
    fn recreate(&self, signer: &SigningKey) -> Result<(), CacheError> {
        let _lock = lock_root(&self.root)?;
        let path = self.root.join(SIGNING_KEY);
        if !path.exists() {
            signer.store(&path)?;
        }
        if !self.own.exists() {
            let claimed = claim(&self.own)?;
            *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = claimed;
        }
        Ok(())
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.own); // else the next to open the cache does it
    }
}

impl Temporary {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Gives the file its name, replacing what has it.
    pub(super) fn rename(self, path: &Path) -> io::Result<()> {
        match fs::rename(&self.0, path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The first entry of its shard.
                path.parent().map_or(Ok(()), make_directory)?;
                fs::rename(&self.0, path)
            }
            renamed => renamed,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // gone already if it was renamed
    }
}

/// Makes the directory if needed and takes its lock, which lasts as long as the file is open.
fn lock_root(root: &Path) -> Result<File, CacheError> {
    make_directory(root).map_err(|error| CacheError::io("make", root, error))?;
    let path = root.join("lock");
    let failed = |error: io::Error| CacheError::io("lock", &path, error);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    lock(&file, FlockOperation::LockExclusive).map_err(failed)?;
    Ok(file)
}

fn lock(file: &File, operation: FlockOperation) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| flock(file, operation))?)
}

/// Makes a directory for one process and marks it alive. Under the root's lock.
fn claim(own: &Path) -> Result<File, CacheError> {
    make_directory(own).map_err(|error| CacheError::io("make", own, error))?;
    let path = own.join(ALIVE);
    let failed = |error: io::Error| CacheError::io("lock", &path, error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(failed)?;
    Ok(file)
}

/// Removes the directories of processes that are no more. Under the root's lock, so none is just being made.
fn clean(tmp: &Path) -> Result<(), CacheError> {
    make_directory(tmp).map_err(|error| CacheError::io("make", tmp, error))?;
    let failed = |error| CacheError::io("list", tmp, error);
    for directory in fs::read_dir(tmp).map_err(failed)? {
        let directory = directory.map_err(failed)?.path();
        let dead = match File::open(directory.join(ALIVE)) {
            Ok(file) => lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if dead {
            fs::remove_dir_all(&directory).map_err(|error| CacheError::io("remove", &directory, error))?;
        }
    }
    Ok(())
}

/// Makes a directory for its owner only, and those above it.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
