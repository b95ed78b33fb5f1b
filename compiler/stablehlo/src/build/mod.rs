//! Builder methods, a file per kind of op. Each names its StableHLO op and infers its result.

pub(crate) mod control;
mod create;
pub(crate) mod elementwise;
mod factorize;
pub(crate) mod gather_scatter;
pub(crate) mod linear;
mod math;
mod random;
pub(crate) mod reduce;
mod shape;
pub(crate) mod window;

use crate::{Attr, BuildError, ElementType, Literal, Result, TensorType};

/// Checks that `dim` names one of `rank` dimensions.
fn check_dim(op: &'static str, dim: i64, rank: usize) -> Result<usize> {
    usize::try_from(dim)
        .ok()
        .filter(|d| *d < rank)
        .ok_or_else(|| BuildError::new(op, format!("dimension {dim} is not one of {rank}")))
}

/// Checks that `dims` are dimensions of `rank`, each at most once.
fn check_distinct(op: &'static str, dims: &[i64], rank: usize) -> Result<()> {
    let mut seen = vec![false; rank];
    for &dim in dims {
        if std::mem::replace(&mut seen[check_dim(op, dim, rank)?], true) {
            return Err(BuildError::new(op, format!("dimension {dim} occurs twice in {dims:?}")));
        }
    }
    Ok(())
}

/// One dimension under a sliding window.
#[derive(Debug, Clone, Copy)]
struct Slide {
    size: i64,
    base_dilation: i64,
    padding: (i64, i64),
    window: i64,
    dilation: i64,
    stride: i64,
}

impl Slide {
    /// How often the window fits; none when the geometry is no legal one.
    fn positions(self) -> Option<i64> {
        if self.base_dilation < 1 || self.window < 1 || self.dilation < 1 || self.stride < 1 {
            return None;
        }
        let dilated = |n: i64, by: i64| if n == 0 { 0 } else { (i128::from(n) - 1) * i128::from(by) + 1 };
        let (low, high) = self.padding;
        let size = dilated(self.size, self.base_dilation) + i128::from(low) + i128::from(high);
        let window = dilated(self.window, self.dilation);
        let positions = if size < window { 0 } else { (size - window) / i128::from(self.stride) + 1 };
        i64::try_from(positions).ok()
    }
}

/// A `tensor<n x 2 x i64>` of (low, high) pairs.
fn padding_attr(padding: &[(i64, i64)]) -> Result<Attr> {
    let bytes = padding.iter().flat_map(|(low, high)| [*low, *high]).flat_map(i64::to_le_bytes).collect();
    let ty = TensorType::new(ElementType::I64, vec![padding.len() as i64, 2]);
    Ok(Attr::Dense(Literal::dense(ty, bytes)?))
}
