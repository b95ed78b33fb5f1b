//! `tpud status` and `tpud shutdown`.

use std::fmt::Write;

use serde_json::json;
use tpud_proto::v1::{self, status_client::StatusClient};

use super::connect::{Absent, connect};
use super::failure::Failure;
use super::output::{Output, bytes, seconds};
use super::{Common, json};

/// Shows what the daemon does.
pub(super) async fn show(common: &Common, output: Output) -> Result<(), Failure> {
    let mut client = StatusClient::new(connect(common, Absent::Refuse).await?);
    let status = client.get(v1::StatusRequest {}).await?.into_inner();
    Ok(output.result(&json::status(&status), || text(&status))?)
}

/// Asks the daemon to go down.
pub(super) async fn shutdown(common: &Common, output: Output) -> Result<(), Failure> {
    let mut client = StatusClient::new(connect(common, Absent::Refuse).await?);
    let status = client.get(v1::StatusRequest {}).await?.into_inner();
    client.shutdown(v1::ShutdownRequest {}).await?;
    let value = json!({"pid": status.pid, "shutting_down": true});
    Ok(output.result(&value, || format!("daemon {} finishes its work and exits", status.pid))?)
}

fn text(status: &v1::StatusReply) -> String {
    let mut text = String::new();
    let counters = status.counters.unwrap_or_default();
    // Writing to a string can't fail.
    let _ = writeln!(text, "tpud {} (pid {}) on {}", status.version, status.pid, status.address);
    let _ = writeln!(text, "  up        {}", seconds(status.uptime_seconds));
    let cache = if status.cache_directory.is_empty() { "in memory only" } else { &status.cache_directory };
    let _ = writeln!(text, "  cache     {cache}");
    let _ = writeln!(text, "  sessions  {}", status.sessions);
    for device in &status.devices {
        let used = bytes(device.memory_used_bytes);
        let _ =
            writeln!(text, "  device    {} ({}), {used} held by sessions", device.description, device.kind);
    }
    let busy = status.workers.iter().filter(|worker| worker.busy);
    let _ = writeln!(
        text,
        "  workers   {} ({} busy), {} waiting",
        status.workers.len(),
        busy.clone().count(),
        status.queued
    );
    for worker in busy {
        let key = worker.graph_key.get(..12).unwrap_or(&worker.graph_key);
        let _ =
            writeln!(text, "            pid {}: graph {key}, {}", worker.pid, seconds(worker.busy_seconds));
    }
    let _ = writeln!(
        text,
        "  compiles  {} requests: {} compiled, {} memory hits, {} disk hits, {} module hits, {} shared, {} errors",
        counters.compile_requests,
        counters.xla_compiles,
        counters.memory_hits,
        counters.disk_hits,
        counters.module_hits,
        counters.shared,
        counters.compile_errors,
    );
    let _ = writeln!(
        text,
        "  runs      {} executions; {} workers died, {} cache errors, {} entries quarantined",
        counters.executions, counters.worker_deaths, counters.cache_errors, counters.quarantined,
    );
    text
}
