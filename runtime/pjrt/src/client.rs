//! Clients: the devices of one platform, opened by this process.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use tpud_pjrt_sys as sys;

use crate::api::{self, Api};
use crate::compile::{CompileOptions, Program};
use crate::device::Device;
use crate::error::{Code, Error, Result};
use crate::loaded_executable::LoadedExecutable;
use crate::named_value::{self, NamedValue};
use crate::plugin::Plugin;

/// The devices of one platform; a cheap handle. The client closes when the last handle, buffer and executable of it
/// is gone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    plugin: Plugin,
    raw: NonNull<sys::PJRT_Client>,
    platform_name: String,
    platform_version: String,
}

// SAFETY: the API requires clients to be usable from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Client {
    pub(crate) fn create(plugin: Plugin, options: &[(String, NamedValue)]) -> Result<Self> {
        let raw_options = named_value::to_raw(options);
        let mut args = sys::Padded::<sys::PJRT_Client_Create_Args>::new();
        args.create_options = raw_options.as_ptr();
        args.num_options = raw_options.len();
        // SAFETY: the options outlive the call.
        unsafe { call!(plugin.api(), PJRT_Client_Create, args) }?;
        let raw = api::non_null("PJRT_Client_Create", args.client)?;
        let mut inner = Inner { plugin, raw, platform_name: String::new(), platform_version: String::new() };
        (inner.platform_name, inner.platform_version) = inner.platform()?;
        Ok(Self(Arc::new(inner)))
    }

    /// The plugin that made this client.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }

    /// "cpu", "tpu" or what the plugin calls itself.
    #[must_use]
    pub fn platform_name(&self) -> &str {
        &self.0.platform_name
    }

    /// The plugin's description of its version.
    #[must_use]
    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// The devices that this process can use.
    pub fn devices(&self) -> Result<Vec<Device>> {
        let mut args = sys::Padded::<sys::PJRT_Client_AddressableDevices_Args>::new();
        args.client = self.raw();
        // SAFETY: the client is alive, and so are its devices as long as it is.
        let devices = unsafe {
            call!(self.api(), PJRT_Client_AddressableDevices, args)?;
            api::slice(args.addressable_devices, args.num_addressable_devices)
        };
        devices.iter().map(|&device| Device::new(self.clone(), device)).collect()
    }

    /// The first device.
    pub fn first_device(&self) -> Result<Device> {
        self.devices()?.into_iter().next().ok_or_else(|| Error::BrokenContract {
            call: "PJRT_Client_AddressableDevices",
            what: "no device".to_owned(),
        })
    }

    /// Compiles a program and loads it on the devices that the options assign.
    pub fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<LoadedExecutable> {
        let options = options.encode();
        let mut raw_program = program.to_raw();
        let mut args = sys::Padded::<sys::PJRT_Client_Compile_Args>::new();
        args.client = self.raw();
        args.program = raw_program.as_mut_ptr();
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        // SAFETY: program and options outlive the call, which does not write to the code.
        unsafe { call!(self.api(), PJRT_Client_Compile, args) }?;
        LoadedExecutable::new(self.clone(), api::non_null("PJRT_Client_Compile", args.executable)?)
    }

    /// Loads an executable that [`crate::Executable::serialize`] gave, by the same build of the same plugin.
    ///
    /// Plugins read these bytes as trusted code: a caller must know that they are what was once serialised. Bytes
    /// that are evidently something else are refused.
    pub fn deserialize(&self, executable: &[u8]) -> Result<LoadedExecutable> {
        if executable.is_empty() {
            return Err(Error::BadExecutable { reason: "it is empty".to_owned() });
        }
        let mut args = sys::Padded::<sys::PJRT_Executable_DeserializeAndLoad_Args>::new();
        args.client = self.raw();
        args.serialized_executable = executable.as_ptr().cast();
        args.serialized_executable_size = executable.len();
        // SAFETY: the bytes outlive the call; null options mean those in the executable.
        unsafe { call!(self.api(), PJRT_Executable_DeserializeAndLoad, args) }.map_err(bad_executable)?;
        let raw = api::non_null("PJRT_Executable_DeserializeAndLoad", args.loaded_executable)?;
        LoadedExecutable::new(self.clone(), raw)
    }

    /// Whether device memory is host memory.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.0.platform_name == "cpu"
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn api(&self) -> Api {
        self.0.plugin.api()
    }

    pub(crate) fn raw(&self) -> *mut sys::PJRT_Client {
        self.0.raw.as_ptr()
    }
}

/// Plugins answer INVALID_ARGUMENT or INTERNAL to bytes that they cannot read.
fn bad_executable(error: Error) -> Error {
    match error {
        Error::Plugin { code: Code::InvalidArgument | Code::Internal, message, .. } => {
            Error::BadExecutable { reason: message }
        }
        other => other,
    }
}

impl Inner {
    fn platform(&self) -> Result<(String, String)> {
        let api = self.plugin.api();
        let mut name = sys::Padded::<sys::PJRT_Client_PlatformName_Args>::new();
        name.client = self.raw.as_ptr();
        let mut version = sys::Padded::<sys::PJRT_Client_PlatformVersion_Args>::new();
        version.client = self.raw.as_ptr();
        // SAFETY: the client is alive, and so are its texts.
        unsafe {
            call!(api, PJRT_Client_PlatformName, name)?;
            call!(api, PJRT_Client_PlatformVersion, version)?;
            Ok((
                api::text(name.platform_name, name.platform_name_size),
                api::text(version.platform_version, version.platform_version_size),
            ))
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut args = sys::Padded::<sys::PJRT_Client_Destroy_Args>::new();
        args.client = self.raw.as_ptr();
        // SAFETY: everything made by the client holds a handle of it, so this is the last use. An error while
        // closing leaves nothing to do.
        let _ = unsafe { call!(self.plugin.api(), PJRT_Client_Destroy, args) };
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {:?})", self.0.platform_name, self.0.plugin)
    }
}
