//! A daemon from its configuration to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::address::{Address, AddressError};
use crate::assemble;
use crate::config::{Config, ConfigError};
use crate::guard::GuardLayer;
use crate::lock::{Claim, SocketLock, claim};
use crate::services;
use crate::socket::{self, Socket};
use crate::state::Daemon;

/// How long a shutdown waits for compiles.
const DRAIN: Duration = Duration::from_secs(30);
/// How long it then waits for connections.
const CLOSE: Duration = Duration::from_secs(3);

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The lock of the socket.
    #[error("{0}")]
    Lock(String),
    /// The device, the cache, the worker pool.
    #[error("{0}")]
    Start(String),
    /// The socket or the server on it.
    #[error("{address}: {problem}")]
    Listen {
        /// Where.
        address: String,
        /// What.
        problem: String,
    },
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// This daemon was asked to go down, or idled out.
    Ended,
    /// Another daemon has this address already.
    ByAnother,
}

/// An address that is ours. A Unix socket is bound only when the daemon can answer: whoever connects to it then is
/// served, and whoever started a daemon that fails sees its exit.
enum Claimed {
    Unix(std::path::PathBuf, SocketLock),
    Tcp(TcpListener),
}

/// Serves until told to stop. Needs a multi-threaded tokio runtime.
pub async fn serve(config: Config) -> Result<Served, ServeError> {
    config.check()?;
    let address = match &config.address {
        Some(address) => address.clone(),
        None => Address::per_user()?,
    };
    let Some((claimed, address)) = claim_address(&address).await? else { return Ok(Served::ByAnother) };
    let daemon =
        assemble::daemon(config, &address).await.map_err(|error| ServeError::Start(error.to_string()))?;
    // After the device: its plugin may install handlers of its own.
    tokio::spawn(watch_signals(Arc::clone(&daemon)));
    tokio::spawn(watch_sessions(Arc::clone(&daemon)));
    let pool = Arc::clone(&daemon.compiler.pool);
    if daemon.config.workers.prewarm {
        tokio::spawn(async move { pool.prewarm().await });
    }
    let ready =
        || tracing::info!(version = crate::VERSION, pid = std::process::id(), "tpud is ready on {address}");
    let served = match claimed {
        Claimed::Unix(path, lock) => {
            let lock = Arc::new(lock);
            let socket = Socket::bind(&path, Arc::clone(&lock))
                .map_err(|e| ServeError::Listen { address: address.clone(), problem: e.to_string() })?;
            ready();
            let served =
                run(&daemon, socket.connections(Arc::clone(&daemon)), || socket::remove(&path, &lock)).await;
            drop(lock); // after the socket is gone
            served
        }
        Claimed::Tcp(listener) => {
            ready();
            let connections = TcpListenerStream::new(listener).filter_map(|connection| match connection {
                Ok(stream) => {
                    // Small replies must not wait for acknowledgements of earlier ones.
                    let _ = stream.set_nodelay(true);
                    Some(Ok(stream))
                }
                Err(error) => {
                    socket::accept_failed(&error);
                    None
                }
            });
            run(&daemon, connections, || {}).await
        }
    };
    served.map_err(|problem| ServeError::Listen { address, problem })?;
    tracing::info!("tpud has ended");
    Ok(Served::Ended)
}

/// Makes the address ours; nothing when another daemon has the socket. Gives it with the port that was chosen.
async fn claim_address(address: &Address) -> Result<Option<(Claimed, String)>, ServeError> {
    let failed = |error: std::io::Error| ServeError::Listen {
        address: address.to_string(),
        problem: error.to_string(),
    };
    match address {
        Address::Unix(path) => {
            let socket = path.clone();
            let claimed = tokio::task::spawn_blocking(move || claim(&socket, Duration::from_secs(40)));
            let lock = match claimed.await.map_err(|error| failed(std::io::Error::other(error)))? {
                Ok(Claim::Owned(lock)) => lock,
                Ok(Claim::Served) => return Ok(None),
                Err(error) => return Err(ServeError::Lock(error.to_string())),
            };
            Ok(Some((Claimed::Unix(path.clone(), lock), address.to_string())))
        }
        Address::Http(socket) => {
            let listener = TcpListener::bind(socket).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            if !bound.ip().is_loopback() {
                tracing::warn!("{bound} can be reached from other machines, and there is no authentication");
            }
            Ok(Some((Claimed::Tcp(listener), Address::Http(bound).to_string())))
        }
    }
}

/// What health reports on.
const SERVICES: [&str; 7] = [
    "",
    "tpud.v1.Session",
    "tpud.v1.Compile",
    "tpud.v1.Execute",
    "tpud.v1.Device",
    "tpud.v1.Cache",
    "tpud.v1.Status",
];

async fn report(reporter: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}

type GuardedRouter = Router<tower::layer::util::Stack<GuardLayer, tower::layer::util::Identity>>;

async fn router(daemon: &Arc<Daemon>) -> Result<(GuardedRouter, HealthReporter), String> {
    let (reporter, health) = tonic_health::server::health_reporter();
    report(&reporter, ServingStatus::Serving).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tpud_proto::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| error.to_string())?;
    let max_message_bytes = daemon.config.limits.max_message_bytes;
    let router = Server::builder()
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(16 << 20)
        .max_frame_size(1 << 20)
        .layer(GuardLayer { max_message_bytes })
        .add_routes(services::routes(daemon))
        .add_service(health)
        .add_service(reflection);
    Ok((router, reporter))
}

async fn run<S, IO>(daemon: &Arc<Daemon>, connections: S, unbind: impl FnOnce()) -> Result<(), String>
where
    S: tokio_stream::Stream<Item = std::io::Result<IO>> + Send + 'static,
    IO: tokio::io::AsyncRead
        + tokio::io::AsyncWrite
        + tonic::transport::server::Connected
        + Unpin
        + Send
        + 'static,
{
    let (router, health) = router(daemon).await?;
    let (closing, closed) = watch::channel(false);
    let mut server = tokio::spawn(router.serve_with_incoming_shutdown(connections, wait(closed)));
    tokio::select! {
        ended = &mut server => {
            return ended.map_err(|error| error.to_string())?.map_err(|error| error.to_string());
        }
        () = daemon.stopped() => {}
    }
    // New clients start a new daemon, which waits for our lock.
    unbind();
    report(&health, ServingStatus::NotServing).await;
    let drained = tokio::time::timeout(DRAIN, async {
        while daemon.is_busy() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    if drained.await.is_err() {
        tracing::warn!("compiles are still running after {} s and are given up", DRAIN.as_secs());
    }
    closing.send_replace(true);
    daemon.sessions.close_all();
    daemon.compiler.pool.close();
    if tokio::time::timeout(CLOSE, server).await.is_err() {
        tracing::warn!("connections are still open after {} s and are closed", CLOSE.as_secs());
    }
    Ok(())
}

async fn wait(mut closed: watch::Receiver<bool>) {
    // The sender outlives the server; were it gone, ending would be right too.
    let _ = closed.wait_for(|closed| *closed).await;
}

async fn watch_signals(daemon: Arc<Daemon>) {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
        tracing::warn!("no signal handlers: SIGTERM ends this daemon at once");
        return;
    };
    tokio::select! {
        _ = terminate.recv() => daemon.stop("SIGTERM"),
        _ = interrupt.recv() => daemon.stop("SIGINT"),
    }
    // The second one is meant.
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    std::process::exit(130);
}

/// How often memory that ended sessions held is given back to the operating system.
const TRIM: Duration = Duration::from_secs(5);

/// Ends sessions whose clients are gone, gives their memory back, and ends the daemon when it has idled long enough.
async fn watch_sessions(daemon: Arc<Daemon>) {
    let mut interval = tokio::time::interval(Duration::from_millis(500));
    let mut trimmed = Instant::now();
    loop {
        interval.tick().await;
        daemon.sessions.reap();
        if trimmed.elapsed() >= TRIM && daemon.sessions.take_ended() {
            trimmed = Instant::now();
            tokio::task::spawn_blocking(tpud_device::release_unused_memory);
        }
        let over = daemon.config.idle_timeout().is_some_and(|limit| daemon.sessions.idle_for() >= limit);
        if over && !daemon.is_busy() {
            daemon.stop("idle");
            return;
        }
    }
}
