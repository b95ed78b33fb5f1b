//! dtypes: torch's to StableHLO's, conversions, promotion of operands.

use tpud_graph::{DType, Node};
use tpud_stablehlo::{Direction, ElementType, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;

/// The element type of a dtype.
pub(crate) fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Bool,
        DType::UInt8 => ElementType::U8,
        DType::UInt16 => ElementType::U16,
        DType::UInt32 => ElementType::U32,
        DType::UInt64 => ElementType::U64,
        DType::Int8 => ElementType::I8,
        DType::Int16 => ElementType::I16,
        DType::Int32 => ElementType::I32,
        DType::Int64 => ElementType::I64,
        DType::Float16 => ElementType::F16,
        DType::BFloat16 => ElementType::BF16,
        DType::Float32 => ElementType::F32,
        DType::Float64 => ElementType::F64,
        DType::Complex64 => ElementType::C64,
        DType::Complex128 => ElementType::C128,
        DType::Float8E4M3FN => ElementType::F8E4M3FN,
        DType::Float8E5M2 => ElementType::F8E5M2,
    }
}

/// The type in which torch's CPU kernels accumulate: f32 for the narrow floats.
pub(crate) fn accumulation_type(element: ElementType) -> ElementType {
    match element {
        ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3FN | ElementType::F8E5M2 => {
            ElementType::F32
        }
        other => other,
    }
}

/// The order in which element types absorb each other inside their category (torch.promote_types).
fn rank(element: ElementType) -> u32 {
    match element {
        ElementType::Bool => 0,
        ElementType::U8 | ElementType::I8 | ElementType::F8E4M3FN | ElementType::F8E5M2 => 1,
        ElementType::U16 | ElementType::I16 | ElementType::F16 | ElementType::BF16 => 2,
        ElementType::U32 | ElementType::I32 | ElementType::F32 | ElementType::C64 => 3,
        ElementType::U64 | ElementType::I64 | ElementType::F64 | ElementType::C128 => 4,
    }
}

/// Bool, integer, float, complex.
fn category(element: ElementType) -> u32 {
    match element {
        ElementType::Bool => 0,
        e if e.is_integer() => 1,
        e if e.is_float() => 2,
        _ => 3,
    }
}

/// The element type that holds both, as `torch.promote_types` says.
pub(crate) fn promote(a: ElementType, b: ElementType) -> ElementType {
    if a == b {
        return a;
    }
    let (low, high) = if (category(a), rank(a)) <= (category(b), rank(b)) { (a, b) } else { (b, a) };
    match (category(low), category(high)) {
        // f16 with bf16: neither holds the other.
        (2, 2) if rank(low) == rank(high) => ElementType::F32,
        (2, 3) if low == ElementType::F64 => ElementType::C128,
        // u8 with i8 to i64: the next signed type that holds both.
        (1, 1) if low.is_unsigned_integer() != high.is_unsigned_integer() => {
            let unsigned = if low.is_unsigned_integer() { low } else { high };
            let signed = if low.is_unsigned_integer() { high } else { low };
            if rank(signed) > rank(unsigned) {
                return signed;
            }
            match rank(unsigned) {
                1 => ElementType::I16,
                2 => ElementType::I32,
                _ => ElementType::I64,
            }
        }
        _ => high,
    }
}

impl LoweringContext<'_> {
    /// Converts as `Tensor.to` does: to bool is `x != 0` (NaN is true), integers wrap, floats truncate.
    pub(crate) fn convert(&mut self, x: Value, element: ElementType) -> Result<Value, RuleError> {
        let from = self.b.element(x);
        if from == element {
            return Ok(x);
        }
        if element == ElementType::Bool {
            let zero = self.fill_like(Scalar::Int(0), x)?;
            return Ok(self.b.compare(Direction::Ne, x, zero)?);
        }
        if from.is_complex() && !element.is_complex() {
            let re = self.b.real(x)?;
            return self.convert(re, element);
        }
        if element.is_complex() && !from.is_complex() {
            let re = self.convert(x, element.real())?;
            let im = self.fill_like(Scalar::Int(0), re)?;
            return Ok(self.b.complex(re, im)?);
        }
        if from.is_float() && element.is_integer() {
            return self.float_to_int(x, element);
        }
        if element == ElementType::F8E4M3FN {
            return self.saturate_e4m3(x);
        }
        Ok(self.b.convert(x, element)?)
    }

    /// torch saturates at the largest value of this type, which has no infinity; XLA gives NaN. NaN stays NaN.
    fn saturate_e4m3(&mut self, x: Value) -> Result<Value, RuleError> {
        const LARGEST: f64 = 448.0;
        let x = match self.b.element(x) {
            ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64 => x,
            _ => self.b.convert(x, ElementType::F32)?,
        };
        let low = self.fill_like(Scalar::Float(-LARGEST), x)?;
        let high = self.fill_like(Scalar::Float(LARGEST), x)?;
        let bounded = self.b.clamp(low, x, high)?;
        Ok(self.b.convert(bounded, ElementType::F8E4M3FN)?)
    }

    /// XLA saturates where torch's CPU kernels wrap: -1.0 is 255 as u8. So narrow types are reached from a wide one.
    /// What the wide type can't hold either is undefined in torch; here it saturates, and NaN is 0.
    fn float_to_int(&mut self, x: Value, element: ElementType) -> Result<Value, RuleError> {
        let through = match element {
            ElementType::I8 | ElementType::U8 | ElementType::I16 | ElementType::U16 => ElementType::I32,
            ElementType::U32 => ElementType::I64,
            _ => element,
        };
        let wide = self.b.convert(x, through)?;
        Ok(self.b.convert(wide, element)?)
    }

    /// A tensor argument, or a number, as a value of the given type: converted and broadcast.
    pub(crate) fn operand(&mut self, node: &Node, name: &str, ty: &TensorType) -> Result<Value, RuleError> {
        if let Some(number) = self.opt_number(node, name)? {
            return Ok(self.b.splat(number, ty)?);
        }
        let x = self.tensor(node, name)?;
        self.fit(x, ty)
    }

    /// The element type in which operands of a comparison meet. 0-d tensors and numbers give way to tensors with
    /// dimensions of the same or a higher category, as torch's type promotion says.
    pub(crate) fn common_element(&mut self, node: &Node, names: &[&str]) -> Result<ElementType, RuleError> {
        let (mut dimensioned, mut zero_dim, mut number) = (None, None, None);
        let merge = |slot: &mut Option<ElementType>, e: ElementType| {
            *slot = Some(slot.map_or(e, |old| promote(old, e)));
        };
        for name in names {
            match self.opt_number(node, name)? {
                Some(n) => merge(&mut number, number_element(n)),
                None => {
                    let x = self.tensor(node, name)?;
                    let slot = if self.b.rank(x) > 0 { &mut dimensioned } else { &mut zero_dim };
                    merge(slot, self.b.element(x));
                }
            }
        }
        let mut result: Option<ElementType> = None;
        for weaker in [dimensioned, zero_dim, number].into_iter().flatten() {
            result = Some(match result {
                None => weaker,
                Some(stronger) if category(weaker) <= category(stronger) => stronger,
                // A weaker operand of a higher category: a Python float or complex takes its default width.
                Some(stronger) if weaker == ElementType::C64 && stronger == ElementType::F64 => {
                    ElementType::C128
                }
                Some(stronger) => promote(stronger, weaker),
            });
        }
        result.ok_or_else(|| RuleError::Internal("no operands".into()))
    }
}

/// The dtype of a Python number on its own (torch's defaults).
fn number_element(number: Scalar) -> ElementType {
    match number {
        Scalar::Bool(_) => ElementType::Bool,
        Scalar::Int(_) => ElementType::I64,
        Scalar::Float(_) => ElementType::F32,
        Scalar::Complex(..) => ElementType::C64,
    }
}

#[cfg(test)]
mod tests {
    use super::promote;
    use tpud_stablehlo::ElementType as E;

    #[test]
    fn promotion_follows_torch() {
        for (a, b, expected) in [
            (E::Bool, E::U8, E::U8),
            (E::U8, E::I8, E::I16),
            (E::U8, E::I64, E::I64),
            (E::I64, E::BF16, E::BF16),
            (E::F16, E::BF16, E::F32),
            (E::I32, E::F64, E::F64),
            (E::F64, E::C64, E::C128),
            (E::F32, E::C64, E::C64),
            (E::I16, E::U8, E::I16),
        ] {
            assert_eq!(promote(a, b), expected, "{a} {b}");
            assert_eq!(promote(b, a), expected, "{b} {a}");
        }
    }
}
