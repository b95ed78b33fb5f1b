//! The `tpud` command: one file per subcommand.

mod cache;
mod compile;
mod connect;
mod devices;
mod failure;
mod graph_file;
mod json;
mod ops;
mod output;
mod serve;
mod status;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::env;
use crate::worker::{self, WorkerArgs};
use failure::Failure;
use output::Output;

/// Compiles PyTorch graphs for TPUs and CPUs, caches the executables, and runs them.
#[derive(Debug, Parser)]
#[command(name = "tpud", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon.
    Serve(serve::ServeArgs),
    /// Show what the daemon is doing.
    Status(Common),
    /// Ask the daemon to finish its work and exit.
    Shutdown(Common),
    /// Compile a graph for a target, and report memory, cost, and whether it fits.
    Compile(compile::CompileArgs),
    /// List the ops that can be lowered.
    Ops(Common),
    /// Look into the cache.
    Cache(cache::CacheArgs),
    /// List the daemon's devices, and the platforms that it can compile for.
    Devices(Common),
    /// A compile worker; started by the daemon.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// What most subcommands take.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// The daemon: unix:///path or http://host:port; the per-user daemon when not given.
    #[arg(long, env = env::ADDRESS, global = true)]
    address: Option<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let (output, outcome) = match cli.command {
        Command::Serve(args) => (Output::new(false), serve::run(&args)),
        Command::Worker(args) => (Output::new(false), {
            log_to_stderr("warn");
            worker::run(&args).map_err(Failure::from)
        }),
        Command::Status(common) => on_client(&common, |output| status::show(&common, output)),
        Command::Shutdown(common) => on_client(&common, |output| status::shutdown(&common, output)),
        Command::Ops(common) => on_client(&common, |output| ops::run(&common, output)),
        Command::Devices(common) => on_client(&common, |output| devices::run(&common, output)),
        Command::Compile(args) => on_client(&args.common, |output| compile::run(&args, output)),
        Command::Cache(args) => on_client(&args.common, |output| cache::run(&args, output)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Runs a client command on a runtime of its own.
fn on_client<F: Future<Output = Result<(), Failure>>>(
    common: &Common,
    command: impl FnOnce(Output) -> F,
) -> (Output, Result<(), Failure>) {
    let output = Output::new(common.json);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(command(output)),
        Err(error) => Err(Failure::from(error)),
    };
    (output, outcome)
}

/// Logs to standard error, as `TPUD_LOG` says.
fn log_to_stderr(default: &str) {
    use std::io::IsTerminal;
    let filter = env::read(env::LOG).and_then(|text| text.into_string().ok());
    let filter = tracing_subscriber::EnvFilter::try_new(filter.as_deref().unwrap_or(default));
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // A second call (there is none) would keep the first.
    let _ = subscriber.try_init();
}
