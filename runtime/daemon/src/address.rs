//! Addresses, and the per-user default.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::env;

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Address {
    /// A Unix socket; only its owner may connect.
    Unix(PathBuf),
    /// Plain HTTP/2 on an IP address and port.
    Http(SocketAddr),
}

/// Why an address or the directory of the default one can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Not an address.
    #[error("`{0}` is not an address: use unix:///absolute/path or http://127.0.0.1:PORT")]
    Syntax(String),
    /// The directory can't be made or looked at.
    #[error("runtime directory {path}: {source}; set {var} to a directory of yours", var = env::RUNTIME_DIR)]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others could put a socket there.
    #[error("runtime directory {path} {problem}; set {var} to a directory that only you can write", var = env::RUNTIME_DIR)]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = || AddressError::Syntax(text.to_owned());
        if let Some(path) = text.strip_prefix("unix://") {
            let path = Path::new(path);
            return if path.is_absolute() { Ok(Self::Unix(path.to_owned())) } else { Err(bad()) };
        }
        let rest = text.strip_prefix("http://").ok_or_else(bad)?.trim_end_matches('/');
        let rest =
            rest.strip_prefix("localhost:").map_or(rest.to_owned(), |port| format!("127.0.0.1:{port}"));
        rest.parse().map(Self::Http).map_err(|_| bad())
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Http(address) => write!(f, "http://{address}"),
        }
    }
}

impl Address {
    /// The per-user daemon's socket. Makes its directory, and refuses one that others can write.
    pub fn per_user() -> Result<Self, AddressError> {
        let directory = runtime_directory();
        ensure_private(&directory)?;
        Ok(Self::Unix(directory.join("daemon.sock")))
    }
}

fn runtime_directory() -> PathBuf {
    if let Some(directory) = env::read(env::RUNTIME_DIR) {
        return directory.into();
    }
    if let Some(base) = env::read(env::XDG_RUNTIME_DIR) {
        return Path::new(&base).join("tpud");
    }
    PathBuf::from(format!("/tmp/tpud-{}", rustix::process::getuid().as_raw()))
}

/// Makes `path` with mode 0700 if it is missing, then checks that it is a directory of ours that others can't write.
pub(crate) fn ensure_private(path: &Path) -> Result<(), AddressError> {
    let failed = |source| AddressError::Directory { path: path.to_owned(), source };
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    let unsafe_because = |problem| Err(AddressError::Unsafe { path: path.to_owned(), problem });
    if !meta.is_dir() {
        return unsafe_because("is not a directory");
    }
    if meta.uid() != rustix::process::getuid().as_raw() {
        return unsafe_because("belongs to another user");
    }
    if meta.mode() & 0o022 != 0 {
        return unsafe_because("can be written by other users");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["unix:///run/user/1/tpud/daemon.sock", "http://127.0.0.1:7433", "http://[::1]:7433"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("http://localhost:80".parse::<Address>().unwrap().to_string(), "http://127.0.0.1:80");
    }

    #[test]
    fn bad_addresses_name_both_forms() {
        for text in ["", "unix://relative", "http://", "http://host", "https://127.0.0.1:1", "/tmp/x"] {
            let message = text.parse::<Address>().unwrap_err().to_string();
            assert!(message.contains("unix:///") && message.contains("http://"), "{message}");
        }
    }

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("run");
        ensure_private(&path).unwrap();
        ensure_private(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(matches!(ensure_private(&path), Err(AddressError::Unsafe { .. })));
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(temp.path(), &link).unwrap();
        assert!(matches!(ensure_private(&link), Err(AddressError::Unsafe { .. })));
    }
}
