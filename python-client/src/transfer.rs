//! Moving tensors and running executables over the command stream.
//!
//! Few bytes travel in the message. More go through one range of a shared segment when the daemon is on this
//! machine, and in pieces of `CHUNK` when it is not or when the shared directory is full.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tpud_proto::v1::execute_command::Command;
use tpud_proto::v1::host_data::Place;
use tpud_proto::v1::{Done, Download, HostData, HostTensor, SharedRange, Upload};

use crate::error::ClientError;
use crate::host_memory::{HostRead, HostWrite};
use crate::segments::Lease;
use crate::session::{Session, WINDOW_BYTES};
use crate::stream::Answer;

/// Calls that move at most this many bytes of host memory carry them in the message.
pub(crate) const INLINE_LIMIT: usize = 64 << 10;
/// Size of a piece in a message.
const CHUNK: usize = 1 << 20;
/// Size of a piece in a shared segment, which bounds what an upload takes of the shared directory.
const SHARED_PIECE: usize = 32 << 20;
/// Pieces of a download on their way at once.
const DOWNLOADS_AHEAD: usize = 32;
/// The least that a command takes of the window, so that it bounds the number of commands as well.
const COMMAND_COST: usize = 64 << 10;

/// A tensor in host memory.
#[derive(Clone, Debug)]
pub(crate) struct HostInput {
    pub(crate) memory: HostRead,
    pub(crate) dtype: i32,
    pub(crate) sizes: Vec<i64>,
}

impl HostInput {
    pub(crate) fn tensor(&self, place: Place) -> HostTensor {
        HostTensor {
            dtype: self.dtype,
            sizes: self.sizes.clone(),
            data: Some(HostData { place: Some(place) }),
        }
    }
}

/// What was moved, for `transfer_stats`.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) runs: AtomicU64,
    pub(crate) uploads: AtomicU64,
    pub(crate) downloads: AtomicU64,
    pub(crate) inline_bytes: AtomicU64,
    pub(crate) shared_bytes: AtomicU64,
    pub(crate) chunked_bytes: AtomicU64,
    pub(crate) freed_handles: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}

impl Session {
    /// How many bytes a piece in a message has.
    pub(crate) fn chunk(&self) -> usize {
        CHUNK.min(self.message_limit() / 2).max(1)
    }

    /// How many bytes of host memory a message carries before they are moved another way.
    pub(crate) fn inline_limit(&self) -> usize {
        if self.pool.is_some() { INLINE_LIMIT.min(self.chunk()) } else { self.chunk() }
    }

    /// A shared range, or None when there is no shared directory or no room in it.
    pub(crate) fn lease(&self, bytes: usize) -> Option<Lease> {
        self.pool.as_ref()?.lease(bytes as u64).ok()
    }

    /// Sends a tensor to the device and returns its handle without waiting for the answer.
    pub(crate) fn upload(&self, input: &HostInput) -> Result<u64, ClientError> {
        self.ensure_stream()?;
        count(&self.stats.uploads, 1);
        let handle = self.new_handle();
        let total = input.memory.bytes();
        if total <= self.inline_limit() {
            count(&self.stats.inline_bytes, total);
            let data = input.memory.copy(0, total).map_err(memory_error)?;
            self.post_piece(handle, input, Place::Inline(data), 0, false, None)?;
            return Ok(handle);
        }
        let mut offset = 0;
        while offset < total {
            offset += self.upload_piece(handle, input, offset)?;
            self.driver.flush();
        }
        Ok(handle)
    }

    /// Sends one piece, shared if possible, and returns its size.
    fn upload_piece(&self, handle: u64, input: &HostInput, offset: usize) -> Result<usize, ClientError> {
        let rest = input.memory.bytes() - offset;
        let bytes = rest.min(SHARED_PIECE);
        let permit = self.permit(bytes)?;
        if let Some(lease) = self.lease(bytes) {
            input
                .memory
                .write_to(offset, bytes, &lease.file, lease.offset)
                .map_err(|e| shared_error(&lease, &e))?;
            count(&self.stats.shared_bytes, bytes);
            let place = Place::Shared(range(&lease, 0, bytes));
            self.post_piece(handle, input, place, offset, bytes < rest, Some((lease, permit)))?;
            return Ok(bytes);
        }
        drop(permit);
        let bytes = rest.min(self.chunk());
        let permit = self.permit(bytes)?;
        count(&self.stats.chunked_bytes, bytes);
        let data = input.memory.copy(offset, bytes).map_err(memory_error)?;
        let upload = piece(handle, input, Place::Inline(data), offset, bytes < rest);
        self.stream.post(Command::Upload(upload), vec![handle], None, Some(permit))?;
        Ok(bytes)
    }

    fn post_piece(
        &self,
        handle: u64,
        input: &HostInput,
        place: Place,
        offset: usize,
        more: bool,
        held: Option<(Lease, OwnedSemaphorePermit)>,
    ) -> Result<(), ClientError> {
        let (lease, permit) = match held {
            Some((lease, permit)) => (Some(lease), permit),
            None => (None, self.permit(COMMAND_COST)?),
        };
        let upload = piece(handle, input, place, offset, more);
        self.stream.post(Command::Upload(upload), vec![handle], lease, Some(permit))
    }

    /// A share of the window, which bounds what is on its way with nobody waiting.
    pub(crate) fn permit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ClientError> {
        let cost = u32::try_from(bytes.max(COMMAND_COST)).unwrap_or(WINDOW_BYTES).min(WINDOW_BYTES);
        if let Ok(permit) = Arc::clone(&self.window).try_acquire_many_owned(cost) {
            return Ok(permit);
        }
        self.wait(Arc::clone(&self.window).acquire_many_owned(cost))?.map_err(|_| ClientError::Closed)
    }

    /// Copies a buffer's content into host memory.
    pub(crate) fn download(&self, handle: u64, target: HostWrite) -> Result<(), ClientError> {
        self.ensure_stream()?;
        self.stream.check_buffer(handle)?;
        count(&self.stats.downloads, 1);
        let bytes = target.bytes();
        if bytes <= self.inline_limit() {
            count(&self.stats.inline_bytes, bytes);
            let command = Download { buffer: handle, ..Download::default() };
            let (done, _) = self.receive(self.stream.call(Command::Download(command), None)?)?;
            return target.fill(0, &inline_output(done, bytes)?).map_err(memory_error);
        }
        if let Some(lease) = self.lease(bytes) {
            count(&self.stats.shared_bytes, bytes);
            let shared = Some(range(&lease, 0, bytes));
            let command = Download { buffer: handle, shared, ..Download::default() };
            let (_, lease) = self.receive(self.stream.call(Command::Download(command), Some(lease))?)?;
            let lease = lease.ok_or_else(lease_missing)?;
            return target.read_from(&lease.file, lease.offset).map_err(|e| shared_error(&lease, &e));
        }
        self.download_chunked(handle, target)
    }

    /// Copies a buffer's content in pieces, several of which are on their way at once.
    pub(crate) fn download_chunked(&self, handle: u64, target: HostWrite) -> Result<(), ClientError> {
        let (bytes, chunk) = (target.bytes(), self.chunk());
        count(&self.stats.chunked_bytes, bytes);
        let mut ahead: VecDeque<(usize, usize, oneshot::Receiver<Answer>)> = VecDeque::new();
        let mut next = 0;
        while next < bytes || !ahead.is_empty() {
            while next < bytes && ahead.len() < DOWNLOADS_AHEAD {
                let length = chunk.min(bytes - next);
                let (offset, wanted) = (next as u64, length as u64);
                let command = Download { buffer: handle, shared: None, offset, length: wanted };
                ahead.push_back((next, length, self.stream.call(Command::Download(command), None)?));
                next += length;
            }
            if let Some((offset, length, answer)) = ahead.pop_front() {
                let (done, _) = self.receive(answer)?;
                target.fill(offset, &inline_output(done, length)?).map_err(memory_error)?;
            }
        }
        Ok(())
    }

    /// Waits until everything sent so far was answered; raises the first error that nobody has raised.
    pub(crate) fn synchronize(&self) -> Result<(), ClientError> {
        self.guard()?;
        if self.stream.is_attached() {
            self.receive(self.stream.call(Command::Free(Default::default()), None)?)?;
        }
        self.stream.take_unraised().map_or(Ok(()), Err)
    }

    /// Waits for an answer.
    pub(crate) fn receive(
        &self,
        answer: oneshot::Receiver<Answer>,
    ) -> Result<(Done, Option<Lease>), ClientError> {
        match self.wait(answer)? {
            Ok(answer) => answer,
            Err(_) => Err(self.stream.end_reason().unwrap_or(ClientError::Closed)),
        }
    }
}

fn piece(handle: u64, input: &HostInput, place: Place, offset: usize, more: bool) -> Upload {
    Upload { buffer: handle, tensor: Some(input.tensor(place)), offset: offset as u64, more }
}

/// The part of a leased range that starts `offset` bytes into it.
pub(crate) fn range(lease: &Lease, offset: u64, bytes: usize) -> SharedRange {
    let segment = lease.segment.to_string();
    SharedRange { segment, offset: lease.offset + offset, length: bytes as u64 }
}

/// The single inline output of an answer, which has to have `bytes` bytes.
fn inline_output(done: Done, bytes: usize) -> Result<Bytes, ClientError> {
    let mut outputs = done.outputs.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(tensor), None) => inline_data(tensor, bytes),
        _ => Err(ClientError::BadReply { cause: "a download has one output".to_owned() }),
    }
}

/// The inline content of a tensor, which has to have `bytes` bytes.
pub(crate) fn inline_data(tensor: HostTensor, bytes: usize) -> Result<Bytes, ClientError> {
    let data = match tensor.data.and_then(|data| data.place) {
        Some(Place::Inline(data)) => data,
        Some(Place::Shared(_)) => {
            return Err(ClientError::BadReply { cause: "a shared range that nobody asked for".to_owned() });
        }
        // An empty tensor may come without data.
        None => Bytes::new(),
    };
    if data.len() != bytes {
        let cause = format!("an output of {} bytes where {bytes} were expected", data.len());
        return Err(ClientError::BadReply { cause });
    }
    Ok(data)
}

pub(crate) fn lease_missing() -> ClientError {
    ClientError::BadReply { cause: "an answer without its range".to_owned() }
}

pub(crate) fn memory_error(error: std::io::Error) -> ClientError {
    ClientError::Invalid(error.to_string())
}

pub(crate) fn shared_error(lease: &Lease, error: &std::io::Error) -> ClientError {
    ClientError::SharedMemory { path: lease.segment.to_string(), cause: error.to_string() }
}
