//! Everything that can go wrong with a request. `status.rs` gives each its code, reason and hint.

use std::sync::Arc;

use tpud_proto::v1;

use crate::pool::PoolError;
use crate::session::SharedError;

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleKind {
    /// Device memory.
    Buffer,
    /// A loaded executable.
    Executable,
}

impl std::fmt::Display for HandleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Buffer => "buffer",
            Self::Executable => "executable",
        })
    }
}

/// Why a request failed. Cloned to everybody who waited for the same work.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Client and daemon have no protocol version in common.
    #[error(
        "client {client_version} speaks protocol {min} to {max}, this daemon {} speaks {} to {}",
        crate::VERSION, tpud_proto::PROTOCOL_VERSIONS.start(), tpud_proto::PROTOCOL_VERSIONS.end()
    )]
    VersionMismatch {
        /// The client's version.
        client_version: String,
        /// Its oldest protocol.
        min: u32,
        /// Its newest protocol.
        max: u32,
    },
    /// The session is not, or no longer, known.
    #[error("no session {0:?}: it expired, was closed, or the daemon was started anew")]
    SessionExpired(String),
    /// A request that needs a session came without one.
    #[error("this request needs a session id{0}")]
    SessionRequired(&'static str),
    /// As many sessions as there may be.
    #[error("{limit} sessions are open already")]
    TooManySessions {
        /// How many may be.
        limit: usize,
    },
    /// A handle that the session doesn't have.
    #[error("no {kind} {handle} in this session")]
    UnknownHandle {
        /// What it should name.
        kind: HandleKind,
        /// The handle.
        handle: u64,
    },
    /// A handle that the session has already.
    #[error("{kind} {handle} exists already in this session")]
    HandleInUse {
        /// What it names.
        kind: HandleKind,
        /// The handle.
        handle: u64,
    },
    /// The command that should have made the handle failed.
    #[error("{kind} {handle} was not made: {cause}")]
    HandleFailed {
        /// What it should name.
        kind: HandleKind,
        /// The handle.
        handle: u64,
        /// Why it was not made.
        cause: Arc<DaemonError>,
    },
    /// A command that makes no sense.
    #[error("{0}")]
    InvalidCommand(String),
    /// An input of a run doesn't fit the executable's signature.
    #[error("input {index}: the executable takes {expected}, but {found} was given")]
    InputMismatch {
        /// Which one.
        index: usize,
        /// What the signature says.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A range of a shared segment can't be used.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The session would hold more device memory than it may.
    #[error("{needed} bytes of device memory are needed, but this session may take only {available} more")]
    QuotaExceeded {
        /// What is needed.
        needed: u64,
        /// What is left.
        available: u64,
    },
    /// A message above the limit.
    #[error("a message of {found} bytes is larger than this daemon's limit of {limit} bytes")]
    MessageTooLarge {
        /// Its size; 0: unknown.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A message that is not what it should be.
    #[error("the message can't be decoded: {0}")]
    MalformedMessage(String),
    /// This daemon executes nothing.
    #[error("this daemon has no device to execute on")]
    NoDevice,
    /// An executable for another platform can't be loaded here.
    #[error("an executable for {target} can't be loaded on this daemon's device ({device})")]
    TargetMismatch {
        /// What was asked for.
        target: String,
        /// What there is.
        device: String,
    },
    /// No such target.
    #[error("unknown target {0}")]
    InvalidTarget(String),
    /// Compile options that contradict the protocol.
    #[error("{0}")]
    InvalidOptions(String),
    /// The graph breaks its contract.
    #[error("invalid graph: {0}")]
    InvalidGraph(Arc<tpud_graph::GraphError>),
    /// Ops without a lowering, wrong arguments, and the like: everything that lowering found.
    #[error("{0}")]
    Lowering(Arc<tpud_lowering::LoweringError>),
    /// The lowered module can't be written.
    #[error("the module can't be written: {0}")]
    Mlir(Arc<tpud_mlir::MlirError>),
    /// The device or its plugin.
    #[error("{0}")]
    Device(Arc<tpud_device::Error>),
    /// The compiler found that the program needs more memory than the target has.
    #[error("{message}")]
    DoesNotFit {
        /// What the compiler says.
        message: String,
        /// Bytes that it needs; 0: unknown.
        needed: u64,
        /// Bytes that the target has; 0: unknown.
        available: u64,
    },
    /// A worker, or the line in front of them.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A graph that kills workers, answered from memory.
    #[error("this graph ended {failures} compile workers and is not tried again for {seconds} s: {}", .last.message)]
    Breaker {
        /// How many.
        failures: u32,
        /// How long.
        seconds: u64,
        /// The last of the errors.
        last: Box<v1::Error>,
    },
    /// The client's deadline passed.
    #[error("the request's deadline passed while {0}")]
    DeadlineExceeded(&'static str),
    /// Looking into the cache failed.
    #[error("{0}")]
    Cache(Arc<tpud_cache::CacheError>),
    /// A key that is none, or not stored, or ambiguous.
    #[error("{0}")]
    CacheKey(#[from] tpud_cache::KeyError),
    /// A request over the network that is allowed over a Unix socket only.
    #[error("{0} is allowed over the daemon's Unix socket only")]
    LocalOnly(&'static str),
    /// The daemon is going down.
    #[error("this daemon is shutting down")]
    ShuttingDown,
    /// A defect of ours.
    #[error("the daemon panicked while it served this request: {0}")]
    Panic(String),
    /// The system refused something that should work.
    #[error("{what}: {problem}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        problem: String,
    },
}

/// `Result` with [`DaemonError`].
pub(crate) type Result<T, E = DaemonError> = std::result::Result<T, E>;

macro_rules! shared_from {
    ($($variant:ident($source:ty)),* $(,)?) => {$(
        impl From<$source> for DaemonError {
            fn from(error: $source) -> Self {
                Self::$variant(Arc::new(error))
            }
        }
    )*};
}

shared_from! {
    InvalidGraph(tpud_graph::GraphError),
    Lowering(tpud_lowering::LoweringError),
    Mlir(tpud_mlir::MlirError),
    Device(tpud_device::Error),
    Cache(tpud_cache::CacheError),
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
