//! Lowerings as people read them (snapshots of StableHLO text), the driver around them, and the list of rules.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod checks;
mod creation;
mod driver;
mod dsl;
mod hostile;
mod indexing;
mod linear;
mod nested;
mod pointwise;
mod products;
mod random;
mod reductions;
mod shapes;
mod windows;
