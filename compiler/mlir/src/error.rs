//! The one error of this crate: a module that MLIR does not take.

use tpud_stablehlo::TensorType;

/// Why a module has no bytecode. Each is a fault of tpud, not of the user's model: please report it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MlirError {
    /// An op uses a value that no op before it defines in its region or an enclosing one.
    #[error("{op}: operand {operand} (value {value}) is not defined where it is used")]
    UndefinedValue {
        /// The op.
        op: &'static str,
        /// Position among its operands.
        operand: usize,
        /// Number of the value.
        value: usize,
    },
    /// A tensor type with a negative size.
    #[error("{ty}: a size is negative; module types must be static")]
    NegativeSize {
        /// The type.
        ty: TensorType,
    },
    /// MLIR cannot read an attribute.
    #[error("{op}: attribute {name} = {text} is not MLIR syntax: {diagnostics}")]
    Attribute {
        /// The op.
        op: &'static str,
        /// Name of the attribute.
        name: &'static str,
        /// Its value as text.
        text: String,
        /// What MLIR says.
        diagnostics: String,
    },
    /// MLIR cannot make an op.
    #[error("{op}: MLIR refuses the op: {diagnostics}")]
    Operation {
        /// The op.
        op: &'static str,
        /// What MLIR says.
        diagnostics: String,
    },
    /// The module as a whole is not valid MLIR.
    #[error("MLIR refuses the module: {diagnostics}")]
    Invalid {
        /// What MLIR says.
        diagnostics: String,
    },
    /// MLIR cannot write the bytecode version that the plugins read.
    #[error("MLIR cannot write bytecode version {version}: {diagnostics}")]
    Bytecode {
        /// The version.
        version: i64,
        /// What MLIR says.
        diagnostics: String,
    },
}
