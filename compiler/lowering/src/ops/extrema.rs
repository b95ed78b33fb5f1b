//! The greater or smaller of two, and limits: `maximum`, `fmin`, `clamp`, …

use tpud_graph::{Arg, Node};
use tpud_stablehlo::{Binary, Direction};

use crate::context::LoweringContext;
use crate::pointwise::{Lowering, pointwise};
use crate::registry::Rule;

// aten::maximum(Tensor self, Tensor other) -> Tensor
// A NaN on either side is the result.
fn lower_maximum(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| Ok(ctx.b.max(x, y)?))
}

// aten::minimum(Tensor self, Tensor other) -> Tensor
fn lower_minimum(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| Ok(ctx.b.min(x, y)?))
}

// aten::fmax(Tensor self, Tensor other) -> Tensor
fn lower_fmax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    number_if_any(ctx, node, Binary::Max)
}

// aten::fmin(Tensor self, Tensor other) -> Tensor
fn lower_fmin(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    number_if_any(ctx, node, Binary::Min)
}

/// NaN only where both are NaN.
fn number_if_any(ctx: &mut LoweringContext<'_>, node: &Node, op: Binary) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let extremum = ctx.b.binary(op, x, y)?;
        let (x_number, y_number) = (ctx.b.compare(Direction::Eq, x, x)?, ctx.b.compare(Direction::Eq, y, y)?);
        let without_y = ctx.b.select(y_number, extremum, x)?;
        Ok(ctx.b.select(x_number, without_y, y)?)
    })
}

// aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
// aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
// aten::clamp_min(Tensor self, Scalar min) -> Tensor
// aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor
// aten::clamp_max(Tensor self, Scalar max) -> Tensor
// aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor
fn lower_clamp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    limited(ctx, node, "min", "max")
}

// aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
fn lower_hardtanh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    limited(ctx, node, "min_val", "max_val")
}

/// The upper limit wins over the lower one; NaN stays NaN.
fn limited(ctx: &mut LoweringContext<'_>, node: &Node, lower: &str, upper: &str) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let mut x = x;
        if node.arg(lower).is_some_and(|arg| *arg != Arg::None) {
            let limit = ctx.wide_operand(node, lower)?;
            x = ctx.b.max(x, limit)?;
        }
        if node.arg(upper).is_some_and(|arg| *arg != Arg::None) {
            let limit = ctx.wide_operand(node, upper)?;
            x = ctx.b.min(x, limit)?;
        }
        Ok(x)
    })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.maximum.default", lower_maximum),
    Rule::new("aten.minimum.default", lower_minimum),
    Rule::new("aten.fmax.default", lower_fmax),
    Rule::new("aten.fmin.default", lower_fmin),
    Rule::new("aten.clamp.default", lower_clamp),
    Rule::new("aten.clamp.Tensor", lower_clamp),
    Rule::new("aten.clamp_min.default", lower_clamp),
    Rule::new("aten.clamp_min.Tensor", lower_clamp),
    Rule::new("aten.clamp_max.default", lower_clamp),
    Rule::new("aten.clamp_max.Tensor", lower_clamp),
    Rule::new("aten.hardtanh.default", lower_hardtanh),
];
