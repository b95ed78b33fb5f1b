//! Every environment variable that the `tpud` binary reads, in one place. Flags of `tpud serve` win over variables,
//! variables win over the configuration file. `docs/CONFIG.md` describes them for users.

/// Where the daemon listens and where commands connect: `unix:///path` or `http://127.0.0.1:port`.
pub const ADDRESS: &str = "TPUD_ADDRESS";
/// The directory of the per-user daemon's socket and lock.
pub const RUNTIME_DIR: &str = "TPUD_RUNTIME_DIR";
/// The XDG base for [`RUNTIME_DIR`].
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The configuration file.
pub const CONFIG: &str = "TPUD_CONFIG";
/// The disk cache's directory.
pub const CACHE_DIR: &str = "TPUD_CACHE_DIR";
/// The XDG base for the default of [`CACHE_DIR`].
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The user's home, the last resort for the default of [`CACHE_DIR`].
pub const HOME: &str = "HOME";
/// Bytes that the disk cache may take.
pub const CACHE_DISK_BYTES: &str = "TPUD_CACHE_DISK_BYTES";
/// Bytes that the memory cache may take.
pub const CACHE_MEMORY_BYTES: &str = "TPUD_CACHE_MEMORY_BYTES";
/// The device to execute on: `cpu`, `tpu` or `none`.
pub const DEVICE: &str = "TPUD_DEVICE";
/// How many compile workers may run at once.
pub const WORKERS: &str = "TPUD_WORKERS";
/// Bytes of private memory that one worker may take; 0: no limit.
pub const WORKER_MEMORY_BYTES: &str = "TPUD_WORKER_MEMORY_BYTES";
/// Compile requests that may wait for a worker.
pub const QUEUE_LIMIT: &str = "TPUD_QUEUE_LIMIT";
/// The longest that one compile may take, in seconds.
pub const COMPILE_TIMEOUT: &str = "TPUD_COMPILE_TIMEOUT";
/// Seconds without a session after which the daemon exits; 0: never; unset: 600 on the per-user socket.
pub const IDLE_TIMEOUT: &str = "TPUD_IDLE_TIMEOUT";
/// Seconds that a session lives without a sign of its client.
pub const LEASE: &str = "TPUD_LEASE";
/// Device bytes that one session may hold; 0: no limit.
pub const SESSION_MEMORY_BYTES: &str = "TPUD_SESSION_MEMORY_BYTES";
/// The largest gRPC message that is accepted.
pub const MAX_MESSAGE_BYTES: &str = "TPUD_MAX_MESSAGE_BYTES";
/// What is logged, in `tracing` filter syntax; default `info`.
pub const LOG: &str = "TPUD_LOG";
/// The Python that converts `.pt2` archives; default `python3`.
pub const PYTHON: &str = "TPUD_PYTHON";
/// Makes workers misbehave: `abort`, `hang`, `sleep:SECONDS` or `module:FILE`, for some graphs only with `@NAME`. Debug builds only.
pub const TEST_FAULT: &str = "TPUD_TEST_FAULT";

/// Reads a variable; unset and empty are the same.
pub fn read(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
