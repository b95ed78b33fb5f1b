//! Executables: compiled, on no device.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;

use tpud_pjrt_sys as sys;

use crate::api::{self, Api};
use crate::client::Client;
use crate::element_type::{ElementType, TensorType};
use crate::error::{Code, Error, Result};
use crate::hlo::{self, Signature};
use crate::named_value::{self, NamedValue};
use crate::plugin::Plugin;

/// A compiled program.
pub struct Executable {
    plugin: Plugin,
    /// The client that it was compiled by, which must not close first; none ahead of time.
    _client: Option<Client>,
    raw: NonNull<sys::PJRT_Executable>,
}

// SAFETY: the API requires executables to be usable from any thread.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

/// The memory that one execution takes on one device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Inputs.
    pub argument: u64,
    /// Outputs, including those that alias an input.
    pub output: u64,
    /// Outputs that take over the memory of a donated input.
    pub alias: u64,
    /// Intermediate values.
    pub temporary: u64,
    /// The program itself.
    pub code: u64,
    /// The most that is in use at any time; none where the plugin does not say.
    pub peak: Option<u64>,
    /// Inputs, outputs and intermediate values in the host's memory instead.
    pub host: u64,
}

/// What one execution costs, as XLA counts it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostAnalysis {
    /// Floating point operations.
    pub flops: Option<f64>,
    /// Bytes read and written.
    pub bytes_accessed: Option<f64>,
    /// XLA's estimate of the run time; none where it has no model of the device.
    pub optimal_seconds: Option<f64>,
    /// Every property that the plugin reported, by its name.
    pub properties: BTreeMap<String, f64>,
}

/// The program after XLA's passes, for people and tools.
#[derive(Clone, Debug)]
pub struct OptimizedProgram {
    /// "hlo", "hlo_with_config" or "mlir".
    pub format: String,
    /// The program in that format.
    pub code: Vec<u8>,
}

impl Executable {
    pub(crate) fn new(plugin: Plugin, client: Option<Client>, raw: NonNull<sys::PJRT_Executable>) -> Self {
        Self { plugin, _client: client, raw }
    }

    /// The bytes that [`Client::deserialize`] loads, in a process with the same build of the plugin.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = sys::Padded::<sys::PJRT_Executable_Serialize_Args>::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive; the bytes are copied before the deleter frees them.
        unsafe {
            call!(self.api(), PJRT_Executable_Serialize, args)?;
            let bytes = api::slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(deleter) = args.serialized_executable_deleter {
                deleter(args.serialized_executable);
            }
            Ok(bytes)
        }
    }

    /// Memory of one execution; none where the plugin does not count it.
    pub fn memory(&self) -> Result<Option<MemoryStats>> {
        let mut args = sys::Padded::<sys::PJRT_Executable_GetCompiledMemoryStats_Args>::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        let Some(()) = optional(unsafe { call!(self.api(), PJRT_Executable_GetCompiledMemoryStats, args) })?
        else {
            return Ok(None);
        };
        let bytes = |value: i64| u64::try_from(value).unwrap_or(0);
        Ok(Some(MemoryStats {
            argument: bytes(args.argument_size_in_bytes),
            output: bytes(args.output_size_in_bytes),
            alias: bytes(args.alias_size_in_bytes),
            temporary: bytes(args.temp_size_in_bytes),
            code: bytes(args.generated_code_size_in_bytes),
            // A plugin that is older than the field leaves the zero.
            peak: Some(bytes(args.peak_memory_in_bytes)).filter(|&peak| peak > 0),
            host: bytes(args.host_argument_size_in_bytes)
                + bytes(args.host_output_size_in_bytes)
                + bytes(args.host_temp_size_in_bytes),
        }))
    }

    /// Cost of one execution; none where the plugin does not analyse it.
    pub fn cost(&self) -> Result<Option<CostAnalysis>> {
        let mut args = sys::Padded::<sys::PJRT_Executable_GetCostAnalysis_Args>::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive, and so are its properties.
        let Some(()) = optional(unsafe { call!(self.api(), PJRT_Executable_GetCostAnalysis, args) })? else {
            return Ok(None);
        };
        // SAFETY: as above.
        let named = unsafe { named_value::from_raw(args.properties, args.num_properties) };
        let properties: BTreeMap<String, f64> = named
            .into_iter()
            .filter_map(|(name, value)| match value {
                NamedValue::Float(number) => Some((name, f64::from(number))),
                _ => None,
            })
            .collect();
        // XLA marks what it does not know with a negative number.
        let known = |name: &str| properties.get(name).copied().filter(|&value| value >= 0.0);
        Ok(Some(CostAnalysis {
            flops: known("flops"),
            bytes_accessed: known("bytes accessed"),
            optimal_seconds: known("optimal_seconds").filter(|&seconds| seconds > 0.0),
            properties,
        }))
    }

    /// The program after XLA's passes; none where the plugin does not keep it.
    pub fn optimized_program(&self) -> Result<Option<OptimizedProgram>> {
        let mut program = sys::Padded::<sys::PJRT_Program>::new();
        let mut args = sys::Padded::<sys::PJRT_Executable_OptimizedProgram_Args>::new();
        args.executable = self.raw.as_ptr();
        args.program = program.as_mut_ptr();
        // The first call, without memory for the code, asks for its size.
        // SAFETY: executable and program are alive.
        let Some(()) = optional(unsafe { call!(self.api(), PJRT_Executable_OptimizedProgram, args) })? else {
            return Ok(None);
        };
        let mut code = vec![0_u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        // SAFETY: `code` has the size that the plugin asked for; the format lives as long as the executable.
        let format = unsafe {
            call!(self.api(), PJRT_Executable_OptimizedProgram, args)?;
            api::text(program.format, program.format_size)
        };
        Ok(Some(OptimizedProgram { format, code }))
    }

    /// Inputs, outputs and aliases. The C API has no call for inputs; they are read from the optimised program.
    pub fn signature(&self) -> Result<Signature> {
        let program = self
            .optimized_program()?
            .ok_or(Error::MissingFunction { call: "PJRT_Executable_OptimizedProgram" })?;
        let (inputs, aliases) = hlo::inputs_and_aliases(&program.format, &program.code)?;
        Ok(Signature { inputs, outputs: self.outputs()?, aliases })
    }

    /// Types of the outputs.
    pub fn outputs(&self) -> Result<Vec<TensorType>> {
        let mut types = sys::Padded::<sys::PJRT_Executable_OutputElementTypes_Args>::new();
        types.executable = self.raw.as_ptr();
        let mut dims = sys::Padded::<sys::PJRT_Executable_OutputDimensions_Args>::new();
        dims.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive, and so are the arrays; the ranks add up to the length of `dims`.
        let (types, ranks, dims) = unsafe {
            call!(self.api(), PJRT_Executable_OutputElementTypes, types)?;
            call!(self.api(), PJRT_Executable_OutputDimensions, dims)?;
            let ranks = api::slice(dims.dim_sizes, dims.num_outputs);
            let types = api::slice(types.output_types.cast_const(), types.num_output_types);
            (types, ranks, api::slice(dims.dims, ranks.iter().sum()))
        };
        let broken =
            |what: String| Error::BrokenContract { call: "PJRT_Executable_OutputElementTypes", what };
        if types.len() != ranks.len() {
            return Err(broken(format!("{} types for {} outputs", types.len(), ranks.len())));
        }
        let mut rest = dims;
        let mut outputs = Vec::with_capacity(ranks.len());
        for (&raw, &rank) in types.iter().zip(ranks) {
            let (these, others) = rest.split_at_checked(rank).unwrap_or((rest, &[]));
            rest = others;
            let element_type = ElementType::from_raw(raw).ok_or_else(|| {
                broken(format!("an output of element type {raw}, which this build does not know"))
            })?;
            outputs.push(TensorType::new(element_type, these));
        }
        Ok(outputs)
    }

    fn api(&self) -> Api {
        self.plugin.api()
    }
}

/// Nothing, where the plugin does not implement a call.
fn optional(outcome: Result<()>) -> Result<Option<()>> {
    match outcome {
        Ok(()) => Ok(Some(())),
        Err(Error::Plugin { code: Code::Unimplemented, .. } | Error::MissingFunction { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut args = sys::Padded::<sys::PJRT_Executable_Destroy_Args>::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the last use.
        let _ = unsafe { call!(self.api(), PJRT_Executable_Destroy, args) };
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable(of {:?})", self.plugin)
    }
}
