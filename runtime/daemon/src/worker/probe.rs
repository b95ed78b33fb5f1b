//! `tpud worker --probe`: which plugin a platform has, told by a process that may fail at it.

use std::io::Write;

use prost::Message;
use tpud_pjrt::Error;
use tpud_pjrt::platform::{cpu, tpu};
use tpud_proto::v1;

use crate::compile::Platform;
use crate::error::DaemonError;
use crate::platforms::Probe;

/// Writes a [`Probe`] and ends.
pub(super) fn run(platform: &str, mut output: std::fs::File) -> anyhow::Result<()> {
    let platform = Platform::parse(platform)?;
    let probe = match look(platform) {
        Ok(probe) => probe,
        Err(error) => Probe {
            info: Some(v1::PlatformInfo {
                platform: platform.name().to_owned(),
                detail: error.to_string(),
                ..v1::PlatformInfo::default()
            }),
            identity: String::new(),
            error: Some(DaemonError::from(tpud_device::Error::from(error)).into()),
        },
    };
    output.write_all(&probe.encode_to_vec())?;
    Ok(())
}

fn look(platform: Platform) -> Result<Probe, Error> {
    let (plugin, topologies) = match platform {
        Platform::Cpu => (cpu::load()?, Vec::new()),
        Platform::Tpu => (tpu::load()?, tpu::topologies()),
    };
    let identity = plugin.identity()?;
    let info = v1::PlatformInfo {
        platform: platform.name().to_owned(),
        available: true,
        plugin_path: plugin.path().display().to_string(),
        plugin_identity: identity.to_string(),
        detail: String::new(),
        topologies: topologies.into_iter().map(str::to_owned).collect(),
    };
    Ok(Probe { info: Some(info), identity: identity.key(), error: None })
}
