//! The function table of a loaded plugin, and the one place that calls through it.

use std::ffi::c_char;

use tpud_pjrt_sys as sys;

use crate::error::{Error, Result};

/// A plugin's function table. Plugins are never unloaded, hence `'static`.
#[derive(Clone, Copy)]
pub(crate) struct Api(&'static sys::PJRT_Api);

// SAFETY: the table is immutable once the plugin is initialised, and the API requires its functions to be callable
// from any thread.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

impl Api {
    pub(crate) fn new(table: &'static sys::PJRT_Api) -> Self {
        Self(table)
    }

    pub(crate) fn table(self) -> &'static sys::PJRT_Api {
        self.0
    }

    /// Calls a function of the table.
    ///
    /// # Safety
    /// Every pointer in `args` that the function reads must be valid for the call.
    pub(crate) unsafe fn call<T: sys::PjrtStruct>(
        self,
        name: &'static str,
        function: sys::Function<T>,
        args: &mut sys::Padded<T>,
    ) -> Result<()> {
        let function = function.ok_or(Error::MissingFunction { call: name })?;
        // SAFETY: the caller vouches for the pointers; the struct is at least as large as the plugin's.
        let error = unsafe { function(args.as_mut_ptr()) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: a non-null result is an error that is now ours.
        Err(unsafe { Error::from_raw(self, name, error) })
    }
}

/// `call!(api, PJRT_Function, args)`: the call with its name for errors. Unsafe, as [`Api::call`] is.
macro_rules! call {
    ($api:expr, $function:ident, $args:expr) => {{
        let api = $api;
        api.call(stringify!($function), api.table().$function, &mut $args)
    }};
}

/// A copy of a text that the plugin owns.
///
/// # Safety
/// `pointer` must be null or point to `length` readable bytes.
pub(crate) unsafe fn text(pointer: *const c_char, length: usize) -> String {
    // SAFETY: the same contract.
    String::from_utf8_lossy(unsafe { slice(pointer.cast::<u8>(), length) }).into_owned()
}

/// A view of an array that the plugin owns; an empty one may have any pointer.
///
/// # Safety
/// `pointer` must be null or point to `length` readable elements that outlive `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, length: usize) -> &'a [T] {
    if pointer.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: not null, and readable by contract.
    unsafe { std::slice::from_raw_parts(pointer, length) }
}

/// A pointer that the plugin must have set.
pub(crate) fn non_null<T>(call: &'static str, pointer: *mut T) -> Result<std::ptr::NonNull<T>> {
    std::ptr::NonNull::new(pointer).ok_or(Error::BrokenContract { call, what: "a null pointer".to_owned() })
}
