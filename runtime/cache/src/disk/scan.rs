//! Bringing the index up to date with the directory: at opening, and when other processes have changed it.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{Inner, layout::Layout, modified_ns};
use crate::{CacheError, Key};

/// A writer looks for other processes' changes when nobody has for this long.
const STALE: Duration = Duration::from_secs(10);
/// A directory that changed this recently may change again without a new time stamp (they are coarse).
const SETTLED_NS: u64 = 1_000_000_000;

/// What was seen in earlier scans.
#[derive(Debug, Default)]
pub(super) struct Scan {
    seen: Mutex<Seen>,
    /// A background scan is under way.
    running: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    /// Modification times of the shards which were listed, where no later listing is needed until they change.
    shards: BTreeMap<u8, u64>,
    finished: Option<Instant>,
}

impl Inner {
    /// Brings the index up to date. Lists only the shards which have changed since the last time.
    pub(super) fn refresh(&self) -> Result<(), CacheError> {
        let mut seen = self.scan.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for shard in 0..=u8::MAX {
            self.refresh_shard(shard, &mut seen)?;
        }
        seen.finished = Some(Instant::now());
        drop(seen);
        self.evict(&mut self.index(), self.limit)?;
        Ok(())
    }

    /// [`Self::refresh`] in a thread of its own; failures are logged.
    pub(super) fn refresh_in_background(self: &Arc<Self>) {
        if self.scan.running.swap(true, SeqCst) {
            return;
        }
        let inner = Arc::clone(self);
        let work = move || {
            if let Err(error) = inner.refresh() {
                tracing::warn!(%error, "the cache directory cannot be listed");
            }
            inner.scan.running.store(false, SeqCst);
        };
        if let Err(error) = thread::Builder::new().name("tpud-cache-scan".into()).spawn(work) {
            tracing::warn!(%error, "the cache directory was not listed");
            self.scan.running.store(false, SeqCst);
        }
    }

    /// Looks for other processes' changes now and then, in the background.
    pub(super) fn refresh_when_stale(self: &Arc<Self>) {
        // A lock that is taken means that a scan is under way.
        let Ok(seen) = self.scan.seen.try_lock() else { return };
        let stale = seen.finished.is_none_or(|finished| finished.elapsed() > STALE);
        drop(seen);
        if stale {
            self.refresh_in_background();
        }
    }

    fn refresh_shard(&self, shard: u8, seen: &mut Seen) -> Result<(), CacheError> {
        let directory = self.layout.shard(shard);
        let failed = |error| CacheError::io("list", &directory, error);
        let before = self.index().serial();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let modified = match fs::metadata(&directory) {
            Ok(metadata) => modified_ns(&metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                seen.shards.remove(&shard);
                self.forget_missing(shard, before, &BTreeSet::new());
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        if seen.shards.get(&shard) == Some(&modified) {
            return Ok(());
        }
        let mut found = BTreeSet::new();
        for file in fs::read_dir(&directory).map_err(failed)? {
            let file = file.map_err(failed)?;
            let Some(key) = Layout::key_of(shard, &file.file_name()) else { continue };
            found.insert(key);
            self.adopt(key, &file);
        }
        self.forget_missing(shard, before, &found);
        if modified + SETTLED_NS < now {
            seen.shards.insert(shard, modified);
        } else {
            seen.shards.remove(&shard);
        }
        Ok(())
    }

    /// Takes a file into the index which isn't in it.
    fn adopt(&self, key: Key, file: &fs::DirEntry) {
        let mut index = self.index(); // held over the look, so that the file isn't evicted in between
        if index.used(&key).is_none() {
            // Gone meanwhile, or not a file: not an entry.
            if let Some(metadata) = file.metadata().ok().filter(fs::Metadata::is_file) {
                index.insert(key, metadata.len(), modified_ns(&metadata));
            }
        }
    }

    /// Drops from the index what was in it before the listing and wasn't found.
    fn forget_missing(&self, shard: u8, before: u64, found: &BTreeSet<Key>) {
        let mut index = self.index();
        for key in index.shard(shard, before) {
            if !found.contains(&key) {
                index.remove(&key);
            }
        }
    }
}
