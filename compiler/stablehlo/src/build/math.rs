//! Whole-matrix ops and transforms.

use crate::{Attr, BuildError, Builder, ElementType, Result, Value};

impl Builder {
    /// `stablehlo.cholesky` of `[…, n, n]`; the other triangle of the result is not defined.
    pub fn cholesky(&mut self, x: Value, lower: bool) -> Result<Value> {
        let ty = self.ty(x).clone();
        let rank = ty.rank();
        if rank < 2 || ty.dims[rank - 1] != ty.dims[rank - 2] {
            return Err(BuildError::new(
                "stablehlo.cholesky",
                format!("{ty} is not a batch of square matrices"),
            ));
        }
        self.op("stablehlo.cholesky", &[x], vec![("lower", Attr::Bool(lower))], ty)
    }

    /// `stablehlo.triangular_solve`: `op(a) · X = b`, or `X · op(a) = b` when not `left_side`.
    /// `transpose` is `NO_TRANSPOSE`, `TRANSPOSE` or `ADJOINT`.
    pub fn triangular_solve(
        &mut self,
        a: Value,
        b: Value,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose: &str,
    ) -> Result<Value> {
        let (at, bt) = (self.ty(a).clone(), self.ty(b).clone());
        if at.rank() < 2 || at.rank() != bt.rank() || at.element != bt.element {
            return Err(BuildError::new("stablehlo.triangular_solve", format!("{at} and {bt}")));
        }
        let attrs = vec![
            ("left_side", Attr::Bool(left_side)),
            ("lower", Attr::Bool(lower)),
            ("unit_diagonal", Attr::Bool(unit_diagonal)),
            ("transpose_a", Attr::Verbatim(format!("#stablehlo<transpose {transpose}>"))),
        ];
        self.op("stablehlo.triangular_solve", &[a, b], attrs, bt)
    }

    /// `stablehlo.fft` over the last dimensions. `kind` is `FFT`, `IFFT`, `RFFT` or `IRFFT`; `length` holds the
    /// logical sizes.
    pub fn fft(&mut self, x: Value, kind: &str, length: &[i64]) -> Result<Value> {
        let mut ty = self.ty(x).clone();
        let rank = ty.rank();
        let last = length.last().copied().unwrap_or(0);
        if length.is_empty() || length.len() > rank.min(3) {
            return Err(BuildError::new("stablehlo.fft", format!("lengths {length:?} for {ty}")));
        }
        match kind {
            "RFFT" => {
                ty.dims[rank - 1] = last / 2 + 1;
                ty.element =
                    if ty.element == ElementType::F64 { ElementType::C128 } else { ElementType::C64 };
            }
            "IRFFT" => {
                ty.dims[rank - 1] = last;
                ty.element = ty.element.real();
            }
            _ => {}
        }
        let attrs = vec![
            ("fft_type", Attr::Verbatim(format!("#stablehlo<fft_type {kind}>"))),
            ("fft_length", Attr::I64s(length.to_vec())),
        ];
        self.op("stablehlo.fft", &[x], attrs, ty)
    }
}
