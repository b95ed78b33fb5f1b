//! Sizes: ints, or trees written in Python as `("sym", i)` and `(function, a, b, ...)`.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple};
use tpud_proto::v1::{SymCall, SymExpr, sym_call::Function, sym_expr::Kind};

/// prost refuses messages nested deeper than 100; one level of an expression takes two of them.
const MAX_DEPTH: usize = 40;

const FUNCTIONS: &[(&str, Function)] = &[
    ("add", Function::Add),
    ("mul", Function::Mul),
    ("floor_div", Function::FloorDiv),
    ("ceil_div", Function::CeilDiv),
    ("mod", Function::Mod),
    ("min", Function::Min),
    ("max", Function::Max),
    ("pow", Function::Pow),
];

/// Reads an expression; `symbols` is how many are declared.
pub(crate) fn parse(object: &Bound<'_, PyAny>, symbols: usize) -> PyResult<SymExpr> {
    parse_nested(object, symbols, 0)
}

/// Reads a list of expressions.
pub(crate) fn parse_all(objects: &Bound<'_, PyAny>, symbols: usize) -> PyResult<Vec<SymExpr>> {
    objects.try_iter()?.map(|object| parse(&object?, symbols)).collect()
}

/// A constant expression.
pub(crate) fn constant(value: i64) -> SymExpr {
    SymExpr { kind: Some(Kind::Constant(value)) }
}

/// An int as i64; anything wider is refused by name rather than wrapped.
pub(crate) fn int64(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    object
        .extract::<i64>()
        .map_err(|_| PyOverflowError::new_err(format!("{object} does not fit into a 64-bit signed integer")))
}

fn parse_nested(object: &Bound<'_, PyAny>, symbols: usize, depth: usize) -> PyResult<SymExpr> {
    if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() {
        return Ok(constant(int64(object)?));
    }
    let Ok(tuple) = object.cast::<PyTuple>() else {
        let kind = object.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!("a size is an int or an expression tuple, not {kind}")));
    };
    if depth >= MAX_DEPTH {
        return Err(PyValueError::new_err(format!("a size expression nests deeper than {MAX_DEPTH} levels")));
    }
    let malformed = || PyValueError::new_err(format!("malformed size expression {tuple}"));
    let head = tuple.get_item(0).map_err(|_| malformed())?;
    let head = head.cast::<PyString>().map_err(|_| malformed())?.to_str()?.to_owned();
    if head == "sym" {
        return parse_symbol(tuple, symbols).and_then(|index| {
            index.map(|index| SymExpr { kind: Some(Kind::Symbol(index)) }).ok_or_else(malformed)
        });
    }
    let Some(&(_, function)) = FUNCTIONS.iter().find(|row| row.0 == head) else {
        let known: Vec<&str> = FUNCTIONS.iter().map(|row| row.0).collect();
        return Err(PyValueError::new_err(format!(
            "unknown function {head:?} in a size expression; known are sym, {}",
            known.join(", ")
        )));
    };
    if tuple.len() < 3 {
        return Err(malformed());
    }
    let args = tuple
        .iter()
        .skip(1)
        .map(|arg| parse_nested(&arg, symbols, depth + 1))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(SymExpr { kind: Some(Kind::Call(SymCall { function: function as i32, args })) })
}

fn parse_symbol(tuple: &Bound<'_, PyTuple>, symbols: usize) -> PyResult<Option<u32>> {
    if tuple.len() != 2 {
        return Ok(None);
    }
    let index = int64(&tuple.get_item(1)?)?;
    match u32::try_from(index) {
        Ok(small) if (small as usize) < symbols => Ok(Some(small)),
        _ => Err(PyValueError::new_err(format!("symbol {index} is not declared; there are {symbols}"))),
    }
}

/// The Python form of an expression, as `parse` reads it. `None` for a kind this build does not know.
pub(crate) fn to_python<'py>(py: Python<'py>, expr: &SymExpr) -> PyResult<Bound<'py, PyAny>> {
    match &expr.kind {
        Some(Kind::Constant(value)) => Ok(value.into_pyobject(py)?.into_any()),
        Some(Kind::Symbol(index)) => Ok(("sym", *index).into_pyobject(py)?.into_any()),
        Some(Kind::Call(call)) => {
            let name =
                FUNCTIONS.iter().find(|row| row.1 as i32 == call.function).map_or("unknown", |row| row.0);
            let mut items = vec![name.into_pyobject(py)?.into_any()];
            for arg in &call.args {
                items.push(to_python(py, arg)?);
            }
            Ok(PyTuple::new(py, items)?.into_any())
        }
        None => Ok(py.None().into_bound(py)),
    }
}
