//! Literals as MLIR's dense elements.

use std::ffi::{c_int, c_void};

use melior::ir::{Attribute, Type, TypeLike};
use mlir_sys::{
    mlirDenseElementsAttrBoolGet, mlirDenseElementsAttrBoolSplatGet, mlirDenseElementsAttrRawBufferGet,
};
use tpud_stablehlo::{ElementType, Literal};

/// `dense<…>` of type `ty`, which is the literal's own; none when MLIR refuses the bytes.
pub(crate) fn elements<'c>(literal: &Literal, ty: Type<'c>) -> Option<Attribute<'c>> {
    let bytes = literal.bytes();
    let raw = match literal.ty().element {
        // MLIR packs bools into bits, so they go through the calls that take one at a time.
        // SAFETY: `ty` is a live tensor type of i1.
        ElementType::Bool if literal.is_splat() => unsafe {
            mlirDenseElementsAttrBoolSplatGet(ty.to_raw(), bytes.first().is_some_and(|b| *b != 0))
        },
        ElementType::Bool if !bytes.is_empty() => {
            let bools: Vec<c_int> = bytes.iter().map(|b| c_int::from(*b != 0)).collect();
            // SAFETY: `ty` is a live tensor type of i1 with `bools.len()` elements, which MLIR copies.
            unsafe { mlirDenseElementsAttrBoolGet(ty.to_raw(), bools.len() as isize, bools.as_ptr()) }
        }
        // SAFETY: `ty` is a live tensor type. MLIR compares the length with the type's (a null attribute when it
        // fits neither all elements nor one) and copies the bytes; they need no alignment.
        _ => unsafe {
            mlirDenseElementsAttrRawBufferGet(ty.to_raw(), bytes.len(), bytes.as_ptr().cast::<c_void>())
        },
    };
    // SAFETY: a non-null attribute belongs to the context of `ty`.
    unsafe { Attribute::from_option_raw(raw) }
}
