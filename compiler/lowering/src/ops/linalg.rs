//! Linear algebra: what is more than a matrix product. A file per kind of factor.
//!
//! Only the blocks are here; determinants, inverses, solutions and the like are put together from them in the client's
//! table. Algorithms run over `[batch, rows, columns]` in loops of the module, never unrolled over a matrix's size.

pub(crate) mod cholesky;
pub(crate) mod cross;
pub(crate) mod distance;
pub(crate) mod eigh;
pub(crate) mod lu;
mod matrix;
pub(crate) mod matrix_exp;
pub(crate) mod qr;
pub(crate) mod svd;
