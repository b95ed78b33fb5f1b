//! One job: decode, check, lower, serialise, and, if the daemon says so, compile.

use std::time::Instant;

use tpud_graph::{Graph, TensorMeta};
use tpud_lowering::{CheckKind, Lowered, LoweringOptions};
use tpud_proto::v1::{self, worker_reply::Reply};

use super::capacity::needed_and_available;
use super::platform::{self, Compilers};
use crate::compile::{OwnDevice, ResolvedTarget, for_xla, precision};
use crate::config::DeviceChoice;
use crate::error::{DaemonError, Result};

/// What a worker keeps between jobs.
#[derive(Default)]
pub(super) struct Desk {
    compilers: Compilers,
}

type Send<'a> = &'a mut dyn FnMut(Reply) -> std::io::Result<()>;
type Ask<'a> = &'a mut dyn FnMut() -> anyhow::Result<bool>;

impl Desk {
    /// Loads the CPU's compiler and runs it once: its first compile initialises much.
    pub(super) fn warm(&mut self) -> Result<()> {
        const NOTHING: &[u8] = b"func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        let target = ResolvedTarget { platform: crate::compile::Platform::Cpu, topology: String::new() };
        let options = for_xla(&v1::CompileOptions::default(), &target);
        self.compilers.compile(&target, NOTHING, &options).map_err(tpud_device::Error::from)?;
        Ok(())
    }

    /// Does a job. An error of the job is a reply; an error of the pipe ends the worker.
    pub(super) fn work(&mut self, job: &v1::WorkerJob, send: Send<'_>, ask: Ask<'_>) -> anyhow::Result<()> {
        let options = job.options.clone().unwrap_or_default();
        let (lowered, name) = match lower(job, &options) {
            Ok(lowered) => lowered,
            Err(error) => return Ok(send(Reply::Failed(error.into()))?),
        };
        let module = lowered.module.clone();
        #[cfg(debug_assertions)]
        let module = super::fault::replacement(&name).unwrap_or(module);
        send(Reply::Lowered(lowered))?;
        if job.lower_only || !ask()? {
            return Ok(());
        }
        #[cfg(debug_assertions)]
        super::fault::inject(&name);
        #[cfg(not(debug_assertions))]
        drop(name);
        let reply = match self.compile(&options, &module) {
            Ok(compiled) => Reply::Compiled(compiled),
            Err(error) => Reply::Failed(error.into()),
        };
        Ok(send(reply)?)
    }

    fn compile(&mut self, options: &v1::CompileOptions, module: &[u8]) -> Result<v1::WorkerCompiled> {
        let target = target(options)?;
        let failed = |error: tpud_pjrt::Error| DaemonError::from(tpud_device::Error::from(error));
        // Loading a plugin is not compiling.
        self.compilers.prepare(&target).map_err(failed)?;
        let started = Instant::now();
        let made = self.compilers.compile(&target, module, &for_xla(options, &target));
        let (made, device_bytes) = made.map_err(refused)?;
        let compile_seconds = started.elapsed().as_secs_f64();
        let executable = made.executable();
        Ok(v1::WorkerCompiled {
            executable: executable.serialize().map_err(failed)?,
            memory: Some(platform::memory(executable, device_bytes).map_err(failed)?),
            cost: Some(platform::cost(executable).map_err(failed)?),
            compile_seconds,
        })
    }
}

/// XLA refused the module: for its size, or for what it says.
fn refused(error: tpud_pjrt::Error) -> DaemonError {
    match &error {
        tpud_pjrt::Error::Plugin { code: tpud_pjrt::Code::ResourceExhausted, message, .. } => {
            let (needed, available) = needed_and_available(message).unwrap_or_default();
            DaemonError::DoesNotFit { message: message.clone(), needed, available }
        }
        _ => tpud_device::Error::from(error).into(),
    }
}

/// The daemon has resolved it already: a worker has no device of its own to default to.
fn target(options: &v1::CompileOptions) -> Result<ResolvedTarget> {
    let none = OwnDevice { choice: DeviceChoice::None, topology: None };
    ResolvedTarget::resolve(options.target.as_ref(), &none)
}

/// Gives the module and, for people, the graph's name.
fn lower(job: &v1::WorkerJob, options: &v1::CompileOptions) -> Result<(v1::WorkerLowered, String)> {
    let started = Instant::now();
    let graph = Graph::decode(&job.graph)?;
    let precision = match precision(options)? {
        v1::Precision::Unspecified | v1::Precision::Highest => tpud_lowering::Precision::Highest,
        v1::Precision::High => tpud_lowering::Precision::High,
        v1::Precision::Medium => tpud_lowering::Precision::Medium,
    };
    let how = LoweringOptions {
        precision,
        emulate_tpu_precision: options.emulate_tpu_precision,
        checks: options.checks,
    };
    let Lowered { module, op_counts, checks } = tpud_lowering::lower(&graph, &how)?;
    let lower_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let bytes = tpud_mlir::to_bytecode(&module)?;
    let serialize_seconds = started.elapsed().as_secs_f64();
    let lowered = v1::WorkerLowered {
        module: bytes,
        signature: Some(signature(&graph, !checks.is_empty())),
        ops: op_counts.into_iter().map(|(op, count)| v1::OpCount { op, count }).collect(),
        lower_seconds,
        serialize_seconds,
        checks: checks.into_iter().map(check).collect(),
        text: if job.lower_only { module.to_string() } else { String::new() },
    };
    Ok((lowered, graph.name))
}

/// The type of the output that checks add: an i32 scalar.
const FLAG: v1::TensorMeta = v1::TensorMeta {
    dtype: v1::DType::Int32 as i32,
    sizes: Vec::new(),
    strides: Vec::new(),
    storage_offset: None,
};

fn check(check: tpud_lowering::Check) -> v1::Check {
    let kind = match check.kind {
        CheckKind::Index => v1::check::Kind::IndexError,
        CheckKind::Runtime => v1::check::Kind::RuntimeError,
        CheckKind::LinAlg => v1::check::Kind::LinalgError,
    };
    let node = u32::try_from(check.node).unwrap_or(u32::MAX);
    v1::Check { node, op: check.op, message: check.message, kind: kind.into() }
}

/// `flag`: the module has an output more, which tells what check is violated.
fn signature(graph: &Graph, flag: bool) -> v1::Signature {
    let metas = graph.value_metas();
    let outputs =
        graph.outputs.iter().filter_map(|output| metas.get(output.value.index()).copied().flatten());
    v1::Signature {
        inputs: graph.inputs.iter().map(|input| meta(&input.meta)).collect(),
        outputs: outputs.map(meta).chain(flag.then_some(FLAG)).collect(),
    }
}

/// A static tensor's type; strides and offset don't matter to whoever calls.
fn meta(meta: &TensorMeta) -> v1::TensorMeta {
    let size = |size: i64| v1::SymExpr { kind: Some(v1::sym_expr::Kind::Constant(size)) };
    v1::TensorMeta {
        dtype: dtype(meta.dtype).into(),
        sizes: meta.static_sizes().unwrap_or_default().into_iter().map(size).collect(),
        strides: Vec::new(),
        storage_offset: None,
    }
}

fn dtype(dtype: tpud_graph::DType) -> v1::DType {
    use tpud_graph::DType;
    match dtype {
        DType::Bool => v1::DType::Bool,
        DType::UInt8 => v1::DType::Uint8,
        DType::UInt16 => v1::DType::Uint16,
        DType::UInt32 => v1::DType::Uint32,
        DType::UInt64 => v1::DType::Uint64,
        DType::Int8 => v1::DType::Int8,
        DType::Int16 => v1::DType::Int16,
        DType::Int32 => v1::DType::Int32,
        DType::Int64 => v1::DType::Int64,
        DType::Float16 => v1::DType::Float16,
        DType::BFloat16 => v1::DType::Bfloat16,
        DType::Float32 => v1::DType::Float32,
        DType::Float64 => v1::DType::Float64,
        DType::Complex64 => v1::DType::Complex64,
        DType::Complex128 => v1::DType::Complex128,
        DType::Float8E4M3FN => v1::DType::Float8E4m3fn,
        DType::Float8E5M2 => v1::DType::Float8E5m2,
    }
}
