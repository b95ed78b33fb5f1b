//! The graph that a client sends to be compiled.
//!
//! [`Graph::decode`] reads the wire form (`tpud.v1.Graph`) and checks the contract once, so that lowerings may rely on
//! it: values are defined before they are used, every node's outputs have known dtypes and ranks, sizes are sane,
//! constants have the bytes they claim. [`canonical_bytes`] is the part of a graph that decides its key.
//!
//! No I/O and no MLIR here.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod canonical;
mod contract;
mod error;
mod model;
mod nodes;
mod random;
mod sym;
mod wire;

pub use canonical::canonical_bytes;
pub use error::GraphError;
pub use model::{
    Arg, Argument, Constant, DType, Graph, Input, InputRole, Location, Node, Output, OutputRole, Subgraph,
    TensorMeta, ValueId,
};
pub use random::{SEED, STREAM, is_random};
pub use sym::{SymExpr, SymFunction, Symbol};
