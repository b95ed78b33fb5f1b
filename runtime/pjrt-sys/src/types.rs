//! Opaque handles, enumerations and the structs that several functions share.

use crate::*;

macro_rules! opaque {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    /// An error, owned by whoever received it.
    PJRT_Error,
    /// A client.
    PJRT_Client,
    /// A device of a client.
    PJRT_Device,
    /// A memory space of a device.
    PJRT_Memory,
    /// The description of a device, of a client or of a topology.
    PJRT_DeviceDescription,
    /// A topology.
    PJRT_TopologyDescription,
    /// A compiled program.
    PJRT_Executable,
    /// A compiled program on devices.
    PJRT_LoadedExecutable,
    /// Device memory with a shape.
    PJRT_Buffer,
    /// Completion of something asynchronous.
    PJRT_Event,
    /// Backs the bytes of a serialised executable.
    PJRT_SerializedExecutable,
    /// Backs the bytes of a serialised topology.
    PJRT_SerializedTopology,
    /// State shared between executions.
    PJRT_ExecuteContext,
}

/// Head of the linked list of extensions; this project uses none.
#[repr(C)]
pub struct PJRT_Extension_Base {
    pub struct_size: usize,
    pub r#type: c_uint,
    pub next: *mut PJRT_Extension_Base,
}

/// Which member of [`PJRT_NamedValue_Union`] is set.
pub type PJRT_NamedValue_Type = c_uint;
pub const PJRT_NamedValue_kString: PJRT_NamedValue_Type = 0;
pub const PJRT_NamedValue_kInt64: PJRT_NamedValue_Type = 1;
pub const PJRT_NamedValue_kInt64List: PJRT_NamedValue_Type = 2;
pub const PJRT_NamedValue_kFloat: PJRT_NamedValue_Type = 3;
pub const PJRT_NamedValue_kBool: PJRT_NamedValue_Type = 4;

/// The value of a [`PJRT_NamedValue`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union PJRT_NamedValue_Union {
    pub string_value: *const c_char,
    pub int64_value: i64,
    pub int64_array_value: *const i64,
    pub float_value: f32,
    pub bool_value: bool,
}

/// A named attribute or option. Passed in arrays, hence never [`Padded`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_NamedValue {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub name: *const c_char,
    pub name_size: usize,
    pub r#type: PJRT_NamedValue_Type,
    pub value: PJRT_NamedValue_Union,
    /// Elements of a string or list, else 1.
    pub value_size: usize,
}

/// The element type of a buffer; see `PJRT_Buffer_Type_*`.
pub type PJRT_Buffer_Type = c_uint;
pub const PJRT_Buffer_Type_INVALID: PJRT_Buffer_Type = 0;
pub const PJRT_Buffer_Type_PRED: PJRT_Buffer_Type = 1;
pub const PJRT_Buffer_Type_S8: PJRT_Buffer_Type = 2;
pub const PJRT_Buffer_Type_S16: PJRT_Buffer_Type = 3;
pub const PJRT_Buffer_Type_S32: PJRT_Buffer_Type = 4;
pub const PJRT_Buffer_Type_S64: PJRT_Buffer_Type = 5;
pub const PJRT_Buffer_Type_U8: PJRT_Buffer_Type = 6;
pub const PJRT_Buffer_Type_U16: PJRT_Buffer_Type = 7;
pub const PJRT_Buffer_Type_U32: PJRT_Buffer_Type = 8;
pub const PJRT_Buffer_Type_U64: PJRT_Buffer_Type = 9;
pub const PJRT_Buffer_Type_F16: PJRT_Buffer_Type = 10;
pub const PJRT_Buffer_Type_F32: PJRT_Buffer_Type = 11;
pub const PJRT_Buffer_Type_F64: PJRT_Buffer_Type = 12;
pub const PJRT_Buffer_Type_BF16: PJRT_Buffer_Type = 13;
pub const PJRT_Buffer_Type_C64: PJRT_Buffer_Type = 14;
pub const PJRT_Buffer_Type_C128: PJRT_Buffer_Type = 15;
pub const PJRT_Buffer_Type_F8E5M2: PJRT_Buffer_Type = 16;
pub const PJRT_Buffer_Type_F8E4M3FN: PJRT_Buffer_Type = 17;

/// Until when a plugin may read the host memory that it was given.
pub type PJRT_HostBufferSemantics = c_uint;
pub const PJRT_HostBufferSemantics_kImmutableOnlyDuringCall: PJRT_HostBufferSemantics = 0;
pub const PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes: PJRT_HostBufferSemantics = 1;
pub const PJRT_HostBufferSemantics_kImmutableZeroCopy: PJRT_HostBufferSemantics = 2;
pub const PJRT_HostBufferSemantics_kMutableZeroCopy: PJRT_HostBufferSemantics = 3;

/// Which kind of layout a [`PJRT_Buffer_MemoryLayout`] is.
pub type PJRT_Buffer_MemoryLayout_Type = c_uint;
pub const PJRT_Buffer_MemoryLayout_Type_Tiled: PJRT_Buffer_MemoryLayout_Type = 0;

args! {
    /// A program and its format.
    PJRT_Program {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }

    /// A layout by order of dimensions and tiles.
    PJRT_Buffer_MemoryLayout_Tiled {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }

    /// A layout. The header's union of tiled and strided layouts has the size of the tiled one, the only one used.
    PJRT_Buffer_MemoryLayout {
        tiled: PJRT_Buffer_MemoryLayout_Tiled,
        r#type: PJRT_Buffer_MemoryLayout_Type,
    }

    /// How to execute.
    PJRT_ExecuteOptions {
        send_callbacks: *mut *mut c_void,
        recv_callbacks: *mut *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut PJRT_ExecuteContext,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }
}
