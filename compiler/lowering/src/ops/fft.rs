//! Fourier transforms, one dimension after the other.

use tpud_graph::Node;
use tpud_stablehlo::{ElementType, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// Exchanges `dim` and the last dimension.
fn swapped(ctx: &mut LoweringContext<'_>, x: Value, dim: usize) -> Built {
    let rank = ctx.b.rank(x);
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(dim, rank - 1);
    Ok(ctx.b.transpose(x, &order)?)
}

/// `stablehlo.fft` along one dimension. The inverse kinds divide by the length.
fn transform(ctx: &mut LoweringContext<'_>, x: Value, dim: usize, kind: &str, length: i64) -> Built {
    let x = swapped(ctx, x, dim)?;
    let x = ctx.b.fft(x, kind, &[length])?;
    swapped(ctx, x, dim)
}

/// The transformed dimensions, wrapped, in torch's order.
fn transformed_dims(ctx: &LoweringContext<'_>, node: &Node, x: Value) -> Result<Vec<usize>, RuleError> {
    let rank = ctx.b.rank(x);
    ctx.ints(node, "dim")?.iter().map(|d| crate::args::wrap_dim(*d, rank)).collect()
}

/// The result times the node's normalisation for `count` points and times `undo`, the length that inverse transforms
/// have divided by.
fn normalised(ctx: &mut LoweringContext<'_>, node: &Node, x: Value, count: i64, undo: i64) -> Lowering {
    let factor = match ctx.int(node, "normalization")? {
        0 => 1.0,
        1 => 1.0 / (count as f64).sqrt(),
        2 => 1.0 / count as f64,
        other => return Err(RuleError::Internal(format!("normalization {other}"))),
    } * undo as f64;
    if factor == 1.0 {
        return Ok(x.into());
    }
    let element = ctx.b.element(x);
    if !element.is_complex() {
        return Ok(ctx.times(x, factor)?.into());
    }
    // A complex product would turn infinities into NaN.
    let (re, im) = (ctx.b.real(x)?, ctx.b.imag(x)?);
    let (re, im) = (ctx.times(re, factor)?, ctx.times(im, factor)?);
    Ok(ctx.b.complex(re, im)?.into())
}

/// Zeros when there is nothing to transform.
fn nothing(ctx: &mut LoweringContext<'_>, node: &Node, x: Value) -> Result<Option<Outputs>, RuleError> {
    let out = ctx.output_type(node, 0)?;
    if out.elements() != 0 && ctx.b.ty(x).elements() != 0 {
        return Ok(None);
    }
    Ok(Some(ctx.b.splat(Scalar::Int(0), &out)?.into()))
}

fn complex_of(element: ElementType) -> Result<ElementType, RuleError> {
    match element {
        ElementType::F32 => Ok(ElementType::C64),
        ElementType::F64 => Ok(ElementType::C128),
        other => Err(RuleError::unsupported(format!("a Fourier transform of {other}; use float32"))),
    }
}

// aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor
fn lower_fft_r2c(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mut x = ctx.tensor(node, "self")?;
    if let Some(zeros) = nothing(ctx, node, x)? {
        return Ok(zeros);
    }
    let complex = complex_of(ctx.b.element(x))?;
    let shape = ctx.b.dims(x).to_vec();
    let dims = transformed_dims(ctx, node, x)?;
    let Some((&last, others)) = dims.split_last() else {
        return Err(RuleError::Internal("no dimension to transform".into()));
    };
    x = if ctx.boolean(node, "onesided")? {
        transform(ctx, x, last, "RFFT", shape[last])?
    } else {
        let x = ctx.convert(x, complex)?;
        transform(ctx, x, last, "FFT", shape[last])?
    };
    for &dim in others {
        x = transform(ctx, x, dim, "FFT", shape[dim])?;
    }
    normalised(ctx, node, x, dims.iter().map(|d| shape[*d]).product(), 1)
}

// aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor
fn lower_fft_c2r(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mut x = ctx.tensor(node, "self")?;
    if let Some(zeros) = nothing(ctx, node, x)? {
        return Ok(zeros);
    }
    let shape = ctx.output_type(node, 0)?.dims;
    let dims = transformed_dims(ctx, node, x)?;
    let Some((&last, others)) = dims.split_last() else {
        return Err(RuleError::Internal("no dimension to transform".into()));
    };
    for &dim in others {
        x = transform(ctx, x, dim, "IFFT", shape[dim])?;
    }
    x = transform(ctx, x, last, "IRFFT", shape[last])?;
    let count = dims.iter().map(|d| shape[*d]).product();
    normalised(ctx, node, x, count, count)
}

// aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor
fn lower_fft_c2c(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mut x = ctx.tensor(node, "self")?;
    if let Some(zeros) = nothing(ctx, node, x)? {
        return Ok(zeros);
    }
    let shape = ctx.b.dims(x).to_vec();
    let dims = transformed_dims(ctx, node, x)?;
    let forward = ctx.boolean(node, "forward")?;
    for &dim in &dims {
        x = transform(ctx, x, dim, if forward { "FFT" } else { "IFFT" }, shape[dim])?;
    }
    let count = dims.iter().map(|d| shape[*d]).product();
    normalised(ctx, node, x, count, if forward { 1 } else { count })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._fft_c2c.default", lower_fft_c2c),
    Rule::new("aten._fft_c2r.default", lower_fft_c2r),
    Rule::new("aten._fft_r2c.default", lower_fft_r2c),
];
