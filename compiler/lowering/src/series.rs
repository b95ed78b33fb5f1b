//! Sums with constant coefficients that approximate functions: polynomials and Chebyshev series.

use tpud_stablehlo::{Scalar, Value};

use crate::context::LoweringContext;
use crate::pointwise::Built;

impl LoweringContext<'_> {
    /// A polynomial in `x` by Horner's rule; the coefficient of the highest power comes first.
    pub(crate) fn polynomial(&mut self, x: Value, coefficients: &[f64]) -> Built {
        let mut sum = self.fill_like(Scalar::Float(coefficients.first().copied().unwrap_or(0.0)), x)?;
        for c in coefficients.iter().skip(1) {
            let product = self.b.mul(sum, x)?;
            sum = self.plus(product, *c)?;
        }
        Ok(sum)
    }

    /// The quotient of two polynomials in `x`.
    pub(crate) fn rational(&mut self, x: Value, over: &[f64], under: &[f64]) -> Built {
        let (over, under) = (self.polynomial(x, over)?, self.polynomial(x, under)?);
        Ok(self.b.div(over, under)?)
    }

    /// A series of Chebyshev polynomials in `x / 2`, of which the last coefficient counts half and belongs to order 0
    /// (Clenshaw's recurrence as Cephes writes it).
    pub(crate) fn chebyshev(&mut self, x: Value, coefficients: &[f64]) -> Built {
        let zero = self.fill_like(Scalar::Int(0), x)?;
        let (mut now, mut before, mut earlier) = (zero, zero, zero);
        for c in coefficients {
            (earlier, before) = (before, now);
            let product = self.b.mul(x, before)?;
            let rest = self.b.sub(product, earlier)?;
            now = self.plus(rest, *c)?;
        }
        let ends = self.b.sub(now, earlier)?;
        self.times(ends, 0.5)
    }
}
