//! The path of a graph through keys, cache, queue and worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use tpud_cache::{
    Cache, Entry, FlightError, GraphKeyParts, GraphRecord, Hit, KeyMaterial, ModuleKeyParts, ModuleRecord,
    SingleFlight, Target,
};
use tpud_proto::v1::{self, CacheOutcome, compile_progress::Stage};

use super::options;
use super::progress::Progress;
use super::records::{GraphMetadata, ModuleReport};
use super::target::{OwnDevice, ResolvedTarget};
use crate::counters::{Counters, count};
use crate::error::{DaemonError, Result};
use crate::platforms::Platforms;
use crate::pool::{Breaker, Pool, PoolError, Ticket};

/// A request whose options hold, with its key.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) graph: Bytes,
    pub(crate) options: v1::CompileOptions,
    pub(crate) target: ResolvedTarget,
    plugin: String,
    pub(crate) key: KeyMaterial,
}

impl Prepared {
    /// The identity of the plugin that compiles it.
    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }
}

/// An executable and all that is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) graph_key: KeyMaterial,
    pub(crate) module_key: KeyMaterial,
    pub(crate) outcome: CacheOutcome,
    pub(crate) metadata: GraphMetadata,
    pub(crate) report: ModuleReport,
    pub(crate) executable: Bytes,
    pub(crate) timings: v1::Timings,
}

type Shared = Result<Arc<Compiled>>;

/// Compiles graphs.
pub(crate) struct Compiler {
    pub(crate) cache: Cache,
    pub(crate) pool: Arc<Pool>,
    platforms: Arc<Platforms>,
    counters: Arc<Counters>,
    breaker: Breaker,
    breaker_seconds: u64,
    flights: SingleFlight<Shared>,
    own: OwnDevice,
}

impl Compiler {
    pub(crate) fn new(
        cache: Cache,
        pool: Arc<Pool>,
        platforms: Arc<Platforms>,
        counters: Arc<Counters>,
        own: OwnDevice,
        config: &crate::config::WorkerConfig,
    ) -> Self {
        let breaker = Breaker::new(config.breaker_failures, Duration::from_secs(config.breaker_seconds));
        let breaker_seconds = config.breaker_seconds;
        let flights = SingleFlight::new();
        Self { cache, pool, platforms, counters, breaker, breaker_seconds, flights, own }
    }

    /// Checks options and graph bytes, resolves the target, and derives the graph key.
    pub(crate) async fn prepare(&self, graph: Bytes, mut options: v1::CompileOptions) -> Result<Prepared> {
        options::check(&options)?;
        let target = ResolvedTarget::resolve(options.target.as_ref(), &self.own)?;
        options.target = Some(target.to_proto());
        options::check_emulation(&options, target.platform)?;
        options::add_defaults(&mut options, target.platform);
        let precision = options::precision(&options)?;
        options.precision = precision.into();
        let plugin = self.platforms.identity(target.platform).await?;
        // Decoding tens of thousands of nodes takes milliseconds, which other requests shall not wait for.
        let bytes = graph.clone();
        let canonical = tokio::task::spawn_blocking(move || tpud_graph::canonical_bytes(&bytes));
        let canonical = canonical.await.map_err(|error| DaemonError::Panic(error.to_string()))??;
        let device_kind = target.device_kind();
        let key = GraphKeyParts {
            graph: &canonical,
            bucket: &[],
            padding: "none",
            precision: options::precision_name(precision),
            emulation: options.emulate_tpu_precision,
            checks: options.checks,
            xla_flags: &options::flag_texts(&options),
            lowering: &tpud_lowering::LOWERING_VERSION.to_string(),
            target: key_target(&target, &device_kind, &plugin),
        }
        .material();
        Ok(Prepared { graph, options, target, plugin, key })
    }

    /// The executable of a graph, from wherever it is had fastest.
    pub(crate) async fn compile(self: &Arc<Self>, prepared: &Prepared, progress: &Arc<Progress>) -> Shared {
        if let Some(found) = self.lookup(&prepared.key).await {
            return Ok(Arc::new(found));
        }
        let key = prepared.key.key();
        let started = Instant::now();
        let flight = self.flights.run(key, || {
            let (compiler, prepared, progress) = (Arc::clone(self), prepared.clone(), Arc::clone(progress));
            async move { compiler.produce(prepared, progress).await.map(Arc::new) }
        });
        let flight = flight.await.map_err(|error| match error {
            FlightError::Panicked { message } => DaemonError::Panic(message),
            FlightError::Stopped => DaemonError::ShuttingDown,
        })?;
        let compiled = flight.value?;
        if flight.led {
            return Ok(compiled);
        }
        count(&self.counters.shared);
        let timings = v1::Timings { queue_seconds: started.elapsed().as_secs_f64(), ..Default::default() };
        Ok(Arc::new(Compiled { outcome: CacheOutcome::Shared, timings, ..Compiled::clone(&compiled) }))
    }

    /// Only the module of a graph, as text.
    pub(crate) async fn lower_only(
        self: &Arc<Self>,
        graph: Vec<u8>,
        options: v1::CompileOptions,
    ) -> Result<v1::LowerReply> {
        let prepared = self.prepare(graph.into(), options).await?;
        self.check_breaker(&prepared.key)?;
        let ticket = Arc::new(self.pool.enter()?);
        let key = prepared.key.key().to_string();
        let mut job = self.pool.take(ticket, &key).await?;
        let lowered = job.lower(prepared.graph.to_vec(), prepared.options.clone(), true).await;
        let lowered = lowered.map_err(|error| self.failed(&key, error))?;
        count(&self.counters.lowerings);
        Ok(v1::LowerReply {
            module_digest: tpud_cache::fingerprint::hex(&tpud_cache::fingerprint::digest(&lowered.module)),
            module_bytes: lowered.module.len() as u64,
            text: lowered.text,
        })
    }

    /// Forgets an executable that turned out not to load.
    pub(crate) async fn discard(&self, compiled: &Compiled) {
        count(&self.counters.quarantined);
        self.cache.remove(&compiled.graph_key.key()).await;
        self.cache.remove(&compiled.module_key.key()).await;
    }

    async fn lookup(&self, key: &KeyMaterial) -> Option<Compiled> {
        let started = Instant::now();
        let hit = self.cache.get(key).await?;
        let record = GraphRecord::decode(hit.entry.payload()).ok()?;
        let metadata = GraphMetadata::decode(record.metadata).ok()?;
        let module = self.cache.get_by_key(&record.module_key).await?;
        let from_disk = hit.tier != "memory" || module.tier != "memory";
        let (outcome, counter) = match from_disk {
            false => (CacheOutcome::MemoryHit, &self.counters.memory_hits),
            true => (CacheOutcome::DiskHit, &self.counters.disk_hits),
        };
        let found = from_module(&module, key.clone(), outcome, metadata)?;
        count(counter);
        let total_seconds = started.elapsed().as_secs_f64();
        Some(Compiled { timings: v1::Timings { total_seconds, ..Default::default() }, ..found })
    }

    fn check_breaker(&self, key: &KeyMaterial) -> Result<()> {
        match self.breaker.check(&key.key().to_string()) {
            Some((failures, last)) => {
                Err(DaemonError::Breaker { failures, seconds: self.breaker_seconds, last: Box::new(last) })
            }
            None => Ok(()),
        }
    }

    /// Runs a worker; the caller is the only one for this key.
    async fn produce(self: Arc<Self>, prepared: Prepared, progress: Arc<Progress>) -> Result<Compiled> {
        // Another flight may have landed between the look-up and this one.
        if let Some(found) = self.lookup(&prepared.key).await {
            return Ok(found);
        }
        self.check_breaker(&prepared.key)?;
        let started = Instant::now();
        let ticket = Arc::new(self.pool.enter()?);
        progress.queue(&ticket);
        let key = prepared.key.key().to_string();
        let produced = self.work(&prepared, ticket, &key, &progress, started).await;
        match produced {
            Ok(compiled) => {
                self.breaker.succeeded(&key);
                Ok(compiled)
            }
            Err(error) => {
                count(&self.counters.compile_errors);
                Err(self.failed(&key, error))
            }
        }
    }

    /// Counts a death against its graph.
    fn failed(&self, key: &str, error: PoolError) -> DaemonError {
        let killed = matches!(error, PoolError::Died { .. } | PoolError::TimedOut { .. });
        let error = DaemonError::from(error);
        if killed {
            count(&self.counters.worker_deaths);
            self.breaker.failed(key, v1::Error::from(&error));
        }
        error
    }

    async fn work(
        &self,
        prepared: &Prepared,
        ticket: Arc<Ticket>,
        key: &str,
        progress: &Progress,
        started: Instant,
    ) -> Result<Compiled, PoolError> {
        let mut job = self.pool.take(ticket, key).await?;
        let mut timings =
            v1::Timings { queue_seconds: started.elapsed().as_secs_f64(), ..Default::default() };
        progress.enter(Stage::Lowering);
        let lowered = job.lower(prepared.graph.to_vec(), prepared.options.clone(), false).await?;
        count(&self.counters.lowerings);
        (timings.lower_seconds, timings.serialize_seconds) =
            (lowered.lower_seconds, lowered.serialize_seconds);
        let module_key = module_key(prepared, &lowered.module);
        let metadata = GraphMetadata {
            module_bytes: lowered.module.len() as u64,
            signature: lowered.signature,
            ops: lowered.ops,
            checks: lowered.checks,
        };
        let record = GraphRecord { module_key: module_key.key(), metadata: metadata.encode_to_vec().into() };
        let record = Entry::new(prepared.key.clone(), record.encode());
        let known = match self.cache.get(&module_key).await {
            Some(hit) => from_module(&hit, prepared.key.clone(), CacheOutcome::ModuleHit, metadata.clone()),
            None => None,
        };
        if let Some(known) = known {
            job.skip_compile().await?;
            count(&self.counters.module_hits);
            self.cache.put(record).await;
            timings.total_seconds = started.elapsed().as_secs_f64();
            return Ok(Compiled { timings, ..known });
        }
        progress.enter(Stage::Compiling);
        let made = job.compile().await?;
        count(&self.counters.xla_compiles);
        timings.compile_seconds = made.compile_seconds;
        let report = ModuleReport { memory: made.memory, cost: made.cost };
        let executable = Bytes::from(made.executable);
        let stored = ModuleRecord { executable: executable.clone(), report: report.encode_to_vec().into() };
        self.cache.put(Entry::new(module_key.clone(), stored.encode())).await;
        self.cache.put(record).await; // last: it refers to the other
        timings.total_seconds = started.elapsed().as_secs_f64();
        let (graph_key, outcome) = (prepared.key.clone(), CacheOutcome::Compiled);
        Ok(Compiled { graph_key, module_key, outcome, metadata, report, executable, timings })
    }
}

fn key_target<'a>(target: &'a ResolvedTarget, device_kind: &'a str, plugin: &'a str) -> Target<'a> {
    Target { platform: target.platform.name(), topology: &target.topology, device_kind, plugin }
}

fn module_key(prepared: &Prepared, module: &[u8]) -> KeyMaterial {
    let device_kind = prepared.target.device_kind();
    ModuleKeyParts {
        module,
        compile_options: &options::for_xla(&prepared.options, &prepared.target).encode(),
        target: key_target(&prepared.target, &device_kind, &prepared.plugin),
    }
    .material()
}

/// Puts an answer together from a stored module.
fn from_module(
    hit: &Hit,
    graph_key: KeyMaterial,
    outcome: CacheOutcome,
    metadata: GraphMetadata,
) -> Option<Compiled> {
    let record = ModuleRecord::decode(hit.entry.payload()).ok()?;
    let report = ModuleReport::decode(record.report).ok()?;
    let (module_key, executable) = (hit.entry.material().clone(), record.executable);
    Some(Compiled {
        graph_key,
        module_key,
        outcome,
        metadata,
        report,
        executable,
        timings: v1::Timings::default(),
    })
}
