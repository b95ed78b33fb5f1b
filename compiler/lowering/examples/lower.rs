//! `lower GRAPH…`: prints the StableHLO text of encoded graphs, for development. `--ops` lists the supported ops.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use tpud_graph::Graph;
use tpud_lowering::{LoweringOptions, lower, supported_ops};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == ["--ops"] {
        println!("{}", supported_ops().join("\n"));
        return ExitCode::SUCCESS;
    }
    for path in &args {
        match run(path) {
            Ok(text) => println!("{text}"),
            Err(message) => {
                eprintln!("{path}: {message}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn run(path: &str) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let graph = Graph::decode(&bytes).map_err(|e| e.to_string())?;
    let lowered = lower(&graph, &LoweringOptions::default()).map_err(|e| e.to_string())?;
    Ok(lowered.module.to_string())
}
