//! Tensor types as MLIR types.

use std::collections::HashMap;

use melior::Context;
use melior::ir::r#type::{IntegerType, RankedTensorType};
use melior::ir::{Type, TypeLike};
use mlir_sys::{mlirComplexTypeGet, mlirFloat8E4M3FNTypeGet, mlirFloat8E5M2TypeGet};
use tpud_stablehlo::{ElementType, TensorType};

use crate::MlirError;

/// MLIR types of one context, each made once.
pub(crate) struct Types<'c, 'm> {
    context: &'c Context,
    tensors: HashMap<&'m TensorType, Type<'c>>,
}

impl<'c, 'm> Types<'c, 'm> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Self { context, tensors: HashMap::new() }
    }

    pub(crate) fn tensor(&mut self, ty: &'m TensorType) -> Result<Type<'c>, MlirError> {
        if let Some(found) = self.tensors.get(ty) {
            return Ok(*found);
        }
        let dims: Vec<u64> = ty
            .dims
            .iter()
            .map(|d| u64::try_from(*d).map_err(|_| MlirError::NegativeSize { ty: ty.clone() }))
            .collect::<Result<_, _>>()?;
        let made = RankedTensorType::new(&dims, element(self.context, ty.element), None).into();
        self.tensors.insert(ty, made);
        Ok(made)
    }
}

/// The MLIR type of one element. StableHLO's signed integers are MLIR's signless ones.
fn element(context: &Context, element: ElementType) -> Type<'_> {
    let signless = |bits| IntegerType::new(context, bits).into();
    let unsigned = |bits| IntegerType::unsigned(context, bits).into();
    match element {
        ElementType::Bool => signless(1),
        ElementType::I8 => signless(8),
        ElementType::I16 => signless(16),
        ElementType::I32 => signless(32),
        ElementType::I64 => signless(64),
        ElementType::U8 => unsigned(8),
        ElementType::U16 => unsigned(16),
        ElementType::U32 => unsigned(32),
        ElementType::U64 => unsigned(64),
        // SAFETY: the context is alive, and the type that is returned belongs to it.
        ElementType::F8E4M3FN => unsafe { Type::from_raw(mlirFloat8E4M3FNTypeGet(context.to_raw())) },
        // SAFETY: as above.
        ElementType::F8E5M2 => unsafe { Type::from_raw(mlirFloat8E5M2TypeGet(context.to_raw())) },
        ElementType::F16 => Type::float16(context),
        ElementType::BF16 => Type::bfloat16(context),
        ElementType::F32 => Type::float32(context),
        ElementType::F64 => Type::float64(context),
        ElementType::C64 => complex(Type::float32(context)),
        ElementType::C128 => complex(Type::float64(context)),
    }
}

fn complex(part: Type<'_>) -> Type<'_> {
    // SAFETY: `part` is a live float type, and the complex type belongs to the same context.
    unsafe { Type::from_raw(mlirComplexTypeGet(part.to_raw())) }
}
