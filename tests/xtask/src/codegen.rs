//! Generates `proto/src/generated` from `proto/tpud/v1`. The output is committed; `--check` fails when it is stale.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::root;

/// Writes the generated files, or compares them with what is committed.
pub(crate) fn run(check: bool) -> Result<()> {
    let out = env::temp_dir().join(format!("tpud-codegen-{}", std::process::id()));
    fs::create_dir_all(&out)?;
    let result = generate(&out).and_then(|()| install(&out, check));
    fs::remove_dir_all(&out)?;
    result
}

fn generate(out: &Path) -> Result<()> {
    let proto = root().join("proto");
    let mut files: Vec<PathBuf> = fs::read_dir(proto.join("tpud/v1"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "proto"))
        .collect();
    files.sort();
    tonic_prost_build::configure()
        .out_dir(out)
        .bytes(".tpud.v1.HostData.inline")
        .bytes(".tpud.v1.Upload")
        .server_mod_attribute("tpud.v1", "#[cfg(feature = \"services\")]")
        .client_mod_attribute("tpud.v1", "#[cfg(feature = \"services\")]")
        .file_descriptor_set_path(out.join("descriptor.bin"))
        .compile_protos(&files, &[proto])
        .context("protoc failed (Debian package protobuf-compiler)")
}

fn install(out: &Path, check: bool) -> Result<()> {
    let target = root().join("proto/src/generated");
    fs::create_dir_all(&target)?;
    for name in ["tpud.v1.rs", "descriptor.bin"] {
        let fresh = fs::read(out.join(name))?;
        let path = target.join(name);
        if check && fs::read(&path).unwrap_or_default() != fresh {
            bail!("{} is stale: run `cargo xtask codegen`", path.display());
        }
        if !check {
            fs::write(&path, fresh)?;
        }
    }
    println!("codegen: {}", if check { "up to date" } else { "written" });
    Ok(())
}
