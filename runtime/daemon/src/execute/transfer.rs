//! The Upload, Download and Free commands.

use std::sync::Arc;

use bytes::Bytes;
use tpud_device::{AlignedBytes, HostMemory, TensorType};
use tpud_proto::v1::{Done, Download, Free, HostTensor, Upload, host_data::Place};

use super::host;
use super::program::DeviceBuffer;
use super::runner::Runner;
use crate::error::{DaemonError, Result};
use crate::session::Reservation;

/// Transfers up to this many bytes are done inline: they take less time than handing them over would.
const SMALL: u64 = 256 << 10;

/// An upload of which pieces are missing.
#[derive(Debug)]
pub(super) struct Pending {
    kind: TensorType,
    bytes: AlignedBytes,
    filled: usize,
    charge: Reservation,
}

/// A download of which pieces are still to be asked for.
#[derive(Debug)]
pub(super) struct Staged {
    handle: u64,
    source: Arc<DeviceBuffer>,
    bytes: Bytes,
}

impl Runner {
    /// Makes a buffer, or takes a piece of one. Pieces come in order.
    pub(super) fn upload(&mut self, upload: &Upload) -> Result<Done> {
        let empty = HostTensor::default();
        let tensor = upload.tensor.as_ref().unwrap_or(&empty);
        let length = host::length(&tensor.data)?;
        self.blocking_unless(length <= SMALL, |runner| match runner.pending.remove(&upload.buffer) {
            Some(pending) => runner.next_piece(upload, tensor, pending),
            None => runner.first_piece(upload, tensor, length),
        })?;
        Ok(Done::default())
    }

    fn first_piece(&mut self, upload: &Upload, tensor: &HostTensor, length: u64) -> Result<()> {
        if upload.offset != 0 {
            // Its first piece may have failed: then that is what the client should hear.
            self.session.buffers.get(upload.buffer)?;
            return Err(DaemonError::InvalidCommand(format!(
                "a piece at {} that nothing precedes",
                upload.offset
            )));
        }
        self.session.buffers.check_free(upload.buffer)?;
        let kind = host::tensor_type(tensor)?;
        let total = host::byte_count(&kind)?;
        let charge = self.session.memory.reserve(total as u64)?;
        if upload.more || length != total as u64 {
            let pending = Pending { bytes: host::zeroed(total)?, kind, filled: 0, charge };
            return self.next_piece(upload, tensor, pending);
        }
        let buffer = host::upload(self.device.as_ref(), &self.session, kind, &tensor.data)?;
        self.session.buffers.insert(upload.buffer, Arc::new(DeviceBuffer::new(buffer, charge)))
    }

    fn next_piece(&mut self, upload: &Upload, tensor: &HostTensor, mut pending: Pending) -> Result<()> {
        let (total, filled) = (pending.bytes.len(), pending.filled);
        let length = host::length(&tensor.data)?;
        let end = usize::try_from(length).ok().and_then(|length| filled.checked_add(length));
        let end = end.filter(|end| upload.offset == filled as u64 && *end <= total).ok_or_else(|| {
            let (offset, end) = (upload.offset, upload.offset.saturating_add(length));
            let what = format!("a piece for bytes {offset} to {end} of {total}, where {filled} comes next");
            DaemonError::InvalidCommand(what)
        })?;
        host::copy(&tensor.data, &self.session, &mut pending.bytes[filled..end])?;
        pending.filled = end;
        if upload.more {
            self.pending.insert(upload.buffer, pending);
            return Ok(());
        }
        if end < total {
            return Err(DaemonError::InvalidCommand(format!(
                "the last piece ends at {end} of {total} bytes"
            )));
        }
        let buffer = self.device.upload(pending.kind, HostMemory::Owned(pending.bytes))?;
        self.session.buffers.insert(upload.buffer, Arc::new(DeviceBuffer::new(buffer, pending.charge)))
    }

    /// Gives the content of a buffer, or a piece of it.
    pub(super) fn download(&mut self, download: &Download) -> Result<Done> {
        let held = self.session.buffers.get(download.buffer)?;
        let kind = held.buffer.tensor_type().clone();
        // The buffer may have to be waited for, however small it is.
        let place = self.blocking_unless(false, |runner| match &download.shared {
            Some(range) => {
                let bytes = host::fetch(held.buffer.as_ref())?;
                runner.session.shared()?.write(range, &bytes)?;
                Ok(Place::Shared(range.clone()))
            }
            None => runner.piece(download, &held).map(Place::Inline),
        })?;
        self.unfinished = false;
        Ok(Done { outputs: vec![host::message(&kind, place)], device_nanoseconds: 0 })
    }

    fn piece(&mut self, download: &Download, held: &Arc<DeviceBuffer>) -> Result<Bytes> {
        let total = held.buffer.bytes() as u64;
        let length =
            if download.length == 0 { total.saturating_sub(download.offset) } else { download.length };
        let end = download.offset.checked_add(length).filter(|end| *end <= total).ok_or_else(|| {
            DaemonError::InvalidCommand(format!(
                "bytes {}+{length} of a buffer of {total} bytes",
                download.offset
            ))
        })?;
        self.fits_in_message(length)?;
        let staged = self
            .staged
            .take()
            .filter(|staged| staged.handle == download.buffer && Arc::ptr_eq(&staged.source, held));
        let staged = match staged {
            Some(staged) => staged,
            None => Staged {
                handle: download.buffer,
                source: Arc::clone(held),
                bytes: host::fetch(held.buffer.as_ref())?.into(),
            },
        };
        // Both ends are at most `total`, the length of memory that exists.
        let piece = staged.bytes.slice(download.offset as usize..end as usize);
        if end < total {
            self.staged = Some(staged);
        }
        Ok(piece)
    }

    /// Releases handles.
    pub(super) fn free(&mut self, free: &Free) -> Result<Done> {
        for handle in &free.buffers {
            self.pending.remove(handle);
        }
        if self.staged.as_ref().is_some_and(|staged| free.buffers.contains(&staged.handle)) {
            self.staged = None;
        }
        self.session.buffers.remove(&free.buffers);
        self.session.executables.remove(&free.executables);
        Ok(Done::default())
    }

    /// Refuses a reply that the client's limit would not let through.
    pub(super) fn fits_in_message(&self, bytes: u64) -> Result<()> {
        // A little is left for the rest of the message.
        let limit = (self.daemon.config.limits.max_message_bytes as u64).saturating_sub(4096);
        if bytes > limit { Err(DaemonError::MessageTooLarge { found: bytes, limit }) } else { Ok(()) }
    }
}
