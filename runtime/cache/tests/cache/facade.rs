//! The cache as the daemon sees it: outcomes, broken tiers, explanations.
use std::{fs, sync::Arc};

use tpud_cache::{
    Cache, CacheError, Entry, Hit, Key, KeyBuilder, KeyError, KeyMaterial, Kind, Memory, Stored, Tier, Tiered,
};

use crate::support::{entry, entry_files, open};

fn graph(bucket: &str, plugin: &str) -> KeyMaterial {
    let builder = KeyBuilder::new(Kind::Graph).bytes("graph", b"g").text("bucket", bucket);
    builder.text("plugin", plugin).finish()
}

fn tier(hit: Option<Hit>) -> Option<&'static str> {
    hit.map(|hit| hit.tier)
}

#[tokio::test]
async fn memory_first_then_disk_and_the_disk_s_entry_moves_up() {
    let root = tempfile::tempdir().unwrap();
    let cache = open(root.path());
    let one = entry(1, 1_000);
    assert_eq!(tier(cache.get(one.material()).await), None);
    cache.put((*one).clone()).await;
    assert_eq!(tier(cache.get(one.material()).await), Some("memory"));
    let warm = open(root.path());
    assert_eq!(tier(warm.get_by_key(&one.key()).await), Some("disk"));
    assert_eq!(tier(warm.get(one.material()).await), Some("memory"));
    let [memory, disk] = warm.counters().tiers.try_into().unwrap();
    assert_eq!((memory.hits, memory.misses, memory.puts), (1, 1, 0));
    assert_eq!((disk.hits, disk.misses, disk.puts), (1, 0, 0));
    assert!(warm.remove(&one.key()).await);
    assert_eq!(tier(warm.get(one.material()).await), None);
    assert!(entry_files(root.path()).is_empty());
}

#[tokio::test]
async fn a_corrupt_entry_is_a_miss_and_the_next_put_rebuilds_it() {
    let root = tempfile::tempdir().unwrap();
    let one = entry(1, 1_000);
    open(root.path()).put((*one).clone()).await;
    fs::write(&entry_files(root.path())[0], b"broken").unwrap();
    let cache = open(root.path());
    assert_eq!(tier(cache.get(one.material()).await), None);
    let counters = cache.counters();
    assert_eq!((counters.tiers[1].corrupt, counters.tiers[1].errors, counters.disk.quarantined), (1, 0, 1));
    cache.put((*one).clone()).await;
    assert_eq!(tier(open(root.path()).get(one.material()).await), Some("disk"));
}

#[tokio::test]
async fn without_a_disk_the_memory_serves() {
    let cache = Cache::in_memory(1 << 20);
    cache.put((*entry(1, 10)).clone()).await;
    assert_eq!(tier(cache.get(entry(1, 0).material()).await), Some("memory"));
    assert_eq!(tier(cache.get(entry(2, 0).material()).await), None);
    assert_eq!(cache.verify().await.unwrap().checked, 0);
    assert_eq!(cache.prune(0).await.unwrap().removed, []);
}

#[test]
fn a_directory_that_cannot_be_used_is_a_typed_error() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, b"").unwrap();
    let config = tpud_cache::CacheConfig { directory: file, memory_bytes: 1, disk_bytes: 1 };
    let error = Cache::open(&config).err().unwrap();
    assert!(matches!(error, CacheError::Io { operation: "make", .. }), "{error}");
}

#[tokio::test]
async fn a_miss_is_explained_by_the_nearest_entry_of_its_kind() {
    let cache = Cache::in_memory(1 << 20);
    assert!(cache.nearest(&graph("s=8", "p1")).await.is_none());
    cache.put((*entry(1, 10)).clone()).await; // a module: never near a graph
    assert!(cache.nearest(&graph("s=8", "p1")).await.is_none());
    cache.put(Entry::new(graph("s=4", "p0"), b"far".as_slice())).await;
    cache.put(Entry::new(graph("s=4", "p1"), b"near".as_slice())).await;
    let nearest = cache.nearest(&graph("s=8", "p1")).await.unwrap();
    assert_eq!(nearest.differing, ["bucket"]);
    assert_eq!((nearest.entry.key, nearest.entry.kind), (graph("s=4", "p1").key(), Kind::Graph));
    assert_eq!(nearest.entry.components, graph("s=4", "p1").components());
    // Of two that are equally near, the one used last.
    cache.put(Entry::new(graph("s=8", "p2"), b"later".as_slice())).await;
    assert_eq!(cache.nearest(&graph("s=8", "p1")).await.unwrap().differing, ["plugin"]);
    // Its own entry differs in nothing.
    assert!(cache.nearest(&graph("s=4", "p0")).await.unwrap().differing.is_empty());
}

#[tokio::test]
async fn the_list_shows_the_latest_and_counts_all_once() {
    let root = tempfile::tempdir().unwrap();
    let cache = open(root.path());
    for number in 0..5 {
        cache.put((*entry(number, 1_000)).clone()).await;
    }
    cache.get(entry(1, 0).material()).await;
    let listing = cache.list(2).await;
    let shown: Vec<_> = listing.entries.iter().map(|entry| (entry.key, entry.tier)).collect();
    assert_eq!(shown, [(entry(1, 0).key(), "memory"), (entry(4, 0).key(), "memory")]);
    let on_disk = crate::support::stored_bytes(root.path());
    assert_eq!((listing.total_entries, listing.total_bytes), (5, on_disk));
    let cold = open(root.path());
    let info = cold.describe(&entry(3, 0).key()).await.unwrap();
    assert_eq!((info.tier, info.kind, info.bytes), ("disk", Kind::Module, on_disk / 5));
    assert!(cold.describe(&entry(9, 0).key()).await.is_none());
    let report = cold.prune(on_disk / 2).await.unwrap();
    assert_eq!((report.removed.len(), report.freed_bytes), (3, on_disk / 5 * 3));
    assert_eq!(cold.list(10).await.total_entries, 2);
}

#[tokio::test]
async fn a_key_is_found_by_its_first_digits() {
    let cache = Cache::in_memory(1 << 20);
    cache.put((*entry(1, 10)).clone()).await;
    let key = entry(1, 0).key();
    let digits = key.to_string();
    assert_eq!(cache.resolve(&digits[..8]).await, Ok(key));
    assert_eq!(cache.resolve(&digits.to_uppercase()).await, Ok(key));
    let absent = entry(2, 0).key().to_string();
    assert!(matches!(cache.resolve(&absent).await, Err(KeyError::Unknown { .. })));
    for bad in ["", &digits[..7], "../../../etc", &format!("{digits}0"), "00000000é"] {
        assert!(matches!(cache.resolve(bad).await, Err(KeyError::PrefixMalformed { .. })), "{bad}");
    }
}

/// Fails at everything.
struct Broken;

fn broken<T>() -> Result<T, CacheError> {
    Err(CacheError::Io {
        operation: "reach",
        path: "/remote".into(),
        source: std::io::ErrorKind::TimedOut.into(),
    })
}

impl Tier for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn get(&self, _: &Key) -> Result<Option<Arc<Entry>>, CacheError> {
        broken()
    }

    fn put(&self, _: &Arc<Entry>) -> Result<(), CacheError> {
        broken()
    }

    fn contains(&self, _: &Key) -> Result<bool, CacheError> {
        broken()
    }

    fn remove(&self, _: &Key) -> Result<bool, CacheError> {
        broken()
    }

    fn list(&self) -> Result<Vec<Stored>, CacheError> {
        broken()
    }
}

#[test]
fn a_broken_tier_is_passed_over_and_counted() {
    for order in [[true, false], [false, true]] {
        let make = |ok: bool| -> Arc<dyn Tier> {
            if ok { Arc::new(Memory::new(1 << 20)) } else { Arc::new(Broken) }
        };
        let tiers = Tiered::new(order.map(make).to_vec());
        let one = entry(1, 10);
        assert!(tiers.lookup(&one.key()).is_none());
        tiers.store(&one);
        assert_eq!(tiers.lookup(&one.key()).unwrap().tier, "memory");
        assert!(tiers.contains(&one.key()).unwrap());
        assert_eq!(tiers.list().unwrap().len(), 1);
        assert!(tiers.remove(&one.key()).unwrap());
        assert!(tiers.lookup(&one.key()).is_none());
        let errors = tiers.counters().iter().find(|tier| tier.tier == "broken").unwrap().errors;
        assert!(errors >= 4, "{errors}");
    }
}
