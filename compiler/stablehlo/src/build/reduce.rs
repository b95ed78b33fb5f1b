//! Reductions over whole dimensions.

use crate::{Attr, BuildError, Builder, ElementType, Result, Scalar, TensorType, Value};

use super::check_distinct;

/// An associative op with a neutral element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Monoid {
    Sum,
    Product,
    Max,
    Min,
    And,
    Or,
}

impl Monoid {
    /// The value that changes nothing, e.g. -inf (or the smallest integer) for `Max`.
    pub fn neutral(self, element: ElementType) -> Scalar {
        let highest = || match element {
            ElementType::Bool => Scalar::Bool(true),
            ElementType::U8 => Scalar::Int(i64::from(u8::MAX)),
            ElementType::U16 => Scalar::Int(i64::from(u16::MAX)),
            ElementType::U32 => Scalar::Int(i64::from(u32::MAX)),
            ElementType::U64 => Scalar::Int(-1), // all bits set
            ElementType::I8 => Scalar::Int(i64::from(i8::MAX)),
            ElementType::I16 => Scalar::Int(i64::from(i16::MAX)),
            ElementType::I32 => Scalar::Int(i64::from(i32::MAX)),
            ElementType::I64 => Scalar::Int(i64::MAX),
            ElementType::F8E4M3FN => Scalar::Float(448.0),
            _ => Scalar::Float(f64::INFINITY),
        };
        let lowest = || match element {
            ElementType::Bool => Scalar::Bool(false),
            ElementType::I8 => Scalar::Int(i64::from(i8::MIN)),
            ElementType::I16 => Scalar::Int(i64::from(i16::MIN)),
            ElementType::I32 => Scalar::Int(i64::from(i32::MIN)),
            ElementType::I64 => Scalar::Int(i64::MIN),
            e if e.is_unsigned_integer() => Scalar::Int(0),
            ElementType::F8E4M3FN => Scalar::Float(-448.0),
            _ => Scalar::Float(f64::NEG_INFINITY),
        };
        match self {
            Self::Sum | Self::Or => Scalar::Int(0),
            Self::Product => Scalar::Int(1),
            Self::Max => lowest(),
            Self::Min => highest(),
            Self::And => Scalar::Int(if element == ElementType::Bool { 1 } else { -1 }),
        }
    }

    /// Combines two values. NaN wins in `Max` and `Min`, as in torch.
    pub fn combine(self, b: &mut Builder, lhs: Value, rhs: Value) -> Result<Value> {
        match self {
            Self::Sum => b.add(lhs, rhs),
            Self::Product => b.mul(lhs, rhs),
            Self::Max => b.max(lhs, rhs),
            Self::Min => b.min(lhs, rhs),
            Self::And => b.and(lhs, rhs),
            Self::Or => b.or(lhs, rhs),
        }
    }
}

impl Builder {
    /// Inputs of one shape, each with a 0-d initial value of its element type.
    pub(super) fn check_accumulators(
        &self,
        op: &'static str,
        inputs: &[Value],
        inits: &[Value],
    ) -> Result<()> {
        let fits = !inputs.is_empty()
            && inputs.len() == inits.len()
            && inputs.iter().all(|v| self.dims(*v) == self.dims(inputs[0]))
            && inputs
                .iter()
                .zip(inits)
                .all(|(input, init)| *self.ty(*init) == TensorType::scalar(self.element(*input)));
        if fits {
            return Ok(());
        }
        let text =
            |values: &[Value]| values.iter().map(|v| self.ty(*v).to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("inputs ({}) with initial values ({})", text(inputs), text(inits));
        Err(BuildError::new(op, message))
    }

    /// `stablehlo.reduce` of several tensors of one shape at once. `body` gets the accumulators and then the
    /// elements, all 0-d, and returns the new accumulators.
    pub fn reduce(
        &mut self,
        inputs: &[Value],
        inits: &[Value],
        dims: &[i64],
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let op = "stablehlo.reduce";
        self.check_accumulators(op, inputs, inits)?;
        let shape = self.dims(inputs[0]).to_vec();
        check_distinct(op, dims, shape.len())?;
        let scalars: Vec<TensorType> =
            inits.iter().chain(inputs).map(|v| TensorType::scalar(self.element(*v))).collect();
        let (region, results) = self.region(&scalars, body)?;
        if results[..] != scalars[..inits.len()] {
            return Err(BuildError::new(op, format!("the body returns {results:?}")));
        }
        let kept: Vec<i64> =
            (0..shape.len()).filter(|d| !dims.contains(&(*d as i64))).map(|d| shape[d]).collect();
        let types = results.iter().map(|ty| ty.with_dims(kept.clone())).collect();
        let operands: Vec<Value> = inputs.iter().chain(inits).copied().collect();
        let mut sorted = dims.to_vec();
        sorted.sort_unstable();
        self.push(op, &operands, vec![("dimensions", Attr::I64s(sorted))], vec![region], types)
    }

    /// Reduces `dims` of one tensor by a monoid; the dimensions disappear. No dims: the tensor itself.
    pub fn reduce_monoid(&mut self, x: Value, monoid: Monoid, dims: &[i64]) -> Result<Value> {
        if dims.is_empty() {
            return Ok(x);
        }
        let element = self.element(x);
        let init = self.scalar(monoid.neutral(element), element)?;
        let out =
            self.reduce(&[x], &[init], dims, |b, args| Ok(vec![monoid.combine(b, args[0], args[1])?]))?;
        Ok(out[0])
    }
}
