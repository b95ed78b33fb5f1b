//! Compiling for the daemon's own device, and loading the result under a session's handle.

use std::sync::Arc;
use std::time::Instant;

use tpud_proto::v1::{CacheOutcome, compile_progress::Stage};

use super::compiler::{Compiled, Prepared};
use super::progress::Progress;
use crate::error::{DaemonError, Result};
use crate::execute::Program;
use crate::session::Session;
use crate::state::{Daemon, HostedDevice};

/// Gives the compiled graph and the seconds that loading took.
pub(crate) async fn compile_and_load(
    daemon: &Daemon,
    prepared: &Prepared,
    session: &Session,
    handle: u64,
    progress: &Arc<Progress>,
) -> Result<(Arc<Compiled>, f64)> {
    let device = daemon.device.as_ref().ok_or(DaemonError::NoDevice)?;
    check_device(prepared, device)?;
    let mut compiled = daemon.compiler.compile(prepared, progress).await?;
    let started = Instant::now();
    progress.enter(Stage::Loading);
    let program = match load(device, &compiled).await {
        Ok(program) => program,
        // What was stored does not load: it is made anew, once.
        Err(error) if compiled.outcome != CacheOutcome::Compiled => {
            tracing::warn!(key = %compiled.module_key.key(), "a cached executable does not load ({error}): compiled again");
            daemon.compiler.discard(&compiled).await;
            compiled = daemon.compiler.compile(prepared, progress).await?;
            load(device, &compiled).await?
        }
        Err(error) => return Err(error),
    };
    session.executables.insert(handle, program)?;
    Ok((compiled, started.elapsed().as_secs_f64()))
}

fn check_device(prepared: &Prepared, device: &HostedDevice) -> Result<()> {
    let info = device.device.info();
    if prepared.target.platform.name() != info.platform {
        return Err(DaemonError::TargetMismatch {
            target: prepared.target.to_string(),
            device: format!("{} {}", info.platform, info.kind),
        });
    }
    if prepared.plugin() != info.plugin_identity {
        return Err(DaemonError::TargetMismatch {
            target: format!("{} by {}", prepared.target, prepared.plugin()),
            device: format!("{}: the plugin was replaced, start the daemon anew", info.plugin_identity),
        });
    }
    Ok(())
}

/// Loads an executable, or shares the one that is loaded already.
async fn load(device: &HostedDevice, compiled: &Compiled) -> Result<Arc<Program>> {
    let key = compiled.module_key.key();
    if let Some(program) = device.find(&key) {
        return Ok(program);
    }
    let (on, bytes) = (Arc::clone(&device.device), compiled.executable.clone());
    let loading = tokio::task::spawn_blocking(move || on.load(&bytes));
    let loaded = loading.await.map_err(|error| DaemonError::Panic(error.to_string()))??;
    let program = Arc::new(Program::new(loaded));
    device.remember(key, &program);
    Ok(program)
}
