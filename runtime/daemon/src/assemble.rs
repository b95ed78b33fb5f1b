//! Puts a daemon together from its configuration.

use std::sync::Arc;
use std::time::Duration;

use tpud_cache::Cache;
use tpud_device::{Device, PjrtDevice};
use tpud_pjrt::platform::cpu;
use tpud_pjrt::platform::tpu::{self, Role};

use crate::compile::{Compiler, OwnDevice, Platform};
use crate::config::{Config, DeviceChoice};
use crate::counters::Counters;
use crate::error::{DaemonError, Result};
use crate::platforms::Platforms;
use crate::pool::{Launch, Pool, PoolLimits};
use crate::session::{SessionTable, SharedRoot};
use crate::state::{Daemon, HostedDevice, Parts};

/// A daemon that is ready to serve.
pub(crate) async fn daemon(config: Config, address: &str) -> Result<Arc<Daemon>> {
    let device = open_device(config.device).await?;
    let (cache, cache_directory) = open_cache(&config).await?;
    let launch = launch(&config)?;
    let limits = PoolLimits {
        workers: config.workers.effective_count(),
        queue: config.workers.queue_limit,
        jobs_per_worker: config.workers.max_jobs,
        job_time: Duration::from_secs(config.workers.compile_timeout_seconds),
    };
    let pool = Arc::new(Pool::new(launch.clone(), limits)?);
    let platforms = Arc::new(Platforms::new(launch, Arc::clone(&pool)));
    if config.device == DeviceChoice::Cpu
        && let (Some(device), Ok(path)) = (&device, cpu::find())
    {
        platforms.seed(Platform::Cpu, device.info(), &path);
    }
    let counters = Arc::new(Counters::default());
    let own = OwnDevice { choice: config.device, topology: None };
    let compiler =
        Compiler::new(cache, pool, Arc::clone(&platforms), Arc::clone(&counters), own, &config.workers);
    let epoch = crate::random::token()?;
    let shared = SharedRoot::create(&epoch).map_err(|error| {
        tracing::warn!("no directory for shared memory ({error}): tensors travel inline");
    });
    Ok(Daemon::new(Parts {
        sessions: SessionTable::new(config.sessions.clone(), shared.ok()),
        config,
        address: address.to_owned(),
        cache_directory,
        epoch,
        compiler: Arc::new(compiler),
        platforms,
        device: device.map(HostedDevice::new),
        counters,
    }))
}

async fn open_device(choice: DeviceChoice) -> Result<Option<Arc<dyn Device>>> {
    let open: fn() -> tpud_device::Result<PjrtDevice> = match choice {
        DeviceChoice::None => return Ok(None),
        DeviceChoice::Cpu => PjrtDevice::open_cpu,
        DeviceChoice::Tpu => PjrtDevice::open_tpu,
    };
    let opened = tokio::task::spawn_blocking(open).await;
    let device = opened.map_err(|error| DaemonError::Panic(error.to_string()))??;
    tracing::info!("device: {} ({})", device.info().description, device.info().plugin_identity);
    Ok(Some(Arc::new(device)))
}

/// A disk that can't be used costs warmth, not the daemon.
async fn open_cache(config: &Config) -> Result<(Cache, String)> {
    let memory = config.cache.memory_bytes;
    if config.cache.disk_bytes == 0 {
        return Ok((Cache::in_memory(memory), String::new()));
    }
    let directory = config.cache_directory().map_err(|error| DaemonError::System {
        what: "finding the cache directory",
        problem: error.to_string(),
    })?;
    let settings = tpud_cache::CacheConfig {
        directory: directory.clone(),
        memory_bytes: memory,
        disk_bytes: config.cache.disk_bytes,
    };
    let opened = tokio::task::spawn_blocking(move || Cache::open(&settings)).await;
    match opened.map_err(|error| DaemonError::Panic(error.to_string()))? {
        Ok(cache) => Ok((cache, directory.display().to_string())),
        Err(error) => {
            tracing::error!("the disk cache can't be used, and nothing will be kept: {error}");
            Ok((Cache::in_memory(memory), String::new()))
        }
    }
}

fn launch(config: &Config) -> Result<Launch> {
    let program = match &config.workers.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|error| DaemonError::System {
            what: "finding this program",
            problem: error.to_string(),
        })?,
    };
    // What the operator has set stays.
    let environment = tpu::environment(Role::Compile)
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_none())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let warm = config.device == DeviceChoice::Cpu;
    Ok(Launch { program, memory_bytes: config.workers.memory_bytes, warm, environment })
}
