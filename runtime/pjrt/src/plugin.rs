//! Plugins: shared libraries that export `GetPjrtApi`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;
use tpud_pjrt_sys as sys;

use crate::api::Api;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::identity::PluginIdentity;
use crate::named_value::{self, NamedValue};
use crate::topology::Topology;

/// The first minor version whose table has every function that is called here.
const MINIMUM_MINOR: i32 = 54;

/// A loaded and initialised plugin; a cheap handle. Plugins are never unloaded: their threads outlive every client.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    path: PathBuf,
    api: Api,
    version: (i32, i32),
    attributes: BTreeMap<String, NamedValue>,
}

/// Plugins of this process by canonical path: initialising a plugin twice is undefined.
static LOADED: Mutex<Vec<Plugin>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads the library, or returns the handle of one that is already loaded from the same file.
    ///
    /// A plugin's environment variables (see [`crate::platform::tpu::environment`]) must be set before this.
    pub fn load(path: &Path) -> Result<Self> {
        let canonical = path
            .canonicalize()
            .map_err(|error| Error::Load { path: path.to_owned(), message: error.to_string() })?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.iter().find(|plugin| plugin.0.path == canonical) {
            return Ok(plugin.clone());
        }
        let plugin = Self::open(canonical)?;
        loaded.push(plugin.clone());
        Ok(plugin)
    }

    fn open(path: PathBuf) -> Result<Self> {
        // SAFETY: running the library's constructors is what loading a plugin means; its path comes from the
        // operator's configuration, never from a client.
        let library = unsafe { Library::new(&path) }
            .map_err(|error| Error::Load { path: path.clone(), message: error.to_string() })?;
        // SAFETY: the type is the one that the API defines for this symbol.
        let get_api =
            unsafe { library.get::<unsafe extern "C" fn() -> *const sys::PJRT_Api>(b"GetPjrtApi\0") }
                .map(|symbol| *symbol)
                .map_err(|_| Error::MissingSymbol { path: path.clone(), symbol: "GetPjrtApi" })?;
        // Leaked on purpose, also when the plugin turns out not to fit: unloading is not safe.
        std::mem::forget(library);
        // SAFETY: returns a pointer to a static table of a library that stays loaded.
        let table = unsafe { get_api() };
        let version = check_version(&path, table)?;
        // SAFETY: checked: not null, and as long as our declaration.
        let api = Api::new(unsafe { &*table });
        let mut initialize = sys::Padded::<sys::PJRT_Plugin_Initialize_Args>::new();
        // SAFETY: no pointers; called once per library, under the lock of `LOADED`.
        unsafe { call!(api, PJRT_Plugin_Initialize, initialize) }?;
        let attributes = attributes(api)?;
        Ok(Self(Arc::new(Inner { path, api, version, attributes })))
    }

    /// The library's canonical path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Major and minor version of the API that the plugin speaks.
    #[must_use]
    pub fn api_version(&self) -> (i32, i32) {
        self.0.version
    }

    /// What the plugin says of itself, e.g. `xla_version`, `stablehlo_current_version`.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, NamedValue> {
        &self.0.attributes
    }

    /// Name, version and content of the plugin: a component of cache keys.
    pub fn identity(&self) -> Result<PluginIdentity> {
        PluginIdentity::of(&self.0.path, self.0.version)
    }

    /// Opens the platform's devices.
    pub fn create_client(&self, options: &[(String, NamedValue)]) -> Result<Client> {
        Client::create(self.clone(), options)
    }

    /// Describes devices that need not be present, to compile for them. The name's syntax is the plugin's.
    pub fn topology(&self, name: &str, options: &[(String, NamedValue)]) -> Result<Topology> {
        Topology::create(self.clone(), name, options)
    }

    pub(crate) fn api(&self) -> Api {
        self.0.api
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.0.version;
        write!(f, "Plugin({}, PJRT API {major}.{minor})", self.0.path.display())
    }
}

/// Reads no more of the table than a plugin of any version has, until its size is known.
fn check_version(path: &Path, table: *const sys::PJRT_Api) -> Result<(i32, i32)> {
    if table.is_null() {
        return Err(Error::BrokenContract { call: "GetPjrtApi", what: "a null pointer".to_owned() });
    }
    // SAFETY: not null; every version of the table begins with its size and its version.
    let (size, found) = unsafe {
        let version = &(*table).pjrt_api_version;
        ((*table).struct_size, (version.major_version, version.minor_version))
    };
    if found.0 != 0 || found.1 < MINIMUM_MINOR || size < size_of::<sys::PJRT_Api>() {
        return Err(Error::IncompatiblePlugin { path: path.to_owned(), found, minimum: MINIMUM_MINOR });
    }
    Ok(found)
}

fn attributes(api: Api) -> Result<BTreeMap<String, NamedValue>> {
    let mut args = sys::Padded::<sys::PJRT_Plugin_Attributes_Args>::new();
    // SAFETY: no pointers in; the attributes live as long as the plugin.
    unsafe {
        call!(api, PJRT_Plugin_Attributes, args)?;
        Ok(named_value::from_raw(args.attributes, args.num_attributes))
    }
}
