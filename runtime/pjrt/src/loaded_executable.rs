//! Loaded executables: compiled and on devices.

use std::fmt;
use std::ptr::NonNull;
use std::sync::RwLockWriteGuard;

use tpud_pjrt_sys as sys;

use crate::api::{self, Api};
use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::executable::Executable;
use crate::hlo::Signature;

/// An executable that can be executed.
pub struct LoadedExecutable {
    client: Client,
    raw: NonNull<sys::PJRT_LoadedExecutable>,
    executable: Executable,
    signature: Signature,
}

// SAFETY: the API requires loaded executables to be usable from any thread.
unsafe impl Send for LoadedExecutable {}
// SAFETY: as above.
unsafe impl Sync for LoadedExecutable {}

/// Owns the raw handle until the rest is known to be fine.
struct Guard<'a>(&'a Client, NonNull<sys::PJRT_LoadedExecutable>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        destroy(self.0.api(), self.1);
    }
}

impl LoadedExecutable {
    pub(crate) fn new(client: Client, raw: NonNull<sys::PJRT_LoadedExecutable>) -> Result<Self> {
        let guard = Guard(&client, raw);
        let mut args = sys::Padded::<sys::PJRT_LoadedExecutable_GetExecutable_Args>::new();
        args.loaded_executable = raw.as_ptr();
        // SAFETY: the loaded executable is alive.
        unsafe { call!(client.api(), PJRT_LoadedExecutable_GetExecutable, args) }?;
        let shared = api::non_null("PJRT_LoadedExecutable_GetExecutable", args.executable)?;
        let executable = Executable::new(client.plugin().clone(), Some(client.clone()), shared);
        let signature = executable.signature()?;
        std::mem::forget(guard);
        Ok(Self { client, raw, executable, signature })
    }

    /// The executable without its devices: to serialise it, or to look into it.
    #[must_use]
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The client that it is loaded on.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Inputs, outputs and aliases.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Executes on one device; returns before the device is done, where the plugin is asynchronous.
    ///
    /// `donate[i]` gives the memory of input `i` to the output that aliases it, after which the input is deleted;
    /// an empty slice donates nothing. Inputs are checked here, because plugins abort on some mismatches.
    pub fn execute(&self, inputs: &[&Buffer], donate: &[bool]) -> Result<Vec<Buffer>> {
        self.check(inputs, donate)?;
        let aliased = self.signature.aliases.iter().map(|alias| alias.input);
        let (given, kept): (Vec<usize>, Vec<usize>) =
            aliased.partition(|&input| donate.get(input).copied().unwrap_or(false));
        let _exclusive = lock_donated(inputs, &given);
        let non_donatable: Vec<i64> = kept.iter().map(|&input| input as i64).collect();
        let mut options = sys::Padded::<sys::PJRT_ExecuteOptions>::new();
        options.non_donatable_input_indices = non_donatable.as_ptr();
        options.num_non_donatable_input_indices = non_donatable.len();

        let arguments: Vec<_> = inputs.iter().map(|buffer| buffer.raw()).collect();
        let mut outputs = vec![std::ptr::null_mut(); self.signature.outputs.len()];
        let argument_lists = [arguments.as_ptr()];
        let output_lists = [outputs.as_mut_ptr()];
        let mut args = sys::Padded::<sys::PJRT_LoadedExecutable_Execute_Args>::new();
        args.executable = self.raw.as_ptr();
        args.options = options.as_mut_ptr();
        args.argument_lists = argument_lists.as_ptr();
        args.num_devices = 1;
        args.num_args = arguments.len();
        args.output_lists = output_lists.as_ptr();
        // SAFETY: everything pointed to outlives the call; the lists are as long as the executable's inputs and
        // outputs; the inputs are alive and of this client.
        unsafe { call!(self.client.api(), PJRT_LoadedExecutable_Execute, args) }?;
        self.adopt(&outputs)
    }

    fn check(&self, inputs: &[&Buffer], donate: &[bool]) -> Result<()> {
        let expected = &self.signature.inputs;
        let arity = |actual| Error::WrongArity { expected: expected.len(), actual };
        if inputs.len() != expected.len() {
            return Err(arity(inputs.len()));
        }
        if !donate.is_empty() && donate.len() != expected.len() {
            return Err(arity(donate.len()));
        }
        for (index, (buffer, expected)) in inputs.iter().zip(expected).enumerate() {
            if buffer.tensor_type() != expected {
                let actual = buffer.tensor_type().clone();
                return Err(Error::WrongInput { index, expected: expected.clone(), actual });
            }
            if !buffer.client().same_as(&self.client) {
                return Err(Error::ForeignBuffer { index });
            }
        }
        Ok(())
    }

    /// Takes over every output before looking at any, so that none leaks.
    fn adopt(&self, outputs: &[*mut sys::PJRT_Buffer]) -> Result<Vec<Buffer>> {
        let types = &self.signature.outputs;
        let adopted: Vec<_> = outputs
            .iter()
            .zip(types)
            // SAFETY: null or a buffer that the execution made for us.
            .map(|(&raw, kind)| unsafe {
                Buffer::adopt("PJRT_LoadedExecutable_Execute", &self.client, raw, kind)
            })
            .collect();
        adopted.into_iter().collect()
    }
}

/// In the order of addresses, each once: two threads that donate the same buffers must not wait for each other.
fn lock_donated<'a>(inputs: &[&'a Buffer], given: &[usize]) -> Vec<RwLockWriteGuard<'a, ()>> {
    let mut buffers: Vec<&'a Buffer> = given.iter().filter_map(|&input| inputs.get(input).copied()).collect();
    buffers.sort_by_key(|&buffer| std::ptr::from_ref(buffer));
    buffers.dedup_by_key(|buffer| std::ptr::from_ref(*buffer));
    buffers.into_iter().map(Buffer::lock_to_give_away).collect()
}

fn destroy(api: Api, raw: NonNull<sys::PJRT_LoadedExecutable>) {
    let mut args = sys::Padded::<sys::PJRT_LoadedExecutable_Destroy_Args>::new();
    args.executable = raw.as_ptr();
    // SAFETY: the last use; executions under way keep what they need.
    let _ = unsafe { call!(api, PJRT_LoadedExecutable_Destroy, args) };
}

impl Drop for LoadedExecutable {
    fn drop(&mut self) {
        destroy(self.client.api(), self.raw);
    }
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadedExecutable({:?})", self.signature)
    }
}
