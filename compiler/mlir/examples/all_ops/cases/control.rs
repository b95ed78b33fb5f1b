//! Sorting, loops, branches, and the function itself.

use tpud_stablehlo::{
    Builder, Direction, ElementType, Result, Scalar, SortOrder, SourceLocation, TensorType, Value,
};

use super::{Case, ELEMENTS, case, input};

const F32: ElementType = ElementType::F32;
const I32: ElementType = ElementType::I32;

pub(super) fn cases(cases: &mut Vec<Case>) -> Result<()> {
    sorts(cases)?;
    branches(cases)?;
    case(cases, "while", |b| {
        let (i, x) = (input(b, I32, &[]), input(b, F32, &[4]));
        b.while_loop(
            &[i, x],
            |b, carried| {
                let limit = b.scalar(Scalar::Int(10), I32)?;
                b.compare(Direction::Lt, carried[0], limit)
            },
            |b, carried| {
                let one = b.scalar(Scalar::Int(1), I32)?;
                Ok(vec![b.add(carried[0], one)?, b.neg(carried[1])?])
            },
        )
    })?;
    case(cases, "optimization_barrier", |b| {
        let (x, y) = (input(b, F32, &[4]), input(b, I32, &[]));
        b.optimization_barrier(&[x, y])
    })?;
    case(cases, "aliases", |b| {
        let (x, y) = (input(b, F32, &[4]), input(b, I32, &[3]));
        let _unused = input(b, ElementType::Bool, &[]);
        b.alias(0, 1);
        let sum = b.add(x, x)?;
        Ok(vec![b.neg(y)?, sum])
    })?;
    case(cases, "locations", |b| {
        let x = input(b, F32, &[4]);
        b.set_location(Some(SourceLocation { file: "model.py".into(), line: 7, name: "aten.exp".into() }));
        Ok(vec![b.exp(x)?])
    })?;
    case(cases, "nothing", |_| Ok(vec![]))?;
    case(cases, "input_returned_twice", |b| {
        let x = input(b, F32, &[4]);
        Ok(vec![x, x])
    })
}

fn sorts(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "sort_by_key", |b| {
        let mut out = Vec::new();
        for element in ELEMENTS.into_iter().filter(|e| !e.is_complex()) {
            let x = input(b, element, &[2, 5]);
            let index = b.iota(&TensorType::new(ElementType::I64, [2, 5]), 1)?;
            out.extend(b.sort_by_key(&[x, index], 1, SortOrder::Ascending)?);
            out.extend(b.sort_by_key(&[x], 0, SortOrder::Descending)?);
        }
        Ok(out)
    })?;
    case(cases, "sort_unstable", |b| {
        let x = input(b, F32, &[5]);
        b.sort(&[x], 0, false, |b, a| b.compare(Direction::Gt, a[0], a[1]))
    })?;
    case(cases, "top_k", |b| {
        let mut out = Vec::new();
        for element in [F32, ElementType::BF16, I32, ElementType::I64, ElementType::U8] {
            let x = input(b, element, &[2, 9]);
            let (values, indices) = b.top_k(x, 3)?;
            out.extend([values, indices]);
        }
        Ok(out)
    })
}

fn branches(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "if", |b| {
        let (pred, x) = (input(b, ElementType::Bool, &[]), input(b, F32, &[4]));
        b.if_else(pred, |b| Ok(vec![b.exp(x)?, x]), |b| Ok(vec![b.log(x)?, b.neg(x)?]))
    })?;
    case(cases, "case", |b| {
        let (index, x) = (input(b, I32, &[]), input(b, F32, &[4]));
        let branch = |op: fn(&mut Builder, Value) -> Result<Value>| {
            move |b: &mut Builder| -> Result<Vec<Value>> { Ok(vec![op(b, x)?]) }
        };
        b.case(index, vec![branch(Builder::exp), branch(Builder::neg), branch(Builder::tanh)])
    })?;
    case(cases, "nested_regions", |b| {
        let (pred, x) = (input(b, ElementType::Bool, &[]), input(b, F32, &[4]));
        b.if_else(
            pred,
            |b| {
                let inner = b.if_else(pred, |b| Ok(vec![b.exp(x)?]), |_| Ok(vec![x]))?;
                Ok(vec![b.tanh(inner[0])?])
            },
            |_| Ok(vec![x]),
        )
    })
}
