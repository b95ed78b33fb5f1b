//! The house rules that no compiler checks: module docs, file sizes, who may name what, which crate may see which,
//! a conformance case for every rule.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tpud_lowering::supported_ops;

use crate::{cases, root};

/// A file over this is split by what it is about.
const MAX_LINES: usize = 600;

/// For each crate the workspace crates it may depend on. The arrows of docs/ARCHITECTURE.md.
const ALLOWED: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("compiler/graph", &["tpud-proto"]),
    ("compiler/stablehlo", &[]),
    ("compiler/mlir", &["tpud-stablehlo"]),
    ("compiler/lowering", &["tpud-graph", "tpud-stablehlo"]),
    ("runtime/pjrt-sys", &[]),
    ("runtime/pjrt", &["tpud-pjrt-sys"]),
    ("runtime/device", &["tpud-pjrt", "tpud-proto"]),
    ("runtime/cache", &[]),
    (
        "runtime/daemon",
        &[
            "tpud-proto",
            "tpud-graph",
            "tpud-stablehlo",
            "tpud-mlir",
            "tpud-lowering",
            "tpud-pjrt",
            "tpud-device",
            "tpud-cache",
        ],
    ),
    ("python-client", &["tpud-proto", "tpud-device"]),
    ("tests/xtask", &["tpud-lowering"]),
];

/// Outside crates that only some crates may name.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("melior", &["compiler/mlir"]),
    ("mlir-sys", &["compiler/mlir"]),
    ("pjrt-sys", &["runtime/pjrt-sys"]),
    ("tonic", &["proto", "runtime/daemon", "python-client"]),
    ("anyhow", &["runtime/daemon", "tests/xtask"]),
];

/// Checks every rule and reports all breaches at once.
pub(crate) fn run() -> Result<()> {
    let root = root();
    let mut faults = Vec::new();
    check_edges(&root, &mut faults)?;
    let mut files = Vec::new();
    for top in ["proto/src", "compiler", "runtime", "python-client", "tests"] {
        collect(&root.join(top), &mut files)?;
    }
    files.sort();
    for file in &files {
        check_file(&root, file, &mut faults)?;
    }
    let cases = cases::read(&root.join("tests/conformance/cases"))?;
    faults.extend(cases::mismatches(&cases, &supported_ops()));
    if !faults.is_empty() {
        bail!("tidy:\n  {}", faults.join("\n  "));
    }
    println!("tidy: {} files", files.len());
    Ok(())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.')
                && !["generated", "target", "__pycache__", "fixtures", "snapshots"].contains(&name)
            {
                collect(&path, files)?;
            }
        } else if matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "py")) {
            files.push(path);
        }
    }
    Ok(())
}

fn check_file(root: &Path, path: &Path, faults: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let name = path.strip_prefix(root).unwrap_or(path).display();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{name}: {lines} lines (split it: {MAX_LINES} is the most)"));
    }
    let is_rust = path.extension().is_some_and(|e| e == "rs");
    let documented = if is_rust {
        text.starts_with("//!")
    } else {
        // A script may open with its interpreter line; an empty `__init__.py` needs no words.
        let body =
            if text.starts_with("#!") { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        body.is_empty() || body.starts_with("\"\"\"")
    };
    if !documented {
        faults.push(format!("{name}: the file does not open with what it is about"));
    }
    Ok(())
}

/// Compares the `[dependencies]` of every crate with the tables above.
fn check_edges(root: &Path, faults: &mut Vec<String>) -> Result<()> {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for (krate, edges) in &allowed {
        let manifest =
            fs::read_to_string(root.join(krate).join("Cargo.toml")).with_context(|| (*krate).to_owned())?;
        for dependency in dependencies(&manifest) {
            if dependency.starts_with("tpud-") && !edges.contains(&dependency.as_str()) {
                faults.push(format!("{krate} must not depend on {dependency}"));
            }
            if let Some((_, users)) = RESTRICTED.iter().find(|(name, _)| *name == dependency)
                && !users.contains(krate)
            {
                faults.push(format!("{krate} must not name {dependency}; only {} may", users.join(", ")));
            }
        }
    }
    Ok(())
}

/// Names in the `[dependencies]` section (dev-dependencies may cross the arrows).
fn dependencies(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}
