//! The rules, a file per op family. A new family is a line in each of these two lists.

mod activation;
mod activation_backward;
mod argreduce;
mod attention;
mod bessel;
mod bessel_modified;
mod bins;
mod bitwise;
mod bounded;
mod cast;
mod check;
mod compare;
mod complex;
mod concat;
mod control;
mod conv;
mod conv_backward;
mod create;
mod division;
mod elementwise;
mod embedding_bag;
mod error_function;
mod extrema;
mod fft;
mod gamma;
mod gamma_incomplete;
mod grid_sampler;
mod grid_sampler_backward;
mod grouped_mm;
mod histogram;
mod index;
mod index_dim;
mod linalg;
mod linear;
mod loops;
mod nonzero;
mod norm;
mod number_theory;
mod orthogonal;
mod pad;
mod pool;
mod pool_adaptive;
mod pool_backward;
mod power;
mod quantised;
mod random;
mod random_discrete;
mod random_rejection;
mod rearrange;
mod reduce;
mod rounding;
mod scan;
mod scatter;
mod select;
mod slice;
mod softmax;
mod sort;
mod special;
mod strided;
mod temme;
mod triangle;
mod unary;
mod upsample;
mod upsample_backward;
mod upsample_taps;
mod view;

use crate::registry::Rule;

/// The tables of all families.
#[rustfmt::skip]
pub(crate) const ALL: &[&[Rule]] = &[
    activation::RULES,
    activation_backward::RULES,
    argreduce::RULES,
    attention::RULES,
    bessel::RULES,
    bessel_modified::RULES,
    bins::RULES,
    bitwise::RULES,
    bounded::RULES,
    cast::RULES,
    check::RULES,
    compare::RULES,
    complex::RULES,
    concat::RULES,
    control::RULES,
    conv::RULES,
    conv_backward::RULES,
    create::RULES,
    division::RULES,
    elementwise::RULES,
    embedding_bag::RULES,
    error_function::RULES,
    extrema::RULES,
    fft::RULES,
    gamma::RULES,
    gamma_incomplete::RULES,
    grid_sampler::RULES,
    grid_sampler_backward::RULES,
    grouped_mm::RULES,
    histogram::RULES,
    index::RULES,
    index_dim::RULES,
    linalg::cholesky::RULES,
    linalg::cross::RULES,
    linalg::distance::RULES,
    linalg::eigh::RULES,
    linalg::lu::RULES,
    linalg::matrix_exp::RULES,
    linalg::qr::RULES,
    linalg::svd::RULES,
    linear::RULES,
    loops::RULES,
    nonzero::RULES,
    norm::RULES,
    number_theory::RULES,
    orthogonal::RULES,
    pad::RULES,
    pool::RULES,
    pool_adaptive::RULES,
    pool_backward::RULES,
    power::RULES,
    quantised::RULES,
    random::RULES,
    random_discrete::RULES,
    random_rejection::RULES,
    rearrange::RULES,
    reduce::RULES,
    rounding::RULES,
    scan::RULES,
    scatter::RULES,
    select::RULES,
    slice::RULES,
    softmax::RULES,
    sort::RULES,
    special::RULES,
    strided::RULES,
    triangle::RULES,
    unary::RULES,
    upsample::RULES,
    upsample_backward::RULES,
    view::RULES,
];
