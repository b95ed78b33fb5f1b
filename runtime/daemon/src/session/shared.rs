//! A session's directory of shared segments. Segments are read and written with `pread` and `pwrite`, never mapped:
//! a client that truncates a file gets an error, and the daemon no SIGBUS.

use std::fs::{self, DirBuilder, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use tpud_proto::v1::SharedRange;

/// Why a range of a segment can't be used.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SharedError {
    /// The client has no shared directory.
    #[error(
        "this session has no shared directory (the client is not on this machine): send the bytes inline"
    )]
    Remote,
    /// Not the name of a file in the directory.
    #[error("`{0}` is not a segment name (1 to 255 characters, no slash, not `.` or `..`)")]
    Name(String),
    /// Not a plain file that we can open.
    #[error("segment `{segment}`: {problem}")]
    Open {
        /// Its name.
        segment: String,
        /// What is wrong.
        problem: String,
    },
    /// The range is not inside the file.
    #[error("segment `{segment}` has {size} bytes, but the range is {offset}+{length}")]
    Range {
        /// Its name.
        segment: String,
        /// The file's size.
        size: u64,
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        length: u64,
    },
    /// The tensor has another size than its range.
    #[error("a range of {length} bytes for a tensor of {needed} bytes")]
    Length {
        /// The range's.
        length: u64,
        /// The tensor's.
        needed: u64,
    },
}

/// The parent of all sessions' directories; removed with the daemon, or by the next one.
#[derive(Debug)]
pub(crate) struct SharedRoot {
    path: PathBuf,
    _lock: File,
}

/// The name of the file that marks a root as in use.
const LOCK: &str = "lock";

impl SharedRoot {
    /// Makes a root in /dev/shm, or in the temporary directory when there is none, and removes roots that daemons
    /// left behind which were killed.
    pub(crate) fn create(epoch: &str) -> std::io::Result<Self> {
        let base = Path::new("/dev/shm");
        let base = if base.is_dir() { base.to_owned() } else { std::env::temp_dir() };
        Self::create_in(&base, epoch)
    }

    fn create_in(base: &Path, epoch: &str) -> std::io::Result<Self> {
        let prefix = format!("tpud-{}-", rustix::process::getuid().as_raw());
        sweep(base, &prefix);
        let path = base.join(format!("{prefix}{epoch}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::create_new(path.join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// Makes a session's directory.
    pub(crate) fn session(&self, id: &str) -> std::io::Result<SharedDirectory> {
        let path = self.path.join(id);
        DirBuilder::new().mode(0o700).create(&path)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(SharedDirectory { path, fd })
    }
}

impl Drop for SharedRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sweep(base: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let ours =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix));
        // One without a lock file is being made at this moment, or was abandoned so early that it is empty.
        let Some(lock) = ours.then(|| File::open(path.join(LOCK)).ok()).flatten() else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// One session's directory; removed when dropped.
#[derive(Debug)]
pub(crate) struct SharedDirectory {
    path: PathBuf,
    fd: OwnedFd,
}

impl SharedDirectory {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills `bytes` from a range.
    pub(crate) fn read(&self, range: &SharedRange, bytes: &mut [u8]) -> Result<(), SharedError> {
        let file = self.open(range, OFlags::RDONLY, bytes.len())?;
        file.read_exact_at(bytes, range.offset).map_err(|error| problem(range, &error.to_string()))
    }

    /// Writes `bytes` to a range, which has to exist.
    pub(crate) fn write(&self, range: &SharedRange, bytes: &[u8]) -> Result<(), SharedError> {
        let file = self.open(range, OFlags::WRONLY, bytes.len())?;
        file.write_all_at(bytes, range.offset).map_err(|error| problem(range, &error.to_string()))
    }

    fn open(&self, range: &SharedRange, mode: OFlags, needed: usize) -> Result<File, SharedError> {
        let name = range.segment.as_str();
        if name.is_empty() || name.len() > 255 || name.contains(['/', '\0']) || matches!(name, "." | "..") {
            return Err(SharedError::Name(name.chars().take(64).collect()));
        }
        if range.length != needed as u64 {
            return Err(SharedError::Length { length: range.length, needed: needed as u64 });
        }
        let flags = mode | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::empty())
            .map_err(|error| problem(range, &std::io::Error::from(error).to_string()))?;
        let file = File::from(file);
        let meta = file.metadata().map_err(|error| problem(range, &error.to_string()))?;
        if !meta.is_file() {
            return Err(problem(range, "not a regular file"));
        }
        match range.offset.checked_add(range.length) {
            Some(end) if end <= meta.len() => Ok(file),
            _ => Err(SharedError::Range {
                segment: range.segment.clone(),
                size: meta.len(),
                offset: range.offset,
                length: range.length,
            }),
        }
    }
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn problem(range: &SharedRange, problem: &str) -> SharedError {
    SharedError::Open { segment: range.segment.clone(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(segment: &str, offset: u64, length: u64) -> SharedRange {
        SharedRange { segment: segment.into(), offset, length }
    }

    #[test]
    fn ranges_are_read_and_written_and_checked() {
        let temp = tempfile::tempdir().unwrap();
        let root = SharedRoot::create_in(temp.path(), "e").unwrap();
        let shared = root.session("s").unwrap();
        fs::write(shared.path().join("a"), b"0123456789").unwrap();
        let mut bytes = [0; 4];
        shared.read(&range("a", 3, 4), &mut bytes).unwrap();
        assert_eq!(&bytes, b"3456");
        shared.write(&range("a", 8, 2), b"xy").unwrap();
        assert_eq!(fs::read(shared.path().join("a")).unwrap(), b"01234567xy");
        for bad in [range("a", 7, 4), range("a", u64::MAX, 4), range("missing", 0, 4), range("a", 0, 5)] {
            assert!(shared.read(&bad, &mut bytes).is_err(), "{bad:?}");
        }
        assert!(shared.write(&range("a", 9, 2), b"xy").is_err(), "writing must not extend a segment");
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let temp = tempfile::tempdir().unwrap();
        let root = SharedRoot::create_in(temp.path(), "e").unwrap();
        let shared = root.session("s").unwrap();
        let outside = temp.path().join("outside");
        fs::write(&outside, b"0123").unwrap();
        std::os::unix::fs::symlink(&outside, shared.path().join("link")).unwrap();
        fs::create_dir(shared.path().join("directory")).unwrap();
        let long = "x".repeat(256);
        let mut bytes = [0; 4];
        for name in ["", ".", "..", "../lock", "/etc/passwd", "a/b", "link", "directory", "nul\0", &long] {
            assert!(shared.read(&range(name, 0, 4), &mut bytes).is_err(), "{name}");
        }
    }

    #[test]
    fn roots_of_dead_daemons_are_swept_and_live_ones_kept() {
        let temp = tempfile::tempdir().unwrap();
        let alive = SharedRoot::create_in(temp.path(), "alive").unwrap();
        let dead = temp.path().join(format!("tpud-{}-dead", rustix::process::getuid().as_raw()));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), b"").unwrap();
        let next = SharedRoot::create_in(temp.path(), "next").unwrap();
        assert!(!dead.exists() && alive.path.exists());
        let path = next.path.clone();
        drop(next);
        assert!(!path.exists());
    }
}
