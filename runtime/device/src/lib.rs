//! The device behind one trait: hosted by the daemon now, and by the client's own process when it wants to be.
//!
//! The trait is what execution needs and no more: load an executable, move tensors, execute. It knows nothing of
//! sessions, handles or messages, and one device may be used from many threads.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod dtype;
mod error;
mod pjrt;

use std::fmt::Debug;
use std::sync::Arc;

pub use dtype::{from_proto, to_proto};
pub use error::{Error, Result};
pub use pjrt::PjrtDevice;
pub use tpud_pjrt::{AlignedBytes, Code, ElementType, Signature, TensorType, release_unused_memory};

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// "cpu", "tpu", or what its plugin calls the platform.
    pub platform: String,
    /// The model, e.g. "TPU v6 lite".
    pub kind: String,
    /// For people, with its number.
    pub description: String,
    /// The device's memory; none when nobody knows.
    pub memory_bytes: Option<u64>,
    /// Name, version and content of the plugin in one line: a component of cache keys.
    pub plugin_identity: String,
}

/// Host memory for an upload.
#[derive(Debug)]
pub enum HostMemory<'a> {
    /// Given away; a host device uses it in place, without a copy.
    Owned(AlignedBytes),
    /// Lent for the call; copied.
    Borrowed(&'a [u8]),
}

/// A device that executes what its compiler has serialised.
pub trait Device: Debug + Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Loads a serialised executable. The bytes are code: the caller vouches that a compiler of the same plugin made
    /// them and that they are unchanged.
    fn load(&self, executable: &[u8]) -> Result<Arc<dyn LoadedExecutable>>;

    /// Makes a buffer of dense, row-major, little-endian elements. May return before the data is on the device.
    fn upload(&self, kind: TensorType, data: HostMemory<'_>) -> Result<Arc<dyn Buffer>>;
}

/// An executable on a device.
pub trait LoadedExecutable: Debug + Send + Sync {
    /// Types of its inputs and outputs, and which outputs can take over an input's memory.
    fn signature(&self) -> &Signature;

    /// Starts an execution and returns its outputs, which may not be ready yet; an error on the device surfaces when
    /// an output is waited for or read.
    ///
    /// `donate[i]` lets an output that aliases input `i` take over its memory, after which that buffer is deleted; an
    /// empty slice donates nothing. Arity and types are checked first, so that a mismatch is an error, never an abort.
    fn execute(&self, inputs: &[Arc<dyn Buffer>], donate: &[bool]) -> Result<Vec<Arc<dyn Buffer>>>;
}

/// A tensor on a device. Its memory goes with the last reference, or with [`Buffer::delete`].
pub trait Buffer: Debug + Send + Sync {
    /// Element type and sizes.
    fn tensor_type(&self) -> &TensorType;

    /// Bytes of the dense tensor.
    fn bytes(&self) -> usize;

    /// Bytes that it takes on the device, with padding.
    fn device_bytes(&self) -> Result<usize>;

    /// Blocks until the content is there.
    fn wait_ready(&self) -> Result<()>;

    /// Waits for the content and copies it: dense, row-major, little-endian, whatever the device's layout.
    /// `destination` must have [`Buffer::bytes`] bytes.
    fn read_into(&self, destination: &mut [u8]) -> Result<()>;

    /// Gives the memory back now. Later uses are errors.
    fn delete(&self) -> Result<()>;

    /// Whether it was deleted or donated.
    fn is_deleted(&self) -> Result<bool>;

    /// The implementation's own type, for its own executables.
    fn as_any(&self) -> &dyn std::any::Any;
}
