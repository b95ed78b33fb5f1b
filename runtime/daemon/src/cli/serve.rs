//! `tpud serve`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use tpud_pjrt::platform::{cpu, tpu};

use super::failure::Failure;
use super::log_to_stderr;
use crate::address::Address;
use crate::config::{Config, DeviceChoice};
use crate::{Served, env};

/// Flags win over variables, and those over the file.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// A configuration file (TOML).
    #[arg(long, env = env::CONFIG)]
    config: Option<PathBuf>,
    /// Where to listen: unix:///path or http://127.0.0.1:port; default: the per-user socket.
    #[arg(long, env = env::ADDRESS)]
    address: Option<Address>,
    /// The disk cache's directory.
    #[arg(long, env = env::CACHE_DIR, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Bytes that the disk cache may take; 0: no disk cache.
    #[arg(long, env = env::CACHE_DISK_BYTES, value_name = "BYTES")]
    cache_disk_bytes: Option<u64>,
    /// Bytes that the memory cache may take.
    #[arg(long, env = env::CACHE_MEMORY_BYTES, value_name = "BYTES")]
    cache_memory_bytes: Option<u64>,
    /// The device to execute on; none: a compile server.
    #[arg(long, env = env::DEVICE)]
    device: Option<DeviceChoice>,
    /// Compile workers at once; 0: half the cores, 1 to 8.
    #[arg(long, env = env::WORKERS, value_name = "N")]
    workers: Option<usize>,
    /// Bytes of private memory that one worker may take; 0: no limit.
    #[arg(long, env = env::WORKER_MEMORY_BYTES, value_name = "BYTES")]
    worker_memory_bytes: Option<u64>,
    /// Compile requests that may wait for a worker.
    #[arg(long, env = env::QUEUE_LIMIT, value_name = "N")]
    queue_limit: Option<usize>,
    /// The longest that one compile may take.
    #[arg(long, env = env::COMPILE_TIMEOUT, value_name = "SECONDS")]
    compile_timeout: Option<u64>,
    /// Exit after so long without a session; 0: never; default: 600 on the per-user socket, else never.
    #[arg(long, env = env::IDLE_TIMEOUT, value_name = "SECONDS")]
    idle_timeout: Option<u64>,
    /// How long a session lives without a sign of its client.
    #[arg(long, env = env::LEASE, value_name = "SECONDS")]
    lease: Option<u32>,
    /// Device memory that one session may hold; 0: no limit.
    #[arg(long, env = env::SESSION_MEMORY_BYTES, value_name = "BYTES")]
    session_memory_bytes: Option<u64>,
    /// The largest message that is accepted.
    #[arg(long, env = env::MAX_MESSAGE_BYTES, value_name = "BYTES")]
    max_message_bytes: Option<usize>,
    /// Leave the terminal and session of whoever started it.
    #[arg(long, hide = true)]
    detach: bool,
}

impl ServeArgs {
    fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        fn set<T: Clone>(field: &mut T, given: &Option<T>) {
            if let Some(given) = given {
                field.clone_from(given);
            }
        }
        config.address = self.address.clone().or(config.address);
        config.cache.directory = self.cache_dir.clone().or(config.cache.directory);
        set(&mut config.cache.disk_bytes, &self.cache_disk_bytes);
        set(&mut config.cache.memory_bytes, &self.cache_memory_bytes);
        set(&mut config.device, &self.device);
        set(&mut config.workers.count, &self.workers);
        set(&mut config.workers.memory_bytes, &self.worker_memory_bytes);
        set(&mut config.workers.queue_limit, &self.queue_limit);
        set(&mut config.workers.compile_timeout_seconds, &self.compile_timeout);
        config.sessions.idle_timeout_seconds = self.idle_timeout.or(config.sessions.idle_timeout_seconds);
        set(&mut config.sessions.lease_seconds, &self.lease);
        set(&mut config.sessions.memory_bytes, &self.session_memory_bytes);
        set(&mut config.limits.max_message_bytes, &self.max_message_bytes);
        config.check()?;
        Ok(config)
    }
}

/// Serves until told to stop.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    if args.detach {
        // Fails only for the leader of a group, who has no terminal to lose that way.
        let _ = rustix::process::setsid();
    }
    log_to_stderr("info");
    let config = args.config()?;
    set_plugin_environment(config.device)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(crate::serve(config));
    // A compile that was given up must not hold the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    if served? == Served::ByAnother {
        tracing::info!("another daemon serves this address");
    }
    Ok(())
}

/// Plugins read variables when they are loaded, and a process with threads must not change its own. So this one
/// becomes the same program again, with the variables set, unless they are already.
fn set_plugin_environment(device: DeviceChoice) -> Result<(), Failure> {
    let mut missing = match device {
        DeviceChoice::None => return Ok(()),
        DeviceChoice::Cpu => cpu::environment(),
        DeviceChoice::Tpu => tpu::environment(tpu::Role::Execute),
    };
    missing.retain(|(name, _)| std::env::var_os(name).is_none());
    if missing.is_empty() {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    Err(again.args(std::env::args_os().skip(1)).envs(missing).exec().into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    #[test]
    fn flags_win_over_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("daemon.toml");
        std::fs::write(&path, "device = \"none\"\n[workers]\ncount = 3\nqueue_limit = 9\n").unwrap();
        let line = Line::parse_from(["tpud", "--config", path.to_str().unwrap(), "--workers", "5"]);
        let config = line.serve.config().unwrap();
        assert_eq!(
            (config.device, config.workers.count, config.workers.queue_limit),
            (DeviceChoice::None, 5, 9)
        );
    }
}
