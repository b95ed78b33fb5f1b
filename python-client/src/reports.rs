//! Replies as Python dicts.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tpud_proto::v1::{
    CacheEntry, Check, CompileResult, Counters, DeviceInfo, ExplainCacheReply, KeyComponent, ListCacheReply,
    ListDevicesReply, PlatformInfo, Report, Signature, StatusReply, TensorMeta, Timings, WorkerStatus, check,
};

use crate::graph::expr_to_python;

type Dict<'py> = PyResult<Bound<'py, PyDict>>;

/// A dict with the named fields of a message.
macro_rules! fields {
    ($py:expr, $message:expr, $($field:ident),+ $(,)?) => {{
        let dict = PyDict::new($py);
        $( dict.set_item(stringify!($field), &$message.$field)?; )+
        dict
    }};
}

/// A list of dicts.
pub(crate) fn list<'py, T>(
    py: Python<'py>,
    items: &[T],
    convert: impl Fn(Python<'py>, &T) -> Dict<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for item in items {
        list.append(convert(py, item)?)?;
    }
    Ok(list)
}

pub(crate) fn device<'py>(py: Python<'py>, info: &DeviceInfo) -> Dict<'py> {
    Ok(fields!(py, info, id, platform, kind, description, memory_bytes, memory_used_bytes))
}

fn platform<'py>(py: Python<'py>, info: &PlatformInfo) -> Dict<'py> {
    Ok(fields!(py, info, platform, available, plugin_path, plugin_identity, detail, topologies))
}

pub(crate) fn devices<'py>(py: Python<'py>, reply: &ListDevicesReply) -> Dict<'py> {
    let dict = PyDict::new(py);
    dict.set_item("devices", list(py, &reply.devices, device)?)?;
    dict.set_item("platforms", list(py, &reply.platforms, platform)?)?;
    Ok(dict)
}

pub(crate) fn component<'py>(py: Python<'py>, part: &KeyComponent) -> Dict<'py> {
    Ok(fields!(py, part, name, value, digest))
}

fn cache_entry<'py>(py: Python<'py>, entry: &CacheEntry) -> Dict<'py> {
    let dict = fields!(py, entry, key, kind, tier, bytes, last_used_unix_seconds);
    dict.set_item("components", list(py, &entry.components, component)?)?;
    Ok(dict)
}

pub(crate) fn cache_list<'py>(py: Python<'py>, reply: &ListCacheReply) -> Dict<'py> {
    let dict = fields!(py, reply, total_entries, total_bytes);
    dict.set_item("entries", list(py, &reply.entries, cache_entry)?)?;
    Ok(dict)
}

pub(crate) fn cache_explain<'py>(py: Python<'py>, reply: &ExplainCacheReply) -> Dict<'py> {
    let dict = fields!(py, reply, key, stored, differing);
    dict.set_item("components", list(py, &reply.components, component)?)?;
    dict.set_item("nearest", reply.nearest.as_ref().map(|entry| cache_entry(py, entry)).transpose()?)?;
    Ok(dict)
}

fn worker<'py>(py: Python<'py>, status: &WorkerStatus) -> Dict<'py> {
    Ok(fields!(py, status, pid, busy, graph_key, busy_seconds))
}

fn counters<'py>(py: Python<'py>, counters: &Counters) -> Dict<'py> {
    Ok(fields!(
        py,
        counters,
        compile_requests,
        xla_compiles,
        lowerings,
        memory_hits,
        disk_hits,
        module_hits,
        shared,
        worker_deaths,
        compile_errors,
        executions,
        cache_errors,
        quarantined,
    ))
}

pub(crate) fn status<'py>(py: Python<'py>, reply: &StatusReply) -> Dict<'py> {
    let dict =
        fields!(py, reply, version, epoch, pid, uptime_seconds, queued, sessions, cache_directory, address);
    dict.set_item("workers", list(py, &reply.workers, worker)?)?;
    dict.set_item("devices", list(py, &reply.devices, device)?)?;
    dict.set_item("counters", counters(py, &reply.counters.unwrap_or_default())?)?;
    Ok(dict)
}

fn tensor_meta<'py>(py: Python<'py>, meta: &TensorMeta) -> Dict<'py> {
    let sizes = meta.sizes.iter().map(|size| expr_to_python(py, size)).collect::<PyResult<Vec<_>>>()?;
    let dict = PyDict::new(py);
    dict.set_item("dtype", crate::dtype::name(meta.dtype))?;
    dict.set_item("sizes", sizes)?;
    Ok(dict)
}

pub(crate) fn signature<'py>(py: Python<'py>, signature: &Signature) -> Dict<'py> {
    let dict = PyDict::new(py);
    dict.set_item("inputs", list(py, &signature.inputs, tensor_meta)?)?;
    dict.set_item("outputs", list(py, &signature.outputs, tensor_meta)?)?;
    Ok(dict)
}

pub(crate) fn report<'py>(py: Python<'py>, report: &Report) -> Dict<'py> {
    let memory = report.memory.unwrap_or_default();
    let cost = report.cost.unwrap_or_default();
    let dict = fields!(py, report, executable_bytes, module_bytes);
    let ops = PyDict::new(py);
    for row in &report.ops {
        ops.set_item(&row.op, row.count)?;
    }
    dict.set_item("ops", ops)?;
    dict.set_item(
        "memory",
        fields!(
            py,
            memory,
            available,
            argument_bytes,
            output_bytes,
            temporary_bytes,
            alias_bytes,
            code_bytes,
            peak_bytes,
            device_bytes,
        ),
    )?;
    dict.set_item("cost", fields!(py, cost, available, flops, bytes_accessed, optimal_seconds))?;
    Ok(dict)
}

pub(crate) fn timings<'py>(py: Python<'py>, timings: &Timings) -> Dict<'py> {
    Ok(fields!(
        py,
        timings,
        queue_seconds,
        lower_seconds,
        serialize_seconds,
        compile_seconds,
        load_seconds,
        total_seconds,
    ))
}

pub(crate) fn check<'py>(py: Python<'py>, check: &Check) -> Dict<'py> {
    let dict = fields!(py, check, node, op, message);
    let kind = match check.kind() {
        check::Kind::IndexError => "index",
        check::Kind::LinalgError => "linalg",
        check::Kind::RuntimeError | check::Kind::Unspecified => "runtime",
    };
    dict.set_item("kind", kind)?;
    Ok(dict)
}

pub(crate) fn compile_result<'py>(py: Python<'py>, result: &CompileResult, outcome: &str) -> Dict<'py> {
    let dict = fields!(py, result, graph_key, module_key);
    dict.set_item("outcome", outcome)?;
    dict.set_item("signature", signature(py, result.signature.as_ref().unwrap_or(&Signature::default()))?)?;
    dict.set_item("report", report(py, result.report.as_ref().unwrap_or(&Report::default()))?)?;
    dict.set_item("timings", timings(py, &result.timings.unwrap_or_default())?)?;
    dict.set_item("checks", list(py, &result.checks, check)?)?;
    dict.set_item("graph_key_components", list(py, &result.graph_key_components, component)?)?;
    dict.set_item("module_key_components", list(py, &result.module_key_components, component)?)?;
    Ok(dict)
}
