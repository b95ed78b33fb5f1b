//! What this machine can compile for. The daemon itself loads no compiler: a child process looks, once per plugin.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use tokio::process::Command;
use tokio::sync::Mutex as AsyncMutex;
use tpud_device::DeviceInfo;
use tpud_proto::v1;

use crate::compile::Platform;
use crate::error::{DaemonError, Result};
use crate::pool::{Launch, Pool};
use crate::sync::lock;

/// What the child says.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Probe {
    #[prost(message, optional, tag = "1")]
    pub(crate) info: Option<v1::PlatformInfo>,
    /// The plugin's identity with its content: a component of keys. Empty when there is an error.
    #[prost(string, tag = "2")]
    pub(crate) identity: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) error: Option<v1::Error>,
}

/// A probe, and what the plugin's file looked like.
#[derive(Clone, Debug)]
struct Known {
    probe: Probe,
    stamp: Option<Stamp>,
}

/// Changes when a file does: device, inode, size, time of change.
type Stamp = (u64, u64, u64, i64, i64);

/// All platforms, probed when first asked for.
#[derive(Debug)]
pub(crate) struct Platforms {
    launch: Launch,
    pool: Arc<Pool>,
    known: Mutex<BTreeMap<Platform, Known>>,
    probing: AsyncMutex<()>,
}

impl Platforms {
    /// `pool` has the workers that must go when a plugin is replaced.
    pub(crate) fn new(launch: Launch, pool: Arc<Pool>) -> Self {
        Self { launch, pool, known: Mutex::default(), probing: AsyncMutex::new(()) }
    }

    /// Takes over what a device of ours knows of its plugin, which was found at `path`.
    pub(crate) fn seed(&self, platform: Platform, info: &DeviceInfo, path: &Path) {
        let identity = info.plugin_identity.clone();
        let info = v1::PlatformInfo {
            platform: platform.name().to_owned(),
            available: true,
            plugin_path: path.display().to_string(),
            // Without the digest of its content, which is for keys.
            plugin_identity: info.plugin_identity.rsplit_once(", ").map_or("", |(name, _)| name).to_owned(),
            ..v1::PlatformInfo::default()
        };
        let probe = Probe { info: Some(info), identity, error: None };
        lock(&self.known).insert(platform, Known { probe, stamp: stamp(path) });
    }

    /// The identity of a platform's plugin, or why there is none.
    pub(crate) async fn identity(&self, platform: Platform) -> Result<String> {
        let probe = self.probe(platform).await?;
        match probe.error {
            Some(error) => Err(DaemonError::Pool(crate::pool::PoolError::Job(Box::new(error)))),
            None => Ok(probe.identity),
        }
    }

    /// Every platform, available or not.
    pub(crate) async fn infos(&self) -> Vec<v1::PlatformInfo> {
        let mut infos = Vec::new();
        for platform in Platform::ALL {
            infos.push(match self.probe(platform).await {
                Ok(probe) => probe.info.unwrap_or_default(),
                Err(error) => v1::PlatformInfo {
                    platform: platform.name().to_owned(),
                    detail: error.to_string(),
                    ..v1::PlatformInfo::default()
                },
            });
        }
        infos
    }

    async fn probe(&self, platform: Platform) -> Result<Probe> {
        if let Some(probe) = self.remembered(platform) {
            return Ok(probe);
        }
        let _one_at_a_time = self.probing.lock().await;
        if let Some(probe) = self.remembered(platform) {
            return Ok(probe);
        }
        let probe = ask(&self.launch, platform).await?;
        let path = probe.info.as_ref().map(|info| info.plugin_path.clone()).unwrap_or_default();
        let stamp = stamp(Path::new(&path));
        if probe.error.is_none() {
            // A missing plugin may be installed at any moment, so only what was found is remembered.
            if lock(&self.known).insert(platform, Known { probe: probe.clone(), stamp }).is_some() {
                tracing::warn!("the {} plugin was replaced: workers start anew", platform.name());
                self.pool.renew();
            }
        }
        Ok(probe)
    }

    /// What is known, unless the plugin's file was replaced since.
    fn remembered(&self, platform: Platform) -> Option<Probe> {
        let known = lock(&self.known).get(&platform).cloned()?;
        let path = known.probe.info.as_ref().map(|info| info.plugin_path.as_str()).unwrap_or_default();
        (stamp(Path::new(path)) == known.stamp).then_some(known.probe)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()))
}

async fn ask(launch: &Launch, platform: Platform) -> Result<Probe> {
    let failed = |problem: String| DaemonError::System { what: "looking for a plugin", problem };
    let mut command = Command::new(&launch.program);
    command
        .args(["worker", "--probe", platform.name()])
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await;
    let output =
        output.map_err(|_| failed(format!("the {} plugin did not load within 60 s", platform.name())))?;
    let output = output.map_err(|error| failed(format!("{}: {error}", launch.program.display())))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        let tail = log.lines().rev().take(5).collect::<Vec<_>>().join(" / ");
        return Err(failed(format!(
            "the {} plugin ended its process ({}): {tail}",
            platform.name(),
            output.status
        )));
    }
    Probe::decode(output.stdout.as_slice()).map_err(|error| failed(error.to_string()))
}
