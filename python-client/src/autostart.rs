//! Finding the daemon of this user, and starting it when there is none.
//!
//! Any number of processes may start one at the same time: the daemon's own lock decides which of them stays, the
//! others exit, and everybody connects to the winner.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::address::Address;
use crate::error::ClientError;

const IDLE_SECONDS: &str = "600";
const LOG_TAIL_BYTES: u64 = 4096;
/// A longer log is set aside when a daemon is started.
const LOG_BYTES: u64 = 8 << 20;
const POLL: Duration = Duration::from_millis(20);
/// How long to go on looking for a winner after the daemon that we started has failed.
const AFTER_EXIT: Duration = Duration::from_secs(3);

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn socket_path() -> PathBuf {
    let directory = variable("TPUD_RUNTIME_DIR")
        .or_else(|| variable("XDG_RUNTIME_DIR").map(|directory| directory.join("tpud")))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/tpud-{}", rustix::process::getuid().as_raw())));
    directory.join("daemon.sock")
}

/// Makes the directory if needed, and refuses one in which somebody else could have put a socket.
fn secure_directory(directory: &Path) -> Result<(), ClientError> {
    let refuse =
        |cause: String| ClientError::UnsafeDirectory { path: directory.display().to_string(), cause };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| refuse(error.to_string()))?;
    let found = fs::metadata(directory).map_err(|error| refuse(error.to_string()))?;
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(refuse(format!("it belongs to user {}", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refuse(format!("others can write to it (mode {:o})", found.mode() & 0o777)));
    }
    Ok(())
}

fn accepts(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The binary, or None; an error when TPUD_BIN names none.
fn locate(package: Option<&Path>, interpreter: Option<&Path>) -> Result<Option<PathBuf>, ClientError> {
    if let Some(named) = variable("TPUD_BIN") {
        if is_executable(&named) {
            return Ok(Some(named));
        }
        let searched = format!("TPUD_BIN is {}, which is not an executable file", named.display());
        return Err(ClientError::BinaryNotFound { searched });
    }
    let carried = package.map(|package| package.join("bin/tpud"));
    let beside = interpreter.and_then(Path::parent).map(|directory| directory.join("tpud"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("tpud"));
    Ok(carried.into_iter().chain(beside).chain(on_path).find(|candidate| is_executable(candidate)))
}

fn locate_from(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    let module: Option<PathBuf> = py.import("tpud._tpud")?.getattr("__file__")?.extract().ok();
    let interpreter = interpreter(py)?;
    Ok(locate(module.as_deref().and_then(Path::parent), interpreter.as_deref())?)
}

fn interpreter(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    let path: Option<PathBuf> = py.import("sys")?.getattr("executable")?.extract()?;
    Ok(path.filter(|path| path.as_os_str() != OsStr::new("")))
}

/// A daemon that this process has started, and the log that it writes.
struct Started<'py> {
    process: Bound<'py, PyAny>,
    log: PathBuf,
    log_start: u64,
}

/// Starts `tpud serve` in a session of its own. Python's `subprocess` forks safely in a process with threads.
fn spawn<'py>(py: Python<'py>, binary: &Path, directory: &Path) -> PyResult<Started<'py>> {
    let log = directory.join("daemon.log");
    if fs::metadata(&log).is_ok_and(|found| found.len() > LOG_BYTES) {
        // Another process may have done so a moment ago.
        let _ = fs::rename(&log, directory.join("daemon.log.old"));
    }
    let started = OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
    let file = started.map_err(|error| start_failed(format!("{}: {error}", log.display())))?;
    let log_start = file.metadata().map_or(0, |found| found.len());
    let subprocess = py.import("subprocess")?;
    let environment = py.import("os")?.getattr("environ")?.call_method0("copy")?;
    if let Some(interpreter) = interpreter(py)? {
        environment.set_item("TPUD_PYTHON", interpreter)?;
    }
    // One that was started by need ends when nobody needs it.
    environment.call_method1("setdefault", ("TPUD_IDLE_TIMEOUT", IDLE_SECONDS))?;
    let options = PyDict::new(py);
    options.set_item("stdin", subprocess.getattr("DEVNULL")?)?;
    options.set_item("stdout", std::os::fd::AsRawFd::as_raw_fd(&file))?;
    options.set_item("stderr", subprocess.getattr("STDOUT")?)?;
    options.set_item("cwd", "/")?;
    options.set_item("env", environment)?;
    options.set_item("start_new_session", true)?;
    let command = (binary.as_os_str(), "serve");
    let process = subprocess
        .call_method("Popen", (command,), Some(&options))
        .map_err(|error| PyErr::from(start_failed(format!("{}: {error}", binary.display()))))?;
    Ok(Started { process, log, log_start })
}

fn start_failed(cause: String) -> ClientError {
    ClientError::StartFailed { cause, log_tail: String::new() }
}

impl Started<'_> {
    /// Waits until a daemon accepts: ours, or the one that was faster.
    fn wait(&self, socket: &Path, timeout: Duration) -> PyResult<()> {
        let py = self.process.py();
        let mut deadline = Instant::now() + timeout;
        let mut ended: Option<i64> = None;
        while !accepts(socket) {
            if ended.is_none() {
                ended = self.process.call_method0("poll")?.extract()?;
                // 0 is a daemon that found another one serving. After a failure somebody else's may still come up.
                if ended.is_some_and(|code| code != 0) {
                    deadline = deadline.min(Instant::now() + AFTER_EXIT);
                }
            }
            if Instant::now() >= deadline {
                let cause = match ended {
                    Some(code) => format!("it exited with code {code}"),
                    None => format!("nothing accepts at {} after {timeout:?}", socket.display()),
                };
                return Err(ClientError::StartFailed { cause, log_tail: self.log_tail() }.into());
            }
            py.check_signals()?;
            py.detach(|| std::thread::sleep(POLL));
        }
        Ok(())
    }

    /// The end of what was logged since the start.
    fn log_tail(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            let start = if length >= self.log_start { self.log_start } else { 0 };
            file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL_BYTES))))?;
            let mut tail = Vec::new();
            file.take(LOG_TAIL_BYTES).read_to_end(&mut tail)?;
            Ok(tail)
        };
        read().map_or_else(|_| String::new(), |tail| String::from_utf8_lossy(&tail).into_owned())
    }

    /// Leaves the daemon running, with nobody to warn about it when this process ends.
    fn release(self) -> PyResult<()> {
        if self.process.call_method0("poll")?.is_none() {
            self.process.setattr("returncode", 0)?;
        }
        Ok(())
    }
}

/// Where the daemon of this user listens.
#[pyfunction]
pub(crate) fn default_socket_path() -> PathBuf {
    socket_path()
}

/// The `tpud` binary.
#[pyfunction]
pub(crate) fn find_binary(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    locate_from(py)
}

/// The address to connect to; starts a daemon if that is needed.
#[pyfunction]
#[pyo3(signature = (timeout=10.0))]
pub(crate) fn daemon_address(py: Python<'_>, timeout: f64) -> PyResult<String> {
    if let Some(named) = variable("TPUD_ADDRESS") {
        let named = named.to_string_lossy().into_owned();
        Address::parse(&named)?;
        return Ok(named);
    }
    let socket = socket_path();
    let directory = socket.parent().unwrap_or(Path::new("/")).to_owned();
    if !socket.is_absolute() {
        let cause = "TPUD_RUNTIME_DIR has to be absolute".to_owned();
        return Err(ClientError::UnsafeDirectory { path: directory.display().to_string(), cause }.into());
    }
    secure_directory(&directory)?;
    if !accepts(&socket) {
        let binary = locate_from(py)?.ok_or_else(|| ClientError::BinaryNotFound {
            searched: "not in the tpud package, not beside the interpreter, not on PATH".to_owned(),
        })?;
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|_| ClientError::Invalid(format!("a timeout of {timeout} s")))?;
        let started = spawn(py, &binary, &directory)?;
        started.wait(&socket, timeout)?;
        started.release()?;
    }
    Ok(Address::Unix(socket).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        secure_directory(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        let error = secure_directory(&directory).unwrap_err();
        assert!(error.to_string().contains("others can write"), "{error}");
    }

    #[test]
    fn the_package_comes_before_the_interpreter() {
        let root = tempfile::tempdir().unwrap();
        let (carried, beside) = (root.path().join("tpud/bin/tpud"), root.path().join("bin/tpud"));
        for path in [&carried, &beside] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let (package, python) = (root.path().join("tpud"), root.path().join("bin/python"));
        if variable("TPUD_BIN").is_none() {
            assert_eq!(locate(Some(&package), Some(&python)).unwrap(), Some(carried.clone()));
            fs::remove_file(&carried).unwrap();
            assert_eq!(locate(Some(&package), Some(&python)).unwrap(), Some(beside));
        }
    }
}
