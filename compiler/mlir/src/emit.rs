//! Ops and regions as MLIR operations.

use melior::Context;
use melior::ir::attribute::{ArrayAttribute, StringAttribute, TypeAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationBuilder;
use melior::ir::r#type::FunctionType;
use melior::ir::{
    Attribute, Block, Identifier, Location, Operation, Region, RegionLike, Type, Value, ValueLike,
};
use tpud_stablehlo as hlo;

use crate::MlirError;
use crate::attributes::{Attributes, integer};
use crate::session::Session;
use crate::types::Types;

/// The module with its one function `main`, verified as far as MLIR knows its ops.
pub(crate) fn emit<'c>(
    session: &'c Session,
    module: &hlo::Module,
) -> Result<melior::ir::Module<'c>, MlirError> {
    let context = session.context();
    let mut emitter = Emitter {
        session,
        module,
        location: Location::unknown(context),
        types: Types::new(context),
        attributes: Attributes::new(context),
        values: vec![None; module.types.len()],
    };
    let function = emitter.function()?;
    let made = melior::ir::Module::new(emitter.location);
    made.body().append_operation(function);
    if !made.as_operation().verify() {
        return Err(MlirError::Invalid { diagnostics: session.take_diagnostics() });
    }
    Ok(made)
}

struct Emitter<'c, 'm> {
    session: &'c Session,
    module: &'m hlo::Module,
    location: Location<'c>,
    types: Types<'c, 'm>,
    attributes: Attributes<'c, 'm>,
    /// Values in scope, by their number.
    values: Vec<Option<Value<'c, 'c>>>,
}

impl<'c, 'm> Emitter<'c, 'm> {
    fn context(&self) -> &'c Context {
        self.session.context()
    }

    fn function(&mut self) -> Result<Operation<'c>, MlirError> {
        let (context, module) = (self.context(), self.module);
        let inputs = self.types_of(&module.body.args)?;
        let outputs = self.types_of(&module.results)?;
        let region = self.region(&module.body)?;
        let signature = FunctionType::new(context, &inputs, &outputs);
        let mut attributes: Vec<(Identifier<'c>, Attribute<'c>)> = vec![
            (self.attributes.identifier("sym_name"), StringAttribute::new(context, "main").into()),
            (self.attributes.identifier("function_type"), TypeAttribute::new(signature.into()).into()),
            (self.attributes.identifier("sym_visibility"), StringAttribute::new(context, "public").into()),
        ];
        if module.aliases.iter().any(Option::is_some) {
            attributes.push((self.attributes.identifier("arg_attrs"), self.aliases()));
        }
        OperationBuilder::new("func.func", self.location)
            .add_attributes(&attributes)
            .add_regions([region])
            .build()
            .map_err(|_| self.refused("func.func"))
    }

    /// `tf.aliasing_output` is XLA's spelling of a donated argument.
    fn aliases(&mut self) -> Attribute<'c> {
        let context = self.context();
        let each: Vec<Attribute<'c>> = (0..self.module.body.args.len())
            .map(|input| match self.module.aliases.get(input).copied().flatten() {
                Some(output) => {
                    self.attributes.dictionary(&[("tf.aliasing_output", integer(context, 32, output as i64))])
                }
                None => self.attributes.dictionary(&[]),
            })
            .collect();
        ArrayAttribute::new(context, &each).into()
    }

    fn region(&mut self, region: &'m hlo::Region) -> Result<Region<'c>, MlirError> {
        let args: Vec<(Type<'c>, Location<'c>)> =
            self.types_of(&region.args)?.into_iter().map(|ty| (ty, self.location)).collect();
        let block = Block::new(&args);
        for (i, arg) in region.args.iter().enumerate() {
            self.values[arg.index()] = block.argument(i).ok().map(|v| detached(v.into()));
        }
        for op in &region.ops {
            let made = self.operation(op)?;
            let made = block.append_operation(made);
            for (i, result) in op.results.iter().enumerate() {
                self.values[result.index()] = made.result(i).ok().map(|v| detached(v.into()));
            }
        }
        for value in region.args.iter().chain(region.ops.iter().flat_map(|op| &op.results)) {
            self.values[value.index()] = None; // out of scope from here on
        }
        let made = Region::new();
        made.append_block(block);
        Ok(made)
    }

    fn operation(&mut self, op: &'m hlo::Op) -> Result<Operation<'c>, MlirError> {
        let operands = self.operands(op)?;
        let results = self.types_of(&op.results)?;
        let attributes = op
            .attrs
            .iter()
            .map(|(name, attr)| self.attribute(op.name, name, attr))
            .collect::<Result<Vec<_>, _>>()?;
        let regions = op.regions.iter().map(|r| self.region(r)).collect::<Result<Vec<_>, _>>()?;
        // Nothing may fail between `new` and `build`: melior frees the builder's memory only in `build`.
        OperationBuilder::new(op.name, self.location)
            .add_operands(&operands)
            .add_results(&results)
            .add_attributes(&attributes)
            .add_regions_vec(regions)
            .build()
            .map_err(|_| self.refused(op.name))
    }

    fn operands(&self, op: &hlo::Op) -> Result<Vec<Value<'c, 'c>>, MlirError> {
        op.operands
            .iter()
            .enumerate()
            .map(|(operand, value)| {
                self.values.get(value.index()).copied().flatten().ok_or(MlirError::UndefinedValue {
                    op: op.name,
                    operand,
                    value: value.index(),
                })
            })
            .collect()
    }

    fn attribute(
        &mut self,
        op: &'static str,
        name: &'static str,
        attr: &'m hlo::Attr,
    ) -> Result<(Identifier<'c>, Attribute<'c>), MlirError> {
        match self.attributes.attribute(attr, &mut self.types)? {
            Some(made) => Ok((self.attributes.identifier(name), made)),
            None => Err(MlirError::Attribute {
                op,
                name,
                text: attr.to_string(),
                diagnostics: self.session.take_diagnostics(),
            }),
        }
    }

    fn types_of(&mut self, values: &[hlo::Value]) -> Result<Vec<Type<'c>>, MlirError> {
        let module = self.module;
        values.iter().map(|v| self.types.tensor(module.ty(*v))).collect()
    }

    fn refused(&self, op: &'static str) -> MlirError {
        MlirError::Operation { op, diagnostics: self.session.take_diagnostics() }
    }
}

/// The value without the borrow of the block or op that was at hand when it was made.
fn detached<'c>(value: Value<'c, '_>) -> Value<'c, 'c> {
    // SAFETY: a value stays where it is when its block or op is moved into a region, an op or the module. The emitter
    // forgets it at the end of its region, and a region that fails ends the emitter's work before anything is freed
    // that a later step could look at.
    unsafe { Value::from_raw(value.to_raw()) }
}
