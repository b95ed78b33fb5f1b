//! What a tier of the cache can do.
use std::{sync::Arc, time::SystemTime};

use crate::{CacheError, Entry, Key, KeyMaterial};

/// One level of the cache. Tiers nest: [`crate::Tiered`] composes them and is one itself.
///
/// Calls may block on I/O; [`crate::Cache`] keeps them off the async threads. A tier over an async client (an object
/// store) blocks on its runtime's handle. An error means "passed over": no caller fails a compile because of it.
pub trait Tier: Send + Sync {
    /// `memory`, `disk`, …: the name in listings, counters and logs.
    fn name(&self) -> &'static str;

    /// The entry under `key`, every byte of it checked, or none.
    fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, CacheError>;

    /// Stores the entry under its key, replacing an older one; evicts others to keep the tier's bound.
    fn put(&self, entry: &Arc<Entry>) -> Result<(), CacheError>;

    /// Whether an entry is stored, without reading it: a hint, since it may be evicted or prove broken.
    fn contains(&self, key: &Key) -> Result<bool, CacheError>;

    /// Forgets the entry; whether there was one.
    fn remove(&self, key: &Key) -> Result<bool, CacheError>;

    /// All that is stored, in the order of the keys.
    fn list(&self) -> Result<Vec<Stored>, CacheError>;

    /// What the key of a stored entry was made from. Override it where that needs less than the whole entry.
    fn material(&self, key: &Key) -> Result<Option<KeyMaterial>, CacheError> {
        Ok(self.get(key)?.map(|entry| entry.material().clone()))
    }

    /// Notes that a faster tier served the entry, so that this one doesn't take it for unused.
    fn touch(&self, _key: &Key) {}
}

/// A line of [`Tier::list`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The entry's key.
    pub key: Key,
    /// What it weighs against the tier's bound.
    pub bytes: u64,
    /// When it was last stored or served.
    pub last_used: SystemTime,
}
