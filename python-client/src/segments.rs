//! Shared segments: files in the session's directory through which large tensors reach a daemon on this machine.
//!
//! The client writes and reads them with pwrite and pread and never maps them, so a file that somebody truncates is
//! an error and not a SIGBUS. Ranges are reused; a segment's space is reserved when it is made, so a full disk shows
//! at once and the caller sends the data in messages instead.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};

/// Size of an ordinary segment; a larger request gets a segment of its own.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Free segments are removed while all of them together are larger than this.
const KEEP_BYTES: u64 = 128 << 20;
/// Ranges start at multiples of this, so that a plugin can use them without a copy.
pub(crate) const ALIGNMENT: u64 = 64;

/// Rounds up to the alignment of ranges. Saturates, so that an absurd size fails in the allocator.
pub(crate) fn align(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// Which parts of a segment are free: disjoint, sorted, never adjacent.
#[derive(Debug)]
struct FreeList {
    size: u64,
    free: Vec<(u64, u64)>,
}

impl FreeList {
    fn new(size: u64) -> Self {
        Self { size, free: vec![(0, size)] }
    }

    /// First fit.
    fn take(&mut self, length: u64) -> Option<u64> {
        let index = self.free.iter().position(|range| range.1 >= length)?;
        let (offset, available) = self.free[index];
        if available == length {
            self.free.remove(index);
        } else {
            self.free[index] = (offset + length, available - length);
        }
        Some(offset)
    }

    fn give_back(&mut self, offset: u64, length: u64) {
        let index = self.free.partition_point(|range| range.0 < offset);
        self.free.insert(index, (offset, length));
        self.merge_with_next(index);
        if index > 0 {
            self.merge_with_next(index - 1);
        }
    }

    fn merge_with_next(&mut self, index: usize) {
        let (offset, length) = self.free[index];
        if self.free.get(index + 1).is_some_and(|next| offset + length == next.0) {
            self.free[index].1 += self.free[index + 1].1;
            self.free.remove(index + 1);
        }
    }

    fn is_unused(&self) -> bool {
        self.free == [(0, self.size)]
    }
}

struct Segment {
    name: Arc<str>,
    file: Arc<File>,
    ranges: FreeList,
}

#[derive(Default)]
struct State {
    segments: Vec<Segment>,
    made: u64,
    closed: bool,
}

/// The segments of one session.
pub(crate) struct Pool {
    directory: PathBuf,
    state: Mutex<State>,
}

/// A range of a segment, given back when dropped.
pub(crate) struct Lease {
    pool: Arc<Pool>,
    pub(crate) segment: Arc<str>,
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    length: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(&self.segment, self.offset, self.length);
    }
}

impl Pool {
    pub(crate) fn new(directory: PathBuf) -> Arc<Self> {
        Arc::new(Self { directory, state: Mutex::default() })
    }

    /// Reserves `bytes`, which is more than 0.
    pub(crate) fn lease(self: &Arc<Self>, bytes: u64) -> io::Result<Lease> {
        let length = align(bytes.max(1));
        let mut state = self.lock();
        if state.closed {
            return Err(io::Error::other("the session is closed"));
        }
        for segment in &mut state.segments {
            if let Some(offset) = segment.ranges.take(length) {
                let (name, file) = (Arc::clone(&segment.name), Arc::clone(&segment.file));
                return Ok(Lease { pool: Arc::clone(self), segment: name, file, offset, length });
            }
        }
        let mut segment = self.create(state.made, length.max(SEGMENT_BYTES))?;
        state.made += 1;
        let offset = segment.ranges.take(length).ok_or_else(|| io::Error::other("segment too small"))?;
        let (name, file) = (Arc::clone(&segment.name), Arc::clone(&segment.file));
        state.segments.push(segment);
        Ok(Lease { pool: Arc::clone(self), segment: name, file, offset, length })
    }

    /// Number of segments and their bytes.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let state = self.lock();
        (state.segments.len() as u64, state.segments.iter().map(|segment| segment.ranges.size).sum())
    }

    /// Unlinks everything. Ranges that are still leased stay readable through their open files.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for segment in std::mem::take(&mut state.segments) {
            self.unlink(&segment.name);
        }
    }

    fn create(&self, number: u64, bytes: u64) -> io::Result<Segment> {
        let name: Arc<str> = format!("segment-{number}").into();
        let path = self.directory.join(&*name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        if let Err(error) = fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            self.unlink(&name);
            return Err(error.into());
        }
        Ok(Segment { name, file: Arc::new(file), ranges: FreeList::new(bytes) })
    }

    fn give_back(&self, name: &Arc<str>, offset: u64, length: u64) {
        let mut state = self.lock();
        let total: u64 = state.segments.iter().map(|segment| segment.ranges.size).sum();
        let Some(index) = state.segments.iter().position(|segment| segment.name == *name) else { return };
        state.segments[index].ranges.give_back(offset, length);
        if total > KEEP_BYTES && state.segments[index].ranges.is_unused() {
            let segment = state.segments.swap_remove(index);
            self.unlink(&segment.name);
        }
    }

    fn unlink(&self, name: &str) {
        // It may be gone already: the daemon removes the directory of a session that ended.
        let _ = std::fs::remove_file(Path::join(&self.directory, name));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_list_merges_both_ways() {
        let mut list = FreeList::new(1024);
        let offsets: Vec<u64> = (0..4).map(|_| list.take(256).unwrap()).collect();
        assert_eq!(offsets, [0, 256, 512, 768]);
        assert_eq!(list.take(1), None);
        list.give_back(256, 256);
        list.give_back(768, 256);
        assert_eq!(list.take(512), None, "two holes are not one");
        list.give_back(512, 256);
        assert_eq!(list.free, [(256, 768)]);
        list.give_back(0, 256);
        assert!(list.is_unused());
    }

    #[test]
    fn ranges_are_reused_and_never_overlap() {
        let directory = tempfile::tempdir().unwrap();
        let pool = Pool::new(directory.path().to_owned());
        let first = pool.lease(100).unwrap();
        let second = pool.lease(100).unwrap();
        assert_eq!((first.offset, second.offset), (0, 128));
        drop(first);
        assert_eq!(pool.lease(128).unwrap().offset, 0);
        let large = pool.lease(SEGMENT_BYTES + 1).unwrap();
        assert_ne!(large.segment, second.segment);
        assert_eq!(pool.usage().0, 2);
        pool.close();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(pool.lease(1).is_err());
        drop((second, large));
    }

    #[test]
    fn large_unused_segments_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let pool = Pool::new(directory.path().to_owned());
        let leases: Vec<Lease> = (0..3).map(|_| pool.lease(60 << 20).unwrap()).collect();
        assert_eq!(pool.usage().0, 3);
        drop(leases);
        assert!(pool.usage().1 <= KEEP_BYTES);
        assert!(pool.lease(u64::MAX).is_err(), "more than there is");
    }
}
