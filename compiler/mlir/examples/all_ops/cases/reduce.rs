//! Reductions of whole dimensions and of windows.

use tpud_stablehlo::{Direction, ElementType, Monoid, Result, Scalar, TensorType, Window};

use super::{Case, ELEMENTS, case, input};

const F32: ElementType = ElementType::F32;

const MONOIDS: [Monoid; 6] =
    [Monoid::Sum, Monoid::Product, Monoid::Max, Monoid::Min, Monoid::And, Monoid::Or];

pub(super) fn cases(cases: &mut Vec<Case>) -> Result<()> {
    for monoid in MONOIDS {
        let takes = |element: ElementType| match monoid {
            Monoid::Sum | Monoid::Product => true,
            Monoid::Max | Monoid::Min => !element.is_complex(),
            Monoid::And | Monoid::Or => element.is_integer() || element == ElementType::Bool,
        };
        case(cases, &format!("reduce_{monoid:?}"), |b| {
            let mut out = Vec::new();
            for element in ELEMENTS.into_iter().filter(|e| takes(*e)) {
                let x = input(b, element, &[2, 3, 4]);
                out.push(b.reduce_monoid(x, monoid, &[2, 0])?);
            }
            Ok(out)
        })?;
    }
    case(cases, "reduce_argmax", |b| {
        let x = input(b, F32, &[3, 5]);
        let index = b.iota(&TensorType::new(ElementType::I64, [3, 5]), 1)?;
        let low = b.scalar(Scalar::Float(f64::NEG_INFINITY), F32)?;
        let zero = b.scalar(Scalar::Int(0), ElementType::I64)?;
        b.reduce(&[x, index], &[low, zero], &[1], |b, a| {
            let better = b.compare(Direction::Ge, a[0], a[2])?;
            Ok(vec![b.select(better, a[0], a[2])?, b.select(better, a[1], a[3])?])
        })
    })?;
    windows(cases)
}

fn windows(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "reduce_window_max_pool", |b| {
        let x = input(b, F32, &[1, 2, 8, 9]);
        let mut window = Window::identity(4);
        (window.sizes[2], window.sizes[3]) = (3, 2);
        (window.strides[2], window.strides[3]) = (2, 3);
        (window.padding[2], window.padding[3]) = ((1, 2), (0, 1));
        Ok(vec![b.reduce_window_monoid(x, Monoid::Max, &window)?])
    })?;
    case(cases, "reduce_window_dilated", |b| {
        let x = input(b, F32, &[5, 9]);
        let mut window = Window::identity(2);
        (window.sizes[1], window.dilations[1], window.base_dilations[0]) = (3, 2, 3);
        Ok(vec![b.reduce_window_monoid(x, Monoid::Sum, &window)?])
    })?;
    case(cases, "reduce_window_cumsum", |b| {
        let x = input(b, ElementType::I64, &[2, 6]);
        let mut window = Window::identity(2);
        (window.sizes[1], window.padding[1]) = (6, (5, 0));
        Ok(vec![b.reduce_window_monoid(x, Monoid::Sum, &window)?])
    })?;
    case(cases, "reduce_window_too_large", |b| {
        let x = input(b, F32, &[2]);
        let mut window = Window::identity(1);
        window.sizes[0] = 3;
        Ok(vec![b.reduce_window_monoid(x, Monoid::Sum, &window)?])
    })?;
    case(cases, "reduce_window_pair", |b| {
        let (x, i) = (input(b, F32, &[6]), input(b, ElementType::I32, &[6]));
        let low = b.scalar(Scalar::Float(f64::NEG_INFINITY), F32)?;
        let zero = b.scalar(Scalar::Int(0), ElementType::I32)?;
        let mut window = Window::identity(1);
        (window.sizes[0], window.strides[0]) = (2, 2);
        b.reduce_window(&[x, i], &[low, zero], &window, |b, a| {
            let better = b.compare(Direction::Ge, a[0], a[2])?;
            Ok(vec![b.select(better, a[0], a[2])?, b.select(better, a[1], a[3])?])
        })
    })?;
    case(cases, "select_and_scatter", |b| {
        let (x, source) = (input(b, F32, &[2, 8]), input(b, F32, &[2, 4]));
        let init = b.scalar(Scalar::Float(0.0), F32)?;
        let mut window = Window::identity(2);
        (window.sizes[1], window.strides[1], window.padding[1]) = (3, 2, (1, 0));
        Ok(vec![b.select_and_scatter(x, source, init, &window, Direction::Ge)?])
    })
}
