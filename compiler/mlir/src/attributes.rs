//! Attributes of ops as MLIR attributes.

use std::collections::HashMap;
use std::ffi::c_int;

use melior::Context;
use melior::ir::attribute::{
    ArrayAttribute, BoolAttribute, DenseI64ArrayAttribute, FlatSymbolRefAttribute, IntegerAttribute,
    StringAttribute,
};
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, AttributeLike, Identifier};
use mlir_sys::{MlirNamedAttribute, mlirDenseBoolArrayGet, mlirDictionaryAttrGet, mlirNamedAttributeGet};
use tpud_stablehlo::Attr;

use crate::types::Types;
use crate::{MlirError, dense};

/// Attributes and identifiers of one context.
pub(crate) struct Attributes<'c, 'm> {
    context: &'c Context,
    identifiers: HashMap<&'static str, Identifier<'c>>,
    /// Parsing is the dear part of emitting, and few distinct texts occur in a module.
    parsed: HashMap<&'m str, Attribute<'c>>,
}

impl<'c, 'm> Attributes<'c, 'm> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Self { context, identifiers: HashMap::new(), parsed: HashMap::new() }
    }

    pub(crate) fn identifier(&mut self, name: &'static str) -> Identifier<'c> {
        *self.identifiers.entry(name).or_insert_with(|| Identifier::new(self.context, name))
    }

    /// The attribute; none when MLIR cannot read it (and has said why).
    pub(crate) fn attribute(
        &mut self,
        attr: &'m Attr,
        types: &mut Types<'c, 'm>,
    ) -> Result<Option<Attribute<'c>>, MlirError> {
        let context = self.context;
        Ok(Some(match attr {
            Attr::Bool(b) => BoolAttribute::new(context, *b).into(),
            Attr::I64(i) => integer(context, 64, *i),
            Attr::I32(i) => integer(context, 32, i64::from(*i)),
            Attr::I64s(values) => DenseI64ArrayAttribute::new(context, values).into(),
            Attr::Bools(values) => bools(context, values),
            Attr::Text(text) => StringAttribute::new(context, text).into(),
            Attr::Symbol(name) => FlatSymbolRefAttribute::new(context, name).into(),
            Attr::Dense(literal) => return Ok(dense::elements(literal, types.tensor(literal.ty())?)),
            Attr::Verbatim(text) => return Ok(self.parse(text)),
            Attr::Array(items) => {
                let items: Option<Vec<Attribute<'c>>> =
                    items.iter().map(|item| self.attribute(item, types)).collect::<Result<_, _>>()?;
                return Ok(items.map(|items| ArrayAttribute::new(context, &items).into()));
            }
        }))
    }

    fn parse(&mut self, text: &'m str) -> Option<Attribute<'c>> {
        if let Some(found) = self.parsed.get(text) {
            return Some(*found);
        }
        let made = Attribute::parse(self.context, text)?;
        self.parsed.insert(text, made);
        Some(made)
    }

    /// `{name = value, …}`
    pub(crate) fn dictionary(&mut self, entries: &[(&'static str, Attribute<'c>)]) -> Attribute<'c> {
        let named: Vec<MlirNamedAttribute> = entries
            .iter()
            .map(|(name, value)| {
                let name = self.identifier(name).to_raw();
                // SAFETY: both belong to this live context; the call only pairs them.
                unsafe { mlirNamedAttributeGet(name, value.to_raw()) }
            })
            .collect();
        // SAFETY: `named` holds that many attributes of this live context, which MLIR copies.
        unsafe {
            Attribute::from_raw(mlirDictionaryAttrGet(
                self.context.to_raw(),
                named.len() as isize,
                named.as_ptr(),
            ))
        }
    }
}

/// `value : i<bits>`
pub(crate) fn integer(context: &Context, bits: u32, value: i64) -> Attribute<'_> {
    IntegerAttribute::new(IntegerType::new(context, bits).into(), value).into()
}

/// `array<i1: …>`
fn bools<'c>(context: &'c Context, values: &[bool]) -> Attribute<'c> {
    let values: Vec<c_int> = values.iter().map(|b| c_int::from(*b)).collect();
    // SAFETY: the context is alive, and MLIR copies the `values.len()` numbers.
    unsafe {
        Attribute::from_raw(mlirDenseBoolArrayGet(context.to_raw(), values.len() as isize, values.as_ptr()))
    }
}
