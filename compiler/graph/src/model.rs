//! The graph as the compiler sees it.

use std::fmt;
use std::sync::Arc;

use crate::{SymExpr, Symbol};

/// Element types, in torch's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    Float8E4M3FN,
    Float8E5M2,
}

impl DType {
    /// Bytes of one element on the host.
    pub fn byte_width(self) -> usize {
        match self {
            Self::Bool | Self::UInt8 | Self::Int8 | Self::Float8E4M3FN | Self::Float8E5M2 => 1,
            Self::UInt16 | Self::Int16 | Self::Float16 | Self::BFloat16 => 2,
            Self::UInt32 | Self::Int32 | Self::Float32 => 4,
            Self::UInt64 | Self::Int64 | Self::Float64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }

    /// torch's name without the prefix, e.g. `float32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Float8E4M3FN => "float8_e4m3fn",
            Self::Float8E5M2 => "float8_e5m2",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Number of a value: inputs first, then constants, then the outputs of every node in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// dtype, sizes and layout of a tensor; strides and offset count elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMeta {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub sizes: Vec<SymExpr>,
    /// Strides, empty when the client did not say.
    pub strides: Vec<SymExpr>,
    /// First element in the storage.
    pub storage_offset: SymExpr,
}

impl TensorMeta {
    /// The sizes, if all are numbers.
    pub fn static_sizes(&self) -> Option<Vec<i64>> {
        self.sizes.iter().map(SymExpr::as_constant).collect()
    }

    /// The strides, if all are known numbers.
    pub fn static_strides(&self) -> Option<Vec<i64>> {
        if self.strides.len() != self.sizes.len() {
            return None;
        }
        self.strides.iter().map(SymExpr::as_constant).collect()
    }
}

impl fmt::Display for TensorMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .map(|s| s.as_constant().map_or_else(|| "?".to_owned(), |n| n.to_string()))
            .collect();
        write!(f, "{}[{}]", self.dtype, sizes.join(", "))
    }
}

/// What an input stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRole {
    /// An argument of the call.
    User,
    /// A parameter or buffer: stays on the device between calls.
    Parameter,
    /// A tensor constant too large to travel in the graph.
    Constant,
    /// An i32 scalar with the actual size of a symbol.
    Symbol(usize),
    /// A random seed.
    Seed,
}

/// One input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// What it stands for.
    pub role: InputRole,
    /// Its type.
    pub meta: TensorMeta,
}

/// A tensor constant: dense, row-major, little-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// Its type, with static sizes.
    pub meta: TensorMeta,
    /// Its bytes; a bool is one byte.
    pub data: Vec<u8>,
}

/// An argument's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// Python's None.
    None,
    /// A tensor.
    Tensor(ValueId),
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number: real, imaginary.
    Complex(f64, f64),
    /// A string.
    Text(String),
    /// A dtype.
    DType(DType),
    /// An integer computed from sizes.
    Sym(SymExpr),
    /// A list.
    List(Vec<Arg>),
    /// What a higher-order op runs.
    Graph(Box<Subgraph>),
}

/// A graph inside of a graph: a branch, the body of a loop. Its values are numbered on their own: inputs first, then
/// the outputs of every node; it sees no others.
#[derive(Debug, Clone, PartialEq)]
pub struct Subgraph {
    /// Types of the inputs.
    pub inputs: Vec<TensorMeta>,
    /// Ops in order.
    pub nodes: Vec<Node>,
    /// What it returns.
    pub outputs: Vec<ValueId>,
}

/// An argument under its schema name.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// Name in the ATen schema.
    pub name: String,
    /// Its value.
    pub value: Arg,
}

/// The user's line that made a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function.
    pub function: String,
    /// The text of the line.
    pub code: String,
    /// Path of the module, e.g. `encoder.layers.3`.
    pub module_path: String,
}

/// One ATen op.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Position among the nodes of its graph.
    pub index: usize,
    /// Overload name, e.g. `aten.add.Tensor`.
    pub op: String,
    /// All arguments of the schema, in its order.
    pub args: Vec<Argument>,
    /// Types of the outputs; `None` where torch returns None.
    pub outputs: Vec<Option<TensorMeta>>,
    /// Number of the first output.
    pub first_output: ValueId,
    /// The user's line.
    pub location: Option<Arc<Location>>,
}

impl Node {
    /// The argument of this name.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        self.args.iter().find(|a| a.name == name).map(|a| &a.value)
    }

    /// `node 12 (aten.add.Tensor)`.
    pub fn describe(&self) -> String {
        format!("node {} ({})", self.index, self.op)
    }
}

/// What an output stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputRole {
    /// A result of the call.
    User,
    /// The new content of an input.
    Mutation {
        /// Index of the input.
        input: usize,
    },
    /// Kept for the backward graph.
    Saved,
}

/// One output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// What it stands for.
    pub role: OutputRole,
    /// Which value.
    pub value: ValueId,
}

/// A functional ATen graph that holds the contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// For people, e.g. the model's class.
    pub name: String,
    /// Named sizes.
    pub symbols: Vec<Symbol>,
    /// Inputs in order.
    pub inputs: Vec<Input>,
    /// Small tensor constants.
    pub constants: Vec<Constant>,
    /// Ops in order.
    pub nodes: Vec<Node>,
    /// Outputs in order.
    pub outputs: Vec<Output>,
}

impl Graph {
    /// Number of values.
    pub fn value_count(&self) -> usize {
        self.inputs.len() + self.constants.len() + self.nodes.iter().map(|n| n.outputs.len()).sum::<usize>()
    }

    /// The types of all values, by number; `None` where a node's output is absent.
    pub fn value_metas(&self) -> Vec<Option<&TensorMeta>> {
        let inputs = self.inputs.iter().map(|i| Some(&i.meta));
        let constants = self.constants.iter().map(|c| Some(&c.meta));
        let outputs = self.nodes.iter().flat_map(|n| n.outputs.iter().map(Option::as_ref));
        inputs.chain(constants).chain(outputs).collect()
    }
}
