//! Constant tensors and scalars, converted to an element type's bytes.

use half::{bf16, f16};

use crate::{BuildError, ElementType, Result, TensorType};

/// A number before it has an element type.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Scalar {
    /// The value as a double; the real part of a complex number.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Bool(b) => f64::from(u8::from(b)),
            Self::Int(i) => i as f64,
            Self::Float(x) | Self::Complex(x, _) => x,
        }
    }

    /// The value as an integer; a float is truncated and saturates.
    pub fn as_i64(self) -> i64 {
        match self {
            Self::Bool(b) => i64::from(b),
            Self::Int(i) => i,
            Self::Float(x) | Self::Complex(x, _) => x as i64,
        }
    }

    /// Little-endian bytes of the value as `element`; integers wrap as torch's do.
    pub fn to_bytes(self, element: ElementType) -> Vec<u8> {
        let (x, i) = (self.as_f64(), self.as_i64());
        match element {
            ElementType::Bool => vec![u8::from(match self {
                Self::Complex(re, im) => re != 0.0 || im != 0.0,
                Self::Float(x) => x != 0.0,
                _ => i != 0,
            })],
            ElementType::U8 | ElementType::I8 => vec![i as u8],
            ElementType::U16 | ElementType::I16 => (i as u16).to_le_bytes().to_vec(),
            ElementType::U32 | ElementType::I32 => (i as u32).to_le_bytes().to_vec(),
            ElementType::U64 | ElementType::I64 => i.to_le_bytes().to_vec(),
            ElementType::F8E5M2 => vec![(f16_round_to_e5m2(x) >> 8) as u8],
            ElementType::F8E4M3FN => vec![e4m3fn(x)],
            ElementType::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
            ElementType::BF16 => bf16::from_f64(x).to_le_bytes().to_vec(),
            ElementType::F32 => (x as f32).to_le_bytes().to_vec(),
            ElementType::F64 => x.to_le_bytes().to_vec(),
            ElementType::C64 => {
                let im = if let Self::Complex(_, im) = self { im } else { 0.0 };
                [(x as f32).to_le_bytes(), (im as f32).to_le_bytes()].concat()
            }
            ElementType::C128 => {
                let im = if let Self::Complex(_, im) = self { im } else { 0.0 };
                [x.to_le_bytes(), im.to_le_bytes()].concat()
            }
        }
    }
}

/// f8E5M2 is the upper byte of an f16, rounded to nearest even.
fn f16_round_to_e5m2(x: f64) -> u16 {
    let bits = f16::from_f64(x).to_bits();
    if bits & 0x7fff > 0x7c00 {
        return bits | 0x0200; // keep NaN a NaN
    }
    let lower = bits & 0xff;
    let up = lower > 0x80 || (lower == 0x80 && bits & 0x100 != 0);
    if up { (bits & 0xff00).wrapping_add(0x100) } else { bits & 0xff00 }
}

/// The nearest f8E4M3FN (ties to even); values beyond 448 become NaN, as in torch.
fn e4m3fn(x: f64) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs();
    if magnitude.is_nan() || magnitude > 464.0 {
        return sign | 0x7f;
    }
    let value = |code: u8| {
        let (exponent, mantissa) = (i32::from(code >> 3), f64::from(code & 7));
        if exponent == 0 {
            mantissa / 8.0 * 2f64.powi(-6)
        } else {
            (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7)
        }
    };
    let mut best = 0u8;
    for code in 0..=0x7e {
        let (d, b) = ((value(code) - magnitude).abs(), (value(best) - magnitude).abs());
        if d < b || (d == b && code & 1 == 0) {
            best = code;
        }
    }
    sign | best
}

/// A constant tensor: dense row-major little-endian bytes, or one element that fills it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Literal {
    ty: TensorType,
    bytes: Vec<u8>,
    splat: bool,
}

impl Literal {
    /// A tensor from all its bytes. A bool is one byte, 0 or 1. Equal elements are stored once.
    pub fn dense(ty: TensorType, bytes: Vec<u8>) -> Result<Self> {
        let width = ty.element.byte_width();
        let expected = usize::try_from(ty.elements()).ok().and_then(|n| n.checked_mul(width));
        if expected != Some(bytes.len()) {
            return Err(BuildError::new(
                "stablehlo.constant",
                format!("{ty} needs {expected:?} bytes, got {}", bytes.len()),
            ));
        }
        let mut chunks = bytes.chunks_exact(width);
        let splat = match chunks.next() {
            Some(first) => chunks.all(|c| c == first),
            None => false,
        };
        let bytes = if splat { bytes[..width].to_vec() } else { bytes };
        Ok(Self { ty, bytes, splat })
    }

    /// A tensor of one repeated value.
    pub fn splat(ty: TensorType, value: Scalar) -> Self {
        let splat = ty.elements() > 0;
        let bytes = if splat { value.to_bytes(ty.element) } else { Vec::new() };
        Self { ty, bytes, splat }
    }

    /// A 1-d tensor of `i64`.
    pub fn i64s(values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let ty = TensorType::new(ElementType::I64, vec![values.len() as i64]);
        let splat = !values.is_empty() && values.iter().all(|v| *v == values[0]);
        let bytes = if splat { bytes[..8].to_vec() } else { bytes };
        Self { ty, bytes, splat }
    }

    /// Its type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The stored bytes: one element when [`is_splat`](Self::is_splat), else all of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether one stored element fills the tensor.
    pub fn is_splat(&self) -> bool {
        self.splat
    }
}
