//! The device trait over PJRT: any plugin, one device.

use std::any::Any;
use std::sync::Arc;

use tpud_pjrt::{Client, Signature, TensorType, platform};

use crate::{Buffer, Device, DeviceInfo, Error, HostMemory, LoadedExecutable, Result};

/// A device of a PJRT client.
#[derive(Debug)]
pub struct PjrtDevice {
    device: tpud_pjrt::Device,
    info: DeviceInfo,
}

impl PjrtDevice {
    /// Opens this machine's CPU.
    pub fn open_cpu() -> Result<Self> {
        let client = platform::cpu::create_client(&platform::cpu::load()?, 1)?;
        Self::first_of(&client)
    }

    /// Opens this machine's first TPU. libtpu's environment ([`platform::tpu::environment`]) must have been set.
    pub fn open_tpu() -> Result<Self> {
        let client = platform::tpu::create_client(&platform::tpu::load()?)?;
        Self::first_of(&client)
    }

    /// The first device of a client.
    pub fn first_of(client: &Client) -> Result<Self> {
        let device = client.first_device()?;
        let description = device.description();
        let limit = device.memory()?.and_then(|memory| memory.limit);
        let info = DeviceInfo {
            platform: client.platform_name().to_owned(),
            kind: description.kind.clone(),
            description: description.text.clone(),
            memory_bytes: limit
                .or_else(|| description.memory_bytes())
                .or_else(|| platform::memory_bytes(client.platform_name(), &description.kind)),
            plugin_identity: client.plugin().identity()?.key(),
        };
        Ok(Self { device, info })
    }
}

impl Device for PjrtDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&self, executable: &[u8]) -> Result<Arc<dyn LoadedExecutable>> {
        Ok(Arc::new(self.device.client().deserialize(executable)?))
    }

    fn upload(&self, kind: TensorType, data: HostMemory<'_>) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(match data {
            HostMemory::Owned(data) => tpud_pjrt::Buffer::from_host(&self.device, kind, data)?,
            HostMemory::Borrowed(data) => tpud_pjrt::Buffer::copy_from_host(&self.device, kind, data)?,
        }))
    }
}

impl LoadedExecutable for tpud_pjrt::LoadedExecutable {
    fn signature(&self) -> &Signature {
        self.signature()
    }

    fn execute(&self, inputs: &[Arc<dyn Buffer>], donate: &[bool]) -> Result<Vec<Arc<dyn Buffer>>> {
        let mut buffers = Vec::with_capacity(inputs.len());
        for (index, buffer) in inputs.iter().enumerate() {
            let own = buffer.as_any().downcast_ref::<tpud_pjrt::Buffer>();
            buffers.push(own.ok_or(Error::ForeignBuffer { index })?);
        }
        let outputs = self.execute(&buffers, donate)?;
        Ok(outputs.into_iter().map(|buffer| Arc::new(buffer) as Arc<dyn Buffer>).collect())
    }
}

impl Buffer for tpud_pjrt::Buffer {
    fn tensor_type(&self) -> &TensorType {
        self.tensor_type()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn device_bytes(&self) -> Result<usize> {
        Ok(self.device_bytes()?)
    }

    fn wait_ready(&self) -> Result<()> {
        Ok(self.wait_ready()?)
    }

    fn read_into(&self, destination: &mut [u8]) -> Result<()> {
        Ok(self.read_into(destination)?)
    }

    fn delete(&self) -> Result<()> {
        Ok(self.delete()?)
    }

    fn is_deleted(&self) -> Result<bool> {
        Ok(self.is_deleted()?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
