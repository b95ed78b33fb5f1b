//! Topologies: devices and their links, which need not be present.

use std::fmt;
use std::ptr::NonNull;

use tpud_pjrt_sys as sys;

use crate::api;
use crate::compile::{CompileOptions, Program};
use crate::device::DeviceDescription;
use crate::error::Result;
use crate::executable::Executable;
use crate::named_value::{self, NamedValue};
use crate::plugin::Plugin;

/// A set of devices to compile for.
pub struct Topology {
    plugin: Plugin,
    raw: NonNull<sys::PJRT_TopologyDescription>,
    name: String,
}

// SAFETY: the API requires topologies to be usable from any thread.
unsafe impl Send for Topology {}
// SAFETY: as above.
unsafe impl Sync for Topology {}

impl Topology {
    pub(crate) fn create(plugin: Plugin, name: &str, options: &[(String, NamedValue)]) -> Result<Self> {
        let raw_options = named_value::to_raw(options);
        let mut args = sys::Padded::<sys::PJRT_TopologyDescription_Create_Args>::new();
        args.topology_name = name.as_ptr().cast();
        args.topology_name_size = name.len();
        args.create_options = raw_options.as_ptr();
        args.num_options = raw_options.len();
        // SAFETY: name and options outlive the call.
        unsafe { call!(plugin.api(), PJRT_TopologyDescription_Create, args) }?;
        let raw = api::non_null("PJRT_TopologyDescription_Create", args.topology)?;
        Ok(Self { plugin, raw, name: name.to_owned() })
    }

    /// The name it was asked for by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plugin that described it.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Its devices.
    pub fn devices(&self) -> Result<Vec<DeviceDescription>> {
        let api = self.plugin.api();
        let mut args = sys::Padded::<sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args>::new();
        args.topology = self.raw.as_ptr();
        // SAFETY: the topology is alive, and so are its descriptions as long as it is.
        unsafe {
            call!(api, PJRT_TopologyDescription_GetDeviceDescriptions, args)?;
            let descriptions = api::slice(args.descriptions, args.num_descriptions);
            descriptions.iter().map(|&raw| DeviceDescription::read(api, raw)).collect()
        }
    }

    /// The platform's name and the plugin's description of its version.
    pub fn platform(&self) -> Result<(String, String)> {
        let api = self.plugin.api();
        let mut name = sys::Padded::<sys::PJRT_TopologyDescription_PlatformName_Args>::new();
        name.topology = self.raw.as_ptr();
        let mut version = sys::Padded::<sys::PJRT_TopologyDescription_PlatformVersion_Args>::new();
        version.topology = self.raw.as_ptr();
        // SAFETY: the topology is alive, and so are its texts.
        unsafe {
            call!(api, PJRT_TopologyDescription_PlatformName, name)?;
            call!(api, PJRT_TopologyDescription_PlatformVersion, version)?;
            Ok((
                api::text(name.platform_name, name.platform_name_size),
                api::text(version.platform_version, version.platform_version_size),
            ))
        }
    }

    /// Compiles a program ahead of time: no client and no device.
    pub fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<Executable> {
        let options = options.encode();
        let mut raw_program = program.to_raw();
        let mut args = sys::Padded::<sys::PJRT_Compile_Args>::new();
        args.topology = self.raw.as_ptr();
        args.program = raw_program.as_mut_ptr();
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        // SAFETY: topology, program and options outlive the call, which does not write to the code; a null client
        // means ahead of time.
        unsafe { call!(self.plugin.api(), PJRT_Compile, args) }?;
        Ok(Executable::new(self.plugin.clone(), None, api::non_null("PJRT_Compile", args.executable)?))
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let mut args = sys::Padded::<sys::PJRT_TopologyDescription_Destroy_Args>::new();
        args.topology = self.raw.as_ptr();
        // SAFETY: the last use; executables do not refer to their topology.
        let _ = unsafe { call!(self.plugin.api(), PJRT_TopologyDescription_Destroy, args) };
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology({})", self.name)
    }
}
