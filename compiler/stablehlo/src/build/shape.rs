//! Ops that move elements without computing.

use crate::{Attr, BuildError, Builder, Result, Value};

use super::{check_dim, check_distinct};

impl Builder {
    /// `stablehlo.reshape`; nothing when the shape is the same.
    pub fn reshape(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        let ty = self.ty(x);
        if ty.dims == dims {
            return Ok(x);
        }
        let to = ty.with_dims(dims);
        if to.elements() != ty.elements() {
            return Err(BuildError::new("stablehlo.reshape", format!("{ty} cannot become {to}")));
        }
        self.op("stablehlo.reshape", &[x], vec![], to)
    }

    /// `stablehlo.transpose`: result dimension `i` is operand dimension `permutation[i]`.
    pub fn transpose(&mut self, x: Value, permutation: &[i64]) -> Result<Value> {
        let ty = self.ty(x).clone();
        let mut sorted = permutation.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..ty.rank() as i64) {
            let message = format!("{permutation:?} is not a permutation of the dimensions of {ty}");
            return Err(BuildError::new("stablehlo.transpose", message));
        }
        if permutation.iter().copied().eq(0..ty.rank() as i64) {
            return Ok(x);
        }
        let dims: Vec<i64> = permutation.iter().map(|&d| ty.dims[d as usize]).collect();
        self.op(
            "stablehlo.transpose",
            &[x],
            vec![("permutation", Attr::I64s(permutation.to_vec()))],
            ty.with_dims(dims),
        )
    }

    /// `stablehlo.broadcast_in_dim`: operand dimension `i` becomes result dimension `dims_map[i]`; size 1 expands.
    pub fn broadcast_in_dim(&mut self, x: Value, dims: &[i64], dims_map: &[i64]) -> Result<Value> {
        let op = "stablehlo.broadcast_in_dim";
        let ty = self.ty(x).clone();
        if ty.dims == dims && dims_map.iter().copied().eq(0..dims.len() as i64) {
            return Ok(x);
        }
        if dims_map.len() != ty.rank() {
            return Err(BuildError::new(op, format!("{} mapped dimensions for {ty}", dims_map.len())));
        }
        check_distinct(op, dims_map, dims.len())?;
        for (i, &d) in dims_map.iter().enumerate() {
            let d = d as usize;
            if ty.dims[i] != dims[d] && ty.dims[i] != 1 {
                return Err(BuildError::new(
                    op,
                    format!("{ty} does not broadcast to {dims:?} by {dims_map:?}"),
                ));
            }
        }
        self.op(op, &[x], vec![("broadcast_dimensions", Attr::I64s(dims_map.to_vec()))], ty.with_dims(dims))
    }

    /// Broadcasts as torch does: dimensions are aligned at the right.
    pub fn broadcast_to(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        let rank = self.rank(x);
        if rank > dims.len() {
            let message = format!("{} does not broadcast to {dims:?}", self.ty(x));
            return Err(BuildError::new("stablehlo.broadcast_in_dim", message));
        }
        let map: Vec<i64> = (dims.len() - rank..dims.len()).map(|d| d as i64).collect();
        self.broadcast_in_dim(x, dims, &map)
    }

    /// `stablehlo.slice` with `0 ≤ start ≤ limit ≤ size` and `stride ≥ 1` for each dimension.
    pub fn slice(&mut self, x: Value, starts: &[i64], limits: &[i64], strides: &[i64]) -> Result<Value> {
        let ty = self.ty(x).clone();
        let rank = ty.rank();
        let fits = [starts.len(), limits.len(), strides.len()] == [rank; 3]
            && (0..rank).all(|d| {
                0 <= starts[d] && starts[d] <= limits[d] && limits[d] <= ty.dims[d] && strides[d] >= 1
            });
        if !fits {
            let message = format!("{starts:?}..{limits:?} by {strides:?} is not inside {ty}");
            return Err(BuildError::new("stablehlo.slice", message));
        }
        let dims: Vec<i64> =
            (0..rank).map(|d| ((limits[d] - starts[d]) as u64).div_ceil(strides[d] as u64) as i64).collect();
        if dims == ty.dims {
            return Ok(x);
        }
        // A stride beyond the range takes one element; XLA overflows on the largest ones.
        let strides = (0..rank).map(|d| strides[d].min((limits[d] - starts[d]).max(1))).collect();
        let attrs = vec![
            ("start_indices", Attr::I64s(starts.to_vec())),
            ("limit_indices", Attr::I64s(limits.to_vec())),
            ("strides", Attr::I64s(strides)),
        ];
        self.op("stablehlo.slice", &[x], attrs, ty.with_dims(dims))
    }

    /// A slice of one dimension.
    pub fn slice_dim(&mut self, x: Value, dim: usize, start: i64, limit: i64, stride: i64) -> Result<Value> {
        check_dim("stablehlo.slice", dim as i64, self.rank(x))?;
        let mut limits = self.dims(x).to_vec();
        let mut starts = vec![0; limits.len()];
        let mut strides = vec![1; limits.len()];
        (starts[dim], limits[dim], strides[dim]) = (start, limit, stride);
        self.slice(x, &starts, &limits, &strides)
    }

    /// `stablehlo.dynamic_slice`: a window of `sizes` at 0-d integer `starts`, clamped into the operand.
    pub fn dynamic_slice(&mut self, x: Value, starts: &[Value], sizes: &[i64]) -> Result<Value> {
        let ty = self.ty(x).clone();
        self.check_starts("stablehlo.dynamic_slice", starts, ty.rank())?;
        if sizes.len() != ty.rank() || sizes.iter().zip(&ty.dims).any(|(s, d)| *s < 0 || s > d) {
            return Err(BuildError::new(
                "stablehlo.dynamic_slice",
                format!("sizes {sizes:?} do not fit {ty}"),
            ));
        }
        let operands: Vec<Value> = [x].into_iter().chain(starts.iter().copied()).collect();
        let attrs = vec![("slice_sizes", Attr::I64s(sizes.to_vec()))];
        self.op("stablehlo.dynamic_slice", &operands, attrs, ty.with_dims(sizes))
    }

    /// `stablehlo.dynamic_update_slice`: `update` written at 0-d integer `starts`, clamped into the operand.
    pub fn dynamic_update_slice(&mut self, x: Value, update: Value, starts: &[Value]) -> Result<Value> {
        let (ty, up) = (self.ty(x).clone(), self.ty(update));
        let fits = up.element == ty.element
            && up.rank() == ty.rank()
            && up.dims.iter().zip(&ty.dims).all(|(u, d)| u <= d);
        if !fits {
            return Err(BuildError::new(
                "stablehlo.dynamic_update_slice",
                format!("{up} does not fit into {ty}"),
            ));
        }
        self.check_starts("stablehlo.dynamic_update_slice", starts, ty.rank())?;
        let operands: Vec<Value> = [x, update].into_iter().chain(starts.iter().copied()).collect();
        self.op("stablehlo.dynamic_update_slice", &operands, vec![], ty)
    }

    /// Start indices: one 0-d integer for each of `rank` dimensions, all of one type.
    fn check_starts(&self, op: &'static str, starts: &[Value], rank: usize) -> Result<()> {
        let fits = starts.len() == rank
            && starts.iter().all(|v| {
                let ty = self.ty(*v);
                ty.rank() == 0 && ty.element.is_integer() && ty.element == self.element(starts[0])
            });
        if fits {
            return Ok(());
        }
        let types: Vec<String> = starts.iter().map(|v| self.ty(*v).to_string()).collect();
        Err(BuildError::new(op, format!("start indices ({}) for {rank} dimensions", types.join(", "))))
    }

    /// `stablehlo.concatenate` along `dim`.
    pub fn concatenate(&mut self, parts: &[Value], dim: usize) -> Result<Value> {
        let op = "stablehlo.concatenate";
        let Some(&first) = parts.first() else { return Err(BuildError::new(op, "no operands")) };
        let mut ty = self.ty(first).clone();
        check_dim(op, dim as i64, ty.rank())?;
        if parts.len() == 1 {
            return Ok(first);
        }
        for &part in &parts[1..] {
            let other = self.ty(part);
            let same = other.element == ty.element
                && other.rank() == ty.rank()
                && (0..ty.rank()).all(|d| d == dim || other.dims[d] == ty.dims[d]);
            if !same {
                return Err(BuildError::new(
                    op,
                    format!("{other} does not continue {ty} along dimension {dim}"),
                ));
            }
            ty.dims[dim] = ty.dims[dim].saturating_add(other.dims[dim]);
        }
        self.op(op, parts, vec![("dimension", Attr::I64(dim as i64))], ty)
    }

    /// `stablehlo.pad` with a 0-d value; negative `low` and `high` crop, `interior` goes between elements.
    pub fn pad(
        &mut self,
        x: Value,
        value: Value,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Result<Value> {
        let op = "stablehlo.pad";
        let ty = self.ty(x).clone();
        let rank = ty.rank();
        if [low.len(), high.len(), interior.len()] != [rank; 3] || interior.iter().any(|i| *i < 0) {
            return Err(BuildError::new(
                op,
                format!("low {low:?}, high {high:?}, interior {interior:?} for {ty}"),
            ));
        }
        let v = self.ty(value);
        if v.rank() != 0 || v.element != ty.element {
            return Err(BuildError::new(op, format!("padding value {v} for {ty}")));
        }
        let padded = |d: usize| {
            let inner = i128::from(interior[d]) * i128::from((ty.dims[d] - 1).max(0));
            let size = i128::from(ty.dims[d]) + i128::from(low[d]) + i128::from(high[d]) + inner;
            i64::try_from(size).ok()
        };
        let Some(dims) = (0..rank).map(padded).collect::<Option<Vec<i64>>>() else {
            return Err(BuildError::new(op, format!("{ty} by {low:?} and {high:?} is too large")));
        };
        if low.iter().chain(high).chain(interior).all(|p| *p == 0) {
            return Ok(x);
        }
        let attrs = vec![
            ("edge_padding_low", Attr::I64s(low.to_vec())),
            ("edge_padding_high", Attr::I64s(high.to_vec())),
            ("interior_padding", Attr::I64s(interior.to_vec())),
        ];
        self.op(op, &[x, value], attrs, ty.with_dims(dims))
    }

    /// `stablehlo.reverse` along `dims`.
    pub fn reverse(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        let ty = self.ty(x).clone();
        check_distinct("stablehlo.reverse", dims, ty.rank())?;
        if dims.is_empty() {
            return Ok(x);
        }
        self.op("stablehlo.reverse", &[x], vec![("dimensions", Attr::I64s(dims.to_vec()))], ty)
    }
}
