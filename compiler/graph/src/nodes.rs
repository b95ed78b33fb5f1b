//! Nodes and their arguments, nested graphs included, from the wire form.

use std::sync::Arc;

use tpud_proto::v1 as pb;

use crate::wire::{dtype, sym_expr, tensor_meta};
use crate::{Arg, Argument, GraphError, Location, Node, Subgraph, SymExpr, TensorMeta, ValueId};

type Result<T, E = String> = std::result::Result<T, E>;

/// Lists inside lists deeper than this are no ATen argument.
const MAX_LIST_DEPTH: usize = 8;

/// Graphs inside graphs deeper than this are refused: reading, lowering and dropping them recurses. prost itself gives
/// up at 100 nested messages, four for each level here.
const MAX_GRAPH_DEPTH: usize = 16;

/// Reads the nodes of one graph.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    locations: &'a [Arc<Location>],
    /// How many graphs are around the one that is read.
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(locations: &'a [Arc<Location>]) -> Self {
        Self { locations, depth: 0 }
    }

    /// Reads nodes whose outputs are numbered from `first` on.
    pub(crate) fn nodes(self, first: usize, nodes: Vec<pb::Node>) -> Result<Vec<Node>, GraphError> {
        let mut next = first;
        let mut read = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.into_iter().enumerate() {
            let first = next;
            next += node.outputs.len();
            let place = format!("node {index} ({})", node.op);
            read.push(self.node(index, first, node).map_err(|message| GraphError::contract(place, message))?);
        }
        Ok(read)
    }

    fn node(self, index: usize, first: usize, node: pb::Node) -> Result<Node> {
        let first_output = u32::try_from(first).map(ValueId).map_err(|_| "too many values")?;
        let location = match node.location {
            0 => None,
            n => {
                let found = self.locations.get(n as usize - 1).cloned();
                Some(found.ok_or_else(|| format!("location {n} does not exist"))?)
            }
        };
        let args = node.args.into_iter().map(|a| {
            let value = self.arg(a.value, 0).map_err(|e| format!("argument {}: {e}", a.name))?;
            Ok(Argument { name: a.name, value })
        });
        let args = args.collect::<Result<Vec<_>>>()?;
        let outputs = node.outputs.into_iter().map(|m| tensor_meta(m).transpose());
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        Ok(Node { index, op: node.op, args, outputs, first_output, location })
    }

    fn arg(self, value: Option<pb::Value>, depth: usize) -> Result<Arg> {
        use pb::value::Kind;
        if depth > MAX_LIST_DEPTH {
            return Err("lists are nested too deeply".into());
        }
        let Some(kind) = value.and_then(|v| v.kind) else { return Ok(Arg::None) };
        Ok(match kind {
            Kind::Tensor(id) => Arg::Tensor(ValueId(id)),
            Kind::Boolean(b) => Arg::Bool(b),
            Kind::Integer(i) => Arg::Int(i),
            Kind::Floating(x) => Arg::Float(x),
            Kind::Complex(c) => Arg::Complex(c.real.unwrap_or_default(), c.imag.unwrap_or_default()),
            Kind::Text(s) => Arg::Text(s),
            Kind::Dtype(d) => Arg::DType(dtype(d).ok_or_else(|| format!("unknown dtype {d}"))?),
            Kind::Symbolic(e) => match sym_expr(Some(&e), 0)? {
                SymExpr::Constant(n) => Arg::Int(n),
                expr => Arg::Sym(expr),
            },
            Kind::List(list) => {
                let items = list.items.into_iter().map(|v| self.arg(Some(v), depth + 1));
                Arg::List(items.collect::<Result<_>>()?)
            }
            Kind::Graph(graph) => Arg::Graph(Box::new(self.subgraph(graph)?)),
        })
    }

    fn subgraph(self, graph: pb::Subgraph) -> Result<Subgraph> {
        if self.depth >= MAX_GRAPH_DEPTH {
            return Err(format!("graphs are nested deeper than {MAX_GRAPH_DEPTH} levels"));
        }
        let inner = Self { depth: self.depth + 1, ..self };
        let inputs = graph.inputs.into_iter().enumerate().map(|(i, meta)| {
            tensor_meta(meta)
                .unwrap_or_else(|| Err("a dtype is missing".into()))
                .map_err(|e| format!("input {i}: {e}"))
        });
        let inputs = inputs.collect::<Result<Vec<TensorMeta>>>()?;
        let nodes = inner.nodes(inputs.len(), graph.nodes).map_err(|e| e.to_string())?;
        Ok(Subgraph { inputs, nodes, outputs: graph.outputs.into_iter().map(ValueId).collect() })
    }
}
