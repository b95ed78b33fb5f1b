//! The function table that `GetPjrtApi` returns.

use crate::*;

/// A slot that takes one argument struct and returns null or an error owned by the caller.
///
/// "C-unwind", because XLA lets C++ exceptions out on some modules: they end the process either way, but this way
/// their passing through Rust is defined.
pub type Function<T> = Option<unsafe extern "C-unwind" fn(args: *mut T) -> *mut PJRT_Error>;

/// A slot that takes one argument struct and cannot fail.
pub type VoidFunction<T> = Option<unsafe extern "C-unwind" fn(args: *mut T)>;

/// A slot that this project does not call.
pub type Unused = Option<unsafe extern "C" fn()>;

args! {
    /// The version of the API that a plugin was built with.
    PJRT_Api_Version {
        major_version: c_int,
        minor_version: c_int,
    }
}

/// The function table, up to the last slot that this project calls. A plugin's own table may be longer.
#[repr(C)]
pub struct PJRT_Api {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub pjrt_api_version: PJRT_Api_Version,
    pub PJRT_Error_Destroy: VoidFunction<PJRT_Error_Destroy_Args>,
    pub PJRT_Error_Message: VoidFunction<PJRT_Error_Message_Args>,
    pub PJRT_Error_GetCode: Function<PJRT_Error_GetCode_Args>,
    pub PJRT_Plugin_Initialize: Function<PJRT_Plugin_Initialize_Args>,
    pub PJRT_Plugin_Attributes: Function<PJRT_Plugin_Attributes_Args>,
    pub PJRT_Event_Destroy: Function<PJRT_Event_Destroy_Args>,
    pub PJRT_Event_IsReady: Function<PJRT_Event_IsReady_Args>,
    pub PJRT_Event_Error: Function<PJRT_Event_Error_Args>,
    pub PJRT_Event_Await: Function<PJRT_Event_Await_Args>,
    pub PJRT_Event_OnReady: Function<PJRT_Event_OnReady_Args>,
    pub PJRT_Client_Create: Function<PJRT_Client_Create_Args>,
    pub PJRT_Client_Destroy: Function<PJRT_Client_Destroy_Args>,
    pub PJRT_Client_PlatformName: Function<PJRT_Client_PlatformName_Args>,
    pub PJRT_Client_ProcessIndex: Unused,
    pub PJRT_Client_PlatformVersion: Function<PJRT_Client_PlatformVersion_Args>,
    pub PJRT_Client_Devices: Function<PJRT_Client_Devices_Args>,
    pub PJRT_Client_AddressableDevices: Function<PJRT_Client_AddressableDevices_Args>,
    pub PJRT_Client_LookupDevice: Unused,
    pub PJRT_Client_LookupAddressableDevice: Unused,
    pub PJRT_Client_AddressableMemories: Unused,
    pub PJRT_Client_Compile: Function<PJRT_Client_Compile_Args>,
    pub PJRT_Client_DefaultDeviceAssignment: Unused,
    pub PJRT_Client_BufferFromHostBuffer: Function<PJRT_Client_BufferFromHostBuffer_Args>,
    pub PJRT_DeviceDescription_Id: Function<PJRT_DeviceDescription_Id_Args>,
    pub PJRT_DeviceDescription_ProcessIndex: Unused,
    pub PJRT_DeviceDescription_Attributes: Function<PJRT_DeviceDescription_Attributes_Args>,
    pub PJRT_DeviceDescription_Kind: Function<PJRT_DeviceDescription_Kind_Args>,
    pub PJRT_DeviceDescription_DebugString: Function<PJRT_DeviceDescription_DebugString_Args>,
    pub PJRT_DeviceDescription_ToString: Function<PJRT_DeviceDescription_ToString_Args>,
    pub PJRT_Device_GetDescription: Function<PJRT_Device_GetDescription_Args>,
    pub PJRT_Device_IsAddressable: Function<PJRT_Device_IsAddressable_Args>,
    pub PJRT_Device_LocalHardwareId: Function<PJRT_Device_LocalHardwareId_Args>,
    pub PJRT_Device_AddressableMemories: Unused,
    pub PJRT_Device_DefaultMemory: Unused,
    pub PJRT_Device_MemoryStats: Function<PJRT_Device_MemoryStats_Args>,
    pub PJRT_Memory_Id: Unused,
    pub PJRT_Memory_Kind: Unused,
    pub PJRT_Memory_DebugString: Unused,
    pub PJRT_Memory_ToString: Unused,
    pub PJRT_Memory_AddressableByDevices: Unused,
    pub PJRT_Executable_Destroy: Function<PJRT_Executable_Destroy_Args>,
    pub PJRT_Executable_Name: Function<PJRT_Executable_Name_Args>,
    pub PJRT_Executable_NumReplicas: Function<PJRT_Executable_NumReplicas_Args>,
    pub PJRT_Executable_NumPartitions: Function<PJRT_Executable_NumPartitions_Args>,
    pub PJRT_Executable_NumOutputs: Function<PJRT_Executable_NumOutputs_Args>,
    pub PJRT_Executable_SizeOfGeneratedCodeInBytes: Function<PJRT_Executable_SizeOfGeneratedCodeInBytes_Args>,
    pub PJRT_Executable_GetCostAnalysis: Function<PJRT_Executable_GetCostAnalysis_Args>,
    pub PJRT_Executable_OutputMemoryKinds: Unused,
    pub PJRT_Executable_OptimizedProgram: Function<PJRT_Executable_OptimizedProgram_Args>,
    pub PJRT_Executable_Serialize: Function<PJRT_Executable_Serialize_Args>,
    pub PJRT_LoadedExecutable_Destroy: Function<PJRT_LoadedExecutable_Destroy_Args>,
    pub PJRT_LoadedExecutable_GetExecutable: Function<PJRT_LoadedExecutable_GetExecutable_Args>,
    pub PJRT_LoadedExecutable_AddressableDevices: Function<PJRT_LoadedExecutable_AddressableDevices_Args>,
    pub PJRT_LoadedExecutable_Delete: Function<PJRT_LoadedExecutable_Delete_Args>,
    pub PJRT_LoadedExecutable_IsDeleted: Function<PJRT_LoadedExecutable_IsDeleted_Args>,
    pub PJRT_LoadedExecutable_Execute: Function<PJRT_LoadedExecutable_Execute_Args>,
    pub PJRT_Executable_DeserializeAndLoad: Function<PJRT_Executable_DeserializeAndLoad_Args>,
    pub PJRT_LoadedExecutable_Fingerprint: Unused,
    pub PJRT_Buffer_Destroy: Function<PJRT_Buffer_Destroy_Args>,
    pub PJRT_Buffer_ElementType: Function<PJRT_Buffer_ElementType_Args>,
    pub PJRT_Buffer_Dimensions: Function<PJRT_Buffer_Dimensions_Args>,
    pub PJRT_Buffer_UnpaddedDimensions: Unused,
    pub PJRT_Buffer_DynamicDimensionIndices: Unused,
    pub PJRT_Buffer_GetMemoryLayout: Function<PJRT_Buffer_GetMemoryLayout_Args>,
    pub PJRT_Buffer_OnDeviceSizeInBytes: Function<PJRT_Buffer_OnDeviceSizeInBytes_Args>,
    pub PJRT_Buffer_Device: Unused,
    pub PJRT_Buffer_Memory: Unused,
    pub PJRT_Buffer_Delete: Function<PJRT_Buffer_Delete_Args>,
    pub PJRT_Buffer_IsDeleted: Function<PJRT_Buffer_IsDeleted_Args>,
    pub PJRT_Buffer_CopyToDevice: Unused,
    pub PJRT_Buffer_ToHostBuffer: Function<PJRT_Buffer_ToHostBuffer_Args>,
    pub PJRT_Buffer_IsOnCpu: Unused,
    pub PJRT_Buffer_ReadyEvent: Function<PJRT_Buffer_ReadyEvent_Args>,
    pub PJRT_Buffer_UnsafePointer: Function<PJRT_Buffer_UnsafePointer_Args>,
    pub PJRT_Buffer_IncreaseExternalReferenceCount: Unused,
    pub PJRT_Buffer_DecreaseExternalReferenceCount: Unused,
    pub PJRT_Buffer_OpaqueDeviceMemoryDataPointer: Unused,
    pub PJRT_CopyToDeviceStream_Destroy: Unused,
    pub PJRT_CopyToDeviceStream_AddChunk: Unused,
    pub PJRT_CopyToDeviceStream_TotalBytes: Unused,
    pub PJRT_CopyToDeviceStream_GranuleSize: Unused,
    pub PJRT_CopyToDeviceStream_CurrentBytes: Unused,
    pub PJRT_TopologyDescription_Create: Function<PJRT_TopologyDescription_Create_Args>,
    pub PJRT_TopologyDescription_Destroy: Function<PJRT_TopologyDescription_Destroy_Args>,
    pub PJRT_TopologyDescription_PlatformName: Function<PJRT_TopologyDescription_PlatformName_Args>,
    pub PJRT_TopologyDescription_PlatformVersion: Function<PJRT_TopologyDescription_PlatformVersion_Args>,
    pub PJRT_TopologyDescription_GetDeviceDescriptions:
        Function<PJRT_TopologyDescription_GetDeviceDescriptions_Args>,
    pub PJRT_TopologyDescription_Serialize: Function<PJRT_TopologyDescription_Serialize_Args>,
    pub PJRT_TopologyDescription_Attributes: Function<PJRT_TopologyDescription_Attributes_Args>,
    pub PJRT_Compile: Function<PJRT_Compile_Args>,
    pub PJRT_Executable_OutputElementTypes: Function<PJRT_Executable_OutputElementTypes_Args>,
    pub PJRT_Executable_OutputDimensions: Function<PJRT_Executable_OutputDimensions_Args>,
    pub PJRT_Buffer_CopyToMemory: Unused,
    pub PJRT_Client_CreateViewOfDeviceBuffer: Unused,
    pub PJRT_Executable_Fingerprint: Function<PJRT_Executable_Fingerprint_Args>,
    pub PJRT_Client_TopologyDescription: Function<PJRT_Client_TopologyDescription_Args>,
    pub PJRT_Executable_GetCompiledMemoryStats: Function<PJRT_Executable_GetCompiledMemoryStats_Args>,
}
