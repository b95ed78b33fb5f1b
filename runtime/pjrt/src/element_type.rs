//! Element types and tensor types, in XLA's names.

use std::fmt;

use tpud_pjrt_sys as sys;

use crate::error::{Error, Result};

/// The type of one element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum ElementType {
    Pred,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
    F8E4M3Fn,
    F8E5M2,
}

/// One row per type: itself, its name, bytes, PJRT's number, XLA's number (`xla.PrimitiveType`).
type Row = (ElementType, &'static str, usize, sys::PJRT_Buffer_Type, i32);

const TABLE: [Row; 17] = [
    (ElementType::Pred, "pred", 1, sys::PJRT_Buffer_Type_PRED, 1),
    (ElementType::U8, "u8", 1, sys::PJRT_Buffer_Type_U8, 6),
    (ElementType::U16, "u16", 2, sys::PJRT_Buffer_Type_U16, 7),
    (ElementType::U32, "u32", 4, sys::PJRT_Buffer_Type_U32, 8),
    (ElementType::U64, "u64", 8, sys::PJRT_Buffer_Type_U64, 9),
    (ElementType::S8, "s8", 1, sys::PJRT_Buffer_Type_S8, 2),
    (ElementType::S16, "s16", 2, sys::PJRT_Buffer_Type_S16, 3),
    (ElementType::S32, "s32", 4, sys::PJRT_Buffer_Type_S32, 4),
    (ElementType::S64, "s64", 8, sys::PJRT_Buffer_Type_S64, 5),
    (ElementType::F16, "f16", 2, sys::PJRT_Buffer_Type_F16, 10),
    (ElementType::Bf16, "bf16", 2, sys::PJRT_Buffer_Type_BF16, 16),
    (ElementType::F32, "f32", 4, sys::PJRT_Buffer_Type_F32, 11),
    (ElementType::F64, "f64", 8, sys::PJRT_Buffer_Type_F64, 12),
    (ElementType::C64, "c64", 8, sys::PJRT_Buffer_Type_C64, 15),
    (ElementType::C128, "c128", 16, sys::PJRT_Buffer_Type_C128, 18),
    (ElementType::F8E4M3Fn, "f8e4m3fn", 1, sys::PJRT_Buffer_Type_F8E4M3FN, 20),
    (ElementType::F8E5M2, "f8e5m2", 1, sys::PJRT_Buffer_Type_F8E5M2, 19),
];

impl ElementType {
    /// Every type, in declaration order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize] // the table is in declaration order: checked by a test
    }

    /// XLA's name in lower case, e.g. "bf16".
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of one element on the host; a `pred` is one byte.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.row().2
    }

    pub(crate) fn raw(self) -> sys::PJRT_Buffer_Type {
        self.row().3
    }

    pub(crate) fn from_raw(raw: sys::PJRT_Buffer_Type) -> Option<Self> {
        TABLE.iter().find(|row| row.3 == raw).map(|row| row.0)
    }

    pub(crate) fn from_primitive_type(number: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.4 == number).map(|row| row.0)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Element type and sizes; values are dense and row-major wherever they are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The type of an element.
    pub element_type: ElementType,
    /// The sizes, outermost first; none for a scalar.
    pub dims: Vec<i64>,
}

impl TensorType {
    /// A tensor type.
    #[must_use]
    pub fn new(element_type: ElementType, dims: impl Into<Vec<i64>>) -> Self {
        Self { element_type, dims: dims.into() }
    }

    /// Bytes of the dense tensor; an error when a size is negative or the product does not fit.
    pub fn bytes(&self) -> Result<usize> {
        let shape = |reason| Error::BadShape { dims: self.dims.clone(), reason };
        let mut bytes = self.element_type.bytes();
        for &size in &self.dims {
            let size = usize::try_from(size).map_err(|_| shape("a size is negative"))?;
            bytes = bytes.checked_mul(size).ok_or_else(|| shape("it has too many bytes to count"))?;
        }
        if isize::try_from(bytes).is_err() {
            return Err(shape("it is larger than any allocation"));
        }
        Ok(bytes)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element_type)?;
        for (index, size) in self.dims.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{size}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_declaration_order_and_maps_both_ways() {
        for (index, kind) in ElementType::all().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(ElementType::from_raw(kind.raw()), Some(kind));
            assert_eq!(ElementType::from_primitive_type(kind.row().4), Some(kind));
        }
    }

    #[test]
    fn impossible_shapes_are_errors() {
        let bytes = |dims: &[i64]| TensorType::new(ElementType::F32, dims).bytes();
        assert_eq!(bytes(&[]).unwrap(), 4);
        assert_eq!(bytes(&[3, 0, 5]).unwrap(), 0);
        assert!(matches!(bytes(&[-1]), Err(Error::BadShape { .. })));
        assert!(matches!(bytes(&[i64::MAX, i64::MAX]), Err(Error::BadShape { .. })));
        assert!(matches!(bytes(&[i64::MAX / 2]), Err(Error::BadShape { .. })));
    }

    #[test]
    fn tensor_types_read_like_hlo() {
        assert_eq!(TensorType::new(ElementType::Bf16, [2, 3]).to_string(), "bf16[2,3]");
        assert_eq!(TensorType::new(ElementType::Pred, []).to_string(), "pred[]");
    }
}
