//! A full disk: entries are served from memory, one counter tells, and caching resumes when there is room.
//!
//! A file size limit stands in for the full disk, since it needs no privileges: writing fails in the middle of a file.
use std::{
    env,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tpud_cache::{Cache, CacheConfig, Disk, Tier};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::support::{entry, stored_bytes, temporary_files};

const DIRECTORY: &str = "TPUD_CACHE_TEST_DIRECTORY";
const LARGE: usize = 1 << 20;
const FAILING: u64 = 20;

#[test]
fn a_full_disk_fails_nothing_and_caching_resumes() {
    let root = tempfile::tempdir().unwrap();
    // The shell ignores SIGXFSZ for what it starts, so that a write over the limit is an error, not a death.
    let mut child = Command::new("sh");
    child.args(["-c", r#"trap "" XFSZ; exec "$0" --exact full::child --ignored --nocapture"#]);
    child.arg0("sh").arg(env::current_exe().unwrap()).env(DIRECTORY, root.path());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "the child ran no test: {text}");
    let disk = Disk::open(root.path(), 64 << 20).unwrap();
    assert_eq!(disk.get(&entry(100, 0).key()).unwrap().as_deref(), Some(&*entry(100, LARGE)));
}

#[tokio::test]
#[ignore = "run as a child process by `a_full_disk_fails_nothing_and_caching_resumes`"]
async fn child() {
    let root = PathBuf::from(env::var_os(DIRECTORY).expect("started by the other test only"));
    let warnings = Arc::new(AtomicU64::new(0));
    tracing::subscriber::set_global_default(CountWarnings(Arc::clone(&warnings))).unwrap();
    let config = CacheConfig { directory: root.clone(), memory_bytes: 64 << 20, disk_bytes: 4 << 20 };
    let cache = Cache::open(&config).unwrap();
    let disk_counters = || cache.counters().tiers[1];

    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(100_000), ..before }).unwrap();
    for number in 0..FAILING {
        cache.put((*entry(number, LARGE)).clone()).await;
        let hit = cache.get(entry(number, 0).material()).await.expect("memory has it");
        assert_eq!((hit.tier, hit.entry.payload().len()), ("memory", LARGE));
    }
    assert_eq!((disk_counters().errors, disk_counters().puts), (FAILING, 0));
    assert_eq!(warnings.load(SeqCst), 1, "one log line, not one each");
    assert!(temporary_files(&root).is_empty(), "what was half-written is removed at once");
    assert_eq!(cache.counters().disk.bytes, 0);

    setrlimit(Resource::Fsize, before).unwrap();
    cache.put((*entry(100, LARGE)).clone()).await;
    cache.put((*entry(101, LARGE)).clone()).await;
    assert_eq!((disk_counters().errors, disk_counters().puts), (FAILING, 2));
    assert!(stored_bytes(&root) > 2 * LARGE as u64, "no room stays reserved for what was never written");
}

/// Counts warnings of the cache; takes nothing else.
struct CountWarnings(Arc<AtomicU64>);

impl Subscriber for CountWarnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tpud_cache") && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, SeqCst);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
