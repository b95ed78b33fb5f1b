//! The memory tier: least recently used entries go first, bounded by bytes.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crate::{CacheError, Entry, Key, KeyMaterial, Stored, Tier};

/// Entries in this process's memory. They were checked on the way in and are handed out as they are.
#[derive(Debug)]
pub struct Memory {
    limit: u64,
    lru: Mutex<Lru>,
}

#[derive(Debug, Default)]
struct Lru {
    slots: BTreeMap<Key, Slot>,
    /// Key by turn of last use; turns are unique, so the first one is the oldest.
    order: BTreeMap<u64, Key>,
    turn: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    turn: u64,
    last_used: SystemTime,
}

impl Memory {
    /// An empty tier that keeps at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Memory { limit, lru: Mutex::default() }
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Lru> {
        self.lru.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lru {
    fn insert(&mut self, entry: Arc<Entry>) {
        self.remove(&entry.key());
        self.turn += 1;
        self.bytes += entry.weight();
        self.order.insert(self.turn, entry.key());
        self.slots.insert(entry.key(), Slot { entry, turn: self.turn, last_used: SystemTime::now() });
    }

    fn use_now(&mut self, key: &Key) -> Option<Arc<Entry>> {
        let slot = self.slots.get_mut(key)?;
        self.order.remove(&slot.turn);
        self.turn += 1;
        (slot.turn, slot.last_used) = (self.turn, SystemTime::now());
        self.order.insert(self.turn, *key);
        Some(Arc::clone(&slot.entry))
    }

    fn remove(&mut self, key: &Key) -> Option<Slot> {
        let slot = self.slots.remove(key)?;
        self.order.remove(&slot.turn);
        self.bytes -= slot.entry.weight();
        Some(slot)
    }
}

impl Tier for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, CacheError> {
        Ok(self.lock().use_now(key))
    }

    fn put(&self, entry: &Arc<Entry>) -> Result<(), CacheError> {
        let bytes = entry.weight();
        if bytes > self.limit {
            return Err(CacheError::TooLarge { bytes, limit: self.limit });
        }
        let mut evicted = Vec::new(); // freed after the lock: dropping megabytes takes time
        let mut lru = self.lock();
        lru.insert(Arc::clone(entry));
        while lru.bytes > self.limit {
            let Some((_, oldest)) = lru.order.pop_first() else { break };
            evicted.extend(lru.remove(&oldest));
        }
        drop(lru);
        Ok(())
    }

    fn contains(&self, key: &Key) -> Result<bool, CacheError> {
        Ok(self.lock().slots.contains_key(key))
    }

    fn remove(&self, key: &Key) -> Result<bool, CacheError> {
        Ok(self.lock().remove(key).is_some())
    }

    fn list(&self) -> Result<Vec<Stored>, CacheError> {
        let line = |(key, slot): (&Key, &Slot)| Stored {
            key: *key,
            bytes: slot.entry.weight(),
            last_used: slot.last_used,
        };
        Ok(self.lock().slots.iter().map(line).collect())
    }

    fn material(&self, key: &Key) -> Result<Option<KeyMaterial>, CacheError> {
        Ok(self.lock().slots.get(key).map(|slot| slot.entry.material().clone()))
    }
}
