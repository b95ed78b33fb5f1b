//! One Compile request: progress while it lasts, then the result or the error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tonic::Status;
use tonic::metadata::MetadataMap;
use tpud_proto::v1::{self, compile_event::Event, compile_progress::Stage};

use super::compiler::Compiled;
use super::progress::Progress;
use crate::error::{DaemonError, Result, panic_message};
use crate::state::Daemon;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(400);

type Events = Sender<Result<v1::CompileEvent, Status>>;

/// The time that a client gives a request, from gRPC's `grpc-timeout`.
pub(crate) fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(amount.saturating_mul(60))),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

/// Answers a request. Ends early when the client goes away; with the last one that waits, the work ends too.
pub(crate) async fn answer_compile(
    daemon: Arc<Daemon>,
    request: v1::CompileRequest,
    deadline: Option<Instant>,
    events: Events,
) {
    let _busy = daemon.busy();
    let progress = Progress::waiting();
    let started = Instant::now();
    // A task of its own makes a panic an error; aborting it on drop makes leaving possible.
    let work = AbortOnDrop(tokio::spawn(work(Arc::clone(&daemon), request, Arc::clone(&progress))));
    let outcome = tokio::select! {
        outcome = finish(work) => outcome,
        () = tick(&events, &progress, started) => return,
        () = until(deadline) => Err(DaemonError::DeadlineExceeded(stage_name(progress.now().0))),
    };
    let event = outcome.map(|result| v1::CompileEvent { event: Some(Event::Result(result)) });
    // Nobody listening is no error.
    let _ = events.send(event.map_err(Status::from)).await;
}

struct AbortOnDrop(tokio::task::JoinHandle<Result<v1::CompileResult>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn finish(mut work: AbortOnDrop) -> Result<v1::CompileResult> {
    match (&mut work.0).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Err(DaemonError::Panic(panic_message(panic.as_ref()))),
            Err(_) => Err(DaemonError::ShuttingDown),
        },
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends progress until nobody listens.
async fn tick(events: &Events, progress: &Progress, started: Instant) {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
    loop {
        tokio::select! {
            () = events.closed() => return,
            _ = interval.tick() => {}
        }
        let (stage, queue_position) = progress.now();
        let elapsed_seconds = started.elapsed().as_secs_f64();
        let now = v1::CompileProgress { stage: stage.into(), elapsed_seconds, queue_position };
        // A full channel is a slow reader, who gets the next one.
        let _ = events.try_send(Ok(v1::CompileEvent { event: Some(Event::Progress(now)) }));
    }
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Unspecified => "starting",
        Stage::Queued => "waiting for a worker",
        Stage::Lowering => "lowering",
        Stage::Compiling => "compiling",
        Stage::Loading => "loading",
        Stage::Waiting => "waiting for another request's compile of the same graph",
    }
}

async fn work(
    daemon: Arc<Daemon>,
    request: v1::CompileRequest,
    progress: Arc<Progress>,
) -> Result<v1::CompileResult> {
    let started = Instant::now();
    let v1::CompileRequest { session_id, graph, options, executable: handle, want_serialized } = request;
    let destination = match handle {
        0 => None,
        _ if session_id.is_empty() => {
            return Err(DaemonError::SessionRequired(" because it names an executable handle"));
        }
        handle => {
            let session = daemon.sessions.get(&session_id)?;
            session.executables.check_free(handle)?;
            // Said before anything else about the target: naming another would not help.
            if daemon.device.is_none() {
                return Err(DaemonError::NoDevice);
            }
            Some((session, handle))
        }
    };
    let outcome = async {
        let prepared = daemon.compiler.prepare(graph.into(), options.unwrap_or_default()).await?;
        match &destination {
            None => Ok((daemon.compiler.compile(&prepared, &progress).await?, 0.0)),
            Some((session, handle)) => {
                super::load::compile_and_load(&daemon, &prepared, session, *handle, &progress).await
            }
        }
    };
    let (compiled, load_seconds) = outcome.await.inspect_err(|error| {
        if let Some((session, handle)) = &destination {
            session.executables.fail(*handle, &Arc::new(error.clone()));
        }
    })?;
    let mut result = encode(&compiled, want_serialized);
    let timings = result.timings.get_or_insert_default();
    timings.load_seconds = load_seconds;
    timings.total_seconds = started.elapsed().as_secs_f64();
    Ok(result)
}

fn encode(compiled: &Compiled, want_serialized: bool) -> v1::CompileResult {
    v1::CompileResult {
        graph_key: compiled.graph_key.key().to_string(),
        module_key: compiled.module_key.key().to_string(),
        outcome: compiled.outcome.into(),
        signature: compiled.metadata.signature.clone(),
        report: Some(v1::Report {
            memory: compiled.report.memory,
            cost: compiled.report.cost,
            executable_bytes: compiled.executable.len() as u64,
            module_bytes: compiled.metadata.module_bytes,
            ops: compiled.metadata.ops.clone(),
        }),
        timings: Some(compiled.timings),
        serialized: if want_serialized { compiled.executable.to_vec() } else { Vec::new() },
        graph_key_components: crate::inspect::components(compiled.graph_key.components()),
        module_key_components: crate::inspect::components(compiled.module_key.components()),
        checks: compiled.metadata.checks.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_read() {
        let with = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            deadline(&metadata)
        };
        assert_eq!(with("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(with("2S"), Some(Duration::from_secs(2)));
        for bad in ["", "S", "-1S", "1", "1x", "99999999999999999999S"] {
            assert_eq!(with(bad), None, "{bad}");
        }
        assert_eq!(deadline(&MetadataMap::new()), None);
    }
}
