//! Reaching the daemon, and starting the per-user one when nobody answers.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tonic::transport::{Channel, Endpoint};

use super::Common;
use super::failure::Failure;
use crate::address::Address;

/// How long a daemon that was just started may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest message that is accepted from a daemon.
pub(super) const MAX_REPLY: usize = 256 << 20;

/// What to do when the per-user daemon does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Start,
    Refuse,
}

/// Connects to the daemon that the options name, or to the per-user one.
pub(super) async fn connect(common: &Common, absent: Absent) -> Result<Channel, Failure> {
    if let Some(address) = &common.address {
        return Ok(dial(address).await.with_context(|| format!("no daemon answers at {address}"))?);
    }
    let address = Address::per_user()?;
    let Address::Unix(socket) = &address else { return Ok(dial(&address.to_string()).await?) };
    if UnixStream::connect(socket).is_err() {
        if absent == Absent::Refuse {
            return Err(anyhow::anyhow!("no daemon is running ({address}); `tpud serve` starts one").into());
        }
        start(socket).await?;
    }
    Ok(dial(&address.to_string()).await.with_context(|| format!("no daemon answers at {address}"))?)
}

async fn dial(address: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(address.to_owned())?.connect_timeout(Duration::from_secs(5));
    Ok(endpoint.connect().await?)
}

/// Starts a daemon that outlives this command, and waits until it answers.
async fn start(socket: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let log_path = socket.with_file_name("daemon.log");
    let log = std::fs::File::create(&log_path).with_context(|| format!("writing {}", log_path.display()))?;
    let mut child = Command::new(&program)
        .args(["serve", "--detach"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if UnixStream::connect(socket).is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait()?
            && !status.success()
        {
            bail!("the daemon did not start ({status}):\n{}", tail(&log_path));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("the daemon did not answer within {} s:\n{}", PATIENCE.as_secs(), tail(&log_path))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
