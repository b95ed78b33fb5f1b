//! What the services share: one daemon.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::sync::Notify;
use tpud_cache::Key;
use tpud_device::Device;
use tpud_proto::v1;

use crate::compile::Compiler;
use crate::config::Config;
use crate::counters::Counters;
use crate::execute::Program;
use crate::platforms::Platforms;
use crate::session::SessionTable;
use crate::sync::lock;

/// The daemon's own device, and what is loaded on it.
#[derive(Debug)]
pub(crate) struct HostedDevice {
    pub(crate) device: Arc<dyn Device>,
    /// By module key: sessions that run the same module share one loaded executable.
    loaded: Mutex<HashMap<Key, Weak<Program>>>,
}

impl HostedDevice {
    pub(crate) fn new(device: Arc<dyn Device>) -> Self {
        Self { device, loaded: Mutex::default() }
    }

    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Program>> {
        lock(&self.loaded).get(key).and_then(Weak::upgrade)
    }

    pub(crate) fn remember(&self, key: Key, program: &Arc<Program>) {
        let mut loaded = lock(&self.loaded);
        loaded.retain(|_, program| program.strong_count() > 0);
        loaded.insert(key, Arc::downgrade(program));
    }
}

/// A running daemon.
pub(crate) struct Daemon {
    pub(crate) config: Config,
    pub(crate) address: String,
    pub(crate) cache_directory: String,
    pub(crate) epoch: String,
    pub(crate) sessions: SessionTable,
    pub(crate) compiler: Arc<Compiler>,
    pub(crate) platforms: Arc<Platforms>,
    pub(crate) device: Option<HostedDevice>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) started: Instant,
    draining: AtomicBool,
    stopping: Notify,
    busy: AtomicUsize,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon")
            .field("address", &self.address)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The parts a daemon is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) address: String,
    pub(crate) cache_directory: String,
    pub(crate) epoch: String,
    pub(crate) sessions: SessionTable,
    pub(crate) compiler: Arc<Compiler>,
    pub(crate) platforms: Arc<Platforms>,
    pub(crate) device: Option<HostedDevice>,
    pub(crate) counters: Arc<Counters>,
}

/// Work that a shutdown waits for; ends when dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Daemon>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, SeqCst);
        self.0.sessions.touch();
    }
}

impl Daemon {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts {
            config,
            address,
            cache_directory,
            epoch,
            sessions,
            compiler,
            platforms,
            device,
            counters,
        } = parts;
        Arc::new(Self {
            config,
            address,
            cache_directory,
            epoch,
            sessions,
            compiler,
            platforms,
            device,
            counters,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            stopping: Notify::new(),
            busy: AtomicUsize::new(0),
        })
    }

    /// Marks work that a shutdown waits for, and that keeps the daemon from idling out.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, SeqCst);
        Busy(Arc::clone(self))
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(SeqCst) > 0
    }

    /// Begins to go down.
    pub(crate) fn stop(&self, why: &str) {
        if !self.draining.swap(true, SeqCst) {
            tracing::info!("shutting down: {why}");
            self.stopping.notify_one();
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(SeqCst)
    }

    /// Ends when the daemon begins to go down. For one waiter.
    pub(crate) async fn stopped(&self) {
        self.stopping.notified().await;
    }

    /// The devices as clients see them.
    pub(crate) fn device_infos(&self) -> Vec<v1::DeviceInfo> {
        let Some(hosted) = &self.device else { return Vec::new() };
        let info = hosted.device.info();
        vec![v1::DeviceInfo {
            id: 0,
            platform: info.platform.clone(),
            kind: info.kind.clone(),
            description: info.description.clone(),
            memory_bytes: info.memory_bytes.unwrap_or_default(),
            memory_used_bytes: self.sessions.memory_used(),
        }]
    }

    /// What the daemon is doing.
    pub(crate) fn status(&self) -> v1::StatusReply {
        let cache = self.compiler.cache.counters();
        let mut counters = self.counters.snapshot();
        counters.cache_errors += cache.tiers.iter().map(|tier| tier.errors).sum::<u64>();
        counters.quarantined += cache.disk.quarantined;
        v1::StatusReply {
            version: crate::VERSION.to_owned(),
            epoch: self.epoch.clone(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            workers: self.compiler.pool.workers(),
            queued: self.compiler.pool.queued(),
            sessions: u32::try_from(self.sessions.len()).unwrap_or(u32::MAX),
            devices: self.device_infos(),
            counters: Some(counters),
            cache_directory: self.cache_directory.clone(),
            address: self.address.clone(),
        }
    }
}
