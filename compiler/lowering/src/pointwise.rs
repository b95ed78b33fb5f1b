//! Helpers of rules with one result per element.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, TensorType, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::Outputs;
use crate::types::accumulation_type;

/// What a rule returns.
pub(crate) type Lowering = Result<Outputs, RuleError>;

/// What a part of a rule returns.
pub(crate) type Built = Result<Value, RuleError>;

/// Reads the named operands (tensors or numbers) by [`LoweringContext::wide_operand`], applies `f` and rounds once to
/// the type of the output.
pub(crate) fn pointwise<const N: usize>(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    names: [&str; N],
    f: impl FnOnce(&mut LoweringContext<'_>, [Value; N]) -> Built,
) -> Lowering {
    let operands = names.iter().map(|name| ctx.wide_operand(node, name)).collect::<Result<Vec<_>, _>>()?;
    let operands: [Value; N] =
        operands.try_into().map_err(|_| RuleError::Internal("operands were lost".into()))?;
    let result = f(ctx, operands)?;
    ctx.rounded(node, result)
}

/// One builder op on the argument `self`.
pub(crate) fn unary(ctx: &mut LoweringContext<'_>, node: &Node, op: Unary) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| Ok(ctx.b.unary(op, x)?))
}

impl LoweringContext<'_> {
    /// The type in which a pointwise rule computes: that of the output, the narrow floats as f32.
    pub(crate) fn compute_type(&self, node: &Node) -> Result<TensorType, RuleError> {
        let ty = self.output_type(node, 0)?;
        Ok(ty.with_element(accumulation_type(ty.element)))
    }

    /// An operand as torch's pointwise kernels read it: rounded to the type of the output, then widened to
    /// [`compute_type`](Self::compute_type).
    pub(crate) fn wide_operand(&mut self, node: &Node, name: &str) -> Built {
        let (narrow, wide) = (self.output_type(node, 0)?, self.compute_type(node)?);
        if narrow == wide || self.opt_number(node, name)?.is_some() {
            let x = self.operand(node, name, &narrow)?;
            return self.convert(x, wide.element);
        }
        let x = self.tensor(node, name)?;
        let from = self.b.element(x);
        let x = self.fit(x, &wide)?;
        if from == narrow.element || accumulation_type(from) != from {
            return Ok(x);
        }
        self.rounded_as(x, narrow.element)
    }

    /// A wide value, rounded as the narrow type would: XLA may drop a conversion there and back, but keeps this.
    pub(crate) fn rounded_as(&mut self, x: Value, narrow: ElementType) -> Built {
        match narrow {
            ElementType::BF16 => Ok(self.b.reduce_precision(x, 8, 7)?),
            ElementType::F16 => Ok(self.b.reduce_precision(x, 5, 10)?),
            _ => Ok(x),
        }
    }

    /// Like [`wide_operand`](Self::wide_operand), but a number or a 0-d tensor keeps its precision, as the second operand
    /// of products and quotients does in torch.
    pub(crate) fn exact_operand(&mut self, node: &Node, name: &str) -> Built {
        let is_tensor = self.opt_number(node, name)?.is_none();
        if is_tensor && self.tensor(node, name).map(|x| self.b.rank(x))? > 0 {
            return self.wide_operand(node, name);
        }
        let wide = self.compute_type(node)?;
        self.operand(node, name, &wide)
    }

    /// A value converted to the type of the first output, as the result of a rule.
    pub(crate) fn rounded(&mut self, node: &Node, x: Value) -> Lowering {
        let element = self.output_type(node, 0)?.element;
        Ok(self.convert(x, element)?.into())
    }

    /// `x + number`
    pub(crate) fn plus(&mut self, x: Value, number: f64) -> Built {
        let number = self.fill_like(Scalar::Float(number), x)?;
        Ok(self.b.add(x, number)?)
    }

    /// `number - x`
    pub(crate) fn minus_from(&mut self, number: f64, x: Value) -> Built {
        let number = self.fill_like(Scalar::Float(number), x)?;
        Ok(self.b.sub(number, x)?)
    }

    /// `x · number`
    pub(crate) fn times(&mut self, x: Value, number: f64) -> Built {
        let number = self.fill_like(Scalar::Float(number), x)?;
        Ok(self.b.mul(x, number)?)
    }

    /// `number / x`
    pub(crate) fn over(&mut self, number: f64, x: Value) -> Built {
        let number = self.fill_like(Scalar::Float(number), x)?;
        Ok(self.b.div(number, x)?)
    }

    /// `x <direction> number`
    pub(crate) fn compare_number(&mut self, direction: Direction, x: Value, number: f64) -> Built {
        let number = self.fill_like(Scalar::Float(number), x)?;
        Ok(self.b.compare(direction, x, number)?)
    }

    /// `pred ? x : number`
    pub(crate) fn select_or(&mut self, pred: Value, x: Value, number: f64) -> Built {
        let number = self.fill_like(Scalar::Float(number), x)?;
        Ok(self.b.select(pred, x, number)?)
    }

    /// Where a float or complex value is not a number; nowhere for other types.
    pub(crate) fn is_nan(&mut self, x: Value) -> Built {
        Ok(self.b.compare(Direction::Ne, x, x)?)
    }

    /// Where the sign bit of a real number is set: also of -0 and of a negative NaN.
    pub(crate) fn sign_bit(&mut self, x: Value) -> Built {
        let bits = match self.b.element(x) {
            ElementType::F64 => ElementType::I64,
            ElementType::F32 => ElementType::I32,
            ElementType::F16 | ElementType::BF16 => ElementType::I16,
            ElementType::F8E4M3FN | ElementType::F8E5M2 => ElementType::I8,
            other => other,
        };
        let x = self.b.bitcast(x, bits)?;
        self.compare_number(Direction::Lt, x, 0.0)
    }

    /// Rounds towards zero.
    pub(crate) fn truncated(&mut self, x: Value) -> Built {
        let negative = self.compare_number(Direction::Lt, x, 0.0)?;
        let (up, down) = (self.b.unary(Unary::Ceil, x)?, self.b.floor(x)?);
        Ok(self.b.select(negative, up, down)?)
    }
}
