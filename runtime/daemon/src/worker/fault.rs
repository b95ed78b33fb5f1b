//! Faults on purpose, for tests of what the daemon does about them. Compiled into debug builds only.

use std::time::Duration;

use crate::env;

/// Does what `TPUD_TEST_FAULT` says to a graph of this name, just before XLA would run. `FAULT@NAME` leaves graphs of
/// other names alone.
pub(super) fn inject(graph: &str) {
    let Some(fault) = env::read(env::TEST_FAULT) else { return };
    let fault = fault.to_string_lossy();
    let (fault, name) = fault.split_once('@').unwrap_or((fault.as_ref(), graph));
    if name != graph {
        return;
    }
    match fault {
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
            _ => tracing::warn!("TPUD_TEST_FAULT={other:?} is not abort, hang or sleep:SECONDS"),
        },
    }
}
