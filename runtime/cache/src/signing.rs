//! The key with which a cache signs its entries: one file per cache directory, made on first use.
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::{
    CacheError,
    fingerprint::{self, Digest},
};

/// Signs entries, so that nobody but the holder of the key file can make one which is loaded.
#[derive(Clone)]
pub struct SigningKey([u8; 32]);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// The key with this secret.
    pub const fn from_secret(secret: [u8; 32]) -> Self {
        SigningKey(secret)
    }

    pub(crate) fn sign(&self, parts: [&[u8]; 2]) -> Digest {
        fingerprint::sign(&self.0, parts)
    }

    pub(crate) fn is_signed(&self, parts: [&[u8]; 2], signature: &Digest) -> bool {
        fingerprint::is_signed(&self.0, parts, signature)
    }

    /// Reads the key file, or makes it. The caller holds the directory's lock, so one process makes it and all others
    /// read the same one.
    pub(crate) fn load_or_create(path: &Path) -> Result<Self, CacheError> {
        match Self::load(path) {
            Err(CacheError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let key = Self::random(path)?;
                key.store(path)?;
                Ok(key)
            }
            loaded => loaded,
        }
    }

    /// Writes the key file at once or not at all; a file that is there is replaced.
    pub(crate) fn store(&self, path: &Path) -> Result<(), CacheError> {
        let temporary = path.with_extension("new");
        let _ = fs::remove_file(&temporary); // left by a process that died right here
        let failed = |error| CacheError::io("write", &temporary, error);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(failed)?;
        file.write_all(&self.0).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&temporary, path).map_err(|error| CacheError::io("write", path, error))
    }

    fn load(path: &Path) -> Result<Self, CacheError> {
        let failed = |error| CacheError::io("read", path, error);
        let file = OpenOptions::new().read(true).open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let refused = |reason: String| CacheError::SigningKey { path: path.to_owned(), reason };
        if metadata.mode() & 0o077 != 0 {
            let mode = metadata.mode() & 0o777;
            return Err(refused(format!("has mode {mode:03o}, so others may know it: delete the file")));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused(format!("belongs to user {}: use another cache directory", metadata.uid())));
        }
        let mut secret = Vec::new();
        file.take(33).read_to_end(&mut secret).map_err(failed)?;
        let wrong =
            |found: Vec<u8>| refused(format!("has {} bytes instead of 32: delete the file", found.len()));
        Ok(SigningKey(secret.try_into().map_err(wrong)?))
    }

    fn random(path: &Path) -> Result<Self, CacheError> {
        let mut secret = [0u8; 32];
        let mut filled = 0;
        while filled < secret.len() {
            match getrandom(&mut secret[filled..], GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(CacheError::io("draw random bytes for", path, error)),
            }
        }
        Ok(SigningKey(secret))
    }
}
