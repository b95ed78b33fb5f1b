//! The device trait on the CPU plugin, as a daemon uses it: from bytes, through trait objects, from many threads.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use tpud_device::{
    AlignedBytes, Buffer, Code, Device, ElementType, Error, HostMemory, LoadedExecutable, PjrtDevice,
    TensorType,
};
use tpud_pjrt::{CompileOptions, Program, platform};

const ADD: &str =
    "func.func @main(%a: tensor<4xi32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.add %a, %b : tensor<4xi32>
  return %0 : tensor<4xi32>
}";

fn device() -> Arc<dyn Device> {
    Arc::new(PjrtDevice::open_cpu().unwrap_or_else(|error| panic!("{error}")))
}

/// Compiled by another client, as a worker does.
fn executable() -> Vec<u8> {
    let client = platform::cpu::create_client(&platform::cpu::load().unwrap(), 1).unwrap();
    let loaded = client.compile(&Program::mlir(ADD.as_bytes()), &CompileOptions::default()).unwrap();
    loaded.executable().serialize().unwrap()
}

fn kind() -> TensorType {
    TensorType::new(ElementType::S32, [4])
}

fn bytes(values: [i32; 4]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn upload(device: &dyn Device, values: [i32; 4]) -> Arc<dyn Buffer> {
    device.upload(kind(), HostMemory::Borrowed(&bytes(values))).unwrap()
}

fn read(buffer: &dyn Buffer) -> Vec<u8> {
    let mut content = vec![0; buffer.bytes()];
    buffer.read_into(&mut content).unwrap();
    content
}

#[test]
fn a_device_says_what_it_is() {
    let device = device();
    let info = device.info();
    assert_eq!(info.platform, "cpu");
    assert!(!info.kind.is_empty() && !info.description.is_empty());
    assert!(info.memory_bytes.unwrap() > 1 << 28);
    assert!(info.plugin_identity.contains("PJRT API 0."), "{}", info.plugin_identity);
}

#[test]
fn bytes_are_loaded_executed_and_read() {
    let device = device();
    let executable = device.load(&executable()).unwrap();
    assert_eq!(executable.signature().inputs, [kind(), kind()]);
    let owned = HostMemory::Owned(AlignedBytes::copy_of(&bytes([1, 2, 3, 4])).unwrap());
    let a = device.upload(kind(), owned).unwrap();
    let b = upload(&*device, [10, 20, 30, 40]);
    let outputs = executable.execute(&[a, Arc::clone(&b)], &[]).unwrap();
    outputs[0].wait_ready().unwrap();
    assert_eq!(read(&*outputs[0]), bytes([11, 22, 33, 44]));
    // An output is an input of the next execution; donating it deletes it.
    let again = executable.execute(&[Arc::clone(&outputs[0]), b], &[true, false]).unwrap();
    assert_eq!(read(&*again[0]), bytes([21, 42, 63, 84]));
    assert!(outputs[0].is_deleted().unwrap());
    assert!(outputs[0].wait_ready().is_err() || outputs[0].read_into(&mut [0; 16]).is_err());
    again[0].delete().unwrap();
    assert!(again[0].read_into(&mut [0; 16]).is_err());
}

#[test]
fn mistakes_are_typed_errors() {
    let device = device();
    let loaded = device.load(&executable()).unwrap();
    let a = upload(&*device, [1, 2, 3, 4]);
    let error = device.load(b"garbage").unwrap_err();
    assert_eq!(error.code(), Code::DataLoss, "{error}");
    let error = loaded.execute(&[Arc::clone(&a)], &[]).unwrap_err();
    assert_eq!(error.to_string(), "the executable takes 2 inputs but was given 1");
    let float =
        device.upload(TensorType::new(ElementType::F32, [4]), HostMemory::Borrowed(&[0; 16])).unwrap();
    let error = loaded.execute(&[a, float], &[]).unwrap_err();
    assert_eq!(error.to_string(), "input 1 is f32[4] but the executable takes s32[4]");
    let error = device.upload(kind(), HostMemory::Borrowed(&[0; 15])).unwrap_err();
    assert_eq!(error.to_string(), "the data has 15 bytes where s32[4] needs 16");
}

#[derive(Debug)]
struct OtherBuffer(TensorType);

impl Buffer for OtherBuffer {
    fn tensor_type(&self) -> &TensorType {
        &self.0
    }
    fn bytes(&self) -> usize {
        16
    }
    fn device_bytes(&self) -> tpud_device::Result<usize> {
        Ok(16)
    }
    fn wait_ready(&self) -> tpud_device::Result<()> {
        Ok(())
    }
    fn read_into(&self, _destination: &mut [u8]) -> tpud_device::Result<()> {
        Ok(())
    }
    fn delete(&self) -> tpud_device::Result<()> {
        Ok(())
    }
    fn is_deleted(&self) -> tpud_device::Result<bool> {
        Ok(false)
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn a_buffer_of_another_implementation_is_refused() {
    let device = device();
    let loaded = device.load(&executable()).unwrap();
    let foreign: Arc<dyn Buffer> = Arc::new(OtherBuffer(kind()));
    let error = loaded.execute(&[upload(&*device, [0; 4]), foreign], &[]).unwrap_err();
    assert!(matches!(error, Error::ForeignBuffer { index: 1 }), "{error}");
}

#[test]
fn threads_share_a_device() {
    let device = device();
    let loaded: Arc<dyn LoadedExecutable> = device.load(&executable()).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let (device, loaded) = (Arc::clone(&device), Arc::clone(&loaded));
            std::thread::spawn(move || {
                for round in 0..100 {
                    let inputs = [upload(&*device, [thread; 4]), upload(&*device, [round; 4])];
                    let outputs = loaded.execute(&inputs, &[true, false]).unwrap();
                    assert_eq!(read(&*outputs[0]), bytes([thread + round; 4]));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
