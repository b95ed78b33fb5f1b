//! Buffers: device memory.

use crate::*;

args! {
    /// Arguments of `PJRT_Buffer_Destroy`.
    PJRT_Buffer_Destroy_Args {
        buffer: *mut PJRT_Buffer,
    }

    /// Arguments of `PJRT_Buffer_ElementType`.
    PJRT_Buffer_ElementType_Args {
        buffer: *mut PJRT_Buffer,
        r#type: PJRT_Buffer_Type,
    }

    /// Arguments of `PJRT_Buffer_Dimensions`.
    PJRT_Buffer_Dimensions_Args {
        buffer: *mut PJRT_Buffer,
        dims: *const i64,
        num_dims: usize,
    }

    /// Arguments of `PJRT_Buffer_OnDeviceSizeInBytes`.
    PJRT_Buffer_OnDeviceSizeInBytes_Args {
        buffer: *mut PJRT_Buffer,
        on_device_size_in_bytes: usize,
    }

    /// Arguments of `PJRT_Buffer_Delete`.
    PJRT_Buffer_Delete_Args {
        buffer: *mut PJRT_Buffer,
    }

    /// Arguments of `PJRT_Buffer_IsDeleted`.
    PJRT_Buffer_IsDeleted_Args {
        buffer: *mut PJRT_Buffer,
        is_deleted: bool,
    }

    /// Arguments of `PJRT_Buffer_GetMemoryLayout`.
    PJRT_Buffer_GetMemoryLayout_Args {
        buffer: *mut PJRT_Buffer,
        layout: PJRT_Buffer_MemoryLayout,
    }

    /// Arguments of `PJRT_Buffer_ToHostBuffer`.
    PJRT_Buffer_ToHostBuffer_Args {
        src: *mut PJRT_Buffer,
        host_layout: *mut PJRT_Buffer_MemoryLayout,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut PJRT_Event,
    }

    /// Arguments of `PJRT_Buffer_ReadyEvent`.
    PJRT_Buffer_ReadyEvent_Args {
        buffer: *mut PJRT_Buffer,
        event: *mut PJRT_Event,
    }

    /// Arguments of `PJRT_Buffer_UnsafePointer`.
    PJRT_Buffer_UnsafePointer_Args {
        buffer: *mut PJRT_Buffer,
        buffer_pointer: usize,
    }
}
