//! Whole-matrix ops and transforms.

use crate::{Attr, BuildError, Builder, ElementType, Result, Value};

use ElementType::{F32, F64};

/// What XLA's solvers take.
fn solvable(element: ElementType) -> bool {
    matches!(element, F32 | F64) || element.is_complex()
}

impl Builder {
    /// `stablehlo.cholesky` of `[…, n, n]`; the other triangle of the result is not defined.
    pub fn cholesky(&mut self, x: Value, lower: bool) -> Result<Value> {
        let ty = self.ty(x).clone();
        let rank = ty.rank();
        if rank < 2 || ty.dims[rank - 1] != ty.dims[rank - 2] || !solvable(ty.element) {
            return Err(BuildError::new(
                "stablehlo.cholesky",
                format!("{ty} is not a batch of square matrices of floats or complex numbers"),
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
        let rank = at.rank();
        let fits = rank >= 2
            && bt.rank() == rank
            && at.element == bt.element
            && solvable(at.element)
            && at.dims[..rank - 2] == bt.dims[..rank - 2]
            && at.dims[rank - 1] == at.dims[rank - 2]
            && at.dims[rank - 1] == bt.dims[if left_side { rank - 2 } else { rank - 1 }]
            && ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"].contains(&transpose);
        if !fits {
            let message = format!("a {at}, b {bt}, left_side {left_side}, {transpose}");
            return Err(BuildError::new("stablehlo.triangular_solve", message));
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
        let count = length.len();
        let last = length.last().copied().unwrap_or(0);
        let transformed = &ty.dims[rank - count.min(rank)..];
        let fits = (1..=rank.min(3)).contains(&count)
            && transformed[..count - 1] == length[..count - 1]
            && match (kind, ty.element) {
                ("FFT" | "IFFT", e) => e.is_complex() && transformed[count - 1] == last,
                ("RFFT", F32 | F64) => transformed[count - 1] == last,
                ("IRFFT", e) => e.is_complex() && last >= 0 && transformed[count - 1] == last / 2 + 1,
                _ => false,
            };
        if !fits {
            return Err(BuildError::new("stablehlo.fft", format!("{kind} of lengths {length:?} for {ty}")));
        }
        if kind == "RFFT" {
            ty.dims[rank - 1] = last / 2 + 1;
            ty.element = if ty.element == F64 { ElementType::C128 } else { ElementType::C64 };
        } else if kind == "IRFFT" {
            ty.dims[rank - 1] = last;
            ty.element = ty.element.real();
        }
        let attrs = vec![
            ("fft_type", Attr::Verbatim(format!("#stablehlo<fft_type {kind}>"))),
            ("fft_length", Attr::I64s(length.to_vec())),
        ];
        self.op("stablehlo.fft", &[x], attrs, ty)
    }
}
