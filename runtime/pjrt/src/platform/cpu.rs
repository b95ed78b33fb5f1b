//! The CPU platform: XLA's CPU plugin, from a Python environment.
//!
//! Two are on PyPI, and each is found. Compared on 350 small programs (every elementwise op, reductions, 32 forms of
//! reduce_window, 64 of convolution, dots, sorts, gathers, random bits, control flow; f16 to f64 and integers) against
//! jaxlib's own CPU backend, both are right on all. `xla-cpu-pjrt` (OpenXLA's, API 0.81) comes first:
//!
//! | | `xla-cpu-pjrt` 0.0.1 | `lammps-jax-pjrt-cpu` 0.11.2 |
//! |---|---|---|
//! | cost analysis | yes | not implemented |
//! | `xla_cpu_max_isa` | as a compile option | only in `XLA_FLAGS` |
//! | upload, execute of a tiny program | 1.7, 3 µs | 4.2, 6.5 µs |
//! | compile of a tiny program, of 6 transformer layers | 30 ms, 2.3 s | 50 ms, 3.3 s |
//!
//! The second has the newer XLA (bounded dynamic shapes, which tpud does not use, are wrong in the first in places).
//! Both refuse to serialise a sort once it has run: serialise before executing.
//!
//! **Instruction sets.** Executables are machine code. XLA records the features of the machine that compiled one,
//! and on a machine that lacks some of them it logs an error and *loads it all the same*, up to a SIGILL. So the
//! cache has to keep them apart: [`instruction_set`] belongs into the key of everything compiled for the CPU.
//! [`pin_to`] keeps vector code to a level, so that results do not depend on newer instructions than the level's; it
//! does not bound the scalar extensions (e.g. GFNI) and is no licence to share executables between machines.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

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
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    ],
    install: "`pip install xla-cpu-pjrt` in the Python environment that is active (or that TPUD_PYTHON names)",
};

/// Environment variables for a process that loads the plugin: they silence its log. A variable that the operator has
/// set already should be left alone.
#[must_use]
pub fn environment() -> Vec<(&'static str, &'static str)> {
    vec![("TF_CPP_MIN_LOG_LEVEL", "3")]
}

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

/// This machine's instruction set, exactly: its level and a digest of the processor's feature flags, such as
/// "x86-64-v4 3f9d2c11". Machines with the same value can execute each other's executables.
#[must_use]
pub fn instruction_set() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    format!("{} {}", isa_level().name(), flags_digest(&cpuinfo))
}

/// Every processor's flags count, in no order: a core that lacks one is another machine.
fn flags_digest(cpuinfo: &str) -> String {
    let lines = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    let flags: BTreeSet<BTreeSet<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    let mut hasher = Sha256::new();
    for processor in flags {
        for flag in processor {
            hasher.update(flag);
            hasher.update(" ");
        }
        hasher.update("\n");
    }
    hasher.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Options that keep generated vector code to a level.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_set_depends_on_the_flags_and_on_nothing_else() {
        let digest =
            flags_digest("processor : 0\nMHz : 1\nflags : fpu avx2\n\nprocessor : 1\nflags : avx2 fpu\n");
        assert_ne!(digest, flags_digest("flags : fpu avx2 gfni\n"));
        assert_eq!(digest, flags_digest("MHz : 2\nflags : fpu avx2\nflags : fpu avx2\n"));
        assert!(instruction_set().starts_with(isa_level().name()));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(memory_bytes().unwrap() > 1 << 28);
    }
}
