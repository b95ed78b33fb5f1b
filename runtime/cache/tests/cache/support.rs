//! Entries whose payload follows from their number, and a look into a cache directory.
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use tpud_cache::{Cache, CacheConfig, Entry, KeyBuilder, KeyMaterial, Kind};

/// The material of entry `number`.
pub(crate) fn material(number: u64) -> KeyMaterial {
    KeyBuilder::new(Kind::Module).text("number", &number.to_string()).text("target", "test").finish()
}

/// Entry `number` with a payload of `length` bytes that no other number has.
pub(crate) fn entry(number: u64, length: usize) -> Arc<Entry> {
    Arc::new(Entry::new(material(number), payload(number, length)))
}

/// `length` bytes that depend on `number` in every word.
pub(crate) fn payload(number: u64, length: usize) -> Vec<u8> {
    let mut random = Random(number + 1);
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    words.flatten().take(length).collect()
}

/// Small and repeatable (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A cache with room for everything.
pub(crate) fn open(directory: &Path) -> Cache {
    let config =
        CacheConfig { directory: directory.to_owned(), memory_bytes: 64 << 20, disk_bytes: 64 << 20 };
    Cache::open(&config).unwrap()
}

/// All files below `directory`, sorted.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(directory) else { return Vec::new() };
    let below = |file: fs::DirEntry| match file.file_type().unwrap().is_dir() {
        true => files(&file.path()),
        false => vec![file.path()],
    };
    let mut all: Vec<_> = listing.map(Result::unwrap).flat_map(below).collect();
    all.sort();
    all
}

/// The files of the stored entries.
pub(crate) fn entry_files(root: &Path) -> Vec<PathBuf> {
    files(&root.join("v1/entries"))
}

/// Half-written entries, of the living and the dead.
pub(crate) fn temporary_files(root: &Path) -> Vec<PathBuf> {
    let mut all = files(&root.join("v1/tmp"));
    all.retain(|path| path.file_name().is_some_and(|name| name != "alive"));
    all
}

/// Size of all stored entries.
pub(crate) fn stored_bytes(root: &Path) -> u64 {
    entry_files(root).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}
