//! Messages as JSON, with the names that the proto files give their fields.

use serde_json::{Value, json};
use tpud_pjrt::platform::tpu;
use tpud_proto::v1;

use super::failure::Failure;

pub(super) fn failure(failure: &Failure) -> Value {
    match failure {
        Failure::Local(error) => json!({"error": {"message": format!("{error:#}")}}),
        Failure::Remote(error) => {
            let detail = error.detail.clone().unwrap_or_default();
            let issues: Vec<Value> = detail.issues.iter().map(issue).collect();
            json!({"error": {
                "code": error.code, "message": error.message, "reason": detail.reason, "hint": detail.hint,
                "issues": issues, "log_tail": detail.log_tail, "needed_bytes": detail.needed_bytes,
                "available_bytes": detail.available_bytes,
            }})
        }
    }
}

fn issue(issue: &v1::Issue) -> Value {
    let location = issue.location.as_ref().map(|location| {
        json!({"file": location.file, "line": location.line, "function": location.function, "code": location.code,
               "module_path": location.module_path})
    });
    json!({"op": issue.op, "node": issue.node, "message": issue.message, "location": location})
}

pub(super) fn device(device: &v1::DeviceInfo) -> Value {
    json!({"id": device.id, "platform": device.platform, "kind": device.kind, "description": device.description,
           "memory_bytes": device.memory_bytes, "memory_used_bytes": device.memory_used_bytes})
}

pub(super) fn platform(platform: &v1::PlatformInfo) -> Value {
    json!({"platform": platform.platform, "available": platform.available, "plugin_path": platform.plugin_path,
           "plugin_identity": platform.plugin_identity, "detail": platform.detail,
           "topologies": platform.topologies})
}

pub(super) fn status(status: &v1::StatusReply) -> Value {
    let workers: Vec<Value> = status.workers.iter().map(worker).collect();
    let devices: Vec<Value> = status.devices.iter().map(device).collect();
    json!({"version": status.version, "epoch": status.epoch, "pid": status.pid, "address": status.address,
           "uptime_seconds": status.uptime_seconds, "cache_directory": status.cache_directory,
           "queued": status.queued, "sessions": status.sessions, "workers": workers, "devices": devices,
           "counters": counters(&status.counters.unwrap_or_default())})
}

fn worker(worker: &v1::WorkerStatus) -> Value {
    json!({"pid": worker.pid, "busy": worker.busy, "graph_key": worker.graph_key,
           "busy_seconds": worker.busy_seconds})
}

fn counters(counters: &v1::Counters) -> Value {
    json!({"compile_requests": counters.compile_requests, "xla_compiles": counters.xla_compiles,
           "lowerings": counters.lowerings, "memory_hits": counters.memory_hits, "disk_hits": counters.disk_hits,
           "module_hits": counters.module_hits, "shared": counters.shared,
           "worker_deaths": counters.worker_deaths, "compile_errors": counters.compile_errors,
           "executions": counters.executions, "cache_errors": counters.cache_errors,
           "quarantined": counters.quarantined})
}

fn components(components: &[v1::KeyComponent]) -> Value {
    let component = |component: &v1::KeyComponent| json!({"name": component.name, "value": component.value, "digest": component.digest});
    components.iter().map(component).collect()
}

pub(super) fn entry(entry: &v1::CacheEntry) -> Value {
    json!({"key": entry.key, "kind": entry.kind, "tier": entry.tier, "bytes": entry.bytes,
           "last_used_unix_seconds": entry.last_used_unix_seconds, "components": components(&entry.components)})
}

pub(super) fn explanation(reply: &v1::ExplainCacheReply) -> Value {
    json!({"key": reply.key, "stored": reply.stored, "components": components(&reply.components),
           "nearest": reply.nearest.as_ref().map(entry), "differing": reply.differing})
}

/// A compile's result; `fits` is null when nobody knows.
pub(super) fn compile_result(result: &v1::CompileResult, target: &str, fits: Option<bool>) -> Value {
    let report = result.report.clone().unwrap_or_default();
    let memory = report.memory.filter(|memory| memory.available).map(|memory| {
        json!({"argument_bytes": memory.argument_bytes, "output_bytes": memory.output_bytes,
               "temporary_bytes": memory.temporary_bytes, "alias_bytes": memory.alias_bytes,
               "code_bytes": memory.code_bytes, "peak_bytes": memory.peak_bytes,
               "device_bytes": memory.device_bytes})
    });
    let cost = report.cost.filter(|cost| cost.available).map(|cost| {
        let roofline = tpu::roofline_seconds(target, cost.flops, cost.bytes_accessed);
        json!({"flops": cost.flops, "bytes_accessed": cost.bytes_accessed, "optimal_seconds": cost.optimal_seconds,
               "roofline_seconds": roofline})
    });
    let ops: Vec<Value> = report.ops.iter().map(|op| json!({"op": op.op, "count": op.count})).collect();
    let timings = result.timings.unwrap_or_default();
    json!({"target": target, "graph_key": result.graph_key, "module_key": result.module_key,
           "outcome": result.outcome().as_str_name(), "fits": fits, "memory": memory, "cost": cost, "ops": ops,
           "executable_bytes": report.executable_bytes, "module_bytes": report.module_bytes,
           "timings": {"queue_seconds": timings.queue_seconds, "lower_seconds": timings.lower_seconds,
                       "serialize_seconds": timings.serialize_seconds, "compile_seconds": timings.compile_seconds,
                       "load_seconds": timings.load_seconds, "total_seconds": timings.total_seconds},
           "graph_key_components": components(&result.graph_key_components),
           "module_key_components": components(&result.module_key_components)})
}
