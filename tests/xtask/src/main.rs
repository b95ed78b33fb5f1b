//! `cargo xtask`: code generation and the house rules that a compiler cannot check.
#![allow(clippy::print_stdout)]

mod cases;
mod codegen;
mod ops_table;
mod tidy;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["codegen"] => codegen::run(false).and_then(|()| ops_table::run(false)),
        ["codegen", "--check"] => codegen::run(true).and_then(|()| ops_table::run(true)),
        ["tidy"] => tidy::run(),
        _ => bail!("usage: cargo xtask codegen [--check] | tidy"),
    }
}

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}
