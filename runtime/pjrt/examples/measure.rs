//! Measures a CPU plugin: client, compile, execute, transfers, and the modules (StableHLO text) given as arguments,
//! on inputs of zeros. `TPUD_CPU_PLUGIN` chooses the plugin.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tpud_pjrt::{
    AlignedBytes, Buffer, CompileOptions, Device, ElementType, Error, Program, TensorType, platform,
};

const SMALL: &str = "func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.add %a, %b : tensor<2x2xf32>
  %1 = stablehlo.multiply %0, %b : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}";

fn main() -> Result<(), Error> {
    let path = platform::cpu::find()?;
    let (load, plugin) = timed(platform::cpu::load);
    let plugin = plugin?;
    println!(
        "{}\n  load {load:?}, identity {:?}",
        path.display(),
        timed(|| plugin.identity().map(|i| i.key()))
    );
    println!("  attributes {:?}", plugin.attributes().keys().collect::<Vec<_>>());
    let (open, client) = timed(|| platform::cpu::create_client(&plugin, 1));
    let client = client?;
    println!("  client {open:?}: {:?}", client.devices()?);
    let device = client.first_device()?;

    let options = platform::cpu::pin_to(platform::cpu::isa_level(), CompileOptions::default());
    let (first, executable) = timed(|| client.compile(&Program::mlir(SMALL.as_bytes()), &options));
    let executable = executable?;
    let again = median(20, || drop(client.compile(&Program::mlir(SMALL.as_bytes()), &options).unwrap()));
    let bytes = executable.executable().serialize()?;
    let reload = median(50, || drop(client.deserialize(&bytes).unwrap()));
    println!(
        "  small compile {first:?} the first time, then {again:?}; {} bytes, reload {reload:?}",
        bytes.len()
    );
    println!("  memory {:?}", executable.executable().memory());
    println!("  cost {:?}", executable.executable().cost());

    let kind = TensorType::new(ElementType::F32, [2, 2]);
    let data = [0_u8; 16];
    let upload = || Buffer::copy_from_host(&device, kind.clone(), &data).unwrap();
    let upload_owned =
        || Buffer::from_host(&device, kind.clone(), AlignedBytes::copy_of(&data).unwrap()).unwrap();
    let (a, b) = (upload(), upload());
    println!("  upload copied {:?}", median(20_000, || drop(upload())));
    println!("  upload owned  {:?}", median(20_000, || drop(upload_owned())));
    println!("  execute       {:?}", median(20_000, || drop(executable.execute(&[&a, &b], &[]).unwrap())));
    let mut out = [0_u8; 16];
    println!(
        "  execute, wait {:?}",
        median(20_000, || executable.execute(&[&a, &b], &[]).unwrap()[0].wait_ready().unwrap())
    );
    println!("  read          {:?}", median(20_000, || a.read_into(&mut out).unwrap()));
    println!(
        "  upload both, execute, read {:?}",
        median(20_000, || {
            let (a, b) = (upload(), upload());
            executable.execute(&[&a, &b], &[]).unwrap()[0].read_into(&mut out).unwrap();
        })
    );
    for path in std::env::args().skip(1) {
        measure_module(&device, &path, &options)?;
    }
    Ok(())
}

fn measure_module(device: &Device, path: &str, options: &CompileOptions) -> Result<(), Error> {
    let text = std::fs::read(path).unwrap();
    let (compile, executable) = timed(|| device.client().compile(&Program::mlir(&text), options));
    let executable = executable?;
    let bytes = executable.executable().serialize()?; // before the first run: XLA cannot serialise a sort after it
    let zeros =
        |kind: &TensorType| Buffer::from_host(device, kind.clone(), AlignedBytes::zeroed(kind.bytes()?)?);
    let inputs: Vec<Buffer> = executable.signature().inputs.iter().map(zeros).collect::<Result<_, _>>()?;
    let inputs: Vec<&Buffer> = inputs.iter().collect();
    let run = median(10, || executable.execute(&inputs, &[]).unwrap()[0].wait_ready().unwrap());
    let (reload, _) = timed(|| device.client().deserialize(&bytes));
    println!("  {path}: compile {compile:?}, run {run:?}, {} bytes, reload {reload:?}", bytes.len());
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed(), value)
}

fn median(count: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..count).map(|_| timed(&mut work).0).collect();
    times.sort();
    times[count / 2]
}
