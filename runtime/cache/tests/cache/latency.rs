//! How long get and put take, by hand: `cargo test -p tpud-cache --release latency -- --ignored --nocapture`.
#![allow(clippy::print_stdout)] // it is there to print

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use tpud_cache::{Disk, Memory, Tier};

use crate::support::{Random, entry};

const LENGTH: usize = 100 << 10;

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what:<28} median {:>10.1?}  p99 {:>10.1?}  ({} calls)", at(50), at(99), times.len());
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn measure(tier: &dyn Tier, count: u64) {
    let entries: Vec<_> = (0..count).map(|number| entry(number, LENGTH)).collect();
    let put: Vec<_> = entries.iter().map(|entry| timed(|| tier.put(entry).unwrap())).collect();
    let get = |entry: &Arc<_>| timed(|| assert!(tier.get(&tpud_cache::Entry::key(entry)).unwrap().is_some()));
    report(&format!("{} put 100 KiB", tier.name()), put);
    report(&format!("{} get 100 KiB", tier.name()), entries.iter().map(get).collect());
    let miss = (0..count)
        .map(|number| timed(|| assert!(tier.get(&entry(number + count, 0).key()).unwrap().is_none())));
    report(&format!("{} miss", tier.name()), miss.collect());
}

#[test]
#[ignore = "a measurement"]
fn latency() {
    let root = tempfile::tempdir_in(".").unwrap();
    measure(&Memory::new(1 << 30), 1_000);
    measure(&Disk::open(root.path(), 1 << 30).unwrap(), 1_000);
}

#[test]
#[ignore = "a measurement"]
fn latency_of_an_index_of_100_000_entries() {
    let root = tempfile::tempdir_in(".").unwrap();
    let entries = root.path().join("v1/entries");
    (0..=u8::MAX).for_each(|shard| fs::create_dir_all(entries.join(format!("{shard:02x}"))).unwrap());
    let mut random = Random(1);
    for _ in 0..100_000 {
        let name: String = (0..4).map(|_| format!("{:016x}", random.next())).collect();
        fs::write(entries.join(&name[..2]).join(&name[2..]), b"x").unwrap();
    }
    let started = Instant::now();
    let disk = Disk::open(root.path(), 100_000 + 20 * (LENGTH as u64 + 500)).unwrap();
    let opened = started.elapsed();
    assert_eq!(disk.list().unwrap().len(), 100_000);
    println!("100,000 entries: opened in {opened:.1?}, all known after {:.1?}", started.elapsed());
    let put = (0..300).map(|number| entry(number, LENGTH)).map(|entry| timed(|| disk.put(&entry).unwrap()));
    report("disk put, evicting at 100,000", put.collect());
}
