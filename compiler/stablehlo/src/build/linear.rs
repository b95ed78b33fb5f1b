//! Contractions: `dot_general` and `convolution`.

use crate::{Attr, BuildError, Builder, ElementType, Result, Value};

use super::{Slide, check_distinct, padding_attr};

/// Dimension numbers of [`Builder::dot_general`].
#[derive(Debug, Clone, Default)]
pub struct DotDims {
    /// Batch dimensions, pairwise equal.
    pub lhs_batch: Vec<i64>,
    /// Batch dimensions of the right side.
    pub rhs_batch: Vec<i64>,
    /// Contracted dimensions, pairwise equal.
    pub lhs_contract: Vec<i64>,
    /// Contracted dimensions of the right side.
    pub rhs_contract: Vec<i64>,
}

/// Geometry of [`Builder::convolution`] in torch's layout: input `[N, C, spatial…]`, kernel `[O, I, spatial…]`.
#[derive(Debug, Clone)]
pub struct ConvolutionDims {
    /// Window strides, one for each spatial dimension.
    pub strides: Vec<i64>,
    /// (low, high) zero padding of each spatial dimension; negative crops.
    pub padding: Vec<(i64, i64)>,
    /// Input dilation (a transposed convolution's stride).
    pub lhs_dilation: Vec<i64>,
    /// Kernel dilation.
    pub rhs_dilation: Vec<i64>,
    /// Kernels are applied mirrored in every spatial dimension.
    pub reverse_kernel: bool,
    /// Groups of input features.
    pub feature_groups: i64,
    /// Groups of the batch.
    pub batch_groups: i64,
}

/// XLA's name for "as exact as the operands": on a TPU, f32 operands otherwise become bf16.
fn precision_config(op: &'static str, precision: &str) -> Result<(&'static str, Attr)> {
    if !["DEFAULT", "HIGH", "HIGHEST"].contains(&precision) {
        return Err(BuildError::new(op, format!("{precision} is not DEFAULT, HIGH or HIGHEST")));
    }
    let one = Attr::Verbatim(format!("#stablehlo<precision {precision}>"));
    Ok(("precision_config", Attr::Array(vec![one.clone(), one])))
}

impl Builder {
    /// `stablehlo.dot_general`. The result is `[batch…, lhs free…, rhs free…]` with element type `result`.
    /// `precision` is `DEFAULT`, `HIGH` or `HIGHEST`.
    pub fn dot_general(
        &mut self,
        lhs: Value,
        rhs: Value,
        dims: &DotDims,
        result: ElementType,
        precision: &str,
    ) -> Result<Value> {
        let op = "stablehlo.dot_general";
        let (l, r) = (self.ty(lhs).clone(), self.ty(rhs).clone());
        let pairs = dims
            .lhs_batch
            .iter()
            .zip(&dims.rhs_batch)
            .chain(dims.lhs_contract.iter().zip(&dims.rhs_contract));
        let fits = dims.lhs_batch.len() == dims.rhs_batch.len()
            && dims.lhs_contract.len() == dims.rhs_contract.len()
            && l.element == r.element
            && pairs.clone().all(|(a, b)| {
                let (a, b) = (l.dims.get(*a as usize), r.dims.get(*b as usize));
                a.is_some() && a == b
            });
        if !fits {
            return Err(BuildError::new(op, format!("{l} and {r} cannot be contracted by {dims:?}")));
        }
        check_distinct(op, &[&dims.lhs_batch[..], &dims.lhs_contract].concat(), l.rank())?;
        check_distinct(op, &[&dims.rhs_batch[..], &dims.rhs_contract].concat(), r.rank())?;
        let free = |all: &[i64], batch: &[i64], contract: &[i64]| -> Vec<i64> {
            (0..all.len())
                .filter(|d| !batch.contains(&(*d as i64)) && !contract.contains(&(*d as i64)))
                .map(|d| all[d])
                .collect()
        };
        let mut out: Vec<i64> = dims.lhs_batch.iter().map(|d| l.dims[*d as usize]).collect();
        out.extend(free(&l.dims, &dims.lhs_batch, &dims.lhs_contract));
        out.extend(free(&r.dims, &dims.rhs_batch, &dims.rhs_contract));
        let numbers = format!(
            "#stablehlo.dot<lhs_batching_dimensions = {:?}, rhs_batching_dimensions = {:?}, \
             lhs_contracting_dimensions = {:?}, rhs_contracting_dimensions = {:?}>",
            dims.lhs_batch, dims.rhs_batch, dims.lhs_contract, dims.rhs_contract
        );
        let attrs =
            vec![("dot_dimension_numbers", Attr::Verbatim(numbers)), precision_config(op, precision)?];
        self.op(op, &[lhs, rhs], attrs, crate::TensorType::new(result, out))
    }

    /// `stablehlo.convolution`: `[N, C, s…] * [O, C / feature_groups, k…] → [N, O, s'…]` with element type `result`.
    pub fn convolution(
        &mut self,
        input: Value,
        kernel: Value,
        dims: &ConvolutionDims,
        result: ElementType,
        precision: &str,
    ) -> Result<Value> {
        let op = "stablehlo.convolution";
        let (x, k) = (self.ty(input).clone(), self.ty(kernel).clone());
        let spatial = dims.strides.len();
        let lengths = [dims.padding.len(), dims.lhs_dilation.len(), dims.rhs_dilation.len()];
        let fits = x.rank() == spatial + 2
            && k.rank() == spatial + 2
            && lengths == [spatial; 3]
            && x.element == k.element
            && dims.feature_groups >= 1
            && dims.batch_groups >= 1
            && k.dims[1].checked_mul(dims.feature_groups) == Some(x.dims[1])
            && k.dims[0] % dims.feature_groups == 0
            && (dims.feature_groups == 1 || dims.batch_groups == 1)
            && k.dims[0] % dims.batch_groups == 0
            && x.dims[0] % dims.batch_groups == 0;
        if !fits {
            return Err(BuildError::new(op, format!("{x} and kernel {k} do not fit {dims:?}")));
        }
        let positions = |s: usize| {
            Slide {
                size: x.dims[s + 2],
                base_dilation: dims.lhs_dilation[s],
                padding: dims.padding[s],
                window: k.dims[s + 2],
                dilation: dims.rhs_dilation[s],
                stride: dims.strides[s],
            }
            .positions()
        };
        let Some(space_out) = (0..spatial).map(positions).collect::<Option<Vec<i64>>>() else {
            return Err(BuildError::new(op, format!("{x} and kernel {k}: no legal window in {dims:?}")));
        };
        let mut out = vec![x.dims[0] / dims.batch_groups, k.dims[0]];
        out.extend(space_out);
        let names: Vec<String> = (0..spatial).map(|s| s.to_string()).collect();
        let space = if spatial > 0 { format!(", {}", names.join(", ")) } else { String::new() };
        let layout = format!("#stablehlo.conv<[b, f{space}]x[o, i{space}]->[b, f{space}]>");
        let attrs = vec![
            ("window_strides", Attr::I64s(dims.strides.clone())),
            ("padding", padding_attr(&dims.padding)?),
            ("lhs_dilation", Attr::I64s(dims.lhs_dilation.clone())),
            ("rhs_dilation", Attr::I64s(dims.rhs_dilation.clone())),
            ("window_reversal", Attr::Bools(vec![dims.reverse_kernel; spatial])),
            ("dimension_numbers", Attr::Verbatim(layout)),
            ("feature_group_count", Attr::I64(dims.feature_groups)),
            ("batch_group_count", Attr::I64(dims.batch_groups)),
            precision_config(op, precision)?,
        ];
        self.op(op, &[input, kernel], attrs, crate::TensorType::new(result, out))
    }
}
