//! One small module for each op of the builder, on every element type that the op takes.

mod constants;
mod control;
mod elementwise;
mod linear;
mod reduce;
mod shape;

use tpud_stablehlo::{Builder, ElementType, Module, Result, TensorType, Value};

/// A named module.
pub(crate) struct Case {
    /// Names the files; unique.
    pub(crate) name: String,
    /// What is to be verified.
    pub(crate) module: Module,
}

/// Every element type.
pub(crate) const ELEMENTS: [ElementType; 17] = [
    ElementType::Bool,
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::U64,
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
    ElementType::F8E4M3FN,
    ElementType::F8E5M2,
    ElementType::F16,
    ElementType::BF16,
    ElementType::F32,
    ElementType::F64,
    ElementType::C64,
    ElementType::C128,
];

/// Every case, in a fixed order.
pub(crate) fn all() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    elementwise::cases(&mut cases)?;
    constants::cases(&mut cases)?;
    shape::cases(&mut cases)?;
    reduce::cases(&mut cases)?;
    linear::cases(&mut cases)?;
    control::cases(&mut cases)?;
    Ok(cases)
}

/// A case from a function that returns the module's outputs.
fn case(
    cases: &mut Vec<Case>,
    name: &str,
    build: impl FnOnce(&mut Builder) -> Result<Vec<Value>>,
) -> Result<()> {
    let mut b = Builder::new();
    let results = build(&mut b)?;
    cases.push(Case { name: name.to_owned(), module: b.finish(&results)? });
    Ok(())
}

/// An input of the module.
fn input(b: &mut Builder, element: ElementType, dims: &[i64]) -> Value {
    b.input(TensorType::new(element, dims))
}
