//! `tpud._tpud`: the Rust extension behind the Python package `tpud`.
//!
//! It encodes graphs, finds or starts the daemon, and keeps the session with it. The interface that Python sees is
//! described in `python/tpud/_tpud.pyi`. Importing the module starts nothing: no thread, no socket, no runtime.

mod dtype;
mod graph;

use pyo3::prelude::*;

#[pymodule]
fn _tpud(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PROTOCOL_MIN", tpud_proto::PROTOCOL_VERSIONS.start())?;
    module.add("PROTOCOL_MAX", tpud_proto::PROTOCOL_VERSIONS.end())?;
    module.add_class::<graph::Ref>()?;
    module.add_class::<graph::DType>()?;
    module.add_class::<graph::Sym>()?;
    module.add_class::<graph::GraphBuilder>()?;
    Ok(())
}
