//! Readers, writers and eviction at once: every hit is right and the bound holds.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use tpud_cache::{Disk, Memory, Tier, Tiered};

use crate::support::{Random, entry, stored_bytes};

const LIMIT: u64 = 1 << 20;
const ENTRIES: u64 = 200;
const LENGTH: usize = 20_000; // about fifty fit

/// Several threads read and write at random for a while, with `observe` in between. Returns the number of hits.
fn storm(tiers: &[Arc<dyn Tier>], observe: impl Fn()) -> u64 {
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = |seed: u64, tier: &dyn Tier| {
        let mut random = Random(seed);
        while !stop.load(SeqCst) {
            let number = random.below(ENTRIES);
            if seed.is_multiple_of(2) {
                tier.put(&entry(number, LENGTH)).unwrap();
            } else if let Some(found) = tier.get(&entry(number, 0).key()).unwrap() {
                assert_eq!(*found, *entry(number, LENGTH));
                hits.fetch_add(1, SeqCst);
            }
        }
    };
    thread::scope(|scope| {
        for seed in 0..16 {
            let (work, tier) = (&work, &tiers[seed as usize / 2 % tiers.len()]);
            scope.spawn(move || work(seed, &**tier));
        }
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(1_500) {
            observe();
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, SeqCst);
    });
    hits.into_inner()
}

#[test]
fn memory() {
    let memory = Arc::new(Memory::new(LIMIT));
    let hits = storm(&[Arc::clone(&memory) as Arc<dyn Tier>], || assert!(memory.bytes() <= LIMIT));
    assert!(hits > 0);
}

#[test]
fn disk_with_eviction() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(root.path(), LIMIT).unwrap());
    let hits = storm(&[Arc::clone(&disk) as Arc<dyn Tier>], || assert!(disk.counters().bytes <= LIMIT));
    let counters = disk.counters();
    assert!(hits > 0 && counters.evicted > 0);
    assert_eq!(counters.quarantined, 0);
    assert_eq!(stored_bytes(root.path()), counters.bytes, "index and directory agree");
    assert_eq!(disk.verify().unwrap().checked, counters.entries);
}

#[test]
fn memory_over_disk() {
    let root = tempfile::tempdir().unwrap();
    let (memory, disk) =
        (Arc::new(Memory::new(LIMIT / 4)), Arc::new(Disk::open(root.path(), LIMIT).unwrap()));
    let tiered = Arc::new(Tiered::new(vec![memory, Arc::clone(&disk) as Arc<dyn Tier>]));
    let hits = storm(&[Arc::clone(&tiered) as Arc<dyn Tier>], || ());
    let counters = tiered.counters();
    assert!(
        counters.iter().all(|tier| tier.hits > 0 && tier.errors == 0 && tier.corrupt == 0),
        "{counters:?}"
    );
    assert_eq!(counters.iter().map(|tier| tier.hits).sum::<u64>(), hits);
}

#[test]
fn two_daemons_on_one_directory() {
    let root = tempfile::tempdir().unwrap();
    let disks: Vec<_> = (0..2).map(|_| Arc::new(Disk::open(root.path(), LIMIT).unwrap())).collect();
    let tiers: Vec<_> = disks.iter().map(|disk| Arc::clone(disk) as Arc<dyn Tier>).collect();
    assert!(storm(&tiers, || ()) > 0);
    // Each kept the bound for what it knew; once told of the other's entries it keeps it for all.
    for disk in &disks {
        let listed: u64 = disk.list().unwrap().iter().map(|stored| stored.bytes).sum();
        assert!(listed <= LIMIT);
        assert_eq!(listed, stored_bytes(root.path()));
    }
    assert_eq!(disks[1].verify().unwrap().quarantined, []);
    assert!(disks.iter().all(|disk| disk.counters().quarantined == 0));
}
