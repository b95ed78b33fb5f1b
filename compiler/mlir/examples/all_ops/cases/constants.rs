//! Constants of every element type and form, and what is made without operands.

use tpud_stablehlo::{ElementType, Literal, Result, Scalar, TensorType};

use super::{Case, ELEMENTS, case, input};

pub(super) fn cases(cases: &mut Vec<Case>) -> Result<()> {
    for element in ELEMENTS {
        case(cases, &format!("constant_{element:?}"), |b| {
            let splat = Literal::splat(TensorType::new(element, [2, 3]), Scalar::Float(1.5));
            let scalar = Literal::splat(TensorType::scalar(element), Scalar::Int(-3));
            let empty = Literal::dense(TensorType::new(element, [2, 0, 3]), vec![])?;
            [counting(element, &[2, 4])?, counting(element, &[3, 7])?, splat, scalar, empty]
                .into_iter()
                .map(|literal| b.constant(literal))
                .collect()
        })?;
    }
    case(cases, "constant_special_floats", |b| {
        let floats = ELEMENTS.iter().filter(|e| e.is_float() || e.is_complex());
        let mut out = Vec::new();
        for element in floats {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-7, 1e300] {
                let splat = b.scalar(Scalar::Complex(value, value), *element)?;
                let mut bytes = Scalar::Complex(value, value).to_bytes(*element);
                bytes.extend(Scalar::Complex(1.0, 0.1).to_bytes(*element));
                let pair = b.constant(Literal::dense(TensorType::new(*element, [2]), bytes)?)?;
                out.extend([splat, pair]);
            }
        }
        Ok(out)
    })?;
    case(cases, "constant_bools", |b| {
        // All lengths around a byte, where MLIR packs bits.
        (1..=17)
            .map(|n| {
                let bytes = (0..n).map(|i| u8::from(i % 3 == 0)).collect();
                b.constant(Literal::dense(TensorType::new(ElementType::Bool, [n]), bytes)?)
            })
            .collect()
    })?;
    case(cases, "constant_helpers", |b| {
        let x = input(b, ElementType::BF16, &[3]);
        Ok(vec![b.splat_like(Scalar::Float(0.5), x)?, b.i64s(&[3, -1, 4])?, b.i64s(&[7, 7])?, b.i64s(&[])?])
    })?;
    case(cases, "iota", |b| {
        let elements = ELEMENTS.iter().filter(|e| **e != ElementType::Bool);
        elements.map(|e| b.iota(&TensorType::new(*e, [2, 5]), 1)).collect()
    })?;
    case(cases, "rng_bits", |b| {
        let mut out = Vec::new();
        for words in [2, 3] {
            let state = input(b, ElementType::U64, &[words]);
            for element in [ElementType::U8, ElementType::U16, ElementType::U32, ElementType::U64] {
                let (next, bits) = b.rng_bits(state, &TensorType::new(element, [3, 5]))?;
                out.extend([next, bits]);
            }
        }
        Ok(out)
    })
}

/// 0, 1, 2, … as `element`.
fn counting(element: ElementType, dims: &[i64]) -> Result<Literal> {
    let ty = TensorType::new(element, dims);
    let bytes = (0..ty.elements()).flat_map(|i| Scalar::Int(i % 5).to_bytes(element)).collect();
    Literal::dense(ty, bytes)
}
