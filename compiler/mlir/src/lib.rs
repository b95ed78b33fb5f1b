//! MLIR bytecode of [`tpud_stablehlo`] modules.
//!
//! The only crate that names melior or mlir-sys. StableHLO stays a dialect that MLIR does not know: ops are made in
//! generic form, and what checks them is the dialect in XLA (and, in tests, in jaxlib). Bytecode carries no
//! locations, so that the same program gives the same bytes whatever its line numbers are.
//!
//! Everything here is single-threaded and owns its MLIR context for the time of one call.
#![allow(unsafe_code)] // melior lacks bytecode settings, raw-buffer constants, bool arrays and dictionaries
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod attributes;
mod bytecode;
mod dense;
mod emit;
mod error;
mod session;
mod types;

pub use bytecode::BYTECODE_VERSION;
pub use error::MlirError;

use tpud_stablehlo::Module;

/// The module as MLIR bytecode of version [`BYTECODE_VERSION`], ready for a PJRT compile.
///
/// Equal modules give equal bytes, on any host and whatever their locations.
pub fn to_bytecode(module: &Module) -> Result<Vec<u8>, MlirError> {
    let session = session::Session::new();
    let emitted = emit::emit(&session, module)?;
    bytecode::write(&session, &emitted)
}
