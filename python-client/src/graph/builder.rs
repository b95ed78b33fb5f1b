//! The builder: values get their numbers in the order in which the graph encodes them.

use std::collections::HashMap;

use prost::Message;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use tpud_proto::v1::{
    Argument, Constant, DType, Graph, Input, Location, Node, Output, Subgraph, Symbol, TensorMeta, input,
    output,
};

use super::expr;
use super::value::{self, Scope};

const INPUT_ROLES: &[(&str, input::Role)] = &[
    ("user_input", input::Role::UserInput),
    ("parameter", input::Role::Parameter),
    ("constant", input::Role::Constant),
    ("symbol", input::Role::Symbol),
    ("seed", input::Role::Seed),
];

const OUTPUT_ROLES: &[(&str, output::Role)] = &[
    ("user_output", output::Role::UserOutput),
    ("mutation", output::Role::Mutation),
    ("saved", output::Role::Saved),
];

/// Builds one graph.
#[pyclass(module = "tpud._tpud")]
pub(crate) struct GraphBuilder {
    graph: Graph,
    values: u32,
    /// Id (index plus one) of every location seen; only ever looked up, so its order does not matter.
    locations: HashMap<Location, u32>,
}

#[pymethods]
impl GraphBuilder {
    #[new]
    fn new(name: String) -> Self {
        let graph = Graph { schema_version: 1, name, ..Graph::default() };
        Self { graph, values: 0, locations: HashMap::new() }
    }

    #[getter]
    fn node_count(&self) -> usize {
        self.graph.nodes.len()
    }

    #[getter]
    fn value_count(&self) -> u32 {
        self.values
    }

    fn add_symbol(&mut self, name: String, min: i64, max: i64, hint: i64) -> PyResult<usize> {
        if min > max || hint < min || hint > max {
            return Err(PyValueError::new_err(format!(
                "symbol {name:?}: min <= hint <= max does not hold for min {min}, hint {hint}, max {max}"
            )));
        }
        self.graph.symbols.push(Symbol { name, min, max, hint });
        Ok(self.graph.symbols.len() - 1)
    }

    #[pyo3(signature = (role, dtype, sizes, strides=None, storage_offset=None, symbol=None))]
    fn add_input(
        &mut self,
        role: &str,
        dtype: &str,
        sizes: &Bound<'_, PyAny>,
        strides: Option<&Bound<'_, PyAny>>,
        storage_offset: Option<&Bound<'_, PyAny>>,
        symbol: Option<u32>,
    ) -> PyResult<u32> {
        if !self.graph.constants.is_empty() || !self.graph.nodes.is_empty() {
            return Err(PyValueError::new_err("inputs come before constants and nodes"));
        }
        let role = lookup("input role", INPUT_ROLES, role)?;
        let symbol = match (role, symbol) {
            (input::Role::Symbol, Some(index)) if (index as usize) < self.graph.symbols.len() => index,
            (input::Role::Symbol, Some(index)) => {
                return Err(PyValueError::new_err(format!("symbol {index} is not declared")));
            }
            (input::Role::Symbol, None) => {
                return Err(PyValueError::new_err("an input of role symbol needs symbol="));
            }
            (_, Some(_)) => return Err(PyValueError::new_err("symbol= is for inputs of role symbol")),
            (_, None) => 0,
        };
        let mut meta = self.meta(dtype, sizes, strides)?;
        if let Some(offset) = storage_offset {
            let offset = expr::parse(offset, self.graph.symbols.len())?;
            // An offset of zero is left out: it is by far the most common one.
            meta.storage_offset = (offset != expr::constant(0)).then_some(offset);
        }
        let first = self.take_values(1)?;
        self.graph.inputs.push(Input { role: role as i32, meta: Some(meta), symbol });
        Ok(first)
    }

    fn add_constant(&mut self, dtype: &str, sizes: Vec<i64>, data: &Bound<'_, PyBytes>) -> PyResult<u32> {
        if !self.graph.nodes.is_empty() {
            return Err(PyValueError::new_err("constants come before nodes"));
        }
        let dtype = crate::dtype::parse(dtype)?;
        let data = data.as_bytes();
        if crate::dtype::dense_bytes(dtype as i32, &sizes) != Some(data.len() as u64) {
            return Err(PyValueError::new_err(format!(
                "a constant of dtype {} and sizes {sizes:?} does not have {} bytes",
                crate::dtype::name(dtype as i32),
                data.len()
            )));
        }
        let sizes = sizes.into_iter().map(expr::constant).collect();
        let meta = TensorMeta { dtype: dtype as i32, sizes, strides: Vec::new(), storage_offset: None };
        let first = self.take_values(1)?;
        self.graph.constants.push(Constant { meta: Some(meta), data: data.to_vec() });
        Ok(first)
    }

    #[pyo3(signature = (file, line, function=String::new(), code=String::new(), module_path=String::new()))]
    fn location(
        &mut self,
        file: String,
        line: u32,
        function: String,
        code: String,
        module_path: String,
    ) -> PyResult<u32> {
        let location = Location { file, line, function, code, module_path };
        if let Some(&id) = self.locations.get(&location) {
            return Ok(id);
        }
        let id = u32::try_from(self.graph.locations.len() + 1).map_err(|_| too_many("locations"))?;
        self.graph.locations.push(location.clone());
        self.locations.insert(location, id);
        Ok(id)
    }

    #[pyo3(signature = (op, args, outputs, location=0))]
    fn add_node(
        &mut self,
        op: String,
        args: &Bound<'_, PyAny>,
        outputs: &Bound<'_, PyAny>,
        location: u32,
    ) -> PyResult<u32> {
        if location as usize > self.graph.locations.len() {
            return Err(PyValueError::new_err(format!("{op}: location {location} does not exist")));
        }
        self.push_node(op, args, outputs, location)
    }

    #[pyo3(signature = (role, value, input=None))]
    fn add_output(&mut self, role: &str, value: u32, input: Option<u32>) -> PyResult<()> {
        let role = lookup("output role", OUTPUT_ROLES, role)?;
        if value >= self.values {
            return Err(PyValueError::new_err(format!("output value {value} does not exist")));
        }
        let input = match (role, input) {
            (output::Role::Mutation, Some(index)) if (index as usize) < self.graph.inputs.len() => index,
            (output::Role::Mutation, Some(index)) => {
                return Err(PyValueError::new_err(format!("mutated input {index} does not exist")));
            }
            (output::Role::Mutation, None) => {
                return Err(PyValueError::new_err("an output of role mutation needs input="));
            }
            (_, Some(_)) => return Err(PyValueError::new_err("input= is for outputs of role mutation")),
            (_, None) => 0,
        };
        self.graph.outputs.push(Output { role: role as i32, value, input });
        Ok(())
    }

    fn finish<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let encoded = py.detach(|| self.graph.encode_to_vec());
        PyBytes::new(py, &encoded)
    }
}

impl GraphBuilder {
    /// A builder for a graph inside of this one, which knows its symbols.
    pub(super) fn inside(&self) -> Self {
        let graph = Graph { symbols: self.graph.symbols.clone(), ..Graph::default() };
        Self { graph, values: 0, locations: HashMap::new() }
    }

    /// Adds an input of which only the type matters.
    pub(super) fn push_input(&mut self, dtype: &str, sizes: &Bound<'_, PyAny>) -> PyResult<u32> {
        self.add_input("user_input", dtype, sizes, None, None, None)
    }

    /// Adds a node whose location may be that of another builder.
    pub(super) fn push_node(
        &mut self,
        op: String,
        args: &Bound<'_, PyAny>,
        outputs: &Bound<'_, PyAny>,
        location: u32,
    ) -> PyResult<u32> {
        let scope = Scope { values: self.values, symbols: self.graph.symbols.len() };
        let args = encode_args(&op, args, scope)?;
        let metas = outputs
            .try_iter()?
            .enumerate()
            .map(|(index, meta)| {
                let meta = meta?;
                self.output_meta(&meta)
                    .map_err(|error| prefixed(meta.py(), error, || format!("{op}: output {index}")))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let first = self.take_values(metas.len())?;
        self.graph.nodes.push(Node { op, args, outputs: metas, location });
        Ok(first)
    }

    /// The graph as an argument of a node.
    pub(super) fn nested(&self, outputs: Vec<u32>) -> PyResult<Subgraph> {
        if let Some(value) = outputs.iter().find(|value| **value >= self.values) {
            return Err(PyValueError::new_err(format!("output value {value} does not exist")));
        }
        let inputs = self.graph.inputs.iter().filter_map(|input| input.meta.clone()).collect();
        Ok(Subgraph { inputs, nodes: self.graph.nodes.clone(), outputs })
    }

    /// Numbers `count` further values and returns the first.
    fn take_values(&mut self, count: usize) -> PyResult<u32> {
        let first = self.values;
        let count = u32::try_from(count).map_err(|_| too_many("values"))?;
        self.values = first.checked_add(count).ok_or_else(|| too_many("values"))?;
        Ok(first)
    }

    fn meta(
        &self,
        dtype: &str,
        sizes: &Bound<'_, PyAny>,
        strides: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<TensorMeta> {
        let symbols = self.graph.symbols.len();
        let dtype = crate::dtype::parse(dtype)? as i32;
        let sizes = expr::parse_all(sizes, symbols)?;
        let strides = strides.map_or(Ok(Vec::new()), |strides| expr::parse_all(strides, symbols))?;
        if !strides.is_empty() && strides.len() != sizes.len() {
            return Err(PyValueError::new_err(format!(
                "{} strides for {} sizes",
                strides.len(),
                sizes.len()
            )));
        }
        Ok(TensorMeta { dtype, sizes, strides, storage_offset: None })
    }

    fn output_meta(&self, meta: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
        if meta.is_none() {
            return Ok(TensorMeta { dtype: DType::DtypeUnspecified as i32, ..TensorMeta::default() });
        }
        let wrong = || PyTypeError::new_err("an output is (dtype, sizes, strides) or None");
        let tuple = meta.cast::<PyTuple>().map_err(|_| wrong())?;
        if tuple.len() != 3 {
            return Err(wrong());
        }
        let (dtype, sizes, strides) = (tuple.get_item(0)?, tuple.get_item(1)?, tuple.get_item(2)?);
        let dtype = dtype.cast::<PyString>().map_err(|_| wrong())?;
        self.meta(dtype.to_str()?, &sizes, (!strides.is_none()).then_some(&strides))
    }
}

fn encode_args(op: &str, args: &Bound<'_, PyAny>, scope: Scope) -> PyResult<Vec<Argument>> {
    let mut encoded = Vec::with_capacity(args.len().unwrap_or(0));
    for arg in args.try_iter()? {
        let arg = arg?;
        let (name, object) = arg
            .extract::<(String, Bound<'_, PyAny>)>()
            .map_err(|_| PyTypeError::new_err(format!("{op}: an argument is a pair (name, value)")))?;
        let value = value::encode(&object, scope)
            .map_err(|error| prefixed(arg.py(), error, || format!("{op}: argument {name:?}")))?;
        encoded.push(Argument { name, value: Some(value) });
    }
    Ok(encoded)
}

fn lookup<T: Copy>(what: &str, table: &[(&str, T)], name: &str) -> PyResult<T> {
    table.iter().find(|row| row.0 == name).map(|row| row.1).ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|row| row.0).collect();
        PyValueError::new_err(format!("unknown {what} {name:?}; known are {}", known.join(", ")))
    })
}

fn too_many(what: &str) -> PyErr {
    PyOverflowError::new_err(format!("a graph has at most {} {what}", u32::MAX))
}

/// The same exception with where it happened before its message.
fn prefixed(py: Python<'_>, error: PyErr, place: impl FnOnce() -> String) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("{}: {}", place(), error.value(py)))
}
