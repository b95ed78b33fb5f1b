//! Matrix factorisations that XLA knows as custom calls: it expands them on a CPU and has its own programs on a TPU.

use crate::{Attr, BuildError, Builder, ElementType, Result, TensorType, Value};

/// The rows and columns of a batch of matrices of floats or complex numbers, none of them empty.
fn matrices(op: &'static str, ty: &TensorType) -> Result<(i64, i64)> {
    let solvable = matches!(ty.element, ElementType::F32 | ElementType::F64) || ty.element.is_complex();
    match ty.dims[..] {
        [.., rows, columns] if solvable && ty.elements() > 0 => Ok((rows, columns)),
        _ => Err(BuildError::new(op, format!("{ty} is no batch of matrices of floats or complex numbers"))),
    }
}

/// A type with the same batch and another end.
fn with_end(ty: &TensorType, drop: usize, end: &[i64]) -> TensorType {
    ty.with_dims([&ty.dims[..ty.rank() - drop], end].concat())
}

impl Builder {
    /// `stablehlo.custom_call` of a pure function.
    fn custom_call(
        &mut self,
        target: &str,
        operands: &[Value],
        config: String,
        types: Vec<TensorType>,
    ) -> Result<Vec<Value>> {
        let attrs = vec![
            ("call_target_name", Attr::Text(target.to_owned())),
            ("has_side_effect", Attr::Bool(false)),
            ("backend_config", Attr::Text(config)),
            ("api_version", Attr::I32(1)),
        ];
        self.push("stablehlo.custom_call", operands, attrs, vec![], types)
    }

    /// QR of `[…, m, n]` as LAPACK's `geqrf` leaves it: `R` in the upper triangle, reflectors below, and their scales
    /// `[…, min(m, n)]`.
    pub fn qr(&mut self, x: Value) -> Result<(Value, Value)> {
        let ty = self.ty(x).clone();
        let (rows, columns) = matrices("Qr", &ty)?;
        let scales = with_end(&ty, 2, &[rows.min(columns)]);
        let out = self.custom_call("Qr", &[x], String::new(), vec![ty, scales])?;
        Ok((out[0], out[1]))
    }

    /// The first columns of the product of as many reflectors as `x` `[…, m, n]` has columns, as LAPACK's `orgqr`
    /// makes them of [`qr`](Self::qr)'s results.
    pub fn reflectors_product(&mut self, x: Value, scales: Value) -> Result<Value> {
        let op = "ProductOfElementaryHouseholderReflectors";
        let ty = self.ty(x).clone();
        let (rows, columns) = matrices(op, &ty)?;
        if rows < columns || *self.ty(scales) != with_end(&ty, 2, &[columns]) {
            return Err(BuildError::new(op, format!("{ty} with scales {}", self.ty(scales))));
        }
        let out = self.custom_call(op, &[x, scales], String::new(), vec![ty])?;
        Ok(out[0])
    }

    /// Eigenvectors (columns) and ascending eigenvalues of Hermitian matrices.
    pub fn eigh(&mut self, x: Value) -> Result<(Value, Value)> {
        /// Where XLA stops a sweep that has not converged.
        const SWEEPS: u32 = 100;
        let ty = self.ty(x).clone();
        let (rows, columns) = matrices("Eigh", &ty)?;
        if rows != columns {
            return Err(BuildError::new("Eigh", format!("{ty} is not square")));
        }
        let values = with_end(&ty, 1, &[]).with_element(ty.element.real());
        // Lower triangle, sorted, and what may stay off the diagonal: XLA does no better than this with less.
        let config = format!("1,1,{SWEEPS},1e-8");
        let out = self.custom_call("Eigh", &[x], config, vec![ty, values])?;
        Ok((out[0], out[1]))
    }
}
