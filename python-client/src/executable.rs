//! `LoadedExecutable`: a compiled graph on the daemon's device, and calling it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use tpud_proto::v1::sym_expr::Kind;
use tpud_proto::v1::{Signature, TensorMeta};

use crate::buffer::{Buffer, host_write};
use crate::host_memory::HostRead;
use crate::run::{Input, Output};
use crate::session::{Handle, Session};
use crate::transfer::{HostInput, count};

/// A tensor of the signature. Sizes are None where they are symbolic.
struct Slot {
    dtype: i32,
    sizes: Option<Vec<i64>>,
    bytes: Option<u64>,
}

impl Slot {
    fn new(meta: &TensorMeta) -> Self {
        let sizes: Option<Vec<i64>> = meta
            .sizes
            .iter()
            .map(|size| if let Some(Kind::Constant(value)) = size.kind { Some(value) } else { None })
            .collect();
        let bytes = sizes.as_ref().and_then(|sizes| crate::dtype::dense_bytes(meta.dtype, sizes));
        Self { dtype: meta.dtype, sizes, bytes }
    }
}

/// A loaded executable; dropping it unloads it with the session's next command.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct LoadedExecutable {
    session: Handle,
    #[pyo3(get)]
    handle: u64,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    freed: AtomicBool,
}

impl LoadedExecutable {
    pub(crate) fn new(session: Arc<Session>, handle: u64, signature: &Signature) -> Self {
        Self {
            session: Handle::new(session),
            handle,
            inputs: signature.inputs.iter().map(Slot::new).collect(),
            outputs: signature.outputs.iter().map(Slot::new).collect(),
            freed: AtomicBool::new(false),
        }
    }

    fn read_inputs(&self, session: &Arc<Session>, inputs: &Bound<'_, PyAny>) -> PyResult<Vec<Input>> {
        let mut parsed = Vec::with_capacity(self.inputs.len());
        for item in inputs.try_iter()? {
            let item = item?;
            let index = parsed.len();
            let Some(slot) = self.inputs.get(index) else {
                return Err(wrong_count("inputs", self.inputs.len(), inputs));
            };
            let input = if let Ok(buffer) = item.cast::<Buffer>() {
                Input::Buffer(buffer.get().handle_in(session)?)
            } else {
                let tuple = item.cast::<PyTuple>().map_err(|_| {
                    PyTypeError::new_err(format!(
                        "input {index} is neither a Buffer nor (data_ptr, nbytes, ...)"
                    ))
                })?;
                Input::Host(host_input(index, slot, tuple)?)
            };
            parsed.push(input);
        }
        if parsed.len() != self.inputs.len() {
            return Err(wrong_count("inputs", self.inputs.len(), inputs));
        }
        Ok(parsed)
    }

    fn read_outputs(&self, outputs: &Bound<'_, PyAny>) -> PyResult<Vec<Output>> {
        let mut parsed = Vec::with_capacity(self.outputs.len());
        for item in outputs.try_iter()? {
            let item = item?;
            let index = parsed.len();
            let Some(slot) = self.outputs.get(index) else {
                return Err(wrong_count("outputs", self.outputs.len(), outputs));
            };
            parsed.push(read_output(index, slot, &item)?);
        }
        if parsed.len() != self.outputs.len() {
            return Err(wrong_count("outputs", self.outputs.len(), outputs));
        }
        Ok(parsed)
    }
}

#[pymethods]
impl LoadedExecutable {
    #[getter]
    fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    #[getter]
    fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    #[pyo3(signature = (inputs, outputs, wait=true))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        outputs: &Bound<'py, PyAny>,
        wait: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let session = self.session.get()?;
        if self.freed.load(Ordering::Acquire) {
            return Err(PyValueError::new_err(format!("executable {} was freed", self.handle)));
        }
        let inputs = self.read_inputs(session, inputs)?;
        let outputs = self.read_outputs(outputs)?;
        if !wait && outputs.iter().any(|output| output.fetch.is_some()) {
            return Err(PyValueError::new_err("wait=False needs that no output is fetched"));
        }
        let kept = py.detach(|| session.run(self.handle, inputs, &outputs, wait))?;
        let list = PyList::empty(py);
        for (handle, slot) in kept.into_iter().zip(&self.outputs) {
            if handle == 0 {
                list.append(py.None())?;
            } else {
                list.append(Buffer::new(Arc::clone(session), handle, slot.bytes.unwrap_or(0)))?;
            }
        }
        Ok(list)
    }

    fn free(&self) {
        if self.freed.swap(true, Ordering::AcqRel) {
            return;
        }
        // After a fork or a close there is nothing left to release.
        if let Ok(session) = self.session.get() {
            count(&session.stats.freed_handles, 1);
            session.stream.free_executable(self.handle);
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "LoadedExecutable(handle={}, num_inputs={}, num_outputs={})",
            self.handle,
            self.inputs.len(),
            self.outputs.len()
        )
    }
}

impl Drop for LoadedExecutable {
    fn drop(&mut self) {
        self.free();
    }
}

fn wrong_count(what: &str, expected: usize, given: &Bound<'_, PyAny>) -> PyErr {
    let given = given.len().map_or_else(|_| "another number".to_owned(), |count| count.to_string());
    PyValueError::new_err(format!("the executable has {expected} {what}; {given} were given"))
}

/// (data_ptr, nbytes) or (data_ptr, nbytes, dtype, sizes).
fn host_input(index: usize, slot: &Slot, tuple: &Bound<'_, PyTuple>) -> PyResult<HostInput> {
    let address: usize = tuple.get_item(0)?.extract()?;
    let bytes: usize = tuple.get_item(1)?.extract()?;
    let (dtype, sizes) = match tuple.len() {
        2 => {
            let sizes = slot.sizes.clone().ok_or_else(|| {
                PyValueError::new_err(format!(
                    "input {index} has symbolic sizes, so dtype and sizes are needed"
                ))
            })?;
            (slot.dtype, sizes)
        }
        4 => {
            let dtype = crate::dtype::parse(tuple.get_item(2)?.cast::<PyString>()?.to_str()?)? as i32;
            (dtype, tuple.get_item(3)?.extract()?)
        }
        _ => return Err(PyTypeError::new_err(format!("input {index} is a tuple of 2 or 4"))),
    };
    host_tensor(address, bytes, dtype, sizes)
        .map_err(|error| PyValueError::new_err(format!("input {index}: {error}")))
}

/// A tensor in host memory whose size in bytes fits its sizes.
pub(crate) fn host_tensor(
    address: usize,
    bytes: usize,
    dtype: i32,
    sizes: Vec<i64>,
) -> Result<HostInput, crate::error::ClientError> {
    if crate::dtype::dense_bytes(dtype, &sizes) != Some(bytes as u64) {
        let name = crate::dtype::name(dtype);
        let message = format!("a {name} tensor of sizes {sizes:?} does not have {bytes} bytes");
        return Err(crate::error::ClientError::Invalid(message));
    }
    Ok(HostInput { memory: HostRead::new(address, bytes)?, dtype, sizes })
}

fn read_output(index: usize, slot: &Slot, item: &Bound<'_, PyAny>) -> PyResult<Output> {
    if item.is_none() {
        return Ok(Output { keep: false, fetch: None });
    }
    let wrong = || {
        let forms = "\"keep\", (\"fetch\", data_ptr, nbytes), (\"keep_fetch\", data_ptr, nbytes) or None";
        PyTypeError::new_err(format!("output {index} has to be {forms}"))
    };
    if let Ok(word) = item.cast::<PyString>() {
        return if word.to_str()? == "keep" { Ok(Output { keep: true, fetch: None }) } else { Err(wrong()) };
    }
    let (word, address, bytes) = item.extract::<(String, usize, usize)>().map_err(|_| wrong())?;
    let keep = match word.as_str() {
        "fetch" => false,
        "keep_fetch" => true,
        _ => return Err(wrong()),
    };
    let target = host_write(address, bytes, slot.bytes)
        .map_err(|error| PyValueError::new_err(format!("output {index}: {error}")))?;
    Ok(Output { keep, fetch: Some(target) })
}
