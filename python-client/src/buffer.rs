//! `Buffer`: a tensor on the daemon's device, as Python holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::ClientError;
use crate::host_memory::HostWrite;
use crate::session::{Handle, Session};
use crate::transfer::count;

/// A device buffer; dropping it releases it with the session's next command.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct Buffer {
    session: Handle,
    #[pyo3(get)]
    handle: u64,
    #[pyo3(get)]
    nbytes: u64,
    freed: AtomicBool,
}

impl Buffer {
    pub(crate) fn new(session: Arc<Session>, handle: u64, nbytes: u64) -> Self {
        Self { session: Handle::new(session), handle, nbytes, freed: AtomicBool::new(false) }
    }

    /// The handle, for a call of this session.
    pub(crate) fn handle_in(&self, session: &Arc<Session>) -> PyResult<u64> {
        if self.freed.load(Ordering::Acquire) {
            return Err(PyValueError::new_err(format!("buffer {} was freed", self.handle)));
        }
        if !Arc::ptr_eq(self.session.peek()?, session) {
            let message = format!("buffer {} belongs to another connection", self.handle);
            return Err(PyValueError::new_err(message));
        }
        Ok(self.handle)
    }
}

#[pymethods]
impl Buffer {
    fn download(&self, py: Python<'_>, data_ptr: usize, nbytes: usize) -> PyResult<()> {
        let session = self.session.get()?;
        let handle = self.handle_in(session)?;
        if self.nbytes != nbytes as u64 {
            let message = format!("buffer {handle} has {} bytes, not {nbytes}", self.nbytes);
            return Err(PyValueError::new_err(message));
        }
        let target = HostWrite::new(data_ptr, nbytes)?;
        Ok(py.detach(|| session.download(handle, target))?)
    }

    fn free(&self) {
        if self.freed.swap(true, Ordering::AcqRel) {
            return;
        }
        // After a fork or a close there is nothing left to release.
        if let Ok(session) = self.session.get() {
            count(&session.stats.freed_handles, 1);
            session.stream.free_buffer(self.handle);
        }
    }

    fn __repr__(&self) -> String {
        format!("Buffer(handle={}, nbytes={})", self.handle, self.nbytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.free();
    }
}

/// Reads the memory of a fetched output.
pub(crate) fn host_write(
    address: usize,
    bytes: usize,
    expected: Option<u64>,
) -> Result<HostWrite, ClientError> {
    if let Some(expected) = expected.filter(|&expected| expected != bytes as u64) {
        return Err(ClientError::Invalid(format!("the output has {expected} bytes, not {bytes}")));
    }
    HostWrite::new(address, bytes)
}
