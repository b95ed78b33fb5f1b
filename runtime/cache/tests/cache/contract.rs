//! What every tier has to do. A new tier joins by a line in `for_each_tier`.
use std::{path::Path, sync::Arc, time::SystemTime};

use tpud_cache::{CacheError, Disk, Memory, Tier, Tiered};

use crate::support::{entry, material};

/// Room for three entries of `LENGTH` bytes in each tier, not for four.
const LIMIT: u64 = 33_500;
const LENGTH: usize = 10_000;

type Make = fn(&Path) -> Arc<dyn Tier>;

const MEMORY: Make = |_| Arc::new(Memory::new(LIMIT));
const DISK: Make = |root| Arc::new(Disk::open(root, LIMIT).unwrap());
const TIERED: Make = |root| Arc::new(Tiered::new(vec![MEMORY(root), DISK(root)]));

fn for_each_tier(tiers: &[Make], test: impl Fn(&dyn Tier)) {
    for make in tiers {
        let root = tempfile::tempdir().unwrap();
        test(&*make(root.path()));
    }
}

#[test]
fn nothing_is_there_at_first() {
    for_each_tier(&[MEMORY, DISK, TIERED], |tier| {
        let key = material(1).key();
        assert!(tier.get(&key).unwrap().is_none(), "{}", tier.name());
        assert!(!tier.contains(&key).unwrap());
        assert!(!tier.remove(&key).unwrap());
        assert!(tier.material(&key).unwrap().is_none());
        assert_eq!(tier.list().unwrap(), []);
        tier.touch(&key);
    });
}

#[test]
fn what_was_put_comes_back() {
    for_each_tier(&[MEMORY, DISK, TIERED], |tier| {
        for (number, length) in [(1, 0), (2, 1), (3, LENGTH)] {
            let entry = entry(number, length);
            tier.put(&entry).unwrap();
            assert_eq!(tier.get(&entry.key()).unwrap().as_deref(), Some(&*entry), "{}", tier.name());
            assert!(tier.contains(&entry.key()).unwrap());
            assert_eq!(tier.material(&entry.key()).unwrap().as_ref(), Some(entry.material()));
        }
    });
}

#[test]
fn a_later_put_replaces() {
    for_each_tier(&[MEMORY, DISK, TIERED], |tier| {
        let (old, new) = (entry(1, 100), Arc::new(tpud_cache::Entry::new(material(1), b"new".as_slice())));
        tier.put(&old).unwrap();
        tier.put(&new).unwrap();
        assert_eq!(tier.get(&old.key()).unwrap().as_deref(), Some(&*new), "{}", tier.name());
        assert_eq!(tier.list().unwrap().len(), 1);
    });
}

#[test]
fn what_was_removed_is_gone() {
    for_each_tier(&[MEMORY, DISK, TIERED], |tier| {
        let (one, two) = (entry(1, 10), entry(2, 10));
        tier.put(&one).unwrap();
        tier.put(&two).unwrap();
        assert!(tier.remove(&one.key()).unwrap(), "{}", tier.name());
        assert!(tier.get(&one.key()).unwrap().is_none());
        assert!(!tier.contains(&one.key()).unwrap());
        assert!(tier.get(&two.key()).unwrap().is_some());
        assert_eq!(tier.list().unwrap().len(), 1);
    });
}

#[test]
fn the_list_is_complete_and_ordered() {
    for_each_tier(&[MEMORY, DISK, TIERED], |tier| {
        let before = SystemTime::now();
        let mut keys: Vec<_> =
            (0..20).map(|number| entry(number, 100)).inspect(|e| tier.put(e).unwrap()).collect();
        keys.sort_by_key(|entry| entry.key());
        let list = tier.list().unwrap();
        let listed: Vec<_> = list.iter().map(|stored| stored.key).collect();
        assert_eq!(listed, keys.iter().map(|entry| entry.key()).collect::<Vec<_>>(), "{}", tier.name());
        assert!(list.iter().all(|stored| stored.bytes >= 100 && stored.last_used >= before));
    });
}

#[test]
fn the_least_recently_used_goes_first() {
    for_each_tier(&[MEMORY, DISK], |tier| {
        let entries: Vec<_> = (0..5).map(|number| entry(number, LENGTH)).collect();
        let held = || entries.iter().map(|e| tier.contains(&e.key()).unwrap()).collect::<Vec<_>>();
        entries[..3].iter().for_each(|entry| tier.put(entry).unwrap());
        assert_eq!(held(), [true, true, true, false, false], "{}", tier.name());
        tier.get(&entries[0].key()).unwrap();
        tier.put(&entries[3]).unwrap();
        assert_eq!(held(), [true, false, true, true, false], "{}", tier.name());
        tier.put(&entries[2]).unwrap(); // stored again counts as used
        tier.put(&entries[4]).unwrap();
        assert_eq!(held(), [false, false, true, true, true], "{}", tier.name());
        let bytes: u64 = tier.list().unwrap().iter().map(|stored| stored.bytes).sum();
        assert!(bytes <= LIMIT);
    });
}

#[test]
fn an_entry_beyond_the_bound_is_refused_and_evicts_nothing() {
    for_each_tier(&[MEMORY, DISK], |tier| {
        tier.put(&entry(1, LENGTH)).unwrap();
        let refused = tier.put(&entry(2, LIMIT as usize));
        assert!(matches!(refused, Err(CacheError::TooLarge { limit: LIMIT, .. })), "{}", tier.name());
        assert!(tier.contains(&material(1).key()).unwrap());
    });
}
