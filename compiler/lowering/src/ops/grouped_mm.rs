//! Grouped matrix products (mixtures of experts): each group of rows is multiplied by its own matrix.
//!
//! The sizes of the groups are known only at run time. The rows are covered with tiles of a fixed number of rows, none of
//! which spans two groups, and a loop multiplies tile by tile: at most `rows / tile + groups` products of
//! `tile × K × N`, none for an empty group. Work and memory thus grow with the rows, not with rows × groups.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Direction, DotDims, ElementType, Scalar, TensorType, Value};

use super::histogram::count_before;
use super::linear::matrix_product;
use super::scan::prefix_sum;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::products;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;
type Built = tpud_stablehlo::Result<Value>;

/// Most rows of a tile: what fills a matrix unit. Fewest: what a vector unit holds.
const TILE: std::ops::RangeInclusive<i64> = 8..=256;

/// Which rows each tile covers; vectors have an element per tile.
struct Tiles {
    /// Rows of a tile.
    size: i64,
    /// The group of each tile.
    group: Value,
    /// First row.
    row: Value,
    /// End of the group: later rows of the tile belong to another one.
    end: Value,
    /// How many tiles there are (0-d).
    count: Value,
}

/// Covers `rows` rows whose groups end at `ends` (not decreasing). Rows after the last end belong to no tile.
fn tiles(ctx: &mut LoweringContext<'_>, ends: Value, rows: i64) -> Result<Tiles, RuleError> {
    let groups = ctx.b.dims(ends)[0];
    let size = rows.div_euclid(groups).max(1) as u64;
    let size = (size.next_power_of_two() as i64).clamp(*TILE.start(), *TILE.end());
    let most = rows / size + groups.min(rows);
    let ends = ctx.convert(ends, index_element(rows + most * size))?;
    let (zero, limit) = (ctx.fill_like(Scalar::Int(0), ends)?, ctx.fill_like(Scalar::Int(rows), ends)?);
    let ends = ctx.b.max(ends, zero)?;
    let ends = ctx.b.min(ends, limit)?;
    let first = ctx.b.slice_dim(zero, 0, 0, 1, 1)?;
    let before = ctx.b.slice_dim(ends, 0, 0, groups - 1, 1)?;
    let starts = ctx.b.concatenate(&[first, before], 0)?;
    let lengths = ctx.b.sub(ends, starts)?;
    let round_up = ctx.fill_like(Scalar::Int(size - 1), ends)?;
    let lengths = ctx.b.add(lengths, round_up)?;
    let tile = ctx.fill_like(Scalar::Int(size), ends)?;
    let per_group = ctx.b.div(lengths, tile)?;
    let tile_ends = prefix_sum(ctx, per_group, 0)?;
    let tile_starts = ctx.b.sub(tile_ends, per_group)?;
    let line = TensorType::new(ctx.b.element(ends), vec![most]);
    let number = ctx.b.iota(&line, 0)?;
    let group = count_before(ctx, tile_ends, number, true)?;
    let group = ctx.convert(group, line.element)?;
    let [start, tile_start, end] = [starts, tile_starts, ends].map(|v| ctx.take_along(v, group, 0));
    let tile = ctx.b.splat(Scalar::Int(size), &line)?;
    let nth = ctx.b.sub(number, tile_start?)?;
    let skipped = ctx.b.mul(nth, tile)?;
    let row = ctx.b.add(start?, skipped)?;
    let count = ctx.b.slice_dim(tile_ends, 0, groups - 1, groups, 1)?;
    let count = ctx.b.reshape(count, &[])?;
    Ok(Tiles { size, group, row, end: end?, count })
}

/// What the body of the loop sees of the current tile.
struct Tile {
    size: i64,
    /// 0-d positions.
    group: Value,
    row: Value,
    end: Value,
    zero: Value,
}

impl Tile {
    /// The tile's rows of `x` (which has `size` rows more than there are), zeros in place of other groups' rows.
    fn rows(&self, b: &mut Builder, x: Value) -> Built {
        let width = b.dims(x)[1];
        let part = b.dynamic_slice(x, &[self.row, self.zero], &[self.size, width])?;
        self.masked(b, part)
    }

    /// Zeros in place of the rows at and after the group's end.
    fn masked(&self, b: &mut Builder, part: Value) -> Built {
        let ty = b.ty(part).clone();
        let number = b.iota(&TensorType::new(b.element(self.row), ty.dims.clone()), 0)?;
        let row = b.broadcast_to(self.row, &ty.dims)?;
        let row = b.add(row, number)?;
        let end = b.broadcast_to(self.end, &ty.dims)?;
        let own = b.compare(Direction::Lt, row, end)?;
        let zeros = b.splat_like(Scalar::Int(0), part)?;
        b.select(own, part, zeros)
    }

    /// The group's matrix in `[groups, …, …]`.
    fn matrix(&self, b: &mut Builder, stack: Value) -> Built {
        let dims = b.dims(stack).to_vec();
        let one = b.dynamic_slice(stack, &[self.group, self.zero, self.zero], &[1, dims[1], dims[2]])?;
        b.reshape(one, &dims[1..])
    }
}

/// Runs `body` for every tile. It gets the tile, the constants and the state, and returns the new state.
fn for_each(
    ctx: &mut LoweringContext<'_>,
    tiles: &Tiles,
    constants: &[Value],
    state: Value,
    body: impl FnOnce(&mut Builder, &Tile, &[Value], Value) -> Built,
) -> Result<Value, RuleError> {
    let element = ctx.b.element(tiles.row);
    let first = ctx.scalar(Scalar::Int(0), element)?;
    let mut carried = vec![first, tiles.count, tiles.group, tiles.row, tiles.end, state];
    carried.extend(constants);
    let out = ctx.b.while_loop(
        &carried,
        |b, v| b.compare(Direction::Lt, v[0], v[1]),
        |b, v| {
            let at = |b: &mut Builder, list: Value| {
                let one = b.dynamic_slice(list, &[v[0]], &[1])?;
                b.reshape(one, &[])
            };
            let zero = b.scalar(Scalar::Int(0), element)?;
            let tile =
                Tile { size: tiles.size, group: at(b, v[2])?, row: at(b, v[3])?, end: at(b, v[4])?, zero };
            let state = body(b, &tile, &v[6..], v[5])?;
            let one = b.scalar(Scalar::Int(1), element)?;
            let mut next = v.to_vec();
            (next[0], next[5]) = (b.add(v[0], one)?, state);
            Ok(next)
        },
    )?;
    Ok(out[5])
}

/// `x` with a tile's rows of zeros after its own: a tile may reach beyond the end.
fn with_margin(ctx: &mut LoweringContext<'_>, x: Value, tiles: &Tiles) -> Result<Value, RuleError> {
    let zero = ctx.scalar(Scalar::Int(0), ctx.b.element(x))?;
    Ok(ctx.b.pad(x, zero, &[0, 0], &[tiles.size, 0], &[0, 0])?)
}

/// Each row of `x` times its group's matrix, contracted with dimension `contract` of `[groups, …, …]`.
fn rows_times_matrices(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    weight: Value,
    (ends, contract): (Value, i64),
    out: &TensorType,
) -> Result<Value, RuleError> {
    if out.elements() == 0 || ctx.b.ty(weight).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), out)?);
    }
    let tiles = tiles(ctx, ends, out.dims[0])?;
    let options = ctx.options;
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![contract - 1], ..DotDims::default() };
    let x = with_margin(ctx, x, &tiles)?;
    let zeros = ctx.b.splat(Scalar::Int(0), out)?;
    let zeros = with_margin(ctx, zeros, &tiles)?;
    let sum = for_each(ctx, &tiles, &[x, weight], zeros, |b, tile, constants, state| {
        let rows = tile.rows(b, constants[0])?;
        let matrix = tile.matrix(b, constants[1])?;
        let product = products::dot(b, options, rows, matrix, &dims)?;
        let product = b.convert(product, out.element)?;
        // A zero times an infinite weight is NaN: clear other groups' rows again. Later tiles fill them.
        let product = tile.masked(b, product)?;
        b.dynamic_update_slice(state, product, &[tile.row, tile.zero])
    })?;
    Ok(ctx.b.slice_dim(sum, 0, 0, out.dims[0], 1)?)
}

/// `[groups, m, n]`: the sum over the rows of each group of `left[row]ᵀ · right[row]`.
fn matrices_of_rows(
    ctx: &mut LoweringContext<'_>,
    left: Value,
    right: Value,
    ends: Value,
    out: &TensorType,
) -> Result<Value, RuleError> {
    let rows = ctx.b.dims(left)[0];
    if out.elements() == 0 || rows == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), out)?);
    }
    let tiles = tiles(ctx, ends, rows)?;
    let options = ctx.options;
    let dims = DotDims { lhs_contract: vec![0], rhs_contract: vec![0], ..DotDims::default() };
    let (left, right) = (with_margin(ctx, left, &tiles)?, with_margin(ctx, right, &tiles)?);
    let wide: ElementType = accumulation_type(out.element);
    let zeros = ctx.b.splat(Scalar::Int(0), &out.with_element(wide))?;
    let sum = for_each(ctx, &tiles, &[left, right], zeros, |b, tile, constants, state| {
        let (left, right) = (tile.rows(b, constants[0])?, tile.rows(b, constants[1])?);
        let product = products::dot(b, options, left, right, &dims)?;
        let old = tile.matrix(b, state)?;
        let new = b.add(old, product)?;
        let new = b.reshape(new, &[1, out.dims[1], out.dims[2]])?;
        b.dynamic_update_slice(state, new, &[tile.group, tile.zero, tile.zero])
    })?;
    ctx.convert(sum, out.element)
}

// transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor
/// `input` `[S, K]` sorted by group, `weight` `[G, K, N]`, `offs` `[G]` the end of each group. Rows after the last end
/// are zero.
fn lower_grouped_mm_fallback(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, weight) = (ctx.tensor(node, "input")?, ctx.tensor(node, "weight")?);
    let ends = ctx.tensor(node, "offs")?;
    let out = ctx.output_type(node, 0)?;
    Ok(rows_times_matrices(ctx, x, weight, (ends, 1), &out)?.into())
}

// transformers::grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)
fn lower_grouped_mm_fallback_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, weight) = (ctx.tensor(node, "input")?, ctx.tensor(node, "weight")?);
    let (ends, grad) = (ctx.tensor(node, "offs")?, ctx.tensor(node, "grad_output")?);
    let (of_x, of_weight) = (ctx.output_type(node, 0)?, ctx.output_type(node, 1)?);
    let of_x = rows_times_matrices(ctx, grad, weight, (ends, 2), &of_x)?;
    let of_weight = matrices_of_rows(ctx, x, grad, ends, &of_weight)?;
    Ok([of_x, of_weight].into())
}

// aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor
/// Groups are rows of `self`, columns of `mat2`, or parts of the contracted dimension, whichever is not 3-d; with both
/// 3-d it is a batch of products. What torch leaves uninitialised (rows after the last end) is zero.
fn lower_grouped_mm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "self")?, ctx.tensor(node, "mat2")?);
    let out = ctx.output_type(node, 0)?;
    if ctx.opt_tensor(node, "bias")?.is_some() {
        return Err(RuleError::unsupported("a grouped product with a bias; add the bias to the result"));
    }
    let Some(ends) = ctx.opt_tensor(node, "offs")? else {
        let product = matrix_product(ctx, lhs, rhs)?;
        return Ok(ctx.convert(product, out.element)?.into());
    };
    let product = match (ctx.b.rank(lhs), ctx.b.rank(rhs)) {
        (2, 3) => rows_times_matrices(ctx, lhs, rhs, (ends, 1), &out)?,
        (3, 2) => {
            let rows = ctx.b.transpose(rhs, &[1, 0])?;
            let columns = out.with_dims(vec![out.dims[1], out.dims[0]]);
            let product = rows_times_matrices(ctx, rows, lhs, (ends, 2), &columns)?;
            ctx.b.transpose(product, &[1, 0])?
        }
        _ => {
            let rows = ctx.b.transpose(lhs, &[1, 0])?;
            matrices_of_rows(ctx, rows, rhs, ends, &out)?
        }
    };
    Ok(product.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._grouped_mm.default", lower_grouped_mm),
    Rule::new("transformers.grouped_mm_fallback.default", lower_grouped_mm_fallback),
    Rule::new("transformers.grouped_mm_fallback_backward.default", lower_grouped_mm_fallback_backward),
];
