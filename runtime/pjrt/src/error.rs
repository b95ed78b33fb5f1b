//! What can go wrong between this process and a plugin.

use std::fmt;
use std::path::PathBuf;

use tpud_pjrt_sys as sys;

use crate::api::Api;
use crate::element_type::TensorType;

/// `Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed PJRT operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin returned an error.
    #[error("{call}: {code}: {message}")]
    Plugin {
        /// The C function, e.g. "PJRT_Client_Compile".
        call: &'static str,
        /// The status code.
        code: Code,
        /// The plugin's message.
        message: String,
    },
    /// No plugin library was found.
    #[error("no PJRT plugin for {platform}: looked at {}; {install}", DisplayPaths(.searched))]
    MissingPlugin {
        /// "cpu" or "tpu".
        platform: &'static str,
        /// Every path that was tried, in order.
        searched: Vec<PathBuf>,
        /// What to do about it.
        install: String,
    },
    /// The library could not be opened.
    #[error("cannot load the PJRT plugin {}: {message}", .path.display())]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        message: String,
    },
    /// The library is not a PJRT plugin.
    #[error("{} is not a PJRT plugin: it has no symbol {symbol}", .path.display())]
    MissingSymbol {
        /// The library.
        path: PathBuf,
        /// What it lacks.
        symbol: &'static str,
    },
    /// The plugin speaks another version of the API.
    #[error("{} speaks PJRT API {}.{}; this build needs 0.{minimum} or a later 0.x", .path.display(), .found.0, .found.1)]
    IncompatiblePlugin {
        /// The library.
        path: PathBuf,
        /// Its major and minor version.
        found: (i32, i32),
        /// The smallest minor version that works.
        minimum: i32,
    },
    /// The plugin leaves out a function that is needed.
    #[error("the PJRT plugin does not provide {call}")]
    MissingFunction {
        /// The C function.
        call: &'static str,
    },
    /// The plugin broke the API's contract.
    #[error("{call}: the PJRT plugin returned {what}")]
    BrokenContract {
        /// The C function.
        call: &'static str,
        /// What is wrong with the result.
        what: String,
    },
    /// A topology name that no target has.
    #[error("unknown topology \"{name}\": {hint}")]
    UnknownTopology {
        /// As it was given.
        name: String,
        /// The names that are known.
        hint: String,
    },
    /// The bytes given as an executable are not one (of this plugin).
    #[error("not an executable of this plugin: {reason}")]
    BadExecutable {
        /// What is wrong with them.
        reason: String,
    },
    /// A tensor of this shape cannot exist.
    #[error("impossible shape {dims:?}: {reason}")]
    BadShape {
        /// The sizes.
        dims: Vec<i64>,
        /// What is wrong.
        reason: &'static str,
    },
    /// Host memory whose length is not that of the tensor.
    #[error("{what} has {actual} bytes where {tensor} needs {expected}")]
    WrongLength {
        /// Which memory.
        what: &'static str,
        /// The tensor.
        tensor: TensorType,
        /// Its dense size.
        expected: usize,
        /// The size that was given.
        actual: usize,
    },
    /// An executable was called with another number of inputs than it has.
    #[error("the executable takes {expected} inputs but was given {actual}")]
    WrongArity {
        /// Inputs of the executable.
        expected: usize,
        /// Inputs that were given.
        actual: usize,
    },
    /// An input does not have the type that the executable was compiled for.
    #[error("input {index} is {actual} but the executable takes {expected}")]
    WrongInput {
        /// Which input.
        index: usize,
        /// What the executable takes.
        expected: TensorType,
        /// What was given.
        actual: TensorType,
    },
    /// A buffer of another client.
    #[error("input {index} lives on another PJRT client")]
    ForeignBuffer {
        /// Which input.
        index: usize,
    },
    /// The host is out of memory.
    #[error("cannot allocate {bytes} bytes of host memory")]
    HostMemory {
        /// The size that was asked for.
        bytes: usize,
    },
    /// The plugin's file could not be read for its identity.
    #[error("cannot read {}: {message}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        message: String,
    },
}

impl Error {
    /// The status code that describes this error to a remote caller.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Plugin { code, .. } => *code,
            Self::MissingPlugin { .. } | Self::Load { .. } | Self::MissingSymbol { .. } => {
                Code::FailedPrecondition
            }
            Self::IncompatiblePlugin { .. } | Self::Unreadable { .. } => Code::FailedPrecondition,
            Self::MissingFunction { .. } => Code::Unimplemented,
            Self::BrokenContract { .. } => Code::Internal,
            Self::BadExecutable { .. } => Code::DataLoss,
            Self::UnknownTopology { .. } | Self::BadShape { .. } | Self::WrongLength { .. } => {
                Code::InvalidArgument
            }
            Self::WrongArity { .. } | Self::WrongInput { .. } | Self::ForeignBuffer { .. } => {
                Code::InvalidArgument
            }
            Self::HostMemory { .. } => Code::ResourceExhausted,
        }
    }

    /// Takes over an error of the plugin and destroys it.
    ///
    /// # Safety
    /// `error` must be an error returned by `api`'s plugin that nobody else owns.
    pub(crate) unsafe fn from_raw(api: Api, call: &'static str, error: *mut sys::PJRT_Error) -> Self {
        let mut code = sys::Padded::<sys::PJRT_Error_GetCode_Args>::new();
        code.error = error;
        let mut message = sys::Padded::<sys::PJRT_Error_Message_Args>::new();
        message.error = error;
        let mut destroy = sys::Padded::<sys::PJRT_Error_Destroy_Args>::new();
        destroy.error = error;
        let table = api.table();
        // SAFETY: the error is alive until the last call, which is the only one that destroys it; the message is
        // copied before that. GetCode's own error, which no plugin returns, would leak.
        unsafe {
            if let Some(function) = table.PJRT_Error_GetCode {
                function(code.as_mut_ptr());
            }
            let mut text = String::new();
            if let Some(function) = table.PJRT_Error_Message {
                function(message.as_mut_ptr());
                text = without_trace(&crate::api::text(message.message, message.message_size));
            }
            if let Some(function) = table.PJRT_Error_Destroy {
                function(destroy.as_mut_ptr());
            }
            Self::Plugin { call, code: Code::from_raw(code.code), message: text }
        }
    }
}

/// The message without the trace of XLA's source lines that newer plugins append.
fn without_trace(message: &str) -> String {
    let end = message.find("=== Source Location Trace").unwrap_or(message.len());
    message[..end].trim_end().to_owned()
}

/// A status code. The numbers are those of gRPC and pass through unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // gRPC documents them
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    const ALL: [(Self, &'static str); 17] = [
        (Self::Ok, "OK"),
        (Self::Cancelled, "CANCELLED"),
        (Self::Unknown, "UNKNOWN"),
        (Self::InvalidArgument, "INVALID_ARGUMENT"),
        (Self::DeadlineExceeded, "DEADLINE_EXCEEDED"),
        (Self::NotFound, "NOT_FOUND"),
        (Self::AlreadyExists, "ALREADY_EXISTS"),
        (Self::PermissionDenied, "PERMISSION_DENIED"),
        (Self::ResourceExhausted, "RESOURCE_EXHAUSTED"),
        (Self::FailedPrecondition, "FAILED_PRECONDITION"),
        (Self::Aborted, "ABORTED"),
        (Self::OutOfRange, "OUT_OF_RANGE"),
        (Self::Unimplemented, "UNIMPLEMENTED"),
        (Self::Internal, "INTERNAL"),
        (Self::Unavailable, "UNAVAILABLE"),
        (Self::DataLoss, "DATA_LOSS"),
        (Self::Unauthenticated, "UNAUTHENTICATED"),
    ];

    pub(crate) fn from_raw(raw: sys::PJRT_Error_Code) -> Self {
        usize::try_from(raw)
            .ok()
            .and_then(|index| Self::ALL.get(index))
            .map_or(Self::Unknown, |entry| entry.0)
    }

    /// The name in upper case, as in gRPC.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

struct DisplayPaths<'a>(&'a [PathBuf]);

impl fmt::Display for DisplayPaths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no place (no Python environment was found)");
        }
        for (index, path) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", path.display())?;
        }
        Ok(())
    }
}
