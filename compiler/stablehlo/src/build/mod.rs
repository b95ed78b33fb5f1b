//! Builder methods, a file per kind of op. Each names its StableHLO op and infers its result.

pub(crate) mod control;
mod create;
pub(crate) mod elementwise;
pub(crate) mod gather_scatter;
pub(crate) mod linear;
mod math;
mod random;
pub(crate) mod reduce;
mod shape;
pub(crate) mod window;

use crate::{BuildError, Result};

/// Checks that `dim` names one of `rank` dimensions.
fn check_dim(op: &'static str, dim: i64, rank: usize) -> Result<usize> {
    usize::try_from(dim)
        .ok()
        .filter(|d| *d < rank)
        .ok_or_else(|| BuildError::new(op, format!("dimension {dim} is not one of {rank}")))
}
