//! `gather` and `scatter`. Out-of-range gather windows are clamped, out-of-range scatter windows are dropped.

use crate::{Attr, BuildError, Builder, Result, TensorType, Value};

use super::check_distinct;

/// Dimension numbers of [`Builder::gather`].
#[derive(Debug, Clone, Default)]
pub struct GatherDims {
    /// Result dimensions that run over the window.
    pub offset_dims: Vec<i64>,
    /// Window dimensions of size 1 that disappear.
    pub collapsed_slice_dims: Vec<i64>,
    /// Operand dimensions that are batched with the indices.
    pub operand_batching_dims: Vec<i64>,
    /// The dimensions of the indices they go with.
    pub start_indices_batching_dims: Vec<i64>,
    /// The operand dimension that each index component moves along.
    pub start_index_map: Vec<i64>,
    /// The dimension of the indices that holds the components (its rank: each index is one component).
    pub index_vector_dim: i64,
}

/// Dimension numbers of [`Builder::scatter`].
#[derive(Debug, Clone, Default)]
pub struct ScatterDims {
    /// Dimensions of the updates that run over the window.
    pub update_window_dims: Vec<i64>,
    /// Window dimensions of size 1 that the updates lack.
    pub inserted_window_dims: Vec<i64>,
    /// Operand dimensions that are batched with the indices.
    pub input_batching_dims: Vec<i64>,
    /// The dimensions of the indices they go with.
    pub scatter_indices_batching_dims: Vec<i64>,
    /// The operand dimension that each index component moves along.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// The dimension of the indices that holds the components.
    pub index_vector_dim: i64,
}

/// The sizes of the indices without the dimension of components.
fn batch_dims(indices: &TensorType, index_vector_dim: i64) -> Vec<i64> {
    (0..indices.rank()).filter(|d| *d as i64 != index_vector_dim).map(|d| indices.dims[d]).collect()
}

/// Checks that each component of an index moves along its own dimension of the operand.
fn check_index_map(
    op: &'static str,
    indices: &TensorType,
    index_vector_dim: i64,
    map: &[i64],
    rank: usize,
) -> Result<()> {
    check_distinct(op, map, rank)?;
    let components = indices.dims.get(index_vector_dim as usize).copied().unwrap_or(1);
    if components == map.len() as i64 {
        return Ok(());
    }
    Err(BuildError::new(op, format!("{indices} holds {components} components, mapped to {map:?}")))
}

impl Builder {
    /// `stablehlo.gather`: a window of `slice_sizes` for each index.
    pub fn gather(
        &mut self,
        x: Value,
        indices: Value,
        dims: &GatherDims,
        slice_sizes: &[i64],
    ) -> Result<Value> {
        let op = "stablehlo.gather";
        let (ty, idx) = (self.ty(x).clone(), self.ty(indices).clone());
        let fits = slice_sizes.len() == ty.rank()
            && slice_sizes.iter().zip(&ty.dims).all(|(s, d)| 0 <= *s && s <= d)
            && idx.element.is_integer()
            && (0..=idx.rank() as i64).contains(&dims.index_vector_dim);
        if !fits {
            return Err(BuildError::new(op, format!("{ty} by {idx}, window {slice_sizes:?}, {dims:?}")));
        }
        check_distinct(
            op,
            &[&dims.collapsed_slice_dims[..], &dims.operand_batching_dims].concat(),
            ty.rank(),
        )?;
        check_distinct(op, &dims.start_indices_batching_dims, idx.rank())?;
        check_index_map(op, &idx, dims.index_vector_dim, &dims.start_index_map, ty.rank())?;
        let dropped = dims.collapsed_slice_dims.iter().chain(&dims.operand_batching_dims);
        if let Some(d) = dropped.into_iter().find(|d| slice_sizes[**d as usize] > 1) {
            let message =
                format!("dimension {d} disappears, but its window {slice_sizes:?} is larger than 1");
            return Err(BuildError::new(op, message));
        }
        let mut batch = batch_dims(&idx, dims.index_vector_dim).into_iter();
        let mut window = (0..ty.rank() as i64)
            .filter(|d| !dims.collapsed_slice_dims.contains(d) && !dims.operand_batching_dims.contains(d))
            .map(|d| slice_sizes[d as usize]);
        let rank = batch.len() + dims.offset_dims.len();
        let out: Option<Vec<i64>> = (0..rank as i64)
            .map(|d| if dims.offset_dims.contains(&d) { window.next() } else { batch.next() })
            .collect();
        let (Some(out), None, None) = (out, window.next(), batch.next()) else {
            return Err(BuildError::new(op, format!("{ty} by {idx}: {dims:?} do not cover the result")));
        };
        let numbers = format!(
            "#stablehlo.gather<offset_dims = {:?}, collapsed_slice_dims = {:?}, operand_batching_dims = {:?}, \
             start_indices_batching_dims = {:?}, start_index_map = {:?}, index_vector_dim = {}>",
            dims.offset_dims,
            dims.collapsed_slice_dims,
            dims.operand_batching_dims,
            dims.start_indices_batching_dims,
            dims.start_index_map,
            dims.index_vector_dim
        );
        let attrs = vec![
            ("dimension_numbers", Attr::Verbatim(numbers)),
            ("slice_sizes", Attr::I64s(slice_sizes.to_vec())),
            ("indices_are_sorted", Attr::Bool(false)),
        ];
        self.op(op, &[x, indices], attrs, ty.with_dims(out))
    }

    /// `stablehlo.scatter` of one operand. `body` combines (old, update), both 0-d. `unique` promises that no two
    /// updates meet.
    pub fn scatter(
        &mut self,
        x: Value,
        indices: Value,
        updates: Value,
        dims: &ScatterDims,
        unique: bool,
        body: impl FnOnce(&mut Self, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let op = "stablehlo.scatter";
        let (ty, idx, up) = (self.ty(x).clone(), self.ty(indices).clone(), self.ty(updates).clone());
        let window = dims.update_window_dims.len();
        let fits = idx.element.is_integer()
            && up.element == ty.element
            && (0..=idx.rank() as i64).contains(&dims.index_vector_dim)
            && up.rank() == window + batch_dims(&idx, dims.index_vector_dim).len()
            && ty.rank() == window + dims.inserted_window_dims.len() + dims.input_batching_dims.len();
        if !fits {
            return Err(BuildError::new(op, format!("{ty} by {idx} with {up}, {dims:?}")));
        }
        let inserted = [&dims.inserted_window_dims[..], &dims.input_batching_dims].concat();
        check_distinct(op, &inserted, ty.rank())?;
        check_distinct(op, &dims.update_window_dims, up.rank())?;
        check_index_map(op, &idx, dims.index_vector_dim, &dims.scatter_dims_to_operand_dims, ty.rank())?;
        let scalar = TensorType::scalar(ty.element);
        let (region, results) =
            self.region(&[scalar.clone(), scalar.clone()], |b, args| Ok(vec![body(b, args[0], args[1])?]))?;
        if results != [scalar] {
            return Err(BuildError::new(op, format!("the body returns {}", results[0])));
        }
        let numbers = format!(
            "#stablehlo.scatter<update_window_dims = {:?}, inserted_window_dims = {:?}, input_batching_dims = {:?}, \
             scatter_indices_batching_dims = {:?}, scatter_dims_to_operand_dims = {:?}, index_vector_dim = {}>",
            dims.update_window_dims,
            dims.inserted_window_dims,
            dims.input_batching_dims,
            dims.scatter_indices_batching_dims,
            dims.scatter_dims_to_operand_dims,
            dims.index_vector_dim
        );
        let attrs = vec![
            ("scatter_dimension_numbers", Attr::Verbatim(numbers)),
            ("indices_are_sorted", Attr::Bool(false)),
            ("unique_indices", Attr::Bool(unique)),
        ];
        Ok(self.push(op, &[x, indices, updates], attrs, vec![region], vec![ty])?[0])
    }
}
