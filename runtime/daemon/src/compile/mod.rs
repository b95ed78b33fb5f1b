//! From a graph to an executable: keys, the cache, one compile per key, a worker when all else misses.

mod answer;
mod compiler;
mod load;
mod options;
mod progress;
mod records;
mod target;

pub(crate) use answer::{answer_compile, deadline};
pub(crate) use compiler::Compiler;
pub(crate) use options::{for_xla, precision};
pub(crate) use target::{OwnDevice, Platform, ResolvedTarget};
