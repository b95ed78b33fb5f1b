//! Attributes of ops, as far as StableHLO needs them.

use crate::Literal;

/// One attribute value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attr {
    /// `true`
    Bool(bool),
    /// `3 : i64`
    I64(i64),
    /// `3 : i32`
    I32(i32),
    /// `array<i64: 0, 1>`
    I64s(Vec<i64>),
    /// `array<i1: true, false>`
    Bools(Vec<bool>),
    /// `"text"`
    Text(String),
    /// `@name`
    Symbol(String),
    /// `dense<...> : tensor<...>`
    Dense(Literal),
    /// Attribute syntax to be taken as it is, e.g. `#stablehlo<comparison_direction EQ>`.
    Verbatim(String),
    /// `[a, b]`
    Array(Vec<Attr>),
}
