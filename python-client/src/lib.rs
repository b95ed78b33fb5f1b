//! `tpud._tpud`: the Rust extension behind the Python package `tpud`.
//!
//! It encodes graphs, finds or starts the daemon, and keeps the session with it. The interface that Python sees is
//! described in `python/tpud/_tpud.pyi`. Importing the module starts nothing: no thread, no socket, no runtime.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod address;
mod autostart;
mod buffer;
mod compile;
mod connection;
mod driver;
mod dtype;
mod error;
mod executable;
mod graph;
mod host_memory;
mod options;
mod reports;
mod run;
mod segments;
mod session;
mod stream;
mod transfer;

use pyo3::prelude::*;

#[pymodule]
fn _tpud(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("INLINE_LIMIT", transfer::INLINE_LIMIT)?;
    module.add("PROTOCOL_MIN", tpud_proto::PROTOCOL_VERSIONS.start())?;
    module.add("PROTOCOL_MAX", tpud_proto::PROTOCOL_VERSIONS.end())?;
    module.add("RawError", module.py().get_type::<error::RawError>())?;
    module.add_class::<graph::Ref>()?;
    module.add_class::<graph::DType>()?;
    module.add_class::<graph::Sym>()?;
    module.add_class::<graph::GraphBuilder>()?;
    module.add_class::<graph::SubgraphBuilder>()?;
    module.add_class::<graph::Subgraph>()?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<compile::CompileResult>()?;
    module.add_class::<executable::LoadedExecutable>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_function(wrap_pyfunction!(autostart::default_socket_path, module)?)?;
    module.add_function(wrap_pyfunction!(autostart::find_binary, module)?)?;
    module.add_function(wrap_pyfunction!(autostart::daemon_address, module)?)?;
    Ok(())
}
