//! Elementwise ops on every element type they take.

use tpud_stablehlo::{Binary, Builder, Direction, ElementType, Result, Unary, Value};

use super::{Case, ELEMENTS, case, input};

const BINARY: [Binary; 15] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Rem,
    Binary::Max,
    Binary::Min,
    Binary::Pow,
    Binary::Atan2,
    Binary::And,
    Binary::Or,
    Binary::Xor,
    Binary::ShiftLeft,
    Binary::ShiftRightArithmetic,
    Binary::ShiftRightLogical,
];

const UNARY: [Unary; 35] = [
    Unary::Cbrt,
    Unary::Ceil,
    Unary::Cosine,
    Unary::CountLeadingZeros,
    Unary::Exp,
    Unary::Expm1,
    Unary::Floor,
    Unary::Log,
    Unary::Log1p,
    Unary::Logistic,
    Unary::Negate,
    Unary::Not,
    Unary::PopulationCount,
    Unary::RoundAway,
    Unary::RoundEven,
    Unary::Rsqrt,
    Unary::Sign,
    Unary::Sine,
    Unary::Sqrt,
    Unary::Tan,
    Unary::Tanh,
    Unary::Acos,
    Unary::Acosh,
    Unary::Asin,
    Unary::Asinh,
    Unary::Atan,
    Unary::Atanh,
    Unary::BesselI1e,
    Unary::Cosh,
    Unary::Digamma,
    Unary::Erf,
    Unary::ErfInv,
    Unary::Erfc,
    Unary::Lgamma,
    Unary::Sinh,
];

const DIRECTIONS: [Direction; 6] =
    [Direction::Eq, Direction::Ne, Direction::Lt, Direction::Le, Direction::Gt, Direction::Ge];

pub(super) fn cases(cases: &mut Vec<Case>) -> Result<()> {
    for op in BINARY {
        case(cases, &format!("binary_{op:?}"), |b| Ok(on_every_type(b, |b, x| b.binary(op, x, x))))?;
    }
    for op in UNARY {
        case(cases, &format!("unary_{op:?}"), |b| Ok(on_every_type(b, |b, x| b.unary(op, x))))?;
    }
    for direction in DIRECTIONS {
        case(cases, &format!("compare_{direction:?}"), |b| {
            Ok(on_every_type(b, |b, x| b.compare(direction, x, x)))
        })?;
    }
    case(cases, "abs", |b| Ok(on_every_type(b, |b, x| b.abs(x))))?;
    case(cases, "is_finite", |b| Ok(on_every_type(b, |b, x| b.is_finite(x))))?;
    case(cases, "clamp", |b| Ok(on_every_type(b, |b, x| b.clamp(x, x, x))))?;
    case(cases, "real", |b| Ok(on_every_type(b, |b, x| b.real(x))))?;
    case(cases, "imag", |b| Ok(on_every_type(b, |b, x| b.imag(x))))?;
    case(cases, "complex", |b| Ok(on_every_type(b, |b, x| b.complex(x, x))))?;
    for from in ELEMENTS {
        case(cases, &format!("convert_{from:?}"), |b| {
            let x = input(b, from, &[2, 3]);
            ELEMENTS.iter().filter(|to| **to != from).map(|to| b.convert(x, *to)).collect()
        })?;
        let legal: Vec<ElementType> = ELEMENTS.into_iter().filter(|to| bitcasts(from, *to)).collect();
        if !legal.is_empty() {
            case(cases, &format!("bitcast_{from:?}"), |b| {
                let x = input(b, from, &[3]);
                legal.iter().map(|to| b.bitcast(x, *to)).collect()
            })?;
        }
    }
    case(cases, "select", |b| {
        let pred = input(b, ElementType::Bool, &[2, 3]);
        let scalar = input(b, ElementType::Bool, &[]);
        let both = |b: &mut Builder, pred| on_every_type(b, |b, x| b.select(pred, x, x));
        Ok([both(b, pred), both(b, scalar)].concat())
    })?;
    case(cases, "clamp_by_scalars", |b| {
        let x = input(b, ElementType::F32, &[4]);
        let low = input(b, ElementType::F32, &[]);
        let high = input(b, ElementType::F32, &[]);
        Ok(vec![b.clamp(low, x, high)?])
    })?;
    case(cases, "reduce_precision", |b| {
        let x = input(b, ElementType::F32, &[4]);
        Ok(vec![b.reduce_precision(x, 8, 7)?])
    })
}

fn bitcasts(from: ElementType, to: ElementType) -> bool {
    let mut b = Builder::new();
    let x = input(&mut b, from, &[3]);
    from != to && b.bitcast(x, to).is_ok()
}

/// The op on an input of each element type that the builder takes for it.
fn on_every_type(b: &mut Builder, mut op: impl FnMut(&mut Builder, Value) -> Result<Value>) -> Vec<Value> {
    ELEMENTS
        .iter()
        .filter_map(|element| {
            let x = input(b, *element, &[2, 3]);
            op(b, x).ok()
        })
        .collect()
}
