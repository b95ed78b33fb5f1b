//! The cache as the daemon uses it: memory over disk, async, never failing, and able to explain itself.
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::task::spawn_blocking;

use crate::{
    CacheError, Component, Disk, DiskCounters, Entry, Hit, Key, KeyError, KeyMaterial, Kind, Memory,
    PruneReport, Stored, Tier, TierCounters, Tiered, VerifyReport, differing,
};

/// Shortest key prefix that [`Cache::resolve`] takes.
const MIN_PREFIX: usize = 8;

/// Where a cache lives and how large it may become.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// Directory of the disk tier; made if it isn't there. Several daemons of one user may share it.
    pub directory: PathBuf,
    /// Bound of the memory tier.
    pub memory_bytes: u64,
    /// Bound of the disk tier.
    pub disk_bytes: u64,
}

/// Memory and disk tier. Clones share them.
#[derive(Clone)]
pub struct Cache {
    tiers: Arc<Tiered>,
    disk: Option<Arc<Disk>>,
    mismatched: Arc<AtomicU64>,
}

/// One stored entry, as people look at it.
#[derive(Debug, Clone)]
pub struct EntryInfo {
    /// Its key.
    pub key: Key,
    /// What the key stands for.
    pub kind: Kind,
    /// The fastest tier that has it.
    pub tier: &'static str,
    /// Its size in the slowest tier that has it.
    pub bytes: u64,
    /// When it was last stored or served.
    pub last_used_unix_seconds: u64,
    /// What the key was made from.
    pub components: Vec<Component>,
}

/// The most recently used entries, and the size of the whole.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Most recently used first.
    pub entries: Vec<EntryInfo>,
    /// How many are stored.
    pub total_entries: u64,
    /// Their size together, each entry counted once.
    pub total_bytes: u64,
}

/// The stored entry which comes closest to a key.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// That entry.
    pub entry: EntryInfo,
    /// Names of the components in which it differs; empty: it is the entry of the key.
    pub differing: Vec<String>,
}

/// What happened since the cache was opened.
#[derive(Debug, Clone, Default)]
pub struct CacheCounters {
    /// Each tier, fastest first.
    pub tiers: Vec<TierCounters>,
    /// The disk tier's housekeeping.
    pub disk: DiskCounters,
    /// Hits refused since the entry's key material wasn't the one asked for, though the key was.
    pub mismatched: u64,
}

impl Cache {
    /// Opens the cache. Returns at once; the disk tier takes stock of what it holds in the background. Blocks on a few
    /// file operations only.
    pub fn open(config: &CacheConfig) -> Result<Self, CacheError> {
        let disk = Arc::new(Disk::open(&config.directory, config.disk_bytes)?);
        Ok(Self::compose(config.memory_bytes, Some(disk)))
    }

    /// A cache without a disk tier, for when the directory can't be used.
    pub fn in_memory(memory_bytes: u64) -> Self {
        Self::compose(memory_bytes, None)
    }

    fn compose(memory_bytes: u64, disk: Option<Arc<Disk>>) -> Self {
        let mut tiers: Vec<Arc<dyn Tier>> = vec![Arc::new(Memory::new(memory_bytes))];
        tiers.extend(disk.iter().map(|disk| Arc::clone(disk) as Arc<dyn Tier>));
        Cache { tiers: Arc::new(Tiered::new(tiers)), disk, mismatched: Arc::default() }
    }

    /// The entry of a key, if it is stored, sound, and made from exactly the same material.
    pub async fn get(&self, material: &KeyMaterial) -> Option<Hit> {
        let hit = self.get_by_key(&material.key()).await?;
        if hit.entry.material() == material {
            return Some(hit);
        }
        self.mismatched.fetch_add(1, Relaxed);
        tracing::warn!(key = %material.key(), "the stored entry has the same key but other key material; removed");
        let (tiers, key) = (Arc::clone(&self.tiers), material.key());
        blocking(move || tiers.forget(&key)).await;
        None
    }

    /// The entry under a key whose material the caller doesn't have, e.g. the module key named by a graph entry.
    pub async fn get_by_key(&self, key: &Key) -> Option<Hit> {
        if let Some(hit) = self.tiers.lookup_in(0..1, key) {
            return Some(hit); // memory: not worth a thread
        }
        let (tiers, disk, key) = (Arc::clone(&self.tiers), self.disk.is_some(), *key);
        if !disk {
            return None;
        }
        blocking(move || tiers.lookup_in(1..2, &key)).await.flatten()
    }

    /// Stores an entry in every tier; failures are counted and logged. Spawn it when nothing waits for the disk.
    pub async fn put(&self, entry: Entry) {
        let (tiers, entry) = (Arc::clone(&self.tiers), Arc::new(entry));
        blocking(move || tiers.store(&entry)).await;
    }

    /// Forgets an entry in every tier, e.g. one that its consumer could not use; whether there was one.
    pub async fn remove(&self, key: &Key) -> bool {
        let (tiers, key) = (Arc::clone(&self.tiers), *key);
        blocking(move || tiers.forget(&key)).await.unwrap_or(false)
    }

    /// The `limit` most recently used entries.
    pub async fn list(&self, limit: usize) -> Listing {
        let tiers = Arc::clone(&self.tiers);
        let empty = Listing { entries: Vec::new(), total_entries: 0, total_bytes: 0 };
        blocking(move || list(&tiers, limit)).await.unwrap_or(empty)
    }

    /// What is stored under a key.
    pub async fn describe(&self, key: &Key) -> Option<EntryInfo> {
        let (tiers, key) = (Arc::clone(&self.tiers), *key);
        blocking(move || describe(&tiers, inventory(&tiers).get(&key)?)).await.flatten()
    }

    /// The stored key which begins with these hexadecimal digits, of which there must be eight at least.
    pub async fn resolve(&self, prefix: &str) -> Result<Key, KeyError> {
        let prefix = prefix.to_ascii_lowercase();
        let digits = prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || !(MIN_PREFIX..=64).contains(&prefix.len()) {
            return Err(KeyError::PrefixMalformed { text: prefix.chars().take(80).collect() });
        }
        let (tiers, wanted) = (Arc::clone(&self.tiers), prefix.clone());
        let begins = move |key: &Key| key.to_string().starts_with(&wanted);
        let found = blocking(move || inventory(&tiers).into_keys().filter(begins).collect::<Vec<_>>()).await;
        match found.unwrap_or_default().as_slice() {
            [] => Err(KeyError::Unknown { prefix }),
            [key] => Ok(*key),
            several => Err(KeyError::Ambiguous { prefix, count: several.len() }),
        }
    }

    /// The stored entry of the same kind that differs from `material` in the fewest components, the most recently used
    /// of them if there are several. Says why a key missed. Reads the header of every entry.
    pub async fn nearest(&self, material: &KeyMaterial) -> Option<Nearest> {
        let (tiers, wanted) = (Arc::clone(&self.tiers), material.clone());
        blocking(move || nearest(&tiers, &wanted)).await.flatten()
    }

    /// Checks every byte of every entry on disk; broken ones are quarantined, and written again if memory has them.
    pub async fn verify(&self) -> Result<VerifyReport, CacheError> {
        let Some(disk) = self.disk.clone() else { return Ok(VerifyReport::default()) };
        let report = blocking(move || disk.verify()).await.unwrap_or_else(|| Ok(VerifyReport::default()))?;
        for key in &report.quarantined {
            if let Some(hit) = self.tiers.lookup_in(0..1, key) {
                self.put(Entry::clone(&hit.entry)).await; // memory has a sound copy
            }
        }
        Ok(report)
    }

    /// Removes the least recently used entries until those on disk have at most `max_bytes` together. The memory tier
    /// forgets them too.
    pub async fn prune(&self, max_bytes: u64) -> Result<PruneReport, CacheError> {
        let (Some(disk), tiers) = (self.disk.clone(), Arc::clone(&self.tiers)) else {
            return Ok(PruneReport::default());
        };
        let pruned = blocking(move || {
            let report = disk.prune(max_bytes)?;
            report.removed.iter().for_each(|key| {
                tiers.forget(key);
            });
            Ok(report)
        });
        pruned.await.unwrap_or_else(|| Ok(PruneReport::default()))
    }

    /// What happened so far.
    pub fn counters(&self) -> CacheCounters {
        CacheCounters {
            tiers: self.tiers.counters(),
            disk: self.disk.as_ref().map(|disk| disk.counters()).unwrap_or_default(),
            mismatched: self.mismatched.load(Relaxed),
        }
    }
}

/// Runs `work` where blocking is allowed. None if it panicked or the runtime shuts down: to the caller a miss.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let done = spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "a cache operation did not finish")).ok()
}

/// A stored entry, merged over the tiers.
struct Held {
    stored: Stored,
    tier: &'static str,
}

/// Everything stored: named after the fastest tier, with the slowest one's size and the latest use.
fn inventory(tiers: &Tiered) -> BTreeMap<Key, Held> {
    let mut all: BTreeMap<Key, Held> = BTreeMap::new();
    for (tier, list) in tiers.listings() {
        for stored in list {
            let held = all.entry(stored.key).or_insert(Held { stored, tier });
            held.stored.bytes = stored.bytes;
            held.stored.last_used = held.stored.last_used.max(stored.last_used);
        }
    }
    all
}

fn describe(tiers: &Tiered, held: &Held) -> Option<EntryInfo> {
    let material = tiers.stored_material(&held.stored.key)?;
    Some(info(held, &material))
}

fn info(held: &Held, material: &KeyMaterial) -> EntryInfo {
    EntryInfo {
        key: held.stored.key,
        kind: material.kind(),
        tier: held.tier,
        bytes: held.stored.bytes,
        last_used_unix_seconds: unix_seconds(held.stored.last_used),
        components: material.components().to_vec(),
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn list(tiers: &Tiered, limit: usize) -> Listing {
    let mut held: Vec<Held> = inventory(tiers).into_values().collect();
    let total_bytes = held.iter().map(|held| held.stored.bytes).sum();
    let total_entries = held.len() as u64;
    held.sort_by_key(|held| (std::cmp::Reverse(held.stored.last_used), held.stored.key));
    let entries = held.iter().filter_map(|held| describe(tiers, held)).take(limit).collect();
    Listing { entries, total_entries, total_bytes }
}

fn nearest(tiers: &Tiered, wanted: &KeyMaterial) -> Option<Nearest> {
    let mut best: Option<((usize, std::cmp::Reverse<SystemTime>), Held, KeyMaterial)> = None;
    for held in inventory(tiers).into_values() {
        let Some(material) = tiers.stored_material(&held.stored.key) else { continue };
        if material.kind() != wanted.kind() {
            continue;
        }
        let distance = differing(wanted.components(), material.components()).len();
        let rank = (distance, std::cmp::Reverse(held.stored.last_used));
        if best.as_ref().is_none_or(|(best, ..)| rank < *best) {
            best = Some((rank, held, material));
        }
    }
    let (_, held, material) = best?;
    let differing = differing(wanted.components(), material.components());
    Some(Nearest { entry: info(&held, &material), differing })
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
