//! What can go wrong on a device.

use tpud_pjrt::Code;

/// `Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed device operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// PJRT, or the checks before it, refused.
    #[error(transparent)]
    Pjrt(#[from] tpud_pjrt::Error),
    /// An input that another kind of device made.
    #[error("input {index} was made by another device")]
    ForeignBuffer {
        /// Which input.
        index: usize,
    },
}

impl Error {
    /// The gRPC code that describes this error to a remote caller.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Pjrt(error) => error.code(),
            Self::ForeignBuffer { .. } => Code::InvalidArgument,
        }
    }
}
