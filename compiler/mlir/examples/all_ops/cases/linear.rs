//! Contractions, convolutions, solvers and transforms.

use tpud_stablehlo::{ConvolutionDims, DotDims, ElementType, Result};

use super::{Case, ELEMENTS, case, input};

const F32: ElementType = ElementType::F32;

pub(super) fn cases(cases: &mut Vec<Case>) -> Result<()> {
    dots(cases)?;
    convolutions(cases)?;
    case(cases, "cholesky", |b| {
        let types = [F32, ElementType::F64, ElementType::C64, ElementType::C128];
        let mut out = Vec::new();
        for element in types {
            let x = input(b, element, &[2, 3, 3]);
            out.extend([b.cholesky(x, true)?, b.cholesky(x, false)?]);
        }
        Ok(out)
    })?;
    case(cases, "triangular_solve", |b| {
        let a = input(b, F32, &[2, 3, 3]);
        let (tall, wide) = (input(b, F32, &[2, 3, 5]), input(b, F32, &[2, 5, 3]));
        Ok(vec![
            b.triangular_solve(a, tall, true, true, false, "NO_TRANSPOSE")?,
            b.triangular_solve(a, wide, false, false, true, "TRANSPOSE")?,
            b.triangular_solve(a, tall, true, false, false, "ADJOINT")?,
        ])
    })?;
    case(cases, "factorisations", |b| {
        let mut out = Vec::new();
        for element in [F32, ElementType::F64, ElementType::C64, ElementType::C128] {
            let (tall, wide) = (input(b, element, &[2, 5, 3]), input(b, element, &[3, 4]));
            let (packed, scales) = b.qr(tall)?;
            let (other, other_scales) = b.qr(wide)?;
            let square = input(b, element, &[2, 3, 3]);
            let (vectors, values) = b.eigh(square)?;
            out.extend([b.reflectors_product(packed, scales)?, other, other_scales, vectors, values]);
        }
        Ok(out)
    })?;
    case(cases, "fft", |b| {
        let mut out = Vec::new();
        for (real, complex) in [(F32, ElementType::C64), (ElementType::F64, ElementType::C128)] {
            let (x, z) = (input(b, real, &[2, 4, 6]), input(b, complex, &[2, 4, 6]));
            out.push(b.fft(z, "FFT", &[6])?);
            out.push(b.fft(z, "IFFT", &[4, 6])?);
            let half = b.fft(x, "RFFT", &[4, 6])?;
            out.push(half);
            out.push(b.fft(half, "IRFFT", &[4, 6])?);
            out.push(b.fft(half, "IRFFT", &[7])?);
        }
        Ok(out)
    })
}

fn dots(cases: &mut Vec<Case>) -> Result<()> {
    case(cases, "dot_general_types", |b| {
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
        let mut out = Vec::new();
        for element in ELEMENTS.into_iter().filter(|e| *e != ElementType::Bool) {
            let (x, y) = (input(b, element, &[2, 3]), input(b, element, &[3, 4]));
            out.push(b.dot_general(x, y, &dims, element, "HIGHEST")?);
        }
        Ok(out)
    })?;
    case(cases, "dot_general_wide_result", |b| {
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![1], ..DotDims::default() };
        let (x, y) = (input(b, ElementType::BF16, &[2, 3]), input(b, ElementType::BF16, &[4, 3]));
        let (i, j) = (input(b, ElementType::I8, &[2, 3]), input(b, ElementType::I8, &[4, 3]));
        Ok(vec![
            b.dot_general(x, y, &dims, F32, "DEFAULT")?,
            b.dot_general(i, j, &dims, ElementType::I32, "HIGH")?,
        ])
    })?;
    case(cases, "dot_general_batched", |b| {
        let (x, y) = (input(b, F32, &[2, 5, 3, 4]), input(b, F32, &[5, 4, 7, 2]));
        let dims = DotDims {
            lhs_batch: vec![1, 0],
            rhs_batch: vec![0, 3],
            lhs_contract: vec![3],
            rhs_contract: vec![1],
        };
        let outer = DotDims::default();
        let v = input(b, F32, &[3]);
        let inner = DotDims { lhs_contract: vec![0], rhs_contract: vec![0], ..DotDims::default() };
        Ok(vec![
            b.dot_general(x, y, &dims, F32, "HIGHEST")?,
            b.dot_general(v, v, &outer, F32, "HIGHEST")?,
            b.dot_general(v, v, &inner, F32, "HIGHEST")?,
        ])
    })
}

/// A convolution with nothing special about it.
fn plain(spatial: usize) -> ConvolutionDims {
    ConvolutionDims {
        strides: vec![1; spatial],
        padding: vec![(0, 0); spatial],
        lhs_dilation: vec![1; spatial],
        rhs_dilation: vec![1; spatial],
        reverse_kernel: false,
        feature_groups: 1,
        batch_groups: 1,
    }
}

fn convolutions(cases: &mut Vec<Case>) -> Result<()> {
    for spatial in 0..=3 {
        case(cases, &format!("convolution_{spatial}d"), |b| {
            let x = input(b, F32, &[&[2, 4][..], &[7, 8, 9][..spatial]].concat());
            let k = input(b, F32, &[&[6, 4][..], &[3, 2, 1][..spatial]].concat());
            Ok(vec![b.convolution(x, k, &plain(spatial), F32, "HIGHEST")?])
        })?;
    }
    case(cases, "convolution_strided_padded", |b| {
        let (x, k) = (input(b, ElementType::BF16, &[1, 3, 9, 9]), input(b, ElementType::BF16, &[4, 3, 3, 3]));
        let dims = ConvolutionDims {
            strides: vec![2, 3],
            padding: vec![(1, 2), (-1, 0)],
            rhs_dilation: vec![2, 1],
            ..plain(2)
        };
        Ok(vec![b.convolution(x, k, &dims, F32, "DEFAULT")?])
    })?;
    case(cases, "convolution_transposed", |b| {
        let (x, k) = (input(b, F32, &[1, 4, 5]), input(b, F32, &[2, 4, 3]));
        let dims = ConvolutionDims {
            padding: vec![(2, 3)],
            lhs_dilation: vec![2],
            reverse_kernel: true,
            ..plain(1)
        };
        Ok(vec![b.convolution(x, k, &dims, F32, "HIGHEST")?])
    })?;
    case(cases, "convolution_grouped", |b| {
        let (x, k) = (input(b, F32, &[2, 6, 5]), input(b, F32, &[6, 1, 3]));
        let depthwise = ConvolutionDims { feature_groups: 6, ..plain(1) };
        let y = input(b, F32, &[4, 3, 5]);
        let k2 = input(b, F32, &[2, 3, 3]);
        let batched = ConvolutionDims { batch_groups: 2, ..plain(1) };
        Ok(vec![
            b.convolution(x, k, &depthwise, F32, "HIGHEST")?,
            b.convolution(y, k2, &batched, F32, "HIGHEST")?,
        ])
    })
}
