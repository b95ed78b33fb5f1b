//! ATen to StableHLO: one rule per op overload.
//!
//! [`lower`] walks a contract-checked graph once and applies the rule of every node. Rules live in `ops/<family>.rs`,
//! each family ends in a table, [`registry`] concatenates the tables. Every result is compared with the type that
//! torch gave the node, so a rule cannot silently return another shape or dtype.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod args;
mod checks;
mod context;
mod driver;
mod error;
mod indices;
mod lines;
mod nested;
mod ops;
mod pointwise;
mod products;
mod random;
mod regions;
mod registry;
mod series;
mod types;

pub use checks::{Check, CheckKind};
pub use driver::{LOWERING_VERSION, Lowered, LoweringOptions, Precision, lower};
pub use error::{Issue, LoweringError};
pub use registry::{Shapes, rule_shapes, supported_ops};
