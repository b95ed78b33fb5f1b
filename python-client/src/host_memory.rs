//! The one place that touches the memory of Python's tensors.
//!
//! Python passes a tensor as the number `tensor.data_ptr()` and its size in bytes. The contract, written in
//! `_tpud.pyi`, is Python's to keep: the tensor is a dense CPU tensor of that many bytes, it stays alive until the
//! call returns, nobody writes to an input meanwhile, and nobody uses an output meanwhile. Nothing here outlives
//! the call: copies are made on the calling thread, never by a background task.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::ClientError;

/// The memory of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRead(Span);

/// The memory of an output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWrite(Span);

#[derive(Clone, Copy, Debug)]
struct Span {
    address: usize,
    bytes: usize,
}

impl Span {
    fn new(address: usize, bytes: usize) -> Result<Self, ClientError> {
        let fits = isize::try_from(bytes).is_ok() && address.checked_add(bytes).is_some();
        if !fits || (address == 0 && bytes > 0) {
            return Err(ClientError::Invalid(format!("{bytes} bytes at address {address:#x} is no tensor")));
        }
        Ok(Self { address, bytes })
    }

    /// The part `offset..offset + length`, or None when it does not lie inside.
    fn part(self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        (end <= self.bytes).then_some(Self { address: self.address.wrapping_add(offset), bytes: length })
    }
}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a range outside of the tensor")
}

impl HostRead {
    /// The memory at `address`; see the contract above.
    pub(crate) fn new(address: usize, bytes: usize) -> Result<Self, ClientError> {
        Span::new(address, bytes).map(Self)
    }

    pub(crate) fn bytes(self) -> usize {
        self.0.bytes
    }

    /// A copy of a part.
    pub(crate) fn copy(self, offset: usize, length: usize) -> io::Result<Bytes> {
        let part = self.0.part(offset, length).ok_or_else(outside)?;
        let mut copy = BytesMut::with_capacity(length);
        copy.put_slice(as_slice(part));
        Ok(copy.freeze())
    }

    /// Writes a part into a file.
    pub(crate) fn write_to(self, offset: usize, length: usize, file: &File, at: u64) -> io::Result<()> {
        let part = self.0.part(offset, length).ok_or_else(outside)?;
        file.write_all_at(as_slice(part), at)
    }
}

impl HostWrite {
    /// The memory at `address`; see the contract above.
    pub(crate) fn new(address: usize, bytes: usize) -> Result<Self, ClientError> {
        Span::new(address, bytes).map(Self)
    }

    pub(crate) fn bytes(self) -> usize {
        self.0.bytes
    }

    /// Fills a part with `data`.
    pub(crate) fn fill(self, offset: usize, data: &[u8]) -> io::Result<()> {
        let part = self.0.part(offset, data.len()).ok_or_else(outside)?;
        as_slice_mut(part, |memory| memory.copy_from_slice(data));
        Ok(())
    }

    /// Fills all of it from a file.
    pub(crate) fn read_from(self, file: &File, at: u64) -> io::Result<()> {
        as_slice_mut(self.0, |memory| file.read_exact_at(memory, at))
    }
}

fn as_slice<'call>(span: Span) -> &'call [u8] {
    if span.bytes == 0 {
        return &[];
    }
    // SAFETY: the span is not null and does not wrap (`Span::new`); by the module's contract it is the memory of a
    // live tensor which nobody writes to during the call, and both users above drop the slice before they return.
    unsafe { std::slice::from_raw_parts(span.address as *const u8, span.bytes) }
}

fn as_slice_mut<T>(span: Span, fill: impl FnOnce(&mut [u8]) -> T) -> T {
    if span.bytes == 0 {
        return fill(&mut []);
    }
    // SAFETY: as in `as_slice`; by the contract nobody else uses an output's memory during the call, every tensor is
    // initialised memory as far as bytes are concerned, and the slice cannot leave the closure.
    fill(unsafe { std::slice::from_raw_parts_mut(span.address as *mut u8, span.bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_in_and_out() {
        let source = [1_u8, 2, 3, 4];
        let mut target = [0_u8; 4];
        let read = HostRead::new(source.as_ptr() as usize, 4).unwrap();
        let write = HostWrite::new(target.as_mut_ptr() as usize, 4).unwrap();
        write.fill(1, &read.copy(2, 2).unwrap()).unwrap();
        assert_eq!(target, [0, 3, 4, 0]);
        let file = tempfile::tempfile().unwrap();
        read.write_to(0, 4, &file, 8).unwrap();
        write.read_from(&file, 8).unwrap();
        assert_eq!(target, source);
    }

    #[test]
    fn ranges_outside_are_refused() {
        let source = [0_u8; 4];
        let read = HostRead::new(source.as_ptr() as usize, 4).unwrap();
        assert!(read.copy(3, 2).is_err());
        assert!(read.copy(usize::MAX, 2).is_err());
        assert!(HostRead::new(0, 1).is_err());
        assert!(HostRead::new(usize::MAX, 2).is_err());
        assert!(HostRead::new(0, 0).unwrap().copy(0, 0).unwrap().is_empty());
    }
}
