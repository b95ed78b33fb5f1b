//! The CPU platform: XLA's CPU plugin, from a Python environment.

use std::path::PathBuf;

use super::Search;
use crate::client::Client;
use crate::compile::{CompileOptions, OptionValue};
use crate::error::Result;
use crate::named_value::NamedValue;
use crate::plugin::Plugin;

const SEARCH: Search = Search {
    platform: "cpu",
    variable: "TPUD_CPU_PLUGIN",
    below_site_packages: &[
        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    ],
    install: "`pip install lammps-jax-pjrt-cpu` in the Python environment that is active (or that TPUD_PYTHON names)",
};

/// The plugin's library.
pub fn find() -> Result<PathBuf> {
    SEARCH.find()
}

/// Loads the plugin.
pub fn load() -> Result<Plugin> {
    Plugin::load(&find()?)
}

/// Opens a client with `devices` devices, which share the host's cores and memory.
pub fn create_client(plugin: &Plugin, devices: u32) -> Result<Client> {
    plugin.create_client(&[("cpu_device_count".to_owned(), NamedValue::Integer(i64::from(devices)))])
}

/// A level of the x86-64 instruction set, as psABI counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum IsaLevel {
    V2,
    V3,
    V4,
}

impl IsaLevel {
    /// E.g. "x86-64-v3".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }

    /// XLA's name for the newest instructions that code of this level may use.
    fn max_isa(self) -> &'static str {
        match self {
            Self::V2 => "SSE4_2",
            Self::V3 => "AVX2",
            Self::V4 => "AVX512",
        }
    }
}

/// The level that this machine has.
#[must_use]
pub fn isa_level() -> IsaLevel {
    let v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if v4 {
        IsaLevel::V4
    } else if v3 {
        IsaLevel::V3
    } else {
        IsaLevel::V2
    }
}

/// Options that keep generated code to a level, so that its executables run on every machine of that level.
#[must_use]
pub fn pin_to(level: IsaLevel, options: CompileOptions) -> CompileOptions {
    options.with("xla_cpu_max_isa", OptionValue::Text(level.max_isa().to_owned()))
}

/// The machine's memory, which is the device's.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
