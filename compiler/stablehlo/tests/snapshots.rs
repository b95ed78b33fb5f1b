//! The text of a handful of typical modules, as people read it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tpud_stablehlo::{
    Builder, ConvolutionDims, Direction, DotDims, ElementType, GatherDims, Literal, Monoid, Result, Scalar,
    SortOrder, TensorType, Value, Window,
};

const F32: ElementType = ElementType::F32;
const I64: ElementType = ElementType::I64;

fn snapshot(name: &str, build: impl FnOnce(&mut Builder) -> Result<Vec<Value>>) {
    let mut b = Builder::new();
    let results = build(&mut b).unwrap();
    let text = b.finish(&results).unwrap().to_string();
    insta::assert_snapshot!(name, text);
}

fn input(b: &mut Builder, element: ElementType, dims: &[i64]) -> Value {
    b.input(TensorType::new(element, dims))
}

#[test]
fn softmax() {
    snapshot("softmax", |b| {
        let x = input(b, F32, &[2, 8]);
        let max = b.reduce_monoid(x, Monoid::Max, &[1])?;
        let max = b.broadcast_in_dim(max, &[2, 8], &[0])?;
        let shifted = b.sub(x, max)?;
        let exp = b.exp(shifted)?;
        let sum = b.reduce_monoid(exp, Monoid::Sum, &[1])?;
        let sum = b.broadcast_in_dim(sum, &[2, 8], &[0])?;
        Ok(vec![b.div(exp, sum)?])
    });
}

#[test]
fn linear_with_donated_input() {
    snapshot("linear_with_donated_input", |b| {
        let (x, weight) = (input(b, ElementType::BF16, &[4, 16]), input(b, ElementType::BF16, &[16, 16]));
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![1], ..DotDims::default() };
        b.alias(0, 0);
        Ok(vec![b.dot_general(x, weight, &dims, ElementType::BF16, "HIGHEST")?])
    });
}

#[test]
fn embedding() {
    snapshot("embedding", |b| {
        let (table, ids) = (input(b, F32, &[100, 16]), input(b, I64, &[2, 5]));
        let dims = GatherDims {
            offset_dims: vec![2],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 2,
            ..GatherDims::default()
        };
        Ok(vec![b.gather(table, ids, &dims, &[1, 16])?])
    });
}

#[test]
fn convolution_and_max_pool() {
    snapshot("convolution_and_max_pool", |b| {
        let (x, kernel) = (input(b, F32, &[1, 3, 8, 8]), input(b, F32, &[4, 3, 3, 3]));
        let dims = ConvolutionDims {
            strides: vec![1, 1],
            padding: vec![(1, 1), (1, 1)],
            lhs_dilation: vec![1, 1],
            rhs_dilation: vec![1, 1],
            reverse_kernel: false,
            feature_groups: 1,
            batch_groups: 1,
        };
        let y = b.convolution(x, kernel, &dims, F32, "HIGHEST")?;
        let mut window = Window::identity(4);
        window.sizes[2..].fill(2);
        window.strides[2..].fill(2);
        Ok(vec![b.reduce_window_monoid(y, Monoid::Max, &window)?])
    });
}

#[test]
fn sort_floats() {
    snapshot("sort_floats", |b| {
        let x = input(b, F32, &[5]);
        b.sort_by_key(&[x], 0, SortOrder::Ascending)
    });
}

#[test]
fn loop_with_branch() {
    snapshot("loop_with_branch", |b| {
        let (i, x) = (input(b, ElementType::I32, &[]), input(b, F32, &[4]));
        b.while_loop(
            &[i, x],
            |b, carried| {
                let limit = b.scalar(Scalar::Int(3), ElementType::I32)?;
                b.compare(Direction::Lt, carried[0], limit)
            },
            |b, carried| {
                let one = b.scalar(Scalar::Int(1), ElementType::I32)?;
                let odd = b.and(carried[0], one)?;
                let odd = b.compare(Direction::Eq, odd, one)?;
                let x = b.if_else(odd, |b| Ok(vec![b.exp(carried[1])?]), |_| Ok(vec![carried[1]]))?;
                Ok(vec![b.add(carried[0], one)?, x[0]])
            },
        )
    });
}

#[test]
fn constants() {
    snapshot("constants", |b| {
        let floats: Vec<u8> =
            [0.1f32, -0.0, f32::INFINITY, 1e-10].iter().flat_map(|x| x.to_le_bytes()).collect();
        let many: Vec<u8> = (0..20i32).flat_map(|i| i.to_le_bytes()).collect();
        Ok(vec![
            b.constant(Literal::dense(TensorType::new(F32, [2, 2]), floats)?)?,
            b.constant(Literal::dense(TensorType::new(ElementType::I32, [20]), many)?)?,
            b.constant(Literal::dense(TensorType::new(ElementType::Bool, [3]), vec![1, 0, 1])?)?,
            b.splat(Scalar::Int(-1), &TensorType::new(ElementType::U8, [2]))?,
            b.splat(Scalar::Float(0.5), &TensorType::new(ElementType::BF16, [0]))?,
            b.scalar(Scalar::Complex(1.0, -2.5), ElementType::C64)?,
            b.scalar(Scalar::Float(448.0), ElementType::F8E4M3FN)?,
        ])
    });
}
