//! Random bits.

use crate::{Attr, BuildError, Builder, ElementType, Result, TensorType, Value};

impl Builder {
    /// `stablehlo.rng_bit_generator` with the Philox algorithm: `(new state, bits)` from a `tensor<2xui64>` state.
    /// The same state gives the same bits on every platform.
    pub fn rng_bits(&mut self, state: Value, ty: &TensorType) -> Result<(Value, Value)> {
        let op = "stablehlo.rng_bit_generator";
        let state_ty = self.ty(state).clone();
        let fits = state_ty.element == ElementType::U64
            && matches!(state_ty.dims[..], [2] | [3])
            && ty.element.is_unsigned_integer();
        if !fits {
            return Err(BuildError::new(op, format!("state {state_ty}, result {ty}")));
        }
        let attrs = vec![("rng_algorithm", Attr::Verbatim("#stablehlo<rng_algorithm PHILOX>".into()))];
        let results = self.push(op, &[state], attrs, vec![], vec![state_ty, ty.clone()])?;
        Ok((results[0], results[1]))
    }
}
