//! The disk tier: one file per entry, written aside and renamed, bounded in bytes, shared by daemons of one user.
//!
//! The truth is the directory: an entry is there when its file is, and a file appears whole or not at all. The index
//! in memory only saves looking: which entries there are, how large, how recently used (the file's modification time,
//! set on each use). It is filled in the background at opening and brought up to date where a shard's directory
//! changed. What it doesn't know is still found by name; what it wrongly knows is dropped when the file isn't there.
mod index;
mod layout;
mod quarantine;
mod scan;

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_OMIT};

use crate::{
    CacheError, Entry, EntryError, Key, KeyMaterial, SigningKey, Stored, Tier,
    entry::{Header, MAX_HEADER},
};
use index::Index;
use layout::Layout;
use scan::Scan;

/// A use within this time of the last one is not noted again when a faster tier reports it.
const TOUCH_INTERVAL_NS: u64 = 60_000_000_000;

/// What is read of an entry at first when only its header is wanted.
const FIRST_READ: usize = 4096;

/// Entries in a directory.
pub struct Disk {
    inner: Arc<Inner>,
}

struct Inner {
    limit: u64,
    layout: Layout,
    signer: SigningKey,
    index: Mutex<Index>,
    scan: Scan,
    evicted: AtomicU64,
    quarantined: AtomicU64,
}

/// The disk tier's state and housekeeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounters {
    /// Entries known now.
    pub entries: u64,
    /// Their size.
    pub bytes: u64,
    /// Entries removed to keep the bound.
    pub evicted: u64,
    /// Entries that failed a check and were moved out of the way.
    pub quarantined: u64,
}

/// Bytes promised to a writer, until it has finished or given up.
struct Reservation<'a> {
    inner: &'a Inner,
    bytes: u64,
}

impl Reservation<'_> {
    /// Gives the bytes back under a lock that the caller holds.
    fn release(mut self, index: &mut Index) {
        index.reserved -= std::mem::take(&mut self.bytes);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.inner.index().reserved -= self.bytes;
        }
    }
}

/// What [`Disk::verify`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Entries read.
    pub checked: u64,
    /// Those that failed a check.
    pub quarantined: Vec<Key>,
}

/// What [`Disk::prune`] removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The removed entries, least recently used first.
    pub removed: Vec<Key>,
    /// Their size.
    pub freed_bytes: u64,
}

impl Disk {
    /// Opens the cache in `directory`, making it if needed, and clears away what dead processes left half-written.
    /// `limit` bounds the size of all entries together.
    pub fn open(directory: &Path, limit: u64) -> Result<Self, CacheError> {
        let (layout, signer) = Layout::open(directory)?;
        let inner = Arc::new(Inner {
            limit,
            layout,
            signer,
            index: Mutex::default(),
            scan: Scan::default(),
            evicted: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
        });
        inner.refresh_in_background();
        Ok(Disk { inner })
    }

    /// State and housekeeping so far.
    pub fn counters(&self) -> DiskCounters {
        let index = self.inner.index();
        DiskCounters {
            entries: index.len() as u64,
            bytes: index.bytes(),
            evicted: self.inner.evicted.load(Relaxed),
            quarantined: self.inner.quarantined.load(Relaxed),
        }
    }

    /// Reads and checks every entry; broken ones are quarantined.
    pub fn verify(&self) -> Result<VerifyReport, CacheError> {
        self.inner.refresh()?;
        let mut report = VerifyReport::default();
        let stored = self.inner.index().list();
        for key in stored.iter().map(|stored| stored.key) {
            match self.inner.read(&key) {
                Ok(Some(_)) => {}
                Ok(None) => continue, // evicted meanwhile
                Err(CacheError::Corrupt { .. }) => report.quarantined.push(key),
                Err(error) => return Err(error),
            }
            report.checked += 1;
        }
        Ok(report)
    }

    /// Removes the least recently used entries until all together have at most `max_bytes`.
    pub fn prune(&self, max_bytes: u64) -> Result<PruneReport, CacheError> {
        self.inner.refresh()?;
        self.inner.evict(&mut self.inner.index(), max_bytes)
    }
}

impl Inner {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes entries, least recently used first, until those left have at most `bound` bytes.
    fn evict(&self, index: &mut Index, bound: u64) -> Result<PruneReport, CacheError> {
        let mut report = PruneReport::default();
        while index.bytes() > bound {
            let Some((key, used)) = index.oldest() else { break };
            let path = self.layout.entry(&key);
            let removed = match fs::symlink_metadata(&path) {
                // Another process has used it since: not the oldest after all.
                Ok(metadata) if modified_ns(&metadata) > used => {
                    index.touch(&key, modified_ns(&metadata));
                    continue;
                }
                Ok(_) => fs::remove_file(&path),
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => {
                    self.evicted.fetch_add(1, Relaxed);
                    report.freed_bytes += index.remove(&key).unwrap_or(0);
                    report.removed.push(key);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    index.remove(&key);
                }
                Err(error) => return Err(CacheError::io("remove", path, error)),
            }
        }
        Ok(report)
    }

    /// Makes room for an entry before a byte of it is written, so that half-written ones count for the bound too.
    fn reserve(&self, bytes: u64) -> Result<Reservation<'_>, CacheError> {
        let mut index = self.index();
        let bound = self.limit.saturating_sub(index.reserved + bytes);
        self.evict(&mut index, bound)?;
        index.reserved += bytes;
        Ok(Reservation { inner: self, bytes })
    }

    /// Reads, checks and decodes the entry; a broken one is quarantined.
    fn read(&self, key: &Key) -> Result<Option<Arc<Entry>>, CacheError> {
        let Some(file) = self.open_entry(key)? else { return Ok(None) };
        let failed = |error| CacheError::io("read", self.layout.entry(key), error);
        let length = file.metadata().map_err(failed)?.len();
        match self.read_checked(&file, length, key) {
            Ok(Ok(entry)) => {
                self.note_use(&file, key, length);
                Ok(Some(Arc::new(entry)))
            }
            Ok(Err(source)) => {
                self.quarantine(key, &file, &source);
                Err(CacheError::Corrupt { key: *key, source })
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read_checked(
        &self,
        mut file: &File,
        length: u64,
        key: &Key,
    ) -> std::io::Result<Result<Entry, EntryError>> {
        let mut bytes = Vec::new();
        file.take(MAX_HEADER as u64).read_to_end(&mut bytes)?;
        if length > bytes.len() as u64 {
            // The signed header vouches for the length before that much memory is taken.
            match Header::decode(&bytes, key, &self.signer) {
                Ok(header) if header.entry_length() == length => {}
                Ok(header) => {
                    return Ok(Err(EntryError::Length { expected: header.entry_length(), found: length }));
                }
                Err(error) => return Ok(Err(error)),
            }
            bytes.try_reserve_exact(length as usize - bytes.len()).map_err(|_| ErrorKind::OutOfMemory)?;
            file.read_to_end(&mut bytes)?;
        }
        Ok(Entry::decode(&Bytes::from(bytes), key, &self.signer))
    }

    /// Reads no more than the header; most fit the first page.
    fn read_header(&self, file: &File, key: &Key) -> Result<Result<Header, EntryError>, CacheError> {
        let mut bytes = Vec::new();
        for limit in [FIRST_READ, MAX_HEADER] {
            let more = file.take((limit - bytes.len()) as u64).read_to_end(&mut bytes);
            more.map_err(|error| CacheError::io("read", self.layout.entry(key), error))?;
            match Header::decode(&bytes, key, &self.signer) {
                Err(EntryError::Length { .. }) if bytes.len() == FIRST_READ => {}
                decoded => return Ok(decoded),
            }
        }
        Ok(Err(EntryError::Length { expected: MAX_HEADER as u64, found: bytes.len() as u64 }))
    }

    fn open_entry(&self, key: &Key) -> Result<Option<File>, CacheError> {
        let path = self.layout.entry(key);
        // Not through a link, and not waiting on a pipe that somebody put there.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut index = self.index();
                // Removed by another process, unless it has been written since.
                if index.used(key).is_some() && !path.exists() {
                    index.remove(key);
                }
                Ok(None)
            }
            Err(error) => Err(CacheError::io("open", path, error)),
        }
    }

    /// Notes a use, in the index and in the file's modification time, by which other processes and later ones know.
    fn note_use(&self, file: &File, key: &Key, length: u64) {
        let mut index = self.index();
        let now = index.tick();
        // Not known: another process stored it, or it has been evicted since it was opened.
        if index.used(key).is_some() || file.metadata().is_ok_and(|metadata| metadata.nlink() > 0) {
            index.insert(*key, length, now);
        }
        drop(index);
        // Only recency is lost if it fails (read-only file system).
        let _ = rustix::fs::futimens(file, &used_at(now));
    }

    /// Writes the entry aside, then gives it its name.
    fn write(&self, entry: &Entry) -> Result<(), CacheError> {
        let key = entry.key();
        let unfit = |source| CacheError::Unencodable { key, source };
        let header = entry.encode_header(&self.signer).map_err(unfit)?;
        let length = (header.len() + entry.payload().len()) as u64;
        if length > self.limit {
            return Err(CacheError::TooLarge { bytes: length, limit: self.limit });
        }
        let reservation = self.reserve(length)?;
        let (temporary, mut file) = self.layout.temporary(&self.signer)?;
        let used = self.index().tick();
        let written = file.write_all(&header).and_then(|()| file.write_all(entry.payload()));
        let stamped = written.and_then(|()| Ok(rustix::fs::futimens(&file, &used_at(used))?));
        let synced = stamped.and_then(|()| file.sync_data());
        synced.map_err(|error| CacheError::io("write", temporary.path(), error))?;
        let path = self.layout.entry(&key);
        let mut index = self.index(); // held over the rename, so that index and directory agree within the process
        temporary.rename(&path).map_err(|error| CacheError::io("name", &path, error))?;
        index.insert(key, length, used);
        reservation.release(&mut index);
        self.evict(&mut index, self.limit)?;
        Ok(())
    }
}

impl Tier for Disk {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, CacheError> {
        self.inner.read(key)
    }

    fn put(&self, entry: &Arc<Entry>) -> Result<(), CacheError> {
        self.inner.refresh_when_stale();
        self.inner.write(entry)
    }

    fn contains(&self, key: &Key) -> Result<bool, CacheError> {
        let path = self.inner.layout.entry(key);
        path.try_exists().map_err(|error| CacheError::io("look for", path, error))
    }

    fn remove(&self, key: &Key) -> Result<bool, CacheError> {
        let path = self.inner.layout.entry(key);
        let mut index = self.inner.index();
        index.remove(key);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CacheError::io("remove", path, error)),
        }
    }

    fn list(&self) -> Result<Vec<Stored>, CacheError> {
        self.inner.refresh()?;
        Ok(self.inner.index().list())
    }

    fn material(&self, key: &Key) -> Result<Option<KeyMaterial>, CacheError> {
        let Some(file) = self.inner.open_entry(key)? else { return Ok(None) };
        match self.inner.read_header(&file, key)? {
            Ok(header) => Ok(Some(header.material)),
            Err(source) => {
                self.inner.quarantine(key, &file, &source);
                Err(CacheError::Corrupt { key: *key, source })
            }
        }
    }

    fn touch(&self, key: &Key) {
        // A hint that is not worth waiting for: the caller has just had a hit in memory.
        let Ok(mut index) = self.inner.index.try_lock() else { return };
        let now = index.tick();
        if index.used(key).is_none_or(|used| used + TOUCH_INTERVAL_NS > now) {
            return;
        }
        index.touch(key, now);
        drop(index);
        let path = self.inner.layout.entry(key);
        let _ = rustix::fs::utimensat(
            rustix::fs::CWD,
            path,
            &used_at(now),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        );
    }
}

/// Modification time in nanoseconds after 1970; times before count as 0.
fn modified_ns(metadata: &fs::Metadata) -> u64 {
    let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(metadata.mtime_nsec()).unwrap_or(0))
}

/// The file times that say "last used then": the modification time, leaving the access time alone.
fn used_at(ns: u64) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        },
    }
}
