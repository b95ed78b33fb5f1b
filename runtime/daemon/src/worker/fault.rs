//! Faults on purpose, for tests of what the daemon does about them. Compiled into debug builds only.

use std::time::Duration;

use crate::env;

/// The fault for a graph of this name. `FAULT@NAME` leaves graphs of other names alone.
fn fault_for(graph: &str) -> Option<String> {
    let fault = env::read(env::TEST_FAULT)?.into_string().ok()?;
    match fault.rsplit_once('@') {
        Some((fault, name)) => (name == graph).then(|| fault.to_owned()),
        None => Some(fault),
    }
}

/// The module in a file that `TPUD_TEST_FAULT=module:FILE` puts in the place of a graph's own.
pub(super) fn replacement(graph: &str) -> Option<Vec<u8>> {
    let file = fault_for(graph)?.strip_prefix("module:")?.to_owned();
    std::fs::read(file).ok()
}

/// Does what `TPUD_TEST_FAULT` says to a graph of this name, just before XLA would run.
pub(super) fn inject(graph: &str) {
    let Some(fault) = fault_for(graph) else { return };
    match fault.as_str() {
        "abort" => {
            tracing::error!("TPUD_TEST_FAULT: F0000 check failed: this worker aborts");
            std::process::abort();
        }
        "hang" => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        other => match other.strip_prefix("sleep:").map(str::parse::<f64>) {
            Some(Ok(seconds)) if (0.0..1e6).contains(&seconds) => {
                std::thread::sleep(Duration::from_secs_f64(seconds));
            }
            _ if other.starts_with("module:") => {}
            _ => tracing::warn!("TPUD_TEST_FAULT={other:?} is not abort, hang, sleep:SECONDS or module:FILE"),
        },
    }
}
