//! The tpud daemon: sessions, keys, cache, scheduling and the device behind gRPC, compile workers in child processes,
//! and the `tpud` command.
//!
//! Invariants: no process that holds sessions parses MLIR or runs XLA's compiler; only this crate and the client's
//! extension know tonic; `status.rs` alone decides which gRPC code and reason an error has.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod address;
mod assemble;
pub mod cli;
mod compile;
pub mod config;
mod counters;
pub mod env;
mod error;
mod execute;
mod guard;
mod inspect;
mod lock;
mod platforms;
mod pool;
mod random;
mod server;
mod services;
mod session;
mod socket;
mod state;
mod status;
mod sync;
mod wire;
mod worker;

pub use server::{ServeError, Served, serve};
pub use wire::from_status;

/// This build's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Every op overload that this build can lower, sorted.
pub fn supported_ops() -> Vec<String> {
    let mut ops: Vec<String> = tpud_lowering::supported_ops().into_iter().map(str::to_owned).collect();
    ops.sort();
    ops
}
