//! Measures a CPU plugin: client, compile, execute, transfers. `TPUD_CPU_PLUGIN` chooses the plugin.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tpud_pjrt::{AlignedBytes, Buffer, CompileOptions, ElementType, Error, Program, TensorType, platform};

const SMALL: &str = "func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.add %a, %b : tensor<2x2xf32>
  %1 = stablehlo.multiply %0, %b : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}";

fn main() -> Result<(), Error> {
    let path = platform::cpu::find()?;
    let (load, plugin) = timed(|| platform::cpu::load());
    let plugin = plugin?;
    println!(
        "{}\n  load {load:?}, identity {:?}",
        path.display(),
        timed(|| plugin.identity().map(|i| i.key()))
    );
    println!("  attributes {:?}", plugin.attributes().keys().collect::<Vec<_>>());
    let (open, client) = timed(|| {
        let mut options = vec![("cpu_device_count".to_owned(), tpud_pjrt::NamedValue::Integer(1))];
        if let Ok(value) = std::env::var("ASYNC") {
            options.push(("asynchronous".to_owned(), tpud_pjrt::NamedValue::Bool(value == "1")));
        }
        plugin.create_client(&options)
    });
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
    for size in [256, 1024] {
        let text = format!(
            "func.func @main(%a: tensor<{size}x{size}xf32>) -> tensor<{size}x{size}xf32> {{
              %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : \
             (tensor<{size}x{size}xf32>, tensor<{size}x{size}xf32>) -> tensor<{size}x{size}xf32>
              return %0 : tensor<{size}x{size}xf32> }}"
        );
        let (compile, executable) = timed(|| client.compile(&Program::mlir(text.as_bytes()), &options));
        let executable = executable?;
        let kind = TensorType::new(ElementType::F32, [size, size]);
        let a = Buffer::from_host(&device, kind.clone(), AlignedBytes::zeroed(kind.bytes()?)?)?;
        let run = median(10, || executable.execute(&[&a], &[]).unwrap()[0].wait_ready().unwrap());
        println!("  matmul {size}: compile {compile:?}, run {run:?}");
    }
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
