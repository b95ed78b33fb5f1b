//! What the disk tier knows of its directory: sizes and last uses, in the order in which they would be evicted.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{Key, Stored};

/// The known entries.
#[derive(Debug, Default)]
pub(super) struct Index {
    records: BTreeMap<Key, Record>,
    /// Keys by last use, so that the first is the next to be evicted.
    order: BTreeSet<(u64, Key)>,
    bytes: u64,
    /// Bytes promised to writers which have not finished.
    pub(super) reserved: u64,
    clock: u64,
    serial: u64,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    bytes: u64,
    /// Last use in nanoseconds after 1970.
    used: u64,
    /// Grows with each insertion: tells what was inserted after a scan began.
    serial: u64,
}

impl Index {
    /// The time in nanoseconds after 1970, later than at any earlier call: two uses are never simultaneous.
    pub(super) fn tick(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        self.clock = now.max(self.clock + 1);
        self.clock
    }

    pub(super) fn insert(&mut self, key: Key, bytes: u64, used: u64) {
        self.remove(&key);
        self.serial += 1;
        self.bytes += bytes;
        self.order.insert((used, key));
        self.records.insert(key, Record { bytes, used, serial: self.serial });
    }

    /// Notes a later use of a known entry.
    pub(super) fn touch(&mut self, key: &Key, used: u64) {
        if let Some(record) = self.records.get_mut(key) {
            self.order.remove(&(record.used, *key));
            record.used = used;
            self.order.insert((used, *key));
        }
    }

    /// Forgets an entry; its size if it was known.
    pub(super) fn remove(&mut self, key: &Key) -> Option<u64> {
        let record = self.records.remove(key)?;
        self.order.remove(&(record.used, *key));
        self.bytes -= record.bytes;
        Some(record.bytes)
    }

    pub(super) fn oldest(&self) -> Option<(Key, u64)> {
        self.order.first().map(|(used, key)| (*key, *used))
    }

    pub(super) fn used(&self, key: &Key) -> Option<u64> {
        self.records.get(key).map(|record| record.used)
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The serial number of the latest insertion.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// The known keys which begin with `shard` and were inserted at `serial` or before.
    pub(super) fn shard(&self, shard: u8, serial: u64) -> Vec<Key> {
        let (mut first, mut last) = ([0; 32], [255; 32]);
        (first[0], last[0]) = (shard, shard);
        let range = Key::from_bytes(first)..=Key::from_bytes(last);
        self.records.range(range).filter(|(_, record)| record.serial <= serial).map(|(key, _)| *key).collect()
    }

    pub(super) fn list(&self) -> Vec<Stored> {
        let line = |(key, record): (&Key, &Record)| Stored {
            key: *key,
            bytes: record.bytes,
            last_used: UNIX_EPOCH + Duration::from_nanos(record.used),
        };
        self.records.iter().map(line).collect()
    }
}
