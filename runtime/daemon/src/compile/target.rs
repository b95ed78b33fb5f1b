//! What to compile for, resolved: every name in its canonical spelling, and the plugin that will do it.

use std::sync::OnceLock;

use tpud_pjrt::platform::{cpu, tpu};
use tpud_proto::v1;

use crate::config::DeviceChoice;
use crate::error::{DaemonError, Result};

/// A platform that tpud compiles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Platform {
    Cpu,
    Tpu,
}

impl Platform {
    pub(crate) const ALL: [Self; 2] = [Self::Cpu, Self::Tpu];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Tpu => "tpu",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|platform| platform.name() == name);
        known.ok_or_else(|| {
            DaemonError::InvalidTarget(format!("platform {name:?}: known are \"cpu\" and \"tpu\""))
        })
    }
}

/// A platform and its topology in the canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedTarget {
    pub(crate) platform: Platform,
    /// Empty for the CPU.
    pub(crate) topology: String,
}

impl ResolvedTarget {
    /// Resolves what a client asked for; an empty platform is the daemon's own device.
    pub(crate) fn resolve(asked: Option<&v1::Target>, own: &OwnDevice) -> Result<Self> {
        let (platform, topology) = asked.map_or(("", ""), |target| (&target.platform, &target.topology));
        let platform = match (platform, own.choice) {
            ("", DeviceChoice::Cpu) => Platform::Cpu,
            ("", DeviceChoice::Tpu) => Platform::Tpu,
            ("", DeviceChoice::None) => {
                let what =
                    "none given, and this daemon has no device whose target it could be: name one, e.g. cpu";
                return Err(DaemonError::InvalidTarget(what.to_owned()));
            }
            (name, _) => Platform::parse(name)?,
        };
        let topology = match (platform, topology) {
            (Platform::Cpu, "") => String::new(),
            (Platform::Cpu, other) => {
                return Err(DaemonError::InvalidTarget(format!("topology {other:?}: the CPU has none")));
            }
            (Platform::Tpu, "") => own.topology.clone().ok_or_else(|| {
                let known = tpu::topologies().join(", ");
                DaemonError::InvalidTarget(format!("tpu without a topology: name one, e.g. {known}"))
            })?,
            (Platform::Tpu, name) => tpu::canonical_topology(name)
                .map_err(|error| DaemonError::InvalidTarget(error.to_string()))?,
        };
        Ok(Self { platform, topology })
    }

    /// For keys: what distinguishes machines that one plugin generates different code for. XLA's CPU plugin loads an
    /// executable that the processor cannot run without an error, so the exact instruction set counts.
    pub(crate) fn device_kind(&self) -> String {
        static INSTRUCTION_SET: OnceLock<String> = OnceLock::new();
        match self.platform {
            Platform::Cpu => INSTRUCTION_SET.get_or_init(cpu::instruction_set).clone(),
            Platform::Tpu => self.topology.split(':').next().unwrap_or_default().to_owned(),
        }
    }

    /// As messages carry it.
    pub(crate) fn to_proto(&self) -> v1::Target {
        v1::Target { platform: self.platform.name().to_owned(), topology: self.topology.clone() }
    }
}

impl std::fmt::Display for ResolvedTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.topology.is_empty() { self.platform.name() } else { &self.topology })
    }
}

/// The daemon's own device, as far as targets are concerned.
#[derive(Clone, Debug)]
pub(crate) struct OwnDevice {
    pub(crate) choice: DeviceChoice,
    /// Of a TPU, when it is known.
    pub(crate) topology: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(platform: &str, topology: &str, choice: DeviceChoice) -> Result<ResolvedTarget> {
        let asked = v1::Target { platform: platform.into(), topology: topology.into() };
        ResolvedTarget::resolve(Some(&asked), &OwnDevice { choice, topology: None })
    }

    #[test]
    fn targets_are_resolved_and_spelt_one_way() {
        let cpu = resolve("", "", DeviceChoice::Cpu).unwrap();
        assert_eq!((cpu.platform, cpu.to_string()), (Platform::Cpu, "cpu".into()));
        let ironwood = resolve("tpu", "v7x:2x2x1", DeviceChoice::None).unwrap();
        assert_eq!((ironwood.to_string(), ironwood.device_kind()), ("tpu7x:2x2x1".into(), "tpu7x".into()));
        for (platform, topology) in [("gpu", ""), ("cpu", "v6e:2x2"), ("tpu", ""), ("tpu", "v6e"), ("", "")] {
            assert!(resolve(platform, topology, DeviceChoice::None).is_err(), "{platform} {topology}");
        }
    }
}
