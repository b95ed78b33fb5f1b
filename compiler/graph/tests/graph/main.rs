//! The wire form of graphs, the contract, the canonical bytes; nothing a client sends makes a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod canonical;
mod contract;
mod hostile;
mod messages;
mod nested;
mod wire;
