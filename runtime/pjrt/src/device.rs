//! Devices and their descriptions.

use std::collections::BTreeMap;
use std::fmt;

use tpud_pjrt_sys as sys;

use crate::api::{self, Api};
use crate::client::Client;
use crate::error::{Code, Error, Result};
use crate::named_value::{self, NamedValue};

/// A device of a client.
#[derive(Clone)]
pub struct Device {
    client: Client,
    raw: *mut sys::PJRT_Device,
    description: DeviceDescription,
}

// SAFETY: the device belongs to the client, which lives as long as its handle; devices are usable from any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What a plugin says of a device, present or not.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDescription {
    /// Unique in the platform.
    pub id: i32,
    /// The model, e.g. "TPU v6 lite".
    pub kind: String,
    /// For people, e.g. "CpuDevice(id=0)".
    pub text: String,
    /// E.g. `coords`, `core_on_chip`.
    pub attributes: BTreeMap<String, NamedValue>,
}

/// Memory of a device, as its allocator counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes allocated now.
    pub in_use: u64,
    /// The largest `in_use` so far.
    pub peak: Option<u64>,
    /// What the allocator may hand out at most.
    pub limit: Option<u64>,
}

impl Device {
    pub(crate) fn new(client: Client, raw: *mut sys::PJRT_Device) -> Result<Self> {
        let mut args = sys::Padded::<sys::PJRT_Device_GetDescription_Args>::new();
        args.device = raw;
        // SAFETY: the device belongs to the client; its description lives as long.
        let description = unsafe {
            call!(client.api(), PJRT_Device_GetDescription, args)?;
            DeviceDescription::read(client.api(), args.device_description)?
        };
        Ok(Self { client, raw, description })
    }

    /// The client that it belongs to.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What the plugin says of it.
    #[must_use]
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// The allocator's counters; none where the plugin has none (the CPU).
    pub fn memory(&self) -> Result<Option<DeviceMemory>> {
        let mut args = sys::Padded::<sys::PJRT_Device_MemoryStats_Args>::new();
        args.device = self.raw;
        // SAFETY: the device is alive.
        match unsafe { call!(self.client.api(), PJRT_Device_MemoryStats, args) } {
            Ok(()) => {}
            Err(Error::Plugin { code: Code::Unimplemented, .. } | Error::MissingFunction { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let count = |set: bool, value: i64| if set { u64::try_from(value).ok() } else { None };
        Ok(Some(DeviceMemory {
            in_use: u64::try_from(args.bytes_in_use).unwrap_or(0),
            peak: count(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
            limit: count(args.bytes_limit_is_set, args.bytes_limit),
        }))
    }

    pub(crate) fn raw(&self) -> *mut sys::PJRT_Device {
        self.raw
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {:?})", self.description.kind, self.description.text)
    }
}

impl DeviceDescription {
    /// The memory that programs may use, where the plugin says it; libtpu does, with what it keeps for itself taken
    /// off (31.2 of a v6e's 32 GiB), for devices that are not present too.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        match self.attributes.get("device_memory_bytes_limit") {
            Some(NamedValue::Integer(bytes)) => u64::try_from(*bytes).ok(),
            _ => None,
        }
    }

    /// # Safety
    /// `raw` must be a description of `api`'s plugin whose owner is alive.
    pub(crate) unsafe fn read(api: Api, raw: *mut sys::PJRT_DeviceDescription) -> Result<Self> {
        let mut id = sys::Padded::<sys::PJRT_DeviceDescription_Id_Args>::new();
        id.device_description = raw;
        let mut kind = sys::Padded::<sys::PJRT_DeviceDescription_Kind_Args>::new();
        kind.device_description = raw;
        let mut text = sys::Padded::<sys::PJRT_DeviceDescription_ToString_Args>::new();
        text.device_description = raw;
        let mut attributes = sys::Padded::<sys::PJRT_DeviceDescription_Attributes_Args>::new();
        attributes.device_description = raw;
        // SAFETY: the description is alive by contract, and what it returns lives as long.
        unsafe {
            call!(api, PJRT_DeviceDescription_Id, id)?;
            call!(api, PJRT_DeviceDescription_Kind, kind)?;
            call!(api, PJRT_DeviceDescription_ToString, text)?;
            call!(api, PJRT_DeviceDescription_Attributes, attributes)?;
            Ok(Self {
                id: id.id,
                kind: api::text(kind.device_kind, kind.device_kind_size),
                text: api::text(text.to_string, text.to_string_size),
                attributes: named_value::from_raw(attributes.attributes, attributes.num_attributes),
            })
        }
    }
}
