//! Tiers composed: the fastest that has an entry serves it and the faster ones get a copy. A broken tier is a miss.
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{CacheError, Entry, Key, KeyMaterial, Stored, Tier};

/// At most one log line in this time tells that a tier fails; the counters tell the rest.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Several tiers as one, fastest first.
pub struct Tiered {
    levels: Vec<Level>,
}

struct Level {
    tier: Arc<dyn Tier>,
    hits: AtomicU64,
    misses: AtomicU64,
    puts: AtomicU64,
    too_large: AtomicU64,
    corrupt: AtomicU64,
    errors: AtomicU64,
    /// Milliseconds after `started` at which a failure may be logged again.
    quiet_until: AtomicU64,
    started: Instant,
}

/// An entry and the tier that had it.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The entry, every byte of it checked.
    pub entry: Arc<Entry>,
    /// Name of the tier: `memory`, `disk`, …
    pub tier: &'static str,
}

/// What happened in a tier since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierCounters {
    /// Name of the tier.
    pub tier: &'static str,
    /// Look-ups it served.
    pub hits: u64,
    /// Look-ups it had nothing for, including those that failed.
    pub misses: u64,
    /// Entries stored.
    pub puts: u64,
    /// Entries not stored since they alone exceed the tier's bound.
    pub too_large: u64,
    /// Look-ups that found a broken entry.
    pub corrupt: u64,
    /// Look-ups and stores that failed otherwise (disk full, no permission, …).
    pub errors: u64,
}

impl Tiered {
    /// Composes tiers, fastest first.
    pub fn new(tiers: Vec<Arc<dyn Tier>>) -> Self {
        Tiered { levels: tiers.into_iter().map(Level::new).collect() }
    }

    /// Asks the tiers in turn. The faster ones get a copy of what a slower one had.
    pub fn lookup(&self, key: &Key) -> Option<Hit> {
        self.lookup_in(0..self.levels.len(), key)
    }

    /// [`Self::lookup`] in some of the tiers.
    pub(crate) fn lookup_in(&self, range: Range<usize>, key: &Key) -> Option<Hit> {
        for index in range {
            let Some(entry) = self.levels[index].get(key) else { continue };
            self.levels[..index].iter().for_each(|faster| faster.backfill(&entry));
            self.levels[index + 1..].iter().for_each(|slower| slower.tier.touch(key));
            return Some(Hit { entry, tier: self.levels[index].tier.name() });
        }
        None
    }

    /// Stores in every tier; failures are counted and logged, not returned.
    pub fn store(&self, entry: &Arc<Entry>) {
        self.levels.iter().for_each(|level| level.put(entry));
    }

    /// Counters of each tier, fastest first.
    pub fn counters(&self) -> Vec<TierCounters> {
        self.levels.iter().map(Level::counters).collect()
    }

    /// The names of the tiers with what they list; a tier that fails is left out, counted and logged.
    pub(crate) fn listings(&self) -> Vec<(&'static str, Vec<Stored>)> {
        let listing =
            |level: &Level| level.checked("list", level.tier.list()).map(|list| (level.tier.name(), list));
        self.levels.iter().filter_map(listing).collect()
    }

    /// What the key of a stored entry was made from, by the first tier that knows.
    pub(crate) fn stored_material(&self, key: &Key) -> Option<KeyMaterial> {
        self.levels.iter().find_map(|level| level.checked("describe", level.tier.material(key)).flatten())
    }

    /// Removes the entry everywhere; whether there was one.
    pub(crate) fn forget(&self, key: &Key) -> bool {
        // No short cut: every tier has to forget it.
        let removed = |level: &Level| level.checked("remove", level.tier.remove(key)).unwrap_or(false);
        self.levels.iter().map(removed).fold(false, |any, removed| any | removed)
    }
}

impl Tier for Tiered {
    fn name(&self) -> &'static str {
        "tiered"
    }

    fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, CacheError> {
        Ok(self.lookup(key).map(|hit| hit.entry))
    }

    fn put(&self, entry: &Arc<Entry>) -> Result<(), CacheError> {
        self.store(entry);
        Ok(())
    }

    fn contains(&self, key: &Key) -> Result<bool, CacheError> {
        let has = |level: &Level| level.checked("look for", level.tier.contains(key)).unwrap_or(false);
        Ok(self.levels.iter().any(has))
    }

    fn remove(&self, key: &Key) -> Result<bool, CacheError> {
        Ok(self.forget(key))
    }

    fn list(&self) -> Result<Vec<Stored>, CacheError> {
        let all = self.listings().into_iter().rev().flat_map(|(_, list)| list);
        let by_key: BTreeMap<Key, Stored> = all.map(|stored| (stored.key, stored)).collect();
        Ok(by_key.into_values().collect())
    }

    fn material(&self, key: &Key) -> Result<Option<KeyMaterial>, CacheError> {
        Ok(self.stored_material(key))
    }

    fn touch(&self, key: &Key) {
        self.levels.iter().for_each(|level| level.tier.touch(key));
    }
}

impl Level {
    fn new(tier: Arc<dyn Tier>) -> Self {
        let zero = || AtomicU64::new(0);
        Level {
            tier,
            hits: zero(),
            misses: zero(),
            puts: zero(),
            too_large: zero(),
            corrupt: zero(),
            errors: zero(),
            quiet_until: zero(),
            started: Instant::now(),
        }
    }

    fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let found = self.checked("read", self.tier.get(key)).flatten();
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
        found
    }

    fn put(&self, entry: &Arc<Entry>) {
        if self.checked("store", self.tier.put(entry)).is_some() {
            self.puts.fetch_add(1, Relaxed);
        }
    }

    /// Like [`Self::put`], but not counted as one: nothing new was stored.
    fn backfill(&self, entry: &Arc<Entry>) {
        let _ = self.checked("store", self.tier.put(entry));
    }

    /// Counts and logs a failure; what remains is a miss.
    fn checked<R>(&self, operation: &str, result: Result<R, CacheError>) -> Option<R> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let counter = match &error {
            CacheError::TooLarge { .. } => &self.too_large,
            CacheError::Corrupt { .. } => &self.corrupt,
            CacheError::Io { .. } | CacheError::SigningKey { .. } | CacheError::Unencodable { .. } => {
                &self.errors
            }
        };
        counter.fetch_add(1, Relaxed);
        if self.may_log() {
            let tier = self.tier.name();
            tracing::warn!(tier, operation, %error, "a cache tier was passed over");
        }
        None
    }

    /// True for one caller in each interval.
    fn may_log(&self) -> bool {
        let now = self.started.elapsed().as_millis() as u64;
        let until = self.quiet_until.load(Relaxed);
        let next = now + LOG_INTERVAL.as_millis() as u64;
        now >= until && self.quiet_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok()
    }

    fn counters(&self) -> TierCounters {
        TierCounters {
            tier: self.tier.name(),
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            puts: self.puts.load(Relaxed),
            too_large: self.too_large.load(Relaxed),
            corrupt: self.corrupt.load(Relaxed),
            errors: self.errors.load(Relaxed),
        }
    }
}
