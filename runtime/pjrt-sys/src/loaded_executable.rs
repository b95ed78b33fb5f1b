//! Loaded executables: compiled and on devices.

use crate::*;

args! {
    /// Arguments of `PJRT_LoadedExecutable_Destroy`.
    PJRT_LoadedExecutable_Destroy_Args {
        executable: *mut PJRT_LoadedExecutable,
    }

    /// Arguments of `PJRT_LoadedExecutable_GetExecutable`.
    PJRT_LoadedExecutable_GetExecutable_Args {
        loaded_executable: *mut PJRT_LoadedExecutable,
        executable: *mut PJRT_Executable,
    }

    /// Arguments of `PJRT_LoadedExecutable_AddressableDevices`.
    PJRT_LoadedExecutable_AddressableDevices_Args {
        executable: *mut PJRT_LoadedExecutable,
        addressable_devices: *const *mut PJRT_Device,
        num_addressable_devices: usize,
    }

    /// Arguments of `PJRT_LoadedExecutable_Delete`.
    PJRT_LoadedExecutable_Delete_Args {
        executable: *mut PJRT_LoadedExecutable,
    }

    /// Arguments of `PJRT_LoadedExecutable_IsDeleted`.
    PJRT_LoadedExecutable_IsDeleted_Args {
        executable: *mut PJRT_LoadedExecutable,
        is_deleted: bool,
    }

    /// Arguments of `PJRT_LoadedExecutable_Execute`.
    PJRT_LoadedExecutable_Execute_Args {
        executable: *mut PJRT_LoadedExecutable,
        options: *mut PJRT_ExecuteOptions,
        argument_lists: *const *const *mut PJRT_Buffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut PJRT_Buffer,
        device_complete_events: *mut *mut PJRT_Event,
        execute_device: *mut PJRT_Device,
    }
}
