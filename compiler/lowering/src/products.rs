//! Matrix products and convolutions, at the precision that the user chose: no rule builds one in another way.
//!
//! A TPU multiplies bf16. Of f32 operands it takes one bf16 part each (`medium`), or it sums the products of several
//! parts: 3 products of 2 parts (`high`), 6 of 3 (`highest`). With `emulate_tpu_precision` the same sums are written out
//! for a CPU. A part is an f32 that is rounded to the digits of bf16, so a product of two parts is exact.
//!
//! Infinities and NaN: further parts of an infinity are NaN (∞ - ∞), so where the product of the first parts is not
//! finite, it alone is the result: what f32 gives. A finite number above bf16's largest rounds to an infinity.

use tpud_stablehlo::{Builder, ConvolutionDims, DotDims, ElementType, Result, Value};

use crate::driver::{LoweringOptions, Precision};
use crate::types::accumulation_type;

/// A contraction; narrow floats are accumulated in f32, and the result is left in that type.
pub(crate) fn dot(
    b: &mut Builder,
    options: &LoweringOptions,
    lhs: Value,
    rhs: Value,
    dims: &DotDims,
) -> Result<Value> {
    let result = accumulation_type(b.element(lhs));
    dot_to(b, options, (lhs, rhs), dims, result)
}

/// A contraction that is summed up in another type.
pub(crate) fn dot_to(
    b: &mut Builder,
    options: &LoweringOptions,
    (lhs, rhs): (Value, Value),
    dims: &DotDims,
    result: ElementType,
) -> Result<Value> {
    let name = options.precision.xla_name();
    product(b, options, lhs, rhs, |b, lhs, rhs| b.dot_general(lhs, rhs, dims, result, name))
}

/// A contraction in the operands' own type, whatever the user chose: for the steps of a factorisation, which are no place
/// to round operands. A TPU sums six products then, which a CPU does as well as in f32.
pub(crate) fn exact_dot(b: &mut Builder, lhs: Value, rhs: Value, dims: &DotDims) -> Result<Value> {
    b.dot_general(lhs, rhs, dims, b.element(lhs), Precision::Highest.xla_name())
}

/// A convolution; narrow floats are accumulated in f32, and the result is left in that type.
pub(crate) fn convolution(
    b: &mut Builder,
    options: &LoweringOptions,
    x: Value,
    kernel: Value,
    dims: &ConvolutionDims,
) -> Result<Value> {
    let result = accumulation_type(b.element(x));
    let name = options.precision.xla_name();
    product(b, options, x, kernel, |b, x, kernel| b.convolution(x, kernel, dims, result, name))
}

/// `multiply`, which is linear in both operands, on the operands or on their parts.
fn product(
    b: &mut Builder,
    options: &LoweringOptions,
    lhs: Value,
    rhs: Value,
    multiply: impl Fn(&mut Builder, Value, Value) -> Result<Value>,
) -> Result<Value> {
    if !options.emulate_tpu_precision || b.element(lhs) != ElementType::F32 {
        return multiply(b, lhs, rhs);
    }
    // Pairs of parts, the smallest products first.
    let (count, pairs): (usize, &[(usize, usize)]) = match options.precision {
        Precision::Medium => (1, &[]),
        Precision::High => (2, &[(0, 1), (1, 0)]),
        Precision::Highest => (3, &[(1, 1), (0, 2), (2, 0), (0, 1), (1, 0)]),
    };
    let (lhs, rhs) = (bf16_parts(b, lhs, count)?, bf16_parts(b, rhs, count)?);
    let mut rest: Option<Value> = None;
    for &(i, j) in pairs {
        let term = multiply(b, lhs[i], rhs[j])?;
        rest = Some(match rest {
            Some(sum) => b.add(sum, term)?,
            None => term,
        });
    }
    let main = multiply(b, lhs[0], rhs[0])?;
    let Some(rest) = rest else { return Ok(main) };
    let finite = b.is_finite(main)?;
    let sum = b.add(rest, main)?;
    b.select(finite, sum, main)
}

/// Numbers with bf16's digits whose sum is nearly `x`, the largest first: each is what the ones before left, rounded to
/// the nearest.
fn bf16_parts(b: &mut Builder, x: Value, count: usize) -> Result<Vec<Value>> {
    let mut parts = vec![b.reduce_precision(x, 8, 7)?];
    let mut rest = x;
    while parts.len() < count {
        rest = b.sub(rest, parts[parts.len() - 1])?;
        parts.push(b.reduce_precision(rest, 8, 7)?);
    }
    Ok(parts)
}
