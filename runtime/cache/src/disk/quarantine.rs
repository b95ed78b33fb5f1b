//! Where entries go that failed a check: kept for a look, never read again, few of them.
use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
};

use super::{Inner, layout::make_directory, modified_ns};
use crate::{EntryError, Key};

/// At most this many are kept.
const MAX_FILES: usize = 32;

impl Inner {
    /// Moves the broken entry in `file` out of the way. Whatever fails here, the entry was not accepted.
    pub(super) fn quarantine(&self, key: &Key, file: &File, why: &EntryError) {
        let path = self.layout.entry(key);
        let mut index = self.index();
        // A sound entry may have taken its place since it was read.
        let same = |a: &fs::Metadata, b: &fs::Metadata| a.ino() == b.ino() && a.dev() == b.dev();
        let unchanged = match (file.metadata(), fs::symlink_metadata(&path)) {
            (Ok(read), Ok(named)) => same(&read, &named),
            _ => false,
        };
        if !unchanged {
            return;
        }
        index.remove(key);
        let directory = self.layout.quarantine();
        let target = directory.join(format!("{key}.{:x}", index.tick()));
        let moved = make_directory(&directory).and_then(|()| fs::rename(&path, &target));
        let gone = moved.or_else(|_| fs::remove_file(&path));
        drop(index);
        self.quarantined.fetch_add(1, Relaxed);
        match gone {
            Ok(()) => {
                tracing::warn!(%key, %why, file = %target.display(), "a broken cache entry was quarantined")
            }
            Err(error) => tracing::error!(%key, %why, %error, "a broken cache entry cannot be removed"),
        }
        limit(&directory, self.limit / 8);
    }
}

/// Removes the oldest files until few enough are left.
fn limit(directory: &Path, max_bytes: u64) {
    let Ok(listing) = fs::read_dir(directory) else { return };
    let file = |file: fs::DirEntry| file.metadata().ok().map(|m| (modified_ns(&m), file.path(), m.len()));
    let mut files: Vec<(u64, PathBuf, u64)> = listing.flatten().filter_map(file).collect();
    files.sort();
    let mut bytes = 0;
    for (position, (_, path, length)) in files.iter().rev().enumerate() {
        bytes += length;
        if position >= MAX_FILES || bytes > max_bytes {
            let _ = fs::remove_file(path); // the next one that comes tries again
        }
    }
}
