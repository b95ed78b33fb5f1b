//! Element types by torch's names, with their sizes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tpud_proto::v1::DType;

/// Name, type and bytes of an element. Names are torch's without `torch.`.
const TABLE: &[(&str, DType, u64)] = &[
    ("bool", DType::Bool, 1),
    ("uint8", DType::Uint8, 1),
    ("uint16", DType::Uint16, 2),
    ("uint32", DType::Uint32, 4),
    ("uint64", DType::Uint64, 8),
    ("int8", DType::Int8, 1),
    ("int16", DType::Int16, 2),
    ("int32", DType::Int32, 4),
    ("int64", DType::Int64, 8),
    ("float16", DType::Float16, 2),
    ("bfloat16", DType::Bfloat16, 2),
    ("float32", DType::Float32, 4),
    ("float64", DType::Float64, 8),
    ("complex64", DType::Complex64, 8),
    ("complex128", DType::Complex128, 16),
    ("float8_e4m3fn", DType::Float8E4m3fn, 1),
    ("float8_e5m2", DType::Float8E5m2, 1),
];

/// The type with this name.
pub(crate) fn parse(name: &str) -> PyResult<DType> {
    TABLE.iter().find(|row| row.0 == name).map(|row| row.1).ok_or_else(|| {
        let known: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
        PyValueError::new_err(format!("unknown dtype {name:?}; known are {}", known.join(", ")))
    })
}

/// The name of an encoded type; "unspecified" for one this build does not know.
pub(crate) fn name(dtype: i32) -> &'static str {
    TABLE.iter().find(|row| row.1 as i32 == dtype).map_or("unspecified", |row| row.0)
}

/// Bytes of one element; 0 for an unknown type.
pub(crate) fn element_bytes(dtype: i32) -> u64 {
    TABLE.iter().find(|row| row.1 as i32 == dtype).map_or(0, |row| row.2)
}

/// Bytes of a dense tensor, unless a size is negative or the product overflows.
pub(crate) fn dense_bytes(dtype: i32, sizes: &[i64]) -> Option<u64> {
    let mut bytes = element_bytes(dtype);
    for &size in sizes {
        bytes = bytes.checked_mul(u64::try_from(size).ok()?)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_cover_the_enum() {
        for tag in 1..=17 {
            let dtype = DType::try_from(tag).unwrap();
            assert_eq!(parse(name(tag)).unwrap(), dtype);
            assert!(element_bytes(tag) > 0);
        }
        assert!(DType::try_from(18).is_err(), "a new dtype needs a row in TABLE");
    }

    #[test]
    fn dense_bytes_checks_its_range() {
        assert_eq!(dense_bytes(DType::Float32 as i32, &[2, 3]), Some(24));
        assert_eq!(dense_bytes(DType::Float32 as i32, &[]), Some(4));
        assert_eq!(dense_bytes(DType::Float32 as i32, &[2, 0]), Some(0));
        assert_eq!(dense_bytes(DType::Float32 as i32, &[-1]), None);
        assert_eq!(dense_bytes(DType::Float32 as i32, &[i64::MAX, 4]), None);
    }
}
