//! What can go wrong, typed: in a key's text, in an entry's bytes, in a tier.
use std::{io, path::PathBuf};

use crate::Key;

/// Why a text is not a key, or names no stored one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not 64 hexadecimal digits.
    #[error("{text:?} is not a key: a key has 64 hexadecimal digits")]
    Malformed {
        /// The text, shortened.
        text: String,
    },
    /// A prefix that is too short, or holds something else than hexadecimal digits.
    #[error("{text:?} is not a key prefix: give at least 8 hexadecimal digits")]
    PrefixMalformed {
        /// The text, shortened.
        text: String,
    },
    /// No stored key begins like that.
    #[error("no stored entry has a key that begins with {prefix}: `tpud cache list` shows the keys")]
    Unknown {
        /// The prefix asked for.
        prefix: String,
    },
    /// Several stored keys begin like that.
    #[error("{count} stored keys begin with {prefix}: give more digits")]
    Ambiguous {
        /// The prefix asked for.
        prefix: String,
        /// How many keys begin with it.
        count: usize,
    },
}

/// Why the bytes of a stored entry were not accepted. Each of these is a miss.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Fewer or more bytes than the header says.
    #[error("the entry has {found} bytes where {expected} belong")]
    Length {
        /// Bytes the entry should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// The first bytes are not an entry's.
    #[error("not a tpud cache entry: wrong magic")]
    Magic,
    /// Written in a format this build doesn't read.
    #[error("entry format {found}, this build reads format {expected}")]
    Format {
        /// The format this build reads.
        expected: u32,
        /// The format found.
        found: u32,
    },
    /// Not signed by this cache's key: damaged, or written by somebody else.
    #[error("the signature is not by this cache's key")]
    Signature,
    /// Signed, but not decodable; can only come from a defective writer.
    #[error("malformed {what}")]
    Malformed {
        /// The part that cannot be decoded.
        what: &'static str,
    },
    /// A sound entry, stored under another entry's name.
    #[error("the entry belongs to key {found}")]
    OtherKey {
        /// The key which the entry's own components give.
        found: Key,
    },
    /// The payload is not the one that was signed.
    #[error("the payload's checksum does not match")]
    Checksum,
}

/// A tier, or the opening of one, failed.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The operating system refused.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried: "read", "write", …
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A stored entry failed a check; it has been moved out of the way.
    #[error("cache entry {key}: {source}; it was quarantined and will be rebuilt")]
    Corrupt {
        /// The key under which the entry was stored.
        key: Key,
        /// Which check failed.
        source: EntryError,
    },
    /// The entry has no stored form: its key material is longer than the format allows.
    #[error("cache entry {key} cannot be stored: {source}")]
    Unencodable {
        /// The key of the entry.
        key: Key,
        /// What doesn't fit.
        source: EntryError,
    },
    /// The entry alone exceeds the tier's bound.
    #[error("an entry of {bytes} bytes does not fit a tier bounded to {limit} bytes")]
    TooLarge {
        /// Size of the entry.
        bytes: u64,
        /// Bound of the tier.
        limit: u64,
    },
    /// The file with the signing key cannot be trusted.
    #[error("the signing key {} {reason}", path.display())]
    SigningKey {
        /// The key file.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
}

impl CacheError {
    /// Wraps an I/O error with what was tried on which path.
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        CacheError::Io { operation, path: path.into(), source: source.into() }
    }
}
