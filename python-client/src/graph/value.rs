//! Arguments of nodes: Python values as `tpud.v1.Value`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};
use tpud_proto::v1::{Complex, SymExpr, Value, ValueList, value::Kind};

use super::expr;
use super::subgraph::Subgraph;

/// prost refuses messages nested deeper than 100; one list takes two of them.
const MAX_DEPTH: usize = 40;

/// A reference to a tensor by its value number.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct Ref {
    #[pyo3(get)]
    id: u32,
}

#[pymethods]
impl Ref {
    #[new]
    fn new(id: u32) -> Self {
        Self { id }
    }

    fn __repr__(&self) -> String {
        format!("Ref({})", self.id)
    }
}

/// A dtype as an argument.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct DType {
    dtype: tpud_proto::v1::DType,
}

#[pymethods]
impl DType {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        Ok(Self { dtype: crate::dtype::parse(name)? })
    }

    #[getter]
    fn name(&self) -> &'static str {
        crate::dtype::name(self.dtype as i32)
    }

    fn __repr__(&self) -> String {
        format!("DType({:?})", self.name())
    }
}

/// A symbolic integer as an argument. Whether its symbols exist is checked where it is used.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct Sym {
    expr: Py<PyAny>,
}

#[pymethods]
impl Sym {
    #[new]
    fn new(expr: Bound<'_, PyAny>) -> PyResult<Self> {
        expr::parse(&expr, usize::MAX)?;
        Ok(Self { expr: expr.unbind() })
    }

    #[getter]
    fn expr(&self, py: Python<'_>) -> Py<PyAny> {
        self.expr.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("Sym({})", self.expr)
    }
}

/// What an argument may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Values numbered so far.
    pub(crate) values: u32,
    /// Symbols declared so far.
    pub(crate) symbols: usize,
}

/// Encodes one argument.
pub(crate) fn encode(object: &Bound<'_, PyAny>, scope: Scope) -> PyResult<Value> {
    encode_nested(object, scope, 0)
}

fn encode_nested(object: &Bound<'_, PyAny>, scope: Scope, depth: usize) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value { kind: None });
    }
    if let Some(kind) = scalar(object, scope)? {
        return Ok(Value { kind: Some(kind) });
    }
    let items = if let Ok(list) = object.cast::<PyList>() {
        encode_items(list.iter(), scope, depth)?
    } else if let Ok(tuple) = object.cast::<PyTuple>() {
        encode_items(tuple.iter(), scope, depth)?
    } else {
        let kind = object.get_type().fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!("a value of type {kind} cannot be encoded")));
    };
    Ok(Value { kind: Some(Kind::List(ValueList { items })) })
}

fn encode_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    scope: Scope,
    depth: usize,
) -> PyResult<Vec<Value>> {
    if depth >= MAX_DEPTH {
        return Err(PyValueError::new_err(format!("lists nest deeper than {MAX_DEPTH} levels")));
    }
    items.map(|item| encode_nested(&item, scope, depth + 1)).collect()
}

/// Everything but None and lists. A bool is an int to Python, so it is looked for first.
fn scalar(object: &Bound<'_, PyAny>, scope: Scope) -> PyResult<Option<Kind>> {
    if let Ok(reference) = object.cast::<Ref>() {
        let id = reference.get().id;
        if id >= scope.values {
            return Err(PyValueError::new_err(format!(
                "Ref({id}) refers to a value that does not exist yet; there are {}",
                scope.values
            )));
        }
        return Ok(Some(Kind::Tensor(id)));
    }
    if let Ok(boolean) = object.cast::<PyBool>() {
        return Ok(Some(Kind::Boolean(boolean.is_true())));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Some(Kind::Integer(expr::int64(object)?)));
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Some(Kind::Floating(float.value())));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Some(Kind::Text(text.to_str()?.to_owned())));
    }
    if let Ok(dtype) = object.cast::<DType>() {
        return Ok(Some(Kind::Dtype(dtype.get().dtype as i32)));
    }
    if let Ok(sym) = object.cast::<Sym>() {
        return Ok(Some(symbolic(expr::parse(sym.get().expr.bind(object.py()), scope.symbols)?)));
    }
    if let Ok(graph) = object.cast::<Subgraph>() {
        return Ok(Some(Kind::Graph(graph.get().graph.clone())));
    }
    if let Ok(complex) = object.cast::<PyComplex>() {
        let (real, imag) = (complex.real(), complex.imag());
        return Ok(Some(Kind::Complex(Complex { real: Some(real), imag: Some(imag) })));
    }
    Ok(None)
}

/// A constant expression is an int like any other, so that equal graphs have equal bytes.
fn symbolic(expr: SymExpr) -> Kind {
    match expr.kind {
        Some(tpud_proto::v1::sym_expr::Kind::Constant(value)) => Kind::Integer(value),
        _ => Kind::Symbolic(expr),
    }
}
