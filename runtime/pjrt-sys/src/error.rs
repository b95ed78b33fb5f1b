//! Errors: an opaque handle, its code and its message.

use crate::*;

/// A status code; the numbers are those of gRPC.
pub type PJRT_Error_Code = c_uint;

args! {
    /// Arguments of `PJRT_Error_Destroy`.
    PJRT_Error_Destroy_Args {
        error: *mut PJRT_Error,
    }

    /// Arguments of `PJRT_Error_Message`.
    PJRT_Error_Message_Args {
        error: *const PJRT_Error,
        message: *const c_char,
        message_size: usize,
    }

    /// Arguments of `PJRT_Error_GetCode`.
    PJRT_Error_GetCode_Args {
        error: *const PJRT_Error,
        code: PJRT_Error_Code,
    }
}
