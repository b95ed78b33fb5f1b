//! The module as data: one function, its ops, their regions.

use crate::{Attr, TensorType};

/// A value of a module: an input, an op's result or a region's argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

impl Value {
    /// Its number, dense from 0 in order of definition.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A number into [`Module::locations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocationId(pub(crate) u32);

impl LocationId {
    /// Index into [`Module::locations`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The user's line that an op stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// File as the user knows it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What stands there, e.g. the ATen op.
    pub name: String,
}

/// A list of ops with arguments. All regions here have one block.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Region {
    /// Block arguments.
    pub args: Vec<Value>,
    /// Ops; the last is the terminator.
    pub ops: Vec<Op>,
}

/// One StableHLO (or CHLO) op in generic form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Op {
    /// Full name, e.g. `stablehlo.add`.
    pub name: &'static str,
    /// Operands.
    pub operands: Vec<Value>,
    /// Results, numbered consecutively.
    pub results: Vec<Value>,
    /// Attributes in the order in which they are printed.
    pub attrs: Vec<(&'static str, Attr)>,
    /// Nested regions.
    pub regions: Vec<Region>,
    /// The user's line, if known.
    pub location: Option<LocationId>,
}

/// A whole module: `func.func public @main`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Body; its arguments are the module's inputs and its last op is `func.return`.
    pub body: Region,
    /// `aliases[i] = Some(o)`: input `i` is donated to output `o`.
    pub aliases: Vec<Option<usize>>,
    /// Types of all values, by [`Value::index`].
    pub types: Vec<TensorType>,
    /// User lines, by [`LocationId::index`].
    pub locations: Vec<SourceLocation>,
    /// What is returned.
    pub results: Vec<Value>,
}

impl Module {
    /// The type of a value of this module.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.types[value.index()]
    }

    /// Types of the inputs in order.
    pub fn input_types(&self) -> impl Iterator<Item = &TensorType> {
        self.body.args.iter().map(|v| self.ty(*v))
    }

    /// Types of the outputs in order.
    pub fn output_types(&self) -> impl Iterator<Item = &TensorType> {
        self.results.iter().map(|v| self.ty(*v))
    }

    /// Number of ops, nested ones included.
    pub fn op_count(&self) -> usize {
        fn count(region: &Region) -> usize {
            region.ops.iter().map(|op| 1 + op.regions.iter().map(count).sum::<usize>()).sum()
        }
        count(&self.body)
    }
}
