//! The compilers that a worker has loaded.

use std::collections::BTreeMap;

use tpud_pjrt::platform::{cpu, tpu};
use tpud_pjrt::{Client, CompileOptions, Error, Executable, LoadedExecutable, Program, Topology};
use tpud_proto::v1;

use crate::compile::{Platform, ResolvedTarget};

/// Compilers, loaded when first needed.
#[derive(Default)]
pub(super) struct Compilers {
    cpu: Option<Client>,
    tpu: BTreeMap<String, Topology>,
}

/// What a compile gives: an executable of either kind.
pub(super) enum Made {
    Loaded(LoadedExecutable),
    Ahead(Executable),
}

impl Made {
    pub(super) fn executable(&self) -> &Executable {
        match self {
            Self::Loaded(loaded) => loaded.executable(),
            Self::Ahead(executable) => executable,
        }
    }
}

impl Compilers {
    pub(super) fn cpu(&mut self) -> Result<&Client, Error> {
        match &mut self.cpu {
            Some(client) => Ok(client),
            empty => Ok(empty.insert(cpu::create_client(&cpu::load()?, 1)?)),
        }
    }

    fn topology(&mut self, name: &str) -> Result<&Topology, Error> {
        if !self.tpu.contains_key(name) {
            let topology = tpu::topology(&tpu::load()?, name)?;
            self.tpu.insert(name.to_owned(), topology);
        }
        self.tpu
            .get(name)
            .ok_or_else(|| Error::UnknownTopology { name: name.to_owned(), hint: String::new() })
    }

    /// Loads what compiling for a target needs.
    pub(super) fn prepare(&mut self, target: &ResolvedTarget) -> Result<(), Error> {
        match target.platform {
            Platform::Cpu => self.cpu().map(|_| ()),
            Platform::Tpu => self.topology(&target.topology).map(|_| ()),
        }
    }

    /// Compiles a module, and gives the memory that one device of the target has (0: unknown).
    pub(super) fn compile(
        &mut self,
        target: &ResolvedTarget,
        module: &[u8],
        options: &CompileOptions,
    ) -> Result<(Made, u64), Error> {
        let program = Program::mlir(module);
        match target.platform {
            Platform::Cpu => Ok((Made::Loaded(self.cpu()?.compile(&program, options)?), 0)),
            Platform::Tpu => {
                let topology = self.topology(&target.topology)?;
                let kind = topology.devices()?.into_iter().next().map(|device| device.kind);
                let memory = kind.and_then(|kind| tpu::memory_bytes(&kind)).unwrap_or_default();
                Ok((Made::Ahead(topology.compile(&program, options)?), memory))
            }
        }
    }
}

/// The memory report of an executable.
pub(super) fn memory(executable: &Executable, device_bytes: u64) -> Result<v1::MemoryReport, Error> {
    let Some(stats) = executable.memory()? else {
        return Ok(v1::MemoryReport { device_bytes, ..v1::MemoryReport::default() });
    };
    Ok(v1::MemoryReport {
        available: true,
        argument_bytes: stats.argument,
        output_bytes: stats.output,
        temporary_bytes: stats.temporary,
        alias_bytes: stats.alias,
        code_bytes: stats.code,
        peak_bytes: stats.peak.unwrap_or_default(),
        device_bytes,
    })
}

/// The cost report of an executable.
pub(super) fn cost(executable: &Executable) -> Result<v1::CostReport, Error> {
    let Some(cost) = executable.cost()? else { return Ok(v1::CostReport::default()) };
    Ok(v1::CostReport {
        available: true,
        flops: cost.flops.unwrap_or_default(),
        bytes_accessed: cost.bytes_accessed.unwrap_or_default(),
        optimal_seconds: cost.optimal_seconds.unwrap_or_default(),
    })
}
