//! The one place where torch's element types (as the wire names them) and XLA's meet.

use tpud_pjrt::ElementType;
use tpud_proto::v1::DType;

const TABLE: [(DType, ElementType); 17] = [
    (DType::Bool, ElementType::Pred),
    (DType::Uint8, ElementType::U8),
    (DType::Uint16, ElementType::U16),
    (DType::Uint32, ElementType::U32),
    (DType::Uint64, ElementType::U64),
    (DType::Int8, ElementType::S8),
    (DType::Int16, ElementType::S16),
    (DType::Int32, ElementType::S32),
    (DType::Int64, ElementType::S64),
    (DType::Float16, ElementType::F16),
    (DType::Bfloat16, ElementType::Bf16),
    (DType::Float32, ElementType::F32),
    (DType::Float64, ElementType::F64),
    (DType::Complex64, ElementType::C64),
    (DType::Complex128, ElementType::C128),
    (DType::Float8E4m3fn, ElementType::F8E4M3Fn),
    (DType::Float8E5m2, ElementType::F8E5M2),
];

/// XLA's type for one of the wire's; none for `DTYPE_UNSPECIFIED`.
#[must_use]
pub fn from_proto(dtype: DType) -> Option<ElementType> {
    TABLE.iter().find(|row| row.0 == dtype).map(|row| row.1)
}

/// The wire's type for one of XLA's.
#[must_use]
pub fn to_proto(element_type: ElementType) -> DType {
    TABLE.iter().find(|row| row.1 == element_type).map_or(DType::DtypeUnspecified, |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_maps_both_ways() {
        for kind in ElementType::all() {
            assert_eq!(from_proto(to_proto(kind)), Some(kind), "{kind}");
        }
        assert_eq!(from_proto(DType::DtypeUnspecified), None);
        // DTYPE_UNSPECIFIED and 17 types: a new one on the wire must get a row.
        assert!(DType::try_from(18).is_err());
    }
}
