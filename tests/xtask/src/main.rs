//! `cargo xtask`: code generation and the house rules that a compiler cannot check.
#![allow(clippy::print_stdout)]

mod codegen;
mod tidy;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["codegen"] => codegen::run(false),
        ["codegen", "--check"] => codegen::run(true),
        ["tidy"] => tidy::run(),
        _ => bail!("usage: cargo xtask codegen [--check] | tidy"),
    }
}
