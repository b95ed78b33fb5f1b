//! Ops that move elements.

use tpud_stablehlo::{ElementType, GatherDims, Result, ScatterDims};

use super::{Case, case, input};

const F32: ElementType = ElementType::F32;
const I64: ElementType = ElementType::I64;

pub(super) fn cases(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "reshape_transpose", |b| {
        let x = input(b, F32, &[2, 3, 4]);
        let flat = b.reshape(x, &[24])?;
        let one = input(b, ElementType::Bool, &[1, 1]);
        Ok(vec![flat, b.transpose(x, &[2, 0, 1])?, b.reshape(one, &[])?])
    })?;
    case(cases, "broadcast", |b| {
        let x = input(b, F32, &[3, 1]);
        let scalar = input(b, ElementType::I32, &[]);
        let inner = b.broadcast_in_dim(x, &[3, 2, 5], &[0, 2])?;
        Ok(vec![inner, b.broadcast_to(x, &[2, 3, 4])?, b.broadcast_to(scalar, &[2, 0])?])
    })?;
    case(cases, "slice", |b| {
        let x = input(b, F32, &[8, 5]);
        let empty = b.slice(x, &[2, 0], &[2, 5], &[1, 1])?;
        let far = b.slice_dim(x, 0, 1, 8, i64::MAX)?;
        Ok(vec![b.slice(x, &[1, 0], &[8, 4], &[3, 2])?, b.slice_dim(x, 1, 1, 3, 1)?, empty, far])
    })?;
    case(cases, "dynamic_slice", |b| {
        let x = input(b, F32, &[8, 5]);
        let (i, j) = (input(b, I64, &[]), input(b, I64, &[]));
        let window = b.dynamic_slice(x, &[i, j], &[2, 5])?;
        Ok(vec![window, b.dynamic_update_slice(x, window, &[i, j])?])
    })?;
    case(cases, "concatenate", |b| {
        let (x, y) = (input(b, F32, &[2, 3]), input(b, F32, &[2, 0]));
        Ok(vec![b.concatenate(&[x, y, x], 1)?])
    })?;
    case(cases, "pad", |b| {
        let (x, value) = (input(b, F32, &[4, 5]), input(b, F32, &[]));
        let plain = b.pad(x, value, &[1, 0], &[2, 0], &[0, 0])?;
        let crop = b.pad(x, value, &[-1, 2], &[-2, -1], &[0, 0])?;
        Ok(vec![plain, crop, b.pad(x, value, &[0, -1], &[1, -1], &[2, 1])?])
    })?;
    case(cases, "reverse", |b| {
        let x = input(b, F32, &[4, 5]);
        Ok(vec![b.reverse(x, &[0, 1])?, b.reverse(x, &[1])?])
    })?;
    gather(cases)?;
    scatter(cases)
}

fn gather(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "gather_rows", |b| {
        let (table, ids) = (input(b, F32, &[10, 4]), input(b, I64, &[2, 3]));
        let dims = GatherDims {
            offset_dims: vec![2],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 2,
            ..GatherDims::default()
        };
        Ok(vec![b.gather(table, ids, &dims, &[1, 4])?])
    })?;
    case(cases, "gather_points", |b| {
        let (x, ids) = (input(b, F32, &[4, 5]), input(b, ElementType::I32, &[7, 2]));
        let dims = GatherDims {
            collapsed_slice_dims: vec![0, 1],
            start_index_map: vec![0, 1],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        Ok(vec![b.gather(x, ids, &dims, &[1, 1])?])
    })?;
    case(cases, "gather_batched", |b| {
        let (x, ids) = (input(b, F32, &[3, 5]), input(b, I64, &[3, 2]));
        let dims = GatherDims {
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 2,
            ..GatherDims::default()
        };
        Ok(vec![b.gather(x, ids, &dims, &[1, 1])?])
    })
}

fn scatter(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "scatter_rows", |b| {
        let (x, ids, rows) = (input(b, F32, &[10, 4]), input(b, I64, &[3]), input(b, F32, &[3, 4]));
        let dims = ScatterDims {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let sum = b.scatter(x, ids, rows, &dims, false, |b, old, new| b.add(old, new))?;
        Ok(vec![sum, b.scatter(x, ids, rows, &dims, true, |_, _, new| Ok(new))?])
    })?;
    case(cases, "scatter_batched", |b| {
        let (x, ids, new) = (input(b, F32, &[3, 5]), input(b, I64, &[3, 2]), input(b, F32, &[3, 2]));
        let dims = ScatterDims {
            inserted_window_dims: vec![1],
            input_batching_dims: vec![0],
            scatter_indices_batching_dims: vec![0],
            scatter_dims_to_operand_dims: vec![1],
            index_vector_dim: 2,
            ..ScatterDims::default()
        };
        Ok(vec![b.scatter(x, ids, new, &dims, false, |b, old, new| b.max(old, new))?])
    })
}
