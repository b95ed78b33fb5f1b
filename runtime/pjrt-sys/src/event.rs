//! Events: completion of something asynchronous.

use crate::*;

/// Called once when an event is ready; the callee owns `error`, which is null on success.
pub type PJRT_Event_OnReadyCallback =
    Option<unsafe extern "C" fn(error: *mut PJRT_Error, user_arg: *mut c_void)>;

args! {
    /// Arguments of `PJRT_Event_Destroy`.
    PJRT_Event_Destroy_Args {
        event: *mut PJRT_Event,
    }

    /// Arguments of `PJRT_Event_IsReady`.
    PJRT_Event_IsReady_Args {
        event: *mut PJRT_Event,
        is_ready: bool,
    }

    /// Arguments of `PJRT_Event_Error`.
    PJRT_Event_Error_Args {
        event: *mut PJRT_Event,
    }

    /// Arguments of `PJRT_Event_Await`.
    PJRT_Event_Await_Args {
        event: *mut PJRT_Event,
    }

    /// Arguments of `PJRT_Event_OnReady`.
    PJRT_Event_OnReady_Args {
        event: *mut PJRT_Event,
        callback: PJRT_Event_OnReadyCallback,
        user_arg: *mut c_void,
    }
}
