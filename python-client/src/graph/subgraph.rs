//! Graphs inside of graphs: what a higher-order op runs.

use pyo3::prelude::*;

use super::builder::GraphBuilder;

/// Builds a graph that is an argument of a node.
#[pyclass(module = "tpud._tpud")]
pub(crate) struct SubgraphBuilder {
    builder: GraphBuilder,
}

#[pymethods]
impl SubgraphBuilder {
    #[new]
    fn new(around: PyRef<'_, GraphBuilder>) -> Self {
        Self { builder: around.inside() }
    }

    fn add_input(&mut self, dtype: &str, sizes: &Bound<'_, PyAny>) -> PyResult<u32> {
        self.builder.push_input(dtype, sizes)
    }

    #[pyo3(signature = (op, args, outputs, location=0))]
    fn add_node(
        &mut self,
        op: String,
        args: &Bound<'_, PyAny>,
        outputs: &Bound<'_, PyAny>,
        location: u32,
    ) -> PyResult<u32> {
        self.builder.push_node(op, args, outputs, location)
    }

    fn finish(&self, outputs: Vec<u32>) -> PyResult<Subgraph> {
        Ok(Subgraph { graph: self.builder.nested(outputs)? })
    }
}

/// A nested graph as an argument.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct Subgraph {
    pub(super) graph: tpud_proto::v1::Subgraph,
}

#[pymethods]
impl Subgraph {
    #[getter]
    fn node_count(&self) -> usize {
        self.graph.nodes.len()
    }

    fn __repr__(&self) -> String {
        format!("Subgraph({} nodes)", self.graph.nodes.len())
    }
}
