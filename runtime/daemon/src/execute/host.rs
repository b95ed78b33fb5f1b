//! Host tensors: from a message or a shared segment to the device, and back.

use std::sync::Arc;

use tpud_device::{AlignedBytes, Buffer, Device, HostMemory, TensorType, from_proto, to_proto};
use tpud_proto::v1::{DType, HostData, HostTensor, host_data::Place};

use crate::error::{DaemonError, Result};
use crate::session::Session;

/// The type that a message gives a tensor.
pub(crate) fn tensor_type(tensor: &HostTensor) -> Result<TensorType> {
    let dtype = DType::try_from(tensor.dtype).unwrap_or(DType::DtypeUnspecified);
    let element_type = from_proto(dtype).ok_or_else(|| {
        DaemonError::InvalidCommand(format!("{} is not a dtype of a host tensor", tensor.dtype))
    })?;
    Ok(TensorType::new(element_type, tensor.sizes.clone()))
}

/// The bytes of a tensor of this type.
pub(crate) fn byte_count(kind: &TensorType) -> Result<usize> {
    Ok(kind.bytes().map_err(tpud_device::Error::from)?)
}

fn place(data: &Option<HostData>) -> Result<&Place> {
    let place = data.as_ref().and_then(|data| data.place.as_ref());
    place.ok_or_else(|| DaemonError::InvalidCommand("a host tensor without data".to_owned()))
}

/// How many bytes a message brings or points to.
pub(crate) fn length(data: &Option<HostData>) -> Result<u64> {
    Ok(match place(data)? {
        Place::Inline(bytes) => bytes.len() as u64,
        Place::Shared(range) => range.length,
    })
}

/// Copies a message's bytes, or those that it points to, into `bytes`.
pub(crate) fn copy(data: &Option<HostData>, session: &Session, bytes: &mut [u8]) -> Result<()> {
    match place(data)? {
        Place::Inline(inline) if inline.len() == bytes.len() => bytes.copy_from_slice(inline),
        Place::Inline(inline) => return Err(wrong_length(inline.len(), bytes.len())),
        Place::Shared(range) => session.shared()?.read(range, bytes)?,
    }
    Ok(())
}

/// Makes a device buffer of a tensor; its bytes are copied once.
pub(crate) fn upload(
    device: &dyn Device,
    session: &Session,
    kind: TensorType,
    data: &Option<HostData>,
) -> Result<Arc<dyn Buffer>> {
    let needed = byte_count(&kind)?;
    match place(data)? {
        Place::Inline(bytes) if bytes.len() == needed => {
            Ok(device.upload(kind, HostMemory::Borrowed(bytes))?)
        }
        Place::Inline(bytes) => Err(wrong_length(bytes.len(), needed)),
        Place::Shared(range) => {
            if range.length != needed as u64 {
                // Before memory is taken: what the client claims need not exist.
                return Err(wrong_length(usize::try_from(range.length).unwrap_or(usize::MAX), needed));
            }
            let mut bytes = zeroed(needed)?;
            session.shared()?.read(range, &mut bytes)?;
            Ok(device.upload(kind, HostMemory::Owned(bytes))?)
        }
    }
}

/// Aligned host memory.
pub(crate) fn zeroed(bytes: usize) -> Result<AlignedBytes> {
    AlignedBytes::zeroed(bytes).map_err(|error| tpud_device::Error::from(error).into())
}

fn wrong_length(found: usize, needed: usize) -> DaemonError {
    DaemonError::InvalidCommand(format!("{found} bytes were given for a tensor of {needed} bytes"))
}

/// A message for a tensor of this type.
pub(crate) fn message(kind: &TensorType, place: Place) -> HostTensor {
    HostTensor {
        dtype: to_proto(kind.element_type).into(),
        sizes: kind.dims.clone(),
        data: Some(HostData { place: Some(place) }),
    }
}

/// Waits for a buffer and copies it.
pub(crate) fn fetch(buffer: &dyn Buffer) -> Result<Vec<u8>> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.read_into(&mut bytes)?;
    Ok(bytes)
}
