//! Raw declarations of the PJRT C API, the stable ABI between a framework and an XLA plugin.
//!
//! Written after `pjrt_c_api.h` of API 0.81, which names every field that `tpud-pjrt` reads, such as
//! `peak_memory_in_bytes`. The API only ever grows at the end of a struct and at the end of the function table, so
//! one set of declarations speaks to older plugins (the table's own `struct_size` is checked at load) and to newer
//! ones: a plugin refuses an argument struct that is *smaller* than its own, hence every one is passed as
//! [`Padded`], with a zeroed tail and the enlarged size.
//!
//! The `pjrt-sys` crate on crates.io is not used: its header is API 0.54, and its build script wants libclang,
//! protoc and the well-known .proto files on the building machine for the sake of about sixty structs.

#![allow(unsafe_code)] // this crate is the boundary; it declares, `tpud-pjrt` calls
#![allow(non_camel_case_types, non_snake_case)] // names are the header's
#![allow(non_upper_case_globals)]
#![allow(missing_docs)] // fields mean what the header says; the docs of each struct name the function

pub use std::ffi::{c_char, c_int, c_uint, c_void};

#[macro_use]
mod padded;
mod api;
mod buffer;
mod client;
mod compile;
mod device;
mod error;
mod event;
mod executable;
mod loaded_executable;
mod plugin;
mod topology;
mod types;

pub use api::{Function, PJRT_Api, PJRT_Api_Version, Unused, VoidFunction};
pub use buffer::*;
pub use client::*;
pub use compile::*;
pub use device::*;
pub use error::*;
pub use event::*;
pub use executable::*;
pub use loaded_executable::*;
pub use padded::{Padded, PjrtStruct};
pub use plugin::*;
pub use topology::*;
pub use types::*;

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Sizes and offsets that a C compiler gives for the header of API 0.81.
    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(offset_of!(PJRT_Api, PJRT_Client_Create), 120);
        assert_eq!(offset_of!(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats), 808);
        assert_eq!(offset_of!(PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes), 104);
        assert_eq!(offset_of!(PJRT_Buffer_MemoryLayout, r#type), 72);
        let sizes = [
            (size_of::<PJRT_NamedValue>(), 56),
            (size_of::<PJRT_Program>(), 48),
            (size_of::<PJRT_ExecuteOptions>(), 112),
            (size_of::<PJRT_Client_Create_Args>(), 88),
            (size_of::<PJRT_Client_BufferFromHostBuffer_Args>(), 120),
            (size_of::<PJRT_Device_MemoryStats_Args>(), 192),
            (size_of::<PJRT_Executable_Serialize_Args>(), 56),
            (size_of::<PJRT_Executable_DeserializeAndLoad_Args>(), 64),
            (size_of::<PJRT_LoadedExecutable_Execute_Args>(), 80),
            (size_of::<PJRT_Buffer_ToHostBuffer_Args>(), 56),
            (size_of::<PJRT_TopologyDescription_Serialize_Args>(), 56),
            (size_of::<PJRT_Compile_Args>(), 64),
        ];
        for (index, (ours, header)) in sizes.into_iter().enumerate() {
            assert_eq!(ours, header, "row {index}");
        }
    }

    #[test]
    fn a_padded_struct_is_zero_but_for_its_size() {
        let padded = Padded::<PJRT_Event_IsReady_Args>::new();
        assert_eq!(padded.struct_size, size_of::<PJRT_Event_IsReady_Args>() + 256);
        assert!(padded.event.is_null() && padded.extension_start.is_null() && !padded.is_ready);
    }
}
