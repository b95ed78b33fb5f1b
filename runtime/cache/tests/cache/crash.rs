//! Killed at any moment, a writer leaves entries that are valid or absent, and no temporary files.
use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tpud_cache::{Disk, Tier};

use crate::support::{Random, entry, entry_files, files, stored_bytes, temporary_files};

const DIRECTORY: &str = "TPUD_CACHE_TEST_DIRECTORY";
const LIMIT: u64 = 2 << 20;
const ENTRIES: u64 = 24;
const ROUNDS: u64 = 30;

/// The length follows from the number, so that the reader knows what to expect.
fn length(number: u64) -> usize {
    (Random(number).below(300_000)) as usize
}

/// The child: writes, reads and evicts until it is killed.
#[test]
#[ignore = "run as a child process by `killed_while_writing`"]
fn writer() {
    let directory = PathBuf::from(env::var_os(DIRECTORY).expect("started by the other test only"));
    let disk = Disk::open(&directory, LIMIT).unwrap();
    let mut random = Random(u64::from(std::process::id()));
    loop {
        let number = random.below(ENTRIES);
        disk.put(&entry(number, length(number))).unwrap();
        disk.get(&entry(random.below(ENTRIES), 0).key()).unwrap();
    }
}

fn start(directory: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "crash::writer", "--ignored", "--nocapture"]).env(DIRECTORY, directory);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn killed_while_writing() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let mut random = Random(14);
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        // Every third time two processes write to one directory.
        let mut children: Vec<_> = (0..1 + u64::from(round % 3 == 0)).map(|_| start(root)).collect();
        wait_until_writing(root, children.len());
        thread::sleep(Duration::from_micros(random.below(30_000)));
        children.iter_mut().for_each(|child| child.kill().unwrap()); // SIGKILL
        children
            .iter_mut()
            .for_each(|child| assert_eq!(child.wait().unwrap().code(), None, "it ended by itself"));
        interrupted += temporary_files(root).len();

        let disk = Disk::open(root, LIMIT).unwrap();
        assert_eq!(temporary_files(root), Vec::<PathBuf>::new(), "round {round}");
        let report = disk.verify().unwrap();
        assert_eq!(report.quarantined, [], "round {round}");
        assert_eq!(report.checked, entry_files(root).len() as u64, "round {round}");
        for number in 0..ENTRIES {
            if let Some(found) = disk.get(&entry(number, 0).key()).unwrap() {
                assert_eq!(*found, *entry(number, length(number)), "round {round}");
            }
        }
        assert!(stored_bytes(root) <= LIMIT, "round {round}");
        disk.put(&entry(round, length(round))).unwrap();
        assert!(disk.get(&entry(round, 0).key()).unwrap().is_some());
    }
    assert!(interrupted > 0, "no kill hit a write: the test has shown nothing");
    assert_eq!(files(&root.join("v1/tmp")), Vec::<PathBuf>::new(), "the last one cleans up after itself");
}

/// Until every child holds its place in the directory and has begun.
fn wait_until_writing(root: &Path, children: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while files(&root.join("v1/tmp")).iter().filter(|file| file.ends_with("alive")).count() < children {
        assert!(Instant::now() < deadline, "the writers did not start");
        thread::sleep(Duration::from_millis(1));
    }
}
