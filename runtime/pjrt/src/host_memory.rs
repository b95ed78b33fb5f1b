//! Host memory that a plugin can use in place.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::error::{Error, Result};

/// XLA's CPU runtime uses host memory without a copy when it is aligned to this.
const ALIGNMENT: usize = 64;

/// An owned allocation, aligned to 64 bytes.
pub struct AlignedBytes {
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: exclusively owned plain bytes.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared access is read-only.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `length` zero bytes.
    pub fn zeroed(length: usize) -> Result<Self> {
        // SAFETY: the layout is not empty.
        Self::allocate(length, |layout| unsafe { alloc_zeroed(layout) })
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        // SAFETY: the layout is not empty.
        let copy = Self::allocate(bytes.len(), |layout| unsafe { alloc(layout) })?;
        // SAFETY: both are `bytes.len()` long, and a fresh allocation does not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.pointer.as_ptr(), bytes.len()) };
        Ok(copy)
    }

    fn allocate(length: usize, allocator: impl FnOnce(Layout) -> *mut u8) -> Result<Self> {
        let layout = Self::layout(length).ok_or(Error::HostMemory { bytes: length })?;
        let pointer = NonNull::new(allocator(layout)).ok_or(Error::HostMemory { bytes: length })?;
        Ok(Self { pointer, length })
    }

    /// Never empty, so that the pointer always belongs to an allocation.
    fn layout(length: usize) -> Option<Layout> {
        Layout::from_size_align(length.max(1), ALIGNMENT).ok()
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.length) {
            // SAFETY: allocated with the very layout.
            unsafe { dealloc(self.pointer.as_ptr(), layout) };
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length` initialised bytes that `self` owns.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_and_hold_what_was_copied() {
        for length in [0, 1, 63, 64, 1000] {
            let content: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let copy = AlignedBytes::copy_of(&content).unwrap();
            assert_eq!(copy.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(&*copy, &content);
            assert!(AlignedBytes::zeroed(length).unwrap().iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(matches!(AlignedBytes::zeroed(usize::MAX), Err(Error::HostMemory { .. })));
    }
}
