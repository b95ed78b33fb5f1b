//! Sizes: integers, or expressions over named symbols.

use crate::GraphError;

/// A named size and the range in which the graph is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Name, e.g. `s0`.
    pub name: String,
    /// Smallest legal size.
    pub min: i64,
    /// Largest legal size.
    pub max: i64,
    /// The size seen while tracing.
    pub hint: i64,
}

/// A function of integers, in Python's semantics (division and modulo round down).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SymFunction {
    Add,
    Mul,
    FloorDiv,
    CeilDiv,
    Mod,
    Min,
    Max,
    Pow,
}

/// An integer expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SymExpr {
    /// A number.
    Constant(i64),
    /// Index into `Graph::symbols`.
    Symbol(usize),
    /// A function of at least one expression; `Add`, `Mul`, `Min` and `Max` take any number.
    Call(SymFunction, Vec<SymExpr>),
}

impl SymExpr {
    /// The number, if this is one.
    pub fn as_constant(&self) -> Option<i64> {
        match self {
            Self::Constant(n) => Some(*n),
            _ => None,
        }
    }

    /// The value at the given sizes of the symbols.
    ///
    /// # Errors
    /// An unknown symbol, a division by zero, a negative power or an overflow.
    pub fn evaluate(&self, sizes: &[i64]) -> Result<i64, GraphError> {
        let fail = |message: &str| GraphError::contract("size expression", message);
        match self {
            Self::Constant(n) => Ok(*n),
            Self::Symbol(i) => sizes.get(*i).copied().ok_or_else(|| fail("unknown symbol")),
            Self::Call(function, args) => {
                let args = args.iter().map(|a| a.evaluate(sizes)).collect::<Result<Vec<i64>, _>>()?;
                let (&first, rest) =
                    args.split_first().ok_or_else(|| fail("a function without arguments"))?;
                rest.iter()
                    .try_fold(first, |a, &b| function.apply(a, b))
                    .ok_or_else(|| fail("overflow or division by zero"))
            }
        }
    }
}

impl SymFunction {
    fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Self::Add => a.checked_add(b),
            Self::Mul => a.checked_mul(b),
            Self::FloorDiv => floor_div(a, b),
            Self::CeilDiv => floor_div(a.checked_neg()?, b)?.checked_neg(),
            Self::Mod => a.checked_sub(floor_div(a, b)?.checked_mul(b)?),
            Self::Min => Some(a.min(b)),
            Self::Max => Some(a.max(b)),
            Self::Pow => a.checked_pow(u32::try_from(b).ok()?),
        }
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_follow_python() {
        let at = |f, a, b| SymExpr::Call(f, vec![SymExpr::Constant(a), SymExpr::Symbol(0)]).evaluate(&[b]);
        assert_eq!(at(SymFunction::FloorDiv, -7, 2), Ok(-4));
        assert_eq!(at(SymFunction::CeilDiv, 7, 2), Ok(4));
        assert_eq!(at(SymFunction::CeilDiv, -7, 2), Ok(-3));
        assert_eq!(at(SymFunction::Mod, -7, 3), Ok(2));
        assert_eq!(at(SymFunction::Mod, 7, -3), Ok(-2));
        assert_eq!(at(SymFunction::Pow, 3, 4), Ok(81));
        assert!(at(SymFunction::FloorDiv, 1, 0).is_err());
        assert!(at(SymFunction::Mul, i64::MAX, 2).is_err());
        assert!(SymExpr::Symbol(3).evaluate(&[1]).is_err());
    }
}
