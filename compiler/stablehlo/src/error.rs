//! The one error of this crate: an op that StableHLO would not accept.

/// An op could not be built from these operands. The message names shapes and dtypes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {message}")]
pub struct BuildError {
    /// The StableHLO op, e.g. `stablehlo.add`.
    pub op: &'static str,
    /// What does not fit.
    pub message: String,
}

impl BuildError {
    pub(crate) fn new(op: &'static str, message: impl Into<String>) -> Self {
        Self { op, message: message.into() }
    }
}
