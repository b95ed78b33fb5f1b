//! One worker process, seen from the daemon.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::BufReader;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tpud_proto::v1::{self, worker_reply, worker_request};

use super::error::{PoolError, Stage};
use super::log_tail::LogTail;
use super::spawn::Spawner;
use super::views::{View, Views};
use crate::worker::frame;

/// How to start workers.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The program; it is given `worker` as its first argument.
    pub program: PathBuf,
    /// Bytes of private memory; 0: no limit.
    pub memory_bytes: u64,
    /// Load this platform's compiler before the first job.
    pub warm: bool,
    /// Additions to the environment.
    pub environment: Vec<(String, String)>,
}

/// A running worker. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The process group, while its id can't have become another's: until the leader is reaped.
    group: Option<Pid>,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    log: LogTail,
    /// The stage to blame if it ends now.
    pub(crate) stage: Stage,
    /// Jobs it was given.
    pub(crate) jobs: u32,
    /// Of the pool, when it was started.
    pub(crate) generation: u64,
    pub(crate) view: View,
}

impl Worker {
    /// Starts one and waits until it answers.
    pub(crate) async fn start(
        spawner: &Spawner,
        launch: &Launch,
        views: &Arc<Views>,
    ) -> Result<Self, PoolError> {
        let failed = |what: String| PoolError::Start(format!("{}: {what}", launch.program.display()));
        let mut command = Command::new(&launch.program);
        command
            .arg("worker")
            .args(["--parent", &std::process::id().to_string()])
            .args(["--memory-bytes", &launch.memory_bytes.to_string()])
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if launch.warm {
            command.arg("--warm");
        }
        let mut child = spawner.spawn(command).await.map_err(|error| failed(error.to_string()))?;
        let pid = child.id().ok_or_else(|| failed("it ended at once".into()))?;
        let missing = || failed("it has no pipes".into());
        let log = LogTail::follow(child.stderr.take().ok_or_else(missing)?, pid);
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::with_capacity(64 << 10, child.stdout.take().ok_or_else(missing)?);
        let view = View::new(Arc::clone(views), pid);
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let mut worker =
            Self { group, child, input, output, log, stage: Stage::Starting, jobs: 0, generation: 0, view };
        match tokio::time::timeout(Duration::from_secs(30), worker.receive()).await {
            Ok(Ok(worker_reply::Reply::Ready(_))) => Ok(worker),
            Ok(Ok(other)) => Err(PoolError::Protocol(format!("it began with {other:?}"))),
            Ok(Err(PoolError::Died { how, log_tail, .. })) => Err(failed(format!("{how}\n{log_tail}"))),
            Ok(Err(other)) => Err(other),
            Err(_) => Err(failed("it was not ready within 30 s".into())),
        }
    }

    /// Forgets the log of earlier jobs.
    pub(crate) fn begin(&mut self) {
        self.jobs += 1;
        self.stage = Stage::Lowering;
        self.log.clear();
    }

    /// The last lines of its log.
    pub(crate) async fn log_tail(&self) -> String {
        self.log.finish().await
    }

    pub(crate) async fn send(&mut self, request: worker_request::Request) -> Result<(), PoolError> {
        let message = v1::WorkerRequest { request: Some(request) };
        match frame::send(&mut self.input, &message).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.post_mortem().await),
        }
    }

    pub(crate) async fn receive(&mut self) -> Result<worker_reply::Reply, PoolError> {
        match frame::receive::<v1::WorkerReply>(&mut self.output).await {
            Ok(v1::WorkerReply { reply: Some(reply), .. }) => Ok(reply),
            Ok(_) => Err(PoolError::Protocol("an empty reply".into())),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(PoolError::Protocol(error.to_string()))
            }
            Err(_) => Err(self.post_mortem().await),
        }
    }

    /// True while the process has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        let alive = matches!(self.child.try_wait(), Ok(None));
        if !alive {
            self.group = None;
        }
        alive
    }

    /// Kills the whole group: a plugin may have forked.
    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }

    async fn post_mortem(&mut self) -> PoolError {
        // A process that closed its pipe by dying keeps the status it died with.
        self.kill();
        let how = match tokio::time::timeout(Duration::from_secs(2), self.child.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("its exit status is unknown ({error})"),
            Err(_) => "it closed its pipe without ending".to_owned(),
        };
        PoolError::Died { stage: self.stage, how, log_tail: self.log.finish().await }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An exit status in words.
fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(number), _) => format!("signal {number} ({})", signal_name(number)),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}

fn signal_name(number: i32) -> &'static str {
    match number {
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        _ => "unnamed",
    }
}
