//! What happened since the daemon started.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tpud_proto::v1;

/// One atomic per field of `tpud.v1.Counters`.
#[derive(Debug, Default)]
#[allow(missing_docs)] // the fields are documented in status.proto
pub(crate) struct Counters {
    pub compile_requests: AtomicU64,
    pub xla_compiles: AtomicU64,
    pub lowerings: AtomicU64,
    pub memory_hits: AtomicU64,
    pub disk_hits: AtomicU64,
    pub module_hits: AtomicU64,
    pub shared: AtomicU64,
    pub worker_deaths: AtomicU64,
    pub compile_errors: AtomicU64,
    pub executions: AtomicU64,
    pub cache_errors: AtomicU64,
    pub quarantined: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    /// The counters as they are now.
    pub(crate) fn snapshot(&self) -> v1::Counters {
        v1::Counters {
            compile_requests: self.compile_requests.load(Relaxed),
            xla_compiles: self.xla_compiles.load(Relaxed),
            lowerings: self.lowerings.load(Relaxed),
            memory_hits: self.memory_hits.load(Relaxed),
            disk_hits: self.disk_hits.load(Relaxed),
            module_hits: self.module_hits.load(Relaxed),
            shared: self.shared.load(Relaxed),
            worker_deaths: self.worker_deaths.load(Relaxed),
            compile_errors: self.compile_errors.load(Relaxed),
            executions: self.executions.load(Relaxed),
            cache_errors: self.cache_errors.load(Relaxed),
            quarantined: self.quarantined.load(Relaxed),
        }
    }
}
