//! Several daemons on one directory, and a directory that changes under a daemon.
use std::{fs, path::Path, sync::Barrier, thread};

use tpud_cache::{Disk, Tier};

use crate::support::{entry, entry_files, files};

/// Room for three entries of `LENGTH` bytes.
const LIMIT: u64 = 33_500;
const LENGTH: usize = 10_000;

fn open(root: &Path) -> Disk {
    Disk::open(root, LIMIT).unwrap()
}

fn has(disk: &Disk, number: u64) -> bool {
    disk.get(&entry(number, 0).key()).unwrap().is_some()
}

#[test]
fn all_who_open_at_once_sign_alike() {
    let root = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(16);
    let disks: Vec<_> = thread::scope(|scope| {
        let open_together = || {
            barrier.wait();
            Disk::open(root.path(), 1 << 20).unwrap()
        };
        let handles: Vec<_> = (0..16).map(|_| scope.spawn(open_together)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    for (number, disk) in disks.iter().enumerate() {
        disk.put(&entry(number as u64, 10)).unwrap();
    }
    assert!(disks.iter().all(|disk| (0..16).all(|number| has(disk, number))));
    let alive = || files(&root.path().join("v1/tmp")).len();
    assert_eq!(alive(), 16, "nobody took another's place for a dead one's");
    drop(disks);
    assert_eq!(alive(), 0);
}

#[test]
fn what_one_stores_and_removes_the_other_sees() {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (open(root.path()), open(root.path()));
    a.put(&entry(1, 100)).unwrap();
    assert!(has(&b, 1), "found by name, though not listed yet");
    a.put(&entry(2, 100)).unwrap();
    assert_eq!(b.list().unwrap().len(), 2);
    a.remove(&entry(1, 0).key()).unwrap();
    assert!(!has(&b, 1));
    a.remove(&entry(2, 0).key()).unwrap();
    assert_eq!(b.list().unwrap(), []);
    assert_eq!(b.counters().bytes, 0);
}

#[test]
fn an_entry_that_the_other_uses_is_not_the_oldest() {
    let root = tempfile::tempdir().unwrap();
    let a = open(root.path());
    for number in 0..3 {
        a.put(&entry(number, LENGTH)).unwrap();
    }
    let b = open(root.path());
    assert!(has(&b, 0));
    a.put(&entry(3, LENGTH)).unwrap();
    assert_eq!([0, 1, 2, 3].map(|number| has(&a, number)), [true, false, true, true]);
}

#[test]
fn the_order_of_use_survives_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path());
    for number in [2, 0, 1] {
        disk.put(&entry(number, LENGTH)).unwrap();
    }
    assert!(has(&disk, 2));
    drop(disk);
    let disk = open(root.path());
    let report = disk.prune(15_000).unwrap();
    assert_eq!(report.removed, [entry(0, 0).key(), entry(1, 0).key()]);
    assert!(report.freed_bytes > 2 * LENGTH as u64);
    assert_eq!(entry_files(root.path()).len(), 1);
}

#[test]
fn a_smaller_bound_holds_from_the_start() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path());
    for number in 0..3 {
        disk.put(&entry(number, LENGTH)).unwrap();
    }
    drop(disk);
    let smaller = Disk::open(root.path(), 15_000).unwrap();
    let listed: Vec<_> = smaller.list().unwrap().iter().map(|stored| stored.key).collect();
    assert_eq!(listed, [entry(2, 0).key()]);
}

#[test]
fn a_directory_removed_under_the_daemon_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("cache");
    let disk = open(&place);
    disk.put(&entry(1, 100)).unwrap();
    fs::remove_dir_all(&place).unwrap();
    assert!(!has(&disk, 1));
    disk.put(&entry(2, 100)).unwrap();
    assert!(has(&disk, 2));
    assert_eq!(disk.list().unwrap().len(), 1);
    drop(disk);
    assert!(has(&open(&place), 2), "signed by the key that was written again");
}

#[test]
fn other_files_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path());
    disk.put(&entry(1, 100)).unwrap();
    let shard = entry_files(root.path())[0].parent().unwrap().to_owned();
    let stranger = shard.join("README");
    fs::write(&stranger, vec![0; 2 * LIMIT as usize]).unwrap();
    assert_eq!(disk.list().unwrap().len(), 1);
    disk.prune(0).unwrap();
    assert!(stranger.exists() && entry_files(root.path()) == [stranger]);
}
