//! A compile worker: a child process that lowers and compiles one job at a time, and may die of it.

mod capacity;
#[cfg(debug_assertions)]
mod fault;
pub(crate) mod frame;
mod guard;
mod job;
mod platform;
mod probe;
mod stdio;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};

use tpud_proto::v1::{self, worker_reply::Reply, worker_request::Request};

use crate::error::{DaemonError, panic_message};
use job::Desk;
use stdio::Pipes;

/// How a worker is told to be.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// The daemon's process, with which this one ends.
    #[arg(long, default_value_t = 0)]
    parent: u32,
    /// Bytes of private memory; 0: no limit.
    #[arg(long, default_value_t = 0)]
    memory_bytes: u64,
    /// Load the CPU's compiler before the first job.
    #[arg(long)]
    warm: bool,
    /// Describe a platform's plugin on standard output, and end.
    #[arg(long, value_name = "PLATFORM")]
    probe: Option<String>,
}

/// Works until the daemon closes the pipe.
pub(crate) fn run(args: &WorkerArgs) -> anyhow::Result<()> {
    let pipes = stdio::take()?;
    if let Some(platform) = &args.probe {
        return probe::run(platform, pipes.output);
    }
    guard::enclose(args.parent, args.memory_bytes)?;
    let Pipes { input, mut output } = pipes;
    let requests = listen(input)?;
    let ready = v1::WorkerReady { pid: std::process::id() };
    frame::write(&mut output, &v1::WorkerReply { id: 0, reply: Some(Reply::Ready(ready)) })?;
    let mut desk = Desk::default();
    if args.warm {
        // A failure comes again, as the answer to the job that needs the compiler.
        if let Err(error) = desk.warm() {
            tracing::warn!("the CPU compiler can't be loaded ahead of need: {error}");
        }
    }
    while let Ok(request) = requests.recv() {
        let Request::Job(job) = request else {
            anyhow::bail!("a verdict without a job");
        };
        let id = job.id;
        let mut reply = |reply| frame::write(&mut output, &v1::WorkerReply { id, reply: Some(reply) });
        let mut verdict = || match requests.recv() {
            Ok(Request::Verdict(verdict)) => Ok(verdict.compile),
            Ok(Request::Job(_)) => Err(anyhow::anyhow!("a job where a verdict was expected")),
            Err(_) => guard::end(),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| desk.work(&job, &mut reply, &mut verdict)));
        match outcome {
            Ok(result) => result?,
            Err(panic) => {
                let error = DaemonError::Panic(panic_message(panic.as_ref()));
                reply(Reply::Failed(v1::Error::from(error)))?;
            }
        }
    }
    Ok(())
}

/// Reads requests in a thread of its own, so that a closed pipe ends the process even while XLA is running.
fn listen(mut input: std::fs::File) -> std::io::Result<Receiver<Request>> {
    let (sender, requests) = mpsc::channel();
    std::thread::Builder::new().name("tpud-requests".into()).spawn(move || {
        loop {
            match frame::read::<v1::WorkerRequest>(&mut input) {
                Ok(Some(v1::WorkerRequest { request: Some(request) })) => {
                    if sender.send(request).is_err() {
                        guard::end();
                    }
                }
                Ok(Some(_)) | Ok(None) | Err(_) => guard::end(),
            }
        }
    })?;
    Ok(requests)
}
