//! MLIR modules as bytes.

use std::ffi::c_void;

use melior::ir::Module;
use mlir_sys::{
    MlirBytecodeWriterConfig, MlirStringRef, mlirBytecodeWriterConfigCreate,
    mlirBytecodeWriterConfigDesiredEmitVersion, mlirBytecodeWriterConfigDestroy,
    mlirOperationWriteBytecodeWithConfig,
};

use crate::MlirError;
use crate::session::Session;

/// The MLIR bytecode version that is written. Version 5 added properties of ops, which readers take only for the
/// dialects that wrote them; every known PJRT plugin reads version 4.
pub const BYTECODE_VERSION: i64 = 4;

/// Owns the writer's settings.
struct Config(MlirBytecodeWriterConfig);

impl Config {
    fn new(version: i64) -> Self {
        // SAFETY: creates an object that `drop` destroys once.
        let config = Self(unsafe { mlirBytecodeWriterConfigCreate() });
        // SAFETY: the object was just created.
        unsafe { mlirBytecodeWriterConfigDesiredEmitVersion(config.0, version) };
        config
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed only here.
        unsafe { mlirBytecodeWriterConfigDestroy(self.0) };
    }
}

/// The bytecode of a module of this session.
pub(crate) fn write(session: &Session, module: &Module<'_>) -> Result<Vec<u8>, MlirError> {
    let config = Config::new(BYTECODE_VERSION);
    let mut bytes: Vec<u8> = Vec::new();
    // SAFETY: the module and the settings are alive during the call, which hands `bytes` to `append` and keeps nothing.
    let result = unsafe {
        mlirOperationWriteBytecodeWithConfig(
            module.as_operation().to_raw(),
            config.0,
            Some(append),
            (&raw mut bytes).cast::<c_void>(),
        )
    };
    // MLIR answers 0 for a failure.
    if result.value == 0 {
        return Err(MlirError::Bytecode {
            version: BYTECODE_VERSION,
            diagnostics: session.take_diagnostics(),
        });
    }
    Ok(bytes)
}

/// Takes a piece of the output.
///
/// # Safety
/// `bytes` is the vector that `write` passed, and `piece` is readable during the call.
unsafe extern "C" fn append(piece: MlirStringRef, bytes: *mut c_void) {
    if piece.length == 0 {
        return; // its pointer may be null
    }
    // SAFETY: the caller's promise; nothing else uses the vector while MLIR writes.
    let (bytes, piece) = unsafe {
        (&mut *bytes.cast::<Vec<u8>>(), std::slice::from_raw_parts(piece.data.cast::<u8>(), piece.length))
    };
    bytes.extend_from_slice(piece);
}
