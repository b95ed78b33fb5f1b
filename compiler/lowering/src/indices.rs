//! Index tensors: element type, wrapping of negative values, gathers and scatters along dimensions.
//!
//! Eager torch raises on an index out of range. A compiled program cannot: a gather reads the nearest element in range,
//! a scatter drops the update. An index of 64 bits is read as 32 bits when that holds every valid index.

use tpud_stablehlo::{Direction, ElementType, GatherDims, Scalar, ScatterDims, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::types::accumulation_type;

type Result<T> = std::result::Result<T, RuleError>;

/// The narrowest type for positions below `size`: accelerators emulate 64-bit integers.
pub(crate) fn index_element(size: i64) -> ElementType {
    if size <= i64::from(i32::MAX) { ElementType::I32 } else { ElementType::I64 }
}

/// How a scatter combines the old element with an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    /// The update wins; of several updates one wins.
    Replace,
    Sum,
    Product,
    Max,
    Min,
}

/// Where a scatter writes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Integer positions.
    pub(crate) indices: Value,
    /// How they address the operand.
    pub(crate) dims: ScatterDims,
}

impl Target {
    /// Positions of any shape along `dim` of an operand of the given rank: updates are `[before…, positions…, after…]`.
    pub(crate) fn along(ctx: &LoweringContext<'_>, indices: Value, dim: usize, rank: usize) -> Self {
        let count = ctx.b.rank(indices);
        let windows = (0..dim).chain(dim + count..rank + count - 1).map(|d| d as i64).collect();
        let dims = ScatterDims {
            update_window_dims: windows,
            inserted_window_dims: vec![dim as i64],
            scatter_dims_to_operand_dims: vec![dim as i64],
            index_vector_dim: count as i64,
            ..ScatterDims::default()
        };
        Self { indices, dims }
    }

    /// One position along `dim` for every element, where the other sizes are the operand's.
    pub(crate) fn elementwise(ctx: &LoweringContext<'_>, indices: Value, dim: usize) -> Self {
        let rank = ctx.b.rank(indices);
        let others: Vec<i64> = (0..rank).filter(|d| *d != dim).map(|d| d as i64).collect();
        let dims = ScatterDims {
            inserted_window_dims: vec![dim as i64],
            input_batching_dims: others.clone(),
            scatter_indices_batching_dims: others,
            scatter_dims_to_operand_dims: vec![dim as i64],
            index_vector_dim: rank as i64,
            ..ScatterDims::default()
        };
        Self { indices, dims }
    }
}

impl LoweringContext<'_> {
    /// An index tensor for a dimension of `size` elements, in the type of [`index_element`].
    pub(crate) fn index(&mut self, index: Value, size: i64) -> Result<Value> {
        self.convert(index, index_element(size))
    }

    /// An index tensor whose negative values count from the end.
    pub(crate) fn wrapped_index(&mut self, index: Value, size: i64) -> Result<Value> {
        let index = self.index(index, size)?;
        let zero = self.fill_like(Scalar::Int(0), index)?;
        let size = self.fill_like(Scalar::Int(size), index)?;
        let negative = self.b.compare(Direction::Lt, index, zero)?;
        let from_end = self.b.add(index, size)?;
        Ok(self.b.select(negative, from_end, index)?)
    }

    /// `[before…, positions…, after…]`: the lines of `x` at `index` (any shape) along `dim`.
    pub(crate) fn take_along(&mut self, x: Value, index: Value, dim: usize) -> Result<Value> {
        let (ty, positions) = (self.b.ty(x).clone(), self.b.dims(index).to_vec());
        let mut out = ty.dims.clone();
        out.splice(dim..=dim, positions.iter().copied());
        if out.contains(&0) {
            return Ok(self.b.splat(Scalar::Int(0), &ty.with_dims(out))?);
        }
        let mut window = ty.dims;
        if window[dim] == 0 {
            return Err(RuleError::unsupported(
                "every index into a dimension without elements is out of range",
            ));
        }
        window[dim] = 1;
        let dims = GatherDims {
            offset_dims: (0..dim).chain(dim + positions.len()..out.len()).map(|d| d as i64).collect(),
            collapsed_slice_dims: vec![dim as i64],
            start_index_map: vec![dim as i64],
            index_vector_dim: positions.len() as i64,
            ..GatherDims::default()
        };
        Ok(self.b.gather(x, index, &dims, &window)?)
    }

    /// Scatters `updates` into `x`. Sums and products of narrow floats are rounded once, at the end.
    pub(crate) fn scatter(
        &mut self,
        x: Value,
        target: &Target,
        updates: Value,
        combine: Combine,
    ) -> Result<Value> {
        if self.b.ty(updates).elements() == 0 || self.b.ty(x).elements() == 0 {
            return Ok(x);
        }
        let element = self.b.element(x);
        let wide = match combine {
            Combine::Sum | Combine::Product => accumulation_type(element),
            Combine::Replace | Combine::Max | Combine::Min => element,
        };
        let (x, updates) = (self.convert(x, wide)?, self.convert(updates, wide)?);
        let out =
            self.b.scatter(x, target.indices, updates, &target.dims, false, |b, old, new| match combine {
                Combine::Replace => Ok(new),
                Combine::Sum => b.add(old, new),
                Combine::Product => b.mul(old, new),
                Combine::Max => b.max(old, new),
                Combine::Min => b.min(old, new),
            })?;
        self.convert(out, element)
    }
}
