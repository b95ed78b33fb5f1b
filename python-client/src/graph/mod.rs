//! Encoding a captured graph as `tpud.v1.Graph`.

mod builder;
mod expr;
mod value;

pub(crate) use builder::GraphBuilder;
pub(crate) use value::{DType, Ref, Sym};
