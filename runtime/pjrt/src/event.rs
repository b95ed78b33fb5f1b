//! Events: completion of something asynchronous.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use tpud_pjrt_sys as sys;

use crate::api::{self, Api};
use crate::error::{Error, Result};
use crate::plugin::Plugin;

/// Becomes ready once, with success or an error.
pub struct Event {
    plugin: Plugin,
    raw: NonNull<sys::PJRT_Event>,
}

// SAFETY: the API requires events to be usable from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

/// What a ready callback owns until it runs.
struct Pending {
    api: Api,
    callback: Box<dyn FnOnce(Result<()>) + Send>,
}

impl Event {
    /// Takes over an event.
    ///
    /// # Safety
    /// `raw` must be null or an event of `plugin` that nobody else owns.
    pub(crate) unsafe fn new(plugin: Plugin, call: &'static str, raw: *mut sys::PJRT_Event) -> Result<Self> {
        Ok(Self { plugin, raw: api::non_null(call, raw)? })
    }

    /// Blocks until the event is ready and returns its outcome.
    pub fn wait(&self) -> Result<()> {
        let mut args = sys::Padded::<sys::PJRT_Event_Await_Args>::new();
        args.event = self.raw.as_ptr();
        // SAFETY: the event is alive.
        unsafe { call!(self.plugin.api(), PJRT_Event_Await, args) }
    }

    /// Whether [`Event::wait`] would return at once.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = sys::Padded::<sys::PJRT_Event_IsReady_Args>::new();
        args.event = self.raw.as_ptr();
        // SAFETY: the event is alive.
        unsafe { call!(self.plugin.api(), PJRT_Event_IsReady, args) }?;
        Ok(args.is_ready)
    }

    /// Calls `callback` once, with the outcome, on a thread of the plugin or, when the event is already ready, on
    /// this one. The callback must be quick, must not wait for an event, and is dropped unseen if it panics.
    pub fn on_ready(self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let api = self.plugin.api();
        let pending = Box::into_raw(Box::new(Pending { api, callback: Box::new(callback) }));
        let mut args = sys::Padded::<sys::PJRT_Event_OnReady_Args>::new();
        args.event = self.raw.as_ptr();
        args.callback = Some(run_callback);
        args.user_arg = pending.cast();
        // SAFETY: the event is alive; the plugin calls back exactly once if it accepts the callback, and never if
        // it returns an error, so `pending` has one owner either way. Dropping the event does not cancel this.
        let outcome = unsafe { call!(api, PJRT_Event_OnReady, args) };
        if outcome.is_err() {
            // SAFETY: refused, so it is still ours.
            drop(unsafe { Box::from_raw(pending) });
        }
        outcome
    }
}

unsafe extern "C" fn run_callback(error: *mut sys::PJRT_Error, user_arg: *mut sys::c_void) {
    // SAFETY: `user_arg` is the box leaked by `on_ready`, handed back once.
    let pending = unsafe { Box::from_raw(user_arg.cast::<Pending>()) };
    let Pending { api, callback } = *pending;
    let outcome = if error.is_null() {
        Ok(())
    } else {
        // SAFETY: the callee owns the error.
        Err(unsafe { Error::from_raw(api, "PJRT_Event_OnReady", error) })
    };
    // Unwinding into the plugin would abort the process.
    let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome)));
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut args = sys::Padded::<sys::PJRT_Event_Destroy_Args>::new();
        args.event = self.raw.as_ptr();
        // SAFETY: the last use. Destroying never fails.
        let _ = unsafe { call!(self.plugin.api(), PJRT_Event_Destroy, args) };
    }
}
