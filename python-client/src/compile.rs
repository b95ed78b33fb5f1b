//! Compiling a graph: the stream of progress and what comes out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tonic::Request;
use tpud_proto::v1::compile_client::CompileClient;
use tpud_proto::v1::compile_event::Event;
use tpud_proto::v1::compile_progress::Stage;
use tpud_proto::v1::{self as wire, CacheOutcome, CompileEvent, CompileOptions, CompileRequest, Signature};

use crate::error::ClientError;
use crate::executable::LoadedExecutable;
use crate::reports;
use crate::session::Session;

/// The daemon ends a compile at its deadline by itself; this much later the client stops waiting for its words.
const GRACE: Duration = Duration::from_secs(2);
/// Stands for "no deadline".
const FOREVER: Duration = Duration::from_secs(30 * 24 * 3600);

/// What compiling gave.
#[pyclass(frozen, module = "tpud._tpud")]
pub(crate) struct CompileResult {
    result: wire::CompileResult,
    executable: Option<Py<LoadedExecutable>>,
}

/// What to compile, and how to wait for it.
pub(crate) struct Job {
    pub(crate) graph: Vec<u8>,
    pub(crate) options: CompileOptions,
    pub(crate) executable: bool,
    pub(crate) want_serialized: bool,
    pub(crate) timeout: Option<Duration>,
}

/// Compiles on the calling thread; `progress` is called on it as well.
pub(crate) fn compile(
    py: Python<'_>,
    session: &Arc<Session>,
    job: Job,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<CompileResult> {
    session.check_message(job.graph.len())?;
    let handle = if job.executable { session.new_handle() } else { 0 };
    let request = CompileRequest {
        session_id: session.hello.session_id.clone(),
        graph: job.graph,
        options: Some(job.options),
        executable: handle,
        want_serialized: job.want_serialized,
    };
    let result = follow(py, session, request, job.timeout, progress).inspect_err(|_| {
        // It may have been loaded all the same.
        if handle != 0 {
            session.stream.free_executable(handle);
        }
    })?;
    let empty = Signature::default();
    let signature = result.signature.as_ref().unwrap_or(&empty);
    let executable = if handle == 0 {
        None
    } else {
        Some(Py::new(py, LoadedExecutable::new(Arc::clone(session), handle, signature))?)
    };
    Ok(CompileResult { result, executable })
}

fn follow(
    py: Python<'_>,
    session: &Session,
    request: CompileRequest,
    timeout: Option<Duration>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<wire::CompileResult> {
    let limit = session.message_limit();
    let mut client = CompileClient::new(session.channel.clone())
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit.saturating_add(1 << 20));
    let mut request = Request::new(request);
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    let patience = timeout.map_or(FOREVER, |timeout| timeout.saturating_add(GRACE)).min(FOREVER);
    let deadline = Instant::now() + patience;
    let mut events = py.detach(|| session.unary(patience, client.compile(request)))?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event =
            py.detach(|| session.wait(async { tokio::time::timeout(left, events.message()).await }))?;
        let event = event.map_err(|_| ClientError::Deadline { seconds: patience.as_secs_f64() })?;
        match event.map_err(|status| session.failed(&status))? {
            Some(CompileEvent { event: Some(Event::Result(result)) }) => return Ok(result),
            Some(CompileEvent { event: Some(Event::Progress(step)) }) => {
                if let Some(progress) = progress {
                    progress.call1((stage(step.stage), step.elapsed_seconds, step.queue_position))?;
                }
            }
            // An event of a kind that this build does not know.
            Some(CompileEvent { event: None }) => {}
            None => {
                let cause = "a compile ended without a result".to_owned();
                return Err(ClientError::BadReply { cause }.into());
            }
        }
    }
}

fn stage(stage: i32) -> &'static str {
    match Stage::try_from(stage) {
        Ok(Stage::Queued) => "queued",
        Ok(Stage::Lowering) => "lowering",
        Ok(Stage::Compiling) => "compiling",
        Ok(Stage::Loading) => "loading",
        Ok(Stage::Waiting) => "waiting",
        Ok(Stage::Unspecified) | Err(_) => "unspecified",
    }
}

fn outcome(outcome: i32) -> &'static str {
    match CacheOutcome::try_from(outcome) {
        Ok(CacheOutcome::Compiled) => "compiled",
        Ok(CacheOutcome::MemoryHit) => "memory_hit",
        Ok(CacheOutcome::DiskHit) => "disk_hit",
        Ok(CacheOutcome::ModuleHit) => "module_hit",
        Ok(CacheOutcome::Shared) => "shared",
        Ok(CacheOutcome::Unspecified) | Err(_) => "unspecified",
    }
}

#[pymethods]
impl CompileResult {
    #[getter]
    fn graph_key(&self) -> &str {
        &self.result.graph_key
    }

    #[getter]
    fn module_key(&self) -> &str {
        &self.result.module_key
    }

    #[getter]
    fn outcome(&self) -> &'static str {
        outcome(self.result.outcome)
    }

    #[getter]
    fn executable(&self, py: Python<'_>) -> Option<Py<LoadedExecutable>> {
        self.executable.as_ref().map(|executable| executable.clone_ref(py))
    }

    #[getter]
    fn signature<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::signature(py, self.result.signature.as_ref().unwrap_or(&Signature::default()))
    }

    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::report(py, self.result.report.as_ref().unwrap_or(&wire::Report::default()))
    }

    #[getter]
    fn timings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::timings(py, &self.result.timings.unwrap_or_default())
    }

    #[getter]
    fn graph_key_components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        reports::list(py, &self.result.graph_key_components, reports::component)
    }

    #[getter]
    fn module_key_components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        reports::list(py, &self.result.module_key_components, reports::component)
    }

    #[getter]
    fn checks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        reports::list(py, &self.result.checks, reports::check)
    }

    #[getter]
    fn serialized<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.result.serialized)
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::compile_result(py, &self.result, outcome(self.result.outcome))
    }
}
