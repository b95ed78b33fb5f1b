//! How long bytecode takes: prints one line of JSON for a module of about 5,000 ops. Run it with `--release`.
#![allow(clippy::print_stdout)] // the line is what it is for

use std::time::{Duration, Instant};

use tpud_stablehlo::{
    Builder, DotDims, ElementType, Literal, Module, Monoid, Result, Scalar, TensorType, Value,
};

const LAYERS: usize = 200;
const RUNS: usize = 7;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut build = Vec::new();
    let mut emit = Vec::new();
    let mut last = (0, 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        let module = module()?;
        build.push(start.elapsed());
        let start = Instant::now();
        let bytes = tpud_mlir::to_bytecode(&module)?;
        emit.push(start.elapsed());
        last = (module.op_count(), bytes.len());
    }
    println!(
        "{{\"ops\": {}, \"build_ms\": {:.2}, \"emit_ms\": {:.2}, \"bytes\": {}}}",
        last.0,
        median_ms(build),
        median_ms(emit),
        last.1
    );
    Ok(())
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Layers of a projection, a normalisation and an activation, with a constant of their own.
fn module() -> Result<Module> {
    let mut b = Builder::new();
    let ty = TensorType::new(ElementType::F32, [8, 64]);
    let mut x = b.input(ty);
    let weights: Vec<Value> =
        (0..LAYERS).map(|_| b.input(TensorType::new(ElementType::F32, [64, 64]))).collect();
    for (i, weight) in weights.into_iter().enumerate() {
        x = layer(&mut b, x, weight, i)?;
    }
    b.finish(&[x])
}

fn layer(b: &mut Builder, x: Value, weight: Value, number: usize) -> Result<Value> {
    let contract = DotDims { lhs_contract: vec![1], rhs_contract: vec![1], ..DotDims::default() };
    let y = b.dot_general(x, weight, &contract, ElementType::F32, "HIGHEST")?;
    let bytes = (0..64).flat_map(|i| (i as f32 + number as f32).to_le_bytes()).collect();
    let bias = b.constant(Literal::dense(TensorType::new(ElementType::F32, [64]), bytes)?)?;
    let bias = b.broadcast_to(bias, &[8, 64])?;
    let y = b.add(y, bias)?;
    let sum = b.reduce_monoid(y, Monoid::Sum, &[1])?;
    let count = b.splat_like(Scalar::Float(64.0), sum)?;
    let mean = b.div(sum, count)?;
    let mean = b.broadcast_in_dim(mean, &[8, 64], &[0])?;
    let centred = b.sub(y, mean)?;
    let square = b.mul(centred, centred)?;
    let variance = b.reduce_monoid(square, Monoid::Sum, &[1])?;
    let eps = b.splat_like(Scalar::Float(1e-5), variance)?;
    let shifted = b.add(variance, eps)?;
    let scale = b.rsqrt(shifted)?;
    let scale = b.broadcast_in_dim(scale, &[8, 64], &[0])?;
    let normal = b.mul(centred, scale)?;
    let transposed = b.transpose(normal, &[1, 0])?;
    let back = b.transpose(transposed, &[1, 0])?;
    let active = b.tanh(back)?;
    let half = b.slice_dim(active, 1, 0, 32, 1)?;
    let rest = b.slice_dim(active, 1, 32, 64, 1)?;
    let swapped = b.concatenate(&[rest, half], 1)?;
    b.add(swapped, x)
}
