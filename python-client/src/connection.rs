//! `Connection`: one session with a daemon, as Python sees it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use tpud_proto::v1::cache_client::CacheClient;
use tpud_proto::v1::compile_client::CompileClient;
use tpud_proto::v1::device_client::DeviceClient;
use tpud_proto::v1::explain_cache_request::Subject;
use tpud_proto::v1::status_client::StatusClient;
use tpud_proto::v1::{
    ExplainCacheRequest, ListCacheRequest, ListDevicesRequest, LowerRequest, OpsRequest, PruneCacheRequest,
    ShutdownRequest, StatusRequest, VerifyCacheRequest,
};

use crate::buffer::Buffer;
use crate::compile::{CompileResult, Job, compile};
use crate::executable::host_tensor;
use crate::session::{Handle, Session, UNARY_TIMEOUT};
use crate::{options, reports};

/// A session with a daemon.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct Connection {
    session: Handle,
}

/// Closes a session at interpreter exit, if it still exists.
#[pyclass(frozen, module = "tpud._tpud")]
struct Closer {
    session: Weak<Session>,
    pid: u32,
}

#[pymethods]
impl Closer {
    fn __call__(&self, py: Python<'_>) {
        if self.pid == std::process::id()
            && let Some(session) = self.session.upgrade()
        {
            py.detach(|| session.close());
        }
    }
}

fn seconds(value: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(PyValueError::new_err(format!("a timeout of {value} s"))),
    }
}

#[pymethods]
impl Connection {
    #[staticmethod]
    #[pyo3(signature = (address, client_version, torch_version, timeout=10.0))]
    fn open(
        py: Python<'_>,
        address: &str,
        client_version: String,
        torch_version: String,
        timeout: f64,
    ) -> PyResult<Self> {
        let timeout = seconds(timeout)?;
        let session = py.detach(|| Session::open(address, client_version, torch_version, timeout))?;
        let session = Arc::new(session);
        let closer = Closer { session: Arc::downgrade(&session), pid: session.pid };
        py.import("atexit")?.call_method1("register", (closer,))?;
        Ok(Self { session: Handle::new(session) })
    }

    #[getter]
    fn address(&self) -> PyResult<&str> {
        Ok(&self.session.peek()?.address)
    }

    #[getter]
    fn session_id(&self) -> PyResult<&str> {
        Ok(&self.session.peek()?.hello.session_id)
    }

    #[getter]
    fn daemon_version(&self) -> PyResult<&str> {
        Ok(&self.session.peek()?.hello.daemon_version)
    }

    #[getter]
    fn protocol(&self) -> PyResult<u32> {
        Ok(self.session.peek()?.hello.protocol)
    }

    #[getter]
    fn epoch(&self) -> PyResult<&str> {
        Ok(&self.session.peek()?.hello.epoch)
    }

    #[getter]
    fn lease_seconds(&self) -> PyResult<u32> {
        Ok(self.session.peek()?.hello.lease_seconds)
    }

    #[getter]
    fn shared_directory(&self) -> PyResult<Option<&str>> {
        let directory = &self.session.peek()?.hello.shared_directory;
        Ok((!directory.is_empty()).then_some(directory))
    }

    #[getter]
    fn max_message_bytes(&self) -> PyResult<usize> {
        Ok(self.session.peek()?.message_limit())
    }

    #[getter]
    fn devices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        reports::list(py, &self.session.peek()?.hello.devices, reports::device)
    }

    #[getter]
    fn pid(&self) -> PyResult<u32> {
        Ok(self.session.peek()?.pid)
    }

    #[getter]
    fn alive(&self) -> bool {
        self.session.get().is_ok()
    }

    #[pyo3(signature = (graph, options=None, executable=true, progress=None, timeout=None, want_serialized=false))]
    #[allow(clippy::too_many_arguments)] // the keyword arguments of the Python method
    fn compile(
        &self,
        py: Python<'_>,
        graph: &[u8],
        options: Option<&Bound<'_, PyDict>>,
        executable: bool,
        progress: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        want_serialized: bool,
    ) -> PyResult<CompileResult> {
        let job = Job {
            graph: graph.to_vec(),
            options: options::parse(options)?,
            executable,
            want_serialized,
            timeout: timeout.map(seconds).transpose()?,
        };
        compile(py, self.session.get()?, job, progress)
    }

    #[pyo3(signature = (graph, options=None, timeout=None))]
    fn lower<'py>(
        &self,
        py: Python<'py>,
        graph: &[u8],
        options: Option<&Bound<'py, PyDict>>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        session.check_message(graph.len())?;
        let request = LowerRequest { graph: graph.to_vec(), options: Some(options::parse(options)?) };
        let timeout = timeout.map(seconds).transpose()?.unwrap_or(10 * UNARY_TIMEOUT);
        let limit = session.message_limit();
        let mut client = CompileClient::new(session.channel.clone())
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit.saturating_add(1 << 20));
        let reply = py.detach(|| session.unary(timeout, client.lower(request)))?;
        let dict = PyDict::new(py);
        dict.set_item("text", reply.text)?;
        dict.set_item("module_digest", reply.module_digest)?;
        dict.set_item("module_bytes", reply.module_bytes)?;
        Ok(dict)
    }

    fn ops(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let session = self.session.get()?;
        let mut client = CompileClient::new(session.channel.clone());
        Ok(py.detach(|| session.unary(UNARY_TIMEOUT, client.ops(OpsRequest {})))?.ops)
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        let mut client = StatusClient::new(session.channel.clone());
        reports::status(py, &py.detach(|| session.unary(UNARY_TIMEOUT, client.get(StatusRequest {})))?)
    }

    fn list_devices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        let mut client = DeviceClient::new(session.channel.clone());
        let request = ListDevicesRequest {};
        reports::devices(py, &py.detach(|| session.unary(UNARY_TIMEOUT, client.list(request)))?)
    }

    #[pyo3(signature = (limit=0))]
    fn cache_list<'py>(&self, py: Python<'py>, limit: u32) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        let mut client = self.cache(session);
        let request = ListCacheRequest { limit };
        reports::cache_list(py, &py.detach(|| session.unary(UNARY_TIMEOUT, client.list(request)))?)
    }

    #[pyo3(signature = (subject, options=None))]
    fn cache_explain<'py>(
        &self,
        py: Python<'py>,
        subject: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        let subject = if let Ok(key) = subject.cast::<PyString>() {
            Subject::Key(key.to_str()?.to_owned())
        } else if let Ok(graph) = subject.cast::<PyBytes>() {
            session.check_message(graph.as_bytes().len())?;
            Subject::Graph(graph.as_bytes().to_vec())
        } else {
            return Err(PyTypeError::new_err("the subject is a key (str) or an encoded graph (bytes)"));
        };
        let request = ExplainCacheRequest { subject: Some(subject), options: Some(options::parse(options)?) };
        let mut client = self.cache(session);
        reports::cache_explain(py, &py.detach(|| session.unary(UNARY_TIMEOUT, client.explain(request)))?)
    }

    fn cache_verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        let mut client = self.cache(session);
        let call = client.verify(VerifyCacheRequest {});
        let reply = py.detach(|| session.unary(10 * UNARY_TIMEOUT, call))?;
        let dict = PyDict::new(py);
        dict.set_item("checked", reply.checked)?;
        dict.set_item("quarantined", reply.quarantined)?;
        Ok(dict)
    }

    fn cache_prune<'py>(&self, py: Python<'py>, max_bytes: u64) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.get()?;
        let mut client = self.cache(session);
        let call = client.prune(PruneCacheRequest { max_bytes });
        let reply = py.detach(|| session.unary(10 * UNARY_TIMEOUT, call))?;
        let dict = PyDict::new(py);
        dict.set_item("removed", reply.removed)?;
        dict.set_item("freed_bytes", reply.freed_bytes)?;
        Ok(dict)
    }

    fn upload(
        &self,
        py: Python<'_>,
        data_ptr: usize,
        nbytes: usize,
        dtype: &str,
        sizes: Vec<i64>,
    ) -> PyResult<Buffer> {
        let session = self.session.get()?;
        let input = host_tensor(data_ptr, nbytes, crate::dtype::parse(dtype)? as i32, sizes)?;
        let handle = py.detach(|| session.upload(&input))?;
        Ok(Buffer::new(Arc::clone(session), handle, nbytes as u64))
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.session.get()?;
        Ok(py.detach(|| session.synchronize())?)
    }

    fn transfer_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let session = self.session.peek()?;
        let stats = &session.stats;
        let (segments, segment_bytes) = session.pool.as_ref().map_or((0, 0), |pool| pool.usage());
        let dict = PyDict::new(py);
        for (name, counter) in [
            ("runs", &stats.runs),
            ("uploads", &stats.uploads),
            ("downloads", &stats.downloads),
            ("inline_bytes", &stats.inline_bytes),
            ("shared_bytes", &stats.shared_bytes),
            ("chunked_bytes", &stats.chunked_bytes),
            ("freed_handles", &stats.freed_handles),
        ] {
            dict.set_item(name, counter.load(Ordering::Relaxed))?;
        }
        dict.set_item("segments", segments)?;
        dict.set_item("segment_bytes", segment_bytes)?;
        Ok(dict)
    }

    fn shutdown_daemon(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.session.get()?;
        let mut client = StatusClient::new(session.channel.clone());
        py.detach(|| session.unary(UNARY_TIMEOUT, client.shutdown(ShutdownRequest {})))?;
        Ok(())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.session.peek()?;
        py.detach(|| session.close());
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        let session = self.session.peek()?;
        Ok(format!("Connection({:?}, session {})", session.address, session.hello.session_id))
    }
}

impl Connection {
    fn cache(&self, session: &Session) -> CacheClient<tonic::transport::Channel> {
        CacheClient::new(session.channel.clone()).max_decoding_message_size(session.message_limit())
    }
}
