//! StableHLO modules as plain data.
//!
//! A [`Builder`] makes a [`Module`] op by op. Every builder method infers its result type, checks its operands and
//! returns a [`Value`], a small copyable number. Nothing here knows MLIR: crate `tpud-mlir` turns a module into
//! bytecode, and `Display` prints the same module as MLIR text for people, snapshots and tests.
//!
//! Shapes are static. Ops are pure, so equal ops of one region are built once (common subexpressions are shared).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod attr;
mod build;
mod builder;
mod error;
mod literal;
mod module;
mod print;
mod types;

pub use attr::Attr;
pub use build::control::SortOrder;
pub use build::elementwise::{Binary, Direction, Unary};
pub use build::gather_scatter::{GatherDims, ScatterDims};
pub use build::linear::{ConvolutionDims, DotDims};
pub use build::reduce::Monoid;
pub use build::window::Window;
pub use builder::Builder;
pub use error::BuildError;
pub use literal::{Literal, Scalar};
pub use module::{LocationId, Module, Op, Region, SourceLocation, Value};
pub use types::{ElementType, TensorType};

/// What every builder method returns.
pub type Result<T, E = BuildError> = std::result::Result<T, E>;
