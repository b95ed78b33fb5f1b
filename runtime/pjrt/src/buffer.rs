//! Buffers: device memory with a type.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use tpud_pjrt_sys as sys;

use crate::api::{self, Api};
use crate::client::Client;
use crate::device::Device;
use crate::element_type::TensorType;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::host_memory::AlignedBytes;

/// A tensor on a device; its content may still be on the way.
pub struct Buffer {
    client: Client,
    raw: NonNull<sys::PJRT_Buffer>,
    kind: TensorType,
    bytes: usize,
    /// Shared while the device memory is read in place; exclusive while it is given away.
    in_place: RwLock<()>,
}

// SAFETY: the API requires buffers to be usable from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Gives host memory to a device. On a host platform nothing is copied: the buffer *is* `data`, which is freed
    /// when the plugin has no more use for it. Elsewhere it is freed when the transfer is complete.
    pub fn from_host(device: &Device, kind: TensorType, data: AlignedBytes) -> Result<Self> {
        let semantics = if device.client().is_host() {
            sys::PJRT_HostBufferSemantics_kImmutableZeroCopy
        } else {
            sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes
        };
        let data = Arc::new(data);
        // SAFETY: a reference to `data` lives until the plugin says that it is done with it.
        let (buffer, done) = unsafe { Self::upload(device, kind, &data, semantics) }?;
        let held = Arc::clone(&data);
        if let Err(error) = done.on_ready(move |_| drop(held)) {
            // Nobody will say when the plugin is done with it: leaking is the only safe thing.
            std::mem::forget(data);
            return Err(error);
        }
        Ok(buffer)
    }

    /// Copies host memory to a device; `data` is free to change on return.
    pub fn copy_from_host(device: &Device, kind: TensorType, data: &[u8]) -> Result<Self> {
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        // SAFETY: `data` outlives the call.
        Ok(unsafe { Self::upload(device, kind, data, semantics) }?.0)
    }

    /// # Safety
    /// `data` must live and not change for as long as `semantics` says.
    unsafe fn upload(
        device: &Device,
        kind: TensorType,
        data: &[u8],
        semantics: sys::PJRT_HostBufferSemantics,
    ) -> Result<(Self, Event)> {
        check_length("the data", &kind, data.len())?;
        let client = device.client();
        let mut args = sys::Padded::<sys::PJRT_Client_BufferFromHostBuffer_Args>::new();
        args.client = client.raw();
        args.data = data.as_ptr().cast();
        args.r#type = kind.element_type.raw();
        args.dims = kind.dims.as_ptr();
        args.num_dims = kind.dims.len();
        args.host_buffer_semantics = semantics;
        args.device = device.raw();
        // SAFETY: `data` has the length of the dense tensor, and lives by contract; no strides mean dense.
        unsafe { call!(client.api(), PJRT_Client_BufferFromHostBuffer, args) }?;
        let call = "PJRT_Client_BufferFromHostBuffer";
        // SAFETY: both were made for us by this call.
        let (buffer, done) = unsafe {
            (
                Self::adopt(call, client, args.buffer, &kind),
                Event::new(client.plugin().clone(), call, args.done_with_host_buffer),
            )
        };
        Ok((buffer?, done?))
    }

    /// Takes over a buffer.
    ///
    /// # Safety
    /// `raw` must be null or a buffer of `client`, of type `kind`, that nobody else owns.
    pub(crate) unsafe fn adopt(
        call: &'static str,
        client: &Client,
        raw: *mut sys::PJRT_Buffer,
        kind: &TensorType,
    ) -> Result<Self> {
        let raw = api::non_null(call, raw)?;
        Ok(Self {
            client: client.clone(),
            raw,
            kind: kind.clone(),
            bytes: kind.bytes()?,
            in_place: RwLock::new(()),
        })
    }

    /// Element type and sizes.
    #[must_use]
    pub fn tensor_type(&self) -> &TensorType {
        &self.kind
    }

    /// The client whose device it is on.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Bytes of the dense tensor on the host.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes on the device, with its padding.
    pub fn device_bytes(&self) -> Result<usize> {
        let mut args = sys::Padded::<sys::PJRT_Buffer_OnDeviceSizeInBytes_Args>::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { call!(self.api(), PJRT_Buffer_OnDeviceSizeInBytes, args) }?;
        Ok(args.on_device_size_in_bytes)
    }

    /// Becomes ready when the content is there, or with the error that keeps it from coming.
    pub fn ready_event(&self) -> Result<Event> {
        let mut args = sys::Padded::<sys::PJRT_Buffer_ReadyEvent_Args>::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive; the event is ours.
        unsafe {
            call!(self.api(), PJRT_Buffer_ReadyEvent, args)?;
            Event::new(self.client.plugin().clone(), "PJRT_Buffer_ReadyEvent", args.event)
        }
    }

    /// Blocks until the content is there.
    pub fn wait_ready(&self) -> Result<()> {
        self.ready_event()?.wait()
    }

    /// Waits for the content and copies it, dense and row-major whatever the device's layout. `destination` must
    /// have the length of [`Buffer::bytes`].
    pub fn read_into(&self, destination: &mut [u8]) -> Result<()> {
        check_length("the destination", &self.kind, destination.len())?;
        if destination.is_empty() {
            return self.wait_ready();
        }
        if self.client.is_host() && self.read_in_place(destination)? {
            return Ok(());
        }
        self.transfer_into(destination)
    }

    /// Host platforms: copies from the device's memory directly, where a transfer would go through another thread
    /// and cost ten times as much for a small tensor. Answers false when the layout is not the one asked for.
    fn read_in_place(&self, destination: &mut [u8]) -> Result<bool> {
        self.wait_ready()?;
        let _shared = self.in_place.read().unwrap_or_else(PoisonError::into_inner);
        if !self.is_row_major()? {
            return Ok(false);
        }
        let mut args = sys::Padded::<sys::PJRT_Buffer_UnsafePointer_Args>::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { call!(self.api(), PJRT_Buffer_UnsafePointer, args) }?;
        let source = args.buffer_pointer as *const u8;
        if source.is_null() {
            return Ok(false);
        }
        // SAFETY: the device's memory is host memory, holds the dense tensor in the order asked for, and is ready.
        // It is freed or reused only by destroying, deleting or donating the buffer, which wait for `in_place`.
        unsafe { std::ptr::copy_nonoverlapping(source, destination.as_mut_ptr(), destination.len()) };
        Ok(true)
    }

    fn is_row_major(&self) -> Result<bool> {
        let mut args = sys::Padded::<sys::PJRT_Buffer_GetMemoryLayout_Args>::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive, and so is its layout as long as it is.
        let order = unsafe {
            call!(self.api(), PJRT_Buffer_GetMemoryLayout, args)?;
            let tiled = &args.layout.tiled;
            if args.layout.r#type != sys::PJRT_Buffer_MemoryLayout_Type_Tiled || tiled.num_tiles != 0 {
                return Ok(false);
            }
            api::slice(tiled.minor_to_major, tiled.minor_to_major_size)
        };
        Ok(order.iter().copied().eq((0..self.kind.dims.len() as i64).rev()))
    }

    /// Lets the device write the content to host memory in the order that is asked for.
    fn transfer_into(&self, destination: &mut [u8]) -> Result<()> {
        let minor_to_major: Vec<i64> = (0..self.kind.dims.len() as i64).rev().collect();
        let mut layout = sys::Padded::<sys::PJRT_Buffer_MemoryLayout>::new();
        layout.tiled.struct_size = size_of::<sys::PJRT_Buffer_MemoryLayout_Tiled>();
        layout.tiled.minor_to_major = minor_to_major.as_ptr();
        layout.tiled.minor_to_major_size = minor_to_major.len();
        let mut args = sys::Padded::<sys::PJRT_Buffer_ToHostBuffer_Args>::new();
        args.src = self.raw();
        args.host_layout = layout.as_mut_ptr();
        args.dst = destination.as_mut_ptr().cast();
        args.dst_size = destination.len();
        // SAFETY: buffer and layout outlive the call; `destination` is exclusively borrowed until the event is
        // ready, which is waited for.
        let copied = unsafe {
            call!(self.api(), PJRT_Buffer_ToHostBuffer, args)?;
            Event::new(self.client.plugin().clone(), "PJRT_Buffer_ToHostBuffer", args.event)?
        };
        copied.wait()
    }

    /// The content, dense and row-major.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut content = vec![0; self.bytes];
        self.read_into(&mut content)?;
        Ok(content)
    }

    /// Gives the device memory back now, rather than when the last reference goes. Later uses are errors.
    pub fn delete(&self) -> Result<()> {
        let mut args = sys::Padded::<sys::PJRT_Buffer_Delete_Args>::new();
        args.buffer = self.raw();
        let _exclusive = self.lock_to_give_away();
        // SAFETY: the buffer is alive; deleting twice is allowed.
        unsafe { call!(self.api(), PJRT_Buffer_Delete, args) }
    }

    /// Whether it was deleted or donated.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = sys::Padded::<sys::PJRT_Buffer_IsDeleted_Args>::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { call!(self.api(), PJRT_Buffer_IsDeleted, args) }?;
        Ok(args.is_deleted)
    }

    /// Held while the device memory changes hands, so that nobody is reading it in place.
    pub(crate) fn lock_to_give_away(&self) -> RwLockWriteGuard<'_, ()> {
        self.in_place.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn raw(&self) -> *mut sys::PJRT_Buffer {
        self.raw.as_ptr()
    }

    fn api(&self) -> Api {
        self.client.api()
    }
}

fn check_length(what: &'static str, kind: &TensorType, actual: usize) -> Result<()> {
    let expected = kind.bytes()?;
    if actual != expected {
        return Err(Error::WrongLength { what, tensor: kind.clone(), expected, actual });
    }
    Ok(())
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut args = sys::Padded::<sys::PJRT_Buffer_Destroy_Args>::new();
        args.buffer = self.raw();
        // SAFETY: the last use; executions under way hold what they read.
        let _ = unsafe { call!(self.api(), PJRT_Buffer_Destroy, args) };
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({})", self.kind)
    }
}
