//! The daemon's configuration: one struct, filled from defaults, then a TOML file, then variables and flags.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::address::Address;
use crate::env;

/// Everything that can be configured. Unknown fields are refused.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to listen; unset: the per-user Unix socket.
    pub address: Option<Address>,
    /// The device to execute on.
    pub device: DeviceChoice,
    /// The cache of compiled executables.
    pub cache: CacheConfig,
    /// Compile workers.
    pub workers: WorkerConfig,
    /// Sessions and what they may hold.
    pub sessions: SessionConfig,
    /// Limits on what a client may send.
    pub limits: LimitConfig,
}

/// The device that this daemon executes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// XLA's CPU plugin.
    #[default]
    Cpu,
    /// The TPU of this machine.
    Tpu,
    /// None: a compile server.
    None,
}

/// The cache of compiled executables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// The directory of the disk tier; unset: `$XDG_CACHE_HOME/tpud`, or `~/.cache/tpud`.
    pub directory: Option<PathBuf>,
    /// Bytes that the disk tier may take; 0: no disk tier.
    pub disk_bytes: u64,
    /// Bytes that the memory tier may take.
    pub memory_bytes: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { directory: None, disk_bytes: 10 << 30, memory_bytes: 256 << 20 }
    }
}

/// Compile workers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerConfig {
    /// How many may run at once; 0: half the cores, at least 1 and at most 8.
    pub count: usize,
    /// Bytes of private memory that one may take; 0: no limit.
    pub memory_bytes: u64,
    /// Jobs after which a worker is replaced by a fresh one.
    pub max_jobs: u32,
    /// Compile requests that may wait; more are refused with `QUEUE_FULL`.
    pub queue_limit: usize,
    /// The longest that one compile may take.
    pub compile_timeout_seconds: u64,
    /// Kills of workers by one graph until it is answered without trying.
    pub breaker_failures: u32,
    /// How long it is answered so.
    pub breaker_seconds: u64,
    /// Start a worker with the daemon, so that the first compile need not wait for one.
    pub prewarm: bool,
    /// The program to run as a worker; unset: this one.
    pub program: Option<PathBuf>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            count: 0,
            memory_bytes: 0,
            max_jobs: 500,
            queue_limit: 256,
            compile_timeout_seconds: 1800,
            breaker_failures: 2,
            breaker_seconds: 60,
            prewarm: true,
            program: None,
        }
    }
}

impl WorkerConfig {
    /// The number of workers with the default resolved.
    pub fn effective_count(&self) -> usize {
        match self.count {
            0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 8)),
            count => count,
        }
    }
}

/// Sessions and what they may hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionConfig {
    /// Seconds that a session lives without a sign of its client.
    pub lease_seconds: u32,
    /// Seconds without a session after which the daemon exits; 0: never. Unset: 600 on the per-user socket, where
    /// clients start a daemon by themselves, and never elsewhere.
    pub idle_timeout_seconds: Option<u64>,
    /// Device bytes that one session may hold; 0: no limit.
    pub memory_bytes: u64,
    /// Sessions at once.
    pub max_sessions: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { lease_seconds: 60, idle_timeout_seconds: None, memory_bytes: 0, max_sessions: 4096 }
    }
}

/// Limits on what a client may send.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitConfig {
    /// The largest gRPC message.
    pub max_message_bytes: usize,
}

impl Default for LimitConfig {
    fn default() -> Self {
        Self { max_message_bytes: 64 << 20 }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("configuration file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file doesn't say what a configuration can say.
    #[error("configuration file {path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{field} must be {expected}, but is {found}")]
    Value {
        /// The field, with its table.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// No place for the cache.
    #[error("no home directory to put the cache in: set {} or --cache-dir", env::CACHE_DIR)]
    NoCacheDirectory,
}

impl Config {
    /// Reads a TOML file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })
    }

    /// Refuses values that would make a daemon which can't work.
    pub fn check(&self) -> Result<(), ConfigError> {
        let at_least = |field, expected, found: u64, least: u64| {
            if found >= least {
                Ok(())
            } else {
                Err(ConfigError::Value { field, expected, found: found.to_string() })
            }
        };
        at_least("sessions.lease_seconds", "at least 1", self.sessions.lease_seconds.into(), 1)?;
        at_least("sessions.max_sessions", "at least 1", self.sessions.max_sessions as u64, 1)?;
        at_least("limits.max_message_bytes", "at least 65536", self.limits.max_message_bytes as u64, 65536)?;
        at_least("workers.max_jobs", "at least 1", self.workers.max_jobs.into(), 1)?;
        at_least("workers.queue_limit", "at least 1", self.workers.queue_limit as u64, 1)?;
        at_least("workers.breaker_failures", "at least 1", self.workers.breaker_failures.into(), 1)?;
        at_least("workers.compile_timeout_seconds", "at least 1", self.workers.compile_timeout_seconds, 1)?;
        if self.workers.count > 1024 {
            let found = self.workers.count.to_string();
            return Err(ConfigError::Value { field: "workers.count", expected: "at most 1024", found });
        }
        let least = 512 << 20;
        match self.workers.memory_bytes {
            0 => Ok(()),
            bytes => at_least("workers.memory_bytes", "0 or at least 512 MiB (536870912)", bytes, least),
        }
    }

    /// The directory of the disk cache with the default resolved.
    pub fn cache_directory(&self) -> Result<PathBuf, ConfigError> {
        if let Some(directory) = &self.cache.directory {
            return Ok(directory.clone());
        }
        let base = env::read(env::XDG_CACHE_HOME).map(PathBuf::from);
        base.or_else(|| env::read(env::HOME).map(|home| Path::new(&home).join(".cache")))
            .map(|base| base.join("tpud"))
            .ok_or(ConfigError::NoCacheDirectory)
    }

    /// How long a daemon without sessions goes on; none: for ever.
    pub fn idle_timeout(&self) -> Option<Duration> {
        let default = if self.address.is_none() { 600 } else { 0 };
        Some(self.sessions.idle_timeout_seconds.unwrap_or(default))
            .filter(|s| *s > 0)
            .map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_example_parses() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
        let mut seen = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ext| ext == "toml") {
                Config::load(&path).unwrap().check().unwrap();
                seen += 1;
            }
        }
        assert!(seen >= 2, "docs/examples has lost its examples");
    }

    #[test]
    fn the_full_example_spells_out_the_defaults() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/daemon.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = Config {
            address: Some("unix:///run/user/1000/tpud/daemon.sock".parse().unwrap()),
            cache: CacheConfig { directory: Some("/home/me/.cache/tpud".into()), ..CacheConfig::default() },
            sessions: SessionConfig { idle_timeout_seconds: Some(600), ..SessionConfig::default() },
            ..Config::default()
        };
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), expected);
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        let error = toml::from_str::<Config>("[workers]\ncuont = 3").unwrap_err().to_string();
        assert!(error.contains("cuont") && error.contains("count"), "{error}");
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        let config: Config = toml::from_str("[workers]\nmemory_bytes = 1000").unwrap();
        assert!(config.check().unwrap_err().to_string().contains("workers.memory_bytes"));
    }
}
