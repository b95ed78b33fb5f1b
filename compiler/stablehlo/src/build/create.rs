//! Ops without tensor operands, and what is made from a constant.

use crate::{Attr, BuildError, Builder, ElementType, Literal, Result, Scalar, TensorType, Value};

use super::check_dim;

impl Builder {
    /// `stablehlo.constant`.
    pub fn constant(&mut self, literal: Literal) -> Result<Value> {
        let ty = literal.ty().clone();
        self.op("stablehlo.constant", &[], vec![("value", Attr::Dense(literal))], ty)
    }

    /// A 0-d constant.
    pub fn scalar(&mut self, value: Scalar, element: ElementType) -> Result<Value> {
        self.constant(Literal::splat(TensorType::scalar(element), value))
    }

    /// A constant of one repeated value.
    pub fn splat(&mut self, value: Scalar, ty: &TensorType) -> Result<Value> {
        self.constant(Literal::splat(ty.clone(), value))
    }

    /// A constant in the shape and type of another value.
    pub fn splat_like(&mut self, value: Scalar, like: Value) -> Result<Value> {
        let ty = self.ty(like).clone();
        self.splat(value, &ty)
    }

    /// A 1-d i64 constant.
    pub fn i64s(&mut self, values: &[i64]) -> Result<Value> {
        self.constant(Literal::i64s(values))
    }

    /// `stablehlo.iota`: counts along `dim`.
    pub fn iota(&mut self, ty: &TensorType, dim: usize) -> Result<Value> {
        check_dim("stablehlo.iota", dim as i64, ty.rank())?;
        if ty.element == ElementType::Bool {
            return Err(BuildError::new("stablehlo.iota", "not defined for i1"));
        }
        self.op("stablehlo.iota", &[], vec![("iota_dimension", Attr::I64(dim as i64))], ty.clone())
    }
}
