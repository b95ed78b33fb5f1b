//! Encoding a captured graph as `tpud.v1.Graph`.

mod builder;
mod expr;
mod subgraph;
mod value;

pub(crate) use builder::GraphBuilder;
pub(crate) use expr::to_python as expr_to_python;
pub(crate) use subgraph::{Subgraph, SubgraphBuilder};
pub(crate) use value::{DType, Ref, Sym};
