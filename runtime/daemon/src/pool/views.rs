//! What each worker is doing, for `tpud status`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tpud_proto::v1;

use crate::sync::lock;

/// All workers by process id.
#[derive(Debug, Default)]
pub(crate) struct Views {
    rows: Mutex<BTreeMap<u32, Option<(Instant, String)>>>,
}

impl Views {
    pub(crate) fn snapshot(&self) -> Vec<v1::WorkerStatus> {
        let rows = lock(&self.rows);
        let row = |(pid, job): (&u32, &Option<(Instant, String)>)| v1::WorkerStatus {
            pid: *pid,
            busy: job.is_some(),
            graph_key: job.as_ref().map(|(_, key)| key.clone()).unwrap_or_default(),
            busy_seconds: job.as_ref().map(|(since, _)| since.elapsed().as_secs_f64()).unwrap_or_default(),
        };
        rows.iter().map(row).collect()
    }
}

/// One worker's row, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct View {
    views: Arc<Views>,
    pid: u32,
}

impl View {
    pub(crate) fn new(views: Arc<Views>, pid: u32) -> Self {
        lock(&views.rows).insert(pid, None);
        Self { views, pid }
    }

    pub(crate) fn busy(&self, key: &str) {
        lock(&self.views.rows).insert(self.pid, Some((Instant::now(), key.to_owned())));
    }

    pub(crate) fn idle(&self) {
        lock(&self.views.rows).insert(self.pid, None);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        lock(&self.views.rows).remove(&self.pid);
    }
}
