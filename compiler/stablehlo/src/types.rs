//! Element types and tensor types, printed as MLIR spells them.

use std::fmt;

/// The type of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ElementType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F8E4M3FN,
    F8E5M2,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

impl ElementType {
    /// MLIR's spelling, e.g. `ui8`, `bf16`, `complex<f32>`.
    pub fn mlir_name(self) -> &'static str {
        match self {
            Self::Bool => "i1",
            Self::U8 => "ui8",
            Self::U16 => "ui16",
            Self::U32 => "ui32",
            Self::U64 => "ui64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F8E4M3FN => "f8E4M3FN",
            Self::F8E5M2 => "f8E5M2",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::C64 => "complex<f32>",
            Self::C128 => "complex<f64>",
        }
    }

    /// Bytes of one element on the host; a bool is one byte.
    pub fn byte_width(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F8E4M3FN | Self::F8E5M2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// A real floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F8E4M3FN | Self::F8E5M2 | Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// A complex type.
    pub fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }

    /// A signed or unsigned integer; bool is not one.
    pub fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    /// `i8` to `i64`.
    pub fn is_signed_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// `ui8` to `ui64`.
    pub fn is_unsigned_integer(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// The type of a complex number's parts; any other type is its own.
    pub fn real(self) -> Self {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            other => other,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mlir_name())
    }
}

/// A ranked tensor type with static sizes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub element: ElementType,
    /// Sizes, outermost first; never negative.
    pub dims: Vec<i64>,
}

impl TensorType {
    /// A type from its parts.
    pub fn new(element: ElementType, dims: impl Into<Vec<i64>>) -> Self {
        Self { element, dims: dims.into() }
    }

    /// The 0-d type of one element.
    pub fn scalar(element: ElementType) -> Self {
        Self { element, dims: Vec::new() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements; saturates instead of overflowing.
    pub fn elements(&self) -> i64 {
        self.dims.iter().fold(1i64, |n, &d| n.saturating_mul(d))
    }

    /// The same shape with another element type.
    pub fn with_element(&self, element: ElementType) -> Self {
        Self { element, dims: self.dims.clone() }
    }

    /// The same element type with another shape.
    pub fn with_dims(&self, dims: impl Into<Vec<i64>>) -> Self {
        Self { element: self.element, dims: dims.into() }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.element)
    }
}
