//! Argument structs with room for the fields of plugins newer than these declarations.

use std::ops::{Deref, DerefMut};

/// A `#[repr(C)]` struct of the C API whose first field is `struct_size: usize`.
///
/// # Safety
/// The all-zero bit pattern must be a valid value, and the first field must be the `usize` struct size.
pub unsafe trait PjrtStruct: Sized {}

/// A zeroed `T` followed by a zeroed tail, with `struct_size` covering both.
///
/// A plugin compares `struct_size` with the size of its own version of the struct and refuses a smaller one. Fields
/// it knows and we do not are read as zero, which the API defines as "not given", or written into the tail.
#[repr(C)]
pub struct Padded<T> {
    args: T,
    tail: [u64; 32],
}

impl<T: PjrtStruct> Padded<T> {
    /// A zeroed struct with its size filled in.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: zero is valid for `T` (contract of `PjrtStruct`) and for the integers of the tail.
        let mut padded: Self = unsafe { std::mem::zeroed() };
        // SAFETY: the first field of a `PjrtStruct` is its `usize` struct size.
        unsafe { *(&raw mut padded.args).cast::<usize>() = size_of::<Self>() };
        padded
    }

    /// The pointer to hand to the plugin; valid for the whole of `self`, not only for `T`.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        std::ptr::from_mut(self).cast::<T>()
    }
}

impl<T: PjrtStruct> Default for Padded<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.args
    }
}

impl<T> DerefMut for Padded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.args
    }
}

/// Declares structs that begin with `struct_size` and `extension_start`.
macro_rules! args {
    ($( $(#[$doc:meta])* $name:ident { $( $field:ident : $type:ty, )* } )*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub struct $name {
                pub struct_size: usize,
                pub extension_start: *mut $crate::PJRT_Extension_Base,
                $( pub $field: $type, )*
            }

            // SAFETY: `repr(C)`, the size comes first, and every field is an integer, a bool, a pointer, an
            // optional function pointer or a struct of those, for which zero is valid.
            unsafe impl $crate::PjrtStruct for $name {}
        )*
    };
}
