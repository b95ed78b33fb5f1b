//! The TPU platform: libtpu, its environment, its topologies and the chips' memory.

use std::path::PathBuf;

use super::Search;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::plugin::Plugin;
use crate::topology::Topology;

const SEARCH: Search = Search {
    platform: "tpu",
    variable: "TPUD_LIBTPU",
    below_site_packages: &["libtpu/libtpu.so"],
    install: "`pip install libtpu` in the Python environment that is active (or that TPUD_PYTHON names)",
};

/// The plugin's library.
pub fn find() -> Result<PathBuf> {
    SEARCH.find()
}

/// Loads the plugin. [`environment`] must have been set before.
pub fn load() -> Result<Plugin> {
    Plugin::load(&find()?)
}

/// Opens the TPUs of this machine; an error where there are none.
pub fn create_client(plugin: &Plugin) -> Result<Client> {
    plugin.create_client(&[])
}

/// What a process that loads libtpu is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Compiles ahead of time; needs no TPU and must not lock one.
    Compile,
    /// Executes on this machine's TPUs.
    Execute,
}

/// Environment variables that libtpu reads when it is loaded, so they are data: a parent sets them on the command
/// that it starts. A variable that the operator has set already should be left alone.
#[must_use]
pub fn environment(role: Role) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![
        ("TPU_LOG_DIR", "disabled"),
        ("TPU_MIN_LOG_LEVEL", "3"),
        ("TPU_STDERR_LOG_LEVEL", "3"),
        ("TF_CPP_MIN_LOG_LEVEL", "3"),
    ];
    if role == Role::Compile {
        variables.extend([
            // Off Google Cloud the metadata server does not answer, and waiting for it takes minutes.
            ("TPU_SKIP_MDS_QUERY", "1"),
            // Any values do: they stand for what the metadata server would say, and every target still compiles.
            ("TPU_WORKER_HOSTNAMES", "localhost"),
            ("TPU_ACCELERATOR_TYPE", "v6e-4"),
            // Else a second process aborts on libtpu's lock file.
            ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
        ]);
    }
    variables
}

/// A generation of TPU.
struct Generation {
    /// As people and libtpu spell it before the colon.
    names: &'static [&'static str],
    /// Sizes of a topology have this many dimensions.
    rank: usize,
    /// PJRT's device kind.
    kind: &'static str,
    /// Memory that programs may use on one device (which may be half a chip).
    memory_bytes: u64,
    /// Peak bf16 operations a second of one device.
    peak_flops: f64,
    /// Peak bytes a second between one device and its memory.
    peak_bandwidth: f64,
    /// A topology of one host, as an example and for lists.
    example: &'static str,
}

/// Memory is what libtpu 0.0.52 says in `device_memory_bytes_limit` of a topology of one chip; the peaks are those that
/// Google Cloud publishes for each generation.
const GENERATIONS: [Generation; 4] = [
    Generation {
        names: &["v5e"],
        rank: 2,
        kind: "TPU v5 lite",
        memory_bytes: 16_909_336_064,
        peak_flops: 197e12,
        peak_bandwidth: 819e9,
        example: "v5e:2x2",
    },
    Generation {
        names: &["v5p"],
        rank: 3,
        kind: "TPU v5",
        memory_bytes: 102_786_661_888,
        peak_flops: 459e12,
        peak_bandwidth: 2_765e9,
        example: "v5p:2x2x1",
    },
    Generation {
        names: &["v6e"],
        rank: 2,
        kind: "TPU v6 lite",
        memory_bytes: 33_546_042_880,
        peak_flops: 918e12,
        peak_bandwidth: 1_640e9,
        example: "v6e:2x2",
    },
    // Two devices a chip, each with half of its 192 GB.
    Generation {
        names: &["tpu7x", "v7x"],
        rank: 3,
        kind: "TPU7x",
        memory_bytes: 101_724_453_888,
        peak_flops: 1_153.5e12,
        peak_bandwidth: 3_690e9,
        example: "tpu7x:2x2x1",
    },
];

/// One topology of each generation.
#[must_use]
pub fn topologies() -> Vec<&'static str> {
    GENERATIONS.iter().map(|generation| generation.example).collect()
}

/// The spelling that libtpu takes and that keys use: "v7x:1x1x1" is "tpu7x:1x1x1".
pub fn canonical_topology(name: &str) -> Result<String> {
    let unknown = |hint: String| Error::UnknownTopology { name: name.to_owned(), hint };
    let known = || format!("write <generation>:<sizes>, e.g. {}", topologies().join(", "));
    let (prefix, sizes) = name.split_once(':').ok_or_else(|| unknown(known()))?;
    let generation = GENERATIONS
        .iter()
        .find(|generation| generation.names.contains(&prefix))
        .ok_or_else(|| unknown(known()))?;
    let numbers: Option<Vec<u32>> =
        sizes.split('x').map(|size| size.parse().ok().filter(|&n| n > 0)).collect();
    match numbers {
        Some(numbers) if numbers.len() == generation.rank => {
            let sizes: Vec<_> = numbers.iter().map(u32::to_string).collect();
            Ok(format!("{}:{}", generation.names[0], sizes.join("x")))
        }
        _ => Err(unknown(format!("{prefix} takes {} sizes, e.g. {}", generation.rank, generation.example))),
    }
}

/// A topology by any spelling.
pub fn topology(plugin: &Plugin, name: &str) -> Result<Topology> {
    plugin.topology(&canonical_topology(name)?, &[])
}

/// Memory of one device by PJRT's device kind; none for a kind that is not known. Where there is a description,
/// [`crate::DeviceDescription::memory_bytes`] is exact.
#[must_use]
pub fn memory_bytes(kind: &str) -> Option<u64> {
    GENERATIONS.iter().find(|generation| generation.kind == kind).map(|generation| generation.memory_bytes)
}

/// The seconds that one device of a topology needs at the very least for a program of this many operations and bytes
/// (the roofline of published peaks). None for a topology that is not known.
#[must_use]
pub fn roofline_seconds(topology: &str, flops: f64, bytes_accessed: f64) -> Option<f64> {
    let prefix = topology.split(':').next()?;
    let generation = GENERATIONS.iter().find(|generation| generation.names.contains(&prefix))?;
    Some((flops / generation.peak_flops).max(bytes_accessed / generation.peak_bandwidth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_have_one_spelling() {
        for (given, canonical) in [
            ("v6e:2x2", "v6e:2x2"),
            ("v7x:2x2x1", "tpu7x:2x2x1"),
            ("tpu7x:1x1x1", "tpu7x:1x1x1"),
            ("v5e:01x1", "v5e:1x1"),
        ] {
            assert_eq!(canonical_topology(given).unwrap(), canonical);
        }
        for name in topologies() {
            assert_eq!(canonical_topology(name).unwrap(), name);
        }
    }

    #[test]
    fn a_wrong_topology_says_how_to_write_one() {
        for name in ["", "v6e", "v9:2x2", "tpu:v6e", "v5litepod:4"] {
            let error = canonical_topology(name).unwrap_err().to_string();
            assert!(error.contains("v5e:2x2, v5p:2x2x1, v6e:2x2, tpu7x:2x2x1"), "{error}");
        }
        for name in ["v6e:", "v6e:2", "v6e:2x2x1", "v6e:0x2", "v6e:-1x2", "v6e:2x99999999999"] {
            let error = canonical_topology(name).unwrap_err().to_string();
            assert_eq!(error, format!("unknown topology \"{name}\": v6e takes 2 sizes, e.g. v6e:2x2"));
        }
    }

    #[test]
    fn a_compiling_process_neither_asks_nor_locks() {
        let names: Vec<_> = environment(Role::Compile).into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"TPU_SKIP_MDS_QUERY") && names.contains(&"ALLOW_MULTIPLE_LIBTPU_LOAD"));
        assert!(environment(Role::Execute).iter().all(|(name, _)| *name != "ALLOW_MULTIPLE_LIBTPU_LOAD"));
    }

    #[test]
    fn the_roofline_is_the_slower_of_computing_and_moving() {
        assert_eq!(roofline_seconds("v6e:2x2", 918e12, 1.0), Some(1.0));
        assert_eq!(roofline_seconds("v5e:1x1", 1.0, 819e9), Some(1.0));
        assert_eq!(roofline_seconds("v7x:1x1x1", 0.0, 3_690e9), Some(1.0));
        assert_eq!(roofline_seconds("", 1.0, 1.0), None);
    }
}
