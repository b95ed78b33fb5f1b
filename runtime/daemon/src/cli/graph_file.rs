//! Graphs from files: what the client saved, or an archive that the Python client converts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use tpud_proto::v1;

use crate::env;

/// Reads the encoded graph in a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    if !path.is_file() {
        bail!("{} is not a file", path.display());
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("tpudgraph") => std::fs::read(path).with_context(|| format!("reading {}", path.display())),
        Some("pt2") => convert(path),
        _ => bail!(
            "{}: a graph has the extension .tpudgraph (saved by the client) or .pt2 (saved by torch.export.save)",
            path.display()
        ),
    }
}

/// Has the Python client convert an archive of `torch.export`.
fn convert(path: &Path) -> anyhow::Result<Vec<u8>> {
    let python = env::read(env::PYTHON).unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let advice =
        format!("set {} to a Python in which `pip install tpud` and torch are installed", env::PYTHON);
    let converted = Command::new(&python).args(["-m", "tpud.export", "-o", "-"]).arg(path).output();
    let converted = converted.with_context(|| format!("{name} does not start; {advice}"))?;
    if converted.status.success() {
        return Ok(converted.stdout);
    }
    let complaint = String::from_utf8_lossy(&converted.stderr);
    let missing = ["No module named tpud", "No module named 'tpud'", "No module named 'torch'"];
    if missing.iter().any(|text| complaint.contains(text)) {
        bail!("converting {} needs the Python client, which {name} does not have; {advice}", path.display());
    }
    bail!("{name} -m tpud.export {} failed:\n{}", path.display(), complaint.trim_end())
}

/// A target as people write it: `cpu`, or a TPU topology.
pub(super) fn target(text: &str) -> v1::Target {
    if text == "cpu" {
        v1::Target { platform: "cpu".to_owned(), topology: String::new() }
    } else {
        let topology = text.strip_prefix("tpu/").unwrap_or(text);
        v1::Target { platform: "tpu".to_owned(), topology: topology.to_owned() }
    }
}
