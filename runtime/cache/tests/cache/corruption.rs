//! Broken entries and keys: noticed, a miss, put aside, rebuilt.
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use tpud_cache::{CacheError, Disk, Tier};

use crate::support::{entry, entry_files, files, open};

const LIMIT: u64 = 1 << 20;

fn file_of(root: &Path, number: u64) -> PathBuf {
    let hex = entry(number, 0).key().to_string();
    root.join("v1/entries").join(&hex[..2]).join(&hex[2..])
}

/// Two entries of one length, A (1) and B (2); does `damage` to their bytes; A then has to be a miss.
fn assert_noticed(name: &str, damage: impl Fn(&mut Vec<u8>, &mut Vec<u8>)) {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let disk = Disk::open(root, LIMIT).unwrap();
    disk.put(&entry(1, 5_000)).unwrap();
    disk.put(&entry(2, 5_000)).unwrap();
    let (a_file, b_file) = (file_of(root, 1), file_of(root, 2));
    let (mut a, mut b) = (fs::read(&a_file).unwrap(), fs::read(&b_file).unwrap());
    damage(&mut a, &mut b);
    fs::write(&a_file, &a).unwrap();
    fs::write(&b_file, &b).unwrap();
    let key = entry(1, 0).key();
    assert!(matches!(disk.get(&key), Err(CacheError::Corrupt { .. })), "{name}");
    assert!(!a_file.exists(), "{name}: still in place");
    let kept = files(&root.join("v1/quarantine"));
    assert_eq!(kept.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>(), [a], "{name}");
    assert_eq!(disk.counters().quarantined, 1, "{name}");
    assert!(disk.get(&key).unwrap().is_none(), "{name}: a plain miss from now on");
    disk.put(&entry(1, 5_000)).unwrap();
    assert_eq!(disk.get(&key).unwrap().as_deref(), Some(&*entry(1, 5_000)), "{name}: not rebuilt");
}

#[test]
fn truncation() {
    assert_noticed("empty", |a, _| a.clear());
    assert_noticed("1 byte", |a, _| a.truncate(1));
    assert_noticed("half", |a, _| a.truncate(a.len() / 2));
    assert_noticed("-1 byte", |a, _| a.truncate(a.len() - 1));
    assert_noticed("+1 byte", |a, _| a.push(0));
}

#[test]
fn sixty_four_spread_bit_flips() {
    for flip in 0..64 {
        assert_noticed(&format!("flip {flip}"), |a, _| {
            let bit = flip * (a.len() * 8 - 1) / 63;
            a[bit / 8] ^= 1 << (bit % 8);
        });
    }
}

#[test]
fn swaps() {
    assert_noticed("whole entries", std::mem::swap);
    assert_noticed("payloads", |a, b| {
        let at = a.len() - 5_000;
        a[at..].swap_with_slice(&mut b[at..]);
    });
    assert_noticed("metadata", |a, b| {
        let at = a.len() - 5_000;
        a[..at].swap_with_slice(&mut b[..at]);
    });
    assert_noticed("checksums", |a, b| a[24..56].swap_with_slice(&mut b[24..56]));
    assert_noticed("signatures", |a, b| a[56..88].swap_with_slice(&mut b[56..88]));
}

#[test]
fn a_claimed_length_beyond_the_first_read() {
    // A large entry goes through the path that checks the header before it takes the memory.
    let root = tempfile::tempdir().unwrap();
    let disk = Disk::open(root.path(), LIMIT).unwrap();
    for (damage, size) in [("sparse tail", 1 << 40), ("cut", 100_000)] {
        disk.put(&entry(1, 300_000)).unwrap();
        assert_eq!(disk.get(&entry(1, 0).key()).unwrap().as_deref(), Some(&*entry(1, 300_000)));
        let file = fs::OpenOptions::new().write(true).open(file_of(root.path(), 1)).unwrap();
        file.set_len(size).unwrap();
        assert!(matches!(disk.get(&entry(1, 0).key()), Err(CacheError::Corrupt { .. })), "{damage}");
    }
}

#[test]
fn an_entry_signed_by_another_cache() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Disk::open(theirs.path(), LIMIT).unwrap().put(&entry(1, 100)).unwrap();
    let disk = Disk::open(ours.path(), LIMIT).unwrap();
    let place = file_of(ours.path(), 1);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(file_of(theirs.path(), 1), place).unwrap();
    assert!(matches!(disk.get(&entry(1, 0).key()), Err(CacheError::Corrupt { .. })));
    assert_eq!(disk.counters().quarantined, 1);
}

#[test]
fn a_link_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let disk = Disk::open(root.path(), LIMIT).unwrap();
    disk.put(&entry(1, 100)).unwrap();
    let (place, elsewhere) = (file_of(root.path(), 1), root.path().join("elsewhere"));
    fs::rename(&place, &elsewhere).unwrap();
    symlink(&elsewhere, &place).unwrap();
    assert!(matches!(disk.get(&entry(1, 0).key()), Err(CacheError::Io { .. })));
    disk.put(&entry(1, 100)).unwrap();
    assert!(disk.get(&entry(1, 0).key()).unwrap().is_some(), "the link was replaced");
}

#[test]
fn the_quarantine_stays_small() {
    let root = tempfile::tempdir().unwrap();
    let disk = Disk::open(root.path(), LIMIT).unwrap();
    for number in 0..40 {
        disk.put(&entry(number, 10)).unwrap();
        fs::write(file_of(root.path(), number), b"nonsense").unwrap();
    }
    let report = disk.verify().unwrap();
    assert_eq!((report.checked, report.quarantined.len()), (40, 40));
    assert_eq!(files(&root.path().join("v1/quarantine")).len(), 32);
    assert_eq!(entry_files(root.path()).len(), 0);
}

#[test]
fn the_signing_key_is_private_and_one_that_is_not_is_refused() {
    let root = tempfile::tempdir().unwrap();
    drop(Disk::open(root.path(), LIMIT).unwrap());
    let key = root.path().join("signing-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = fs::read(&key).unwrap();
    assert_eq!(secret.len(), 32);
    assert_ne!(secret, [0; 32]);
    let refused = |reason: &str| match Disk::open(root.path(), LIMIT).err() {
        Some(CacheError::SigningKey { reason: found, .. }) => assert!(found.contains(reason), "{found}"),
        other => panic!("{other:?}"),
    };
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    refused("mode 640");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, b"short").unwrap();
    refused("5 bytes");
}

#[tokio::test]
async fn verify_finds_what_is_broken_and_memory_heals_it() {
    let root = tempfile::tempdir().unwrap();
    let cache = open(root.path());
    for number in 0..6 {
        cache.put((*entry(number, 1_000)).clone()).await;
    }
    fs::write(file_of(root.path(), 3), b"").unwrap();
    let report = cache.verify().await.unwrap();
    assert_eq!((report.checked, report.quarantined), (6, vec![entry(3, 0).key()]));
    assert_eq!(cache.verify().await.unwrap().quarantined, [], "written again from memory");
    assert_eq!(entry_files(root.path()).len(), 6);
    // Without a copy in memory it is gone, and said to be.
    fs::write(file_of(root.path(), 4), b"").unwrap();
    let cold = open(root.path());
    assert_eq!(cold.verify().await.unwrap().quarantined, [entry(4, 0).key()]);
    assert!(cold.get(entry(4, 0).material()).await.is_none());
}
