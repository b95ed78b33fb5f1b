//! A small language for graphs in tests.
//!
//! `args![self: x(F32, [2, 3]), dim: 1]` are the arguments of a node; each `x(...)` in it becomes an input of the graph.

use std::sync::Arc;

use tpud_graph::{
    Arg, Argument, Constant, DType, Graph, Input, InputRole, Location, Node, Output, OutputRole, SymExpr,
    TensorMeta, ValueId,
};
use tpud_lowering::{LoweringError, LoweringOptions, lower};

pub(crate) const BOOL: DType = DType::Bool;
pub(crate) const U8: DType = DType::UInt8;
pub(crate) const U64: DType = DType::UInt64;
pub(crate) const I32: DType = DType::Int32;
pub(crate) const I64: DType = DType::Int64;
pub(crate) const F32: DType = DType::Float32;
pub(crate) const F64: DType = DType::Float64;
pub(crate) const BF16: DType = DType::BFloat16;
pub(crate) const C64: DType = DType::Complex64;

/// An argument as a test writes it.
#[derive(Debug, Clone)]
pub(crate) enum TestArg {
    Plain(Arg),
    /// A new input of the graph.
    NewInput(TensorMeta),
    List(Vec<TestArg>),
}

/// A new input of the graph.
pub(crate) fn x<const N: usize>(dtype: DType, sizes: [i64; N]) -> TestArg {
    TestArg::NewInput(meta(dtype, sizes))
}

/// Python's None.
pub(crate) const NONE: TestArg = TestArg::Plain(Arg::None);

/// `Tensor[]` or `Tensor?[]`
pub(crate) fn list<const N: usize>(items: [TestArg; N]) -> TestArg {
    TestArg::List(items.to_vec())
}

pub(crate) fn meta<const N: usize>(dtype: DType, sizes: [i64; N]) -> TensorMeta {
    let sizes = sizes.map(SymExpr::Constant).to_vec();
    TensorMeta { dtype, sizes, strides: vec![], storage_offset: SymExpr::Constant(0) }
}

macro_rules! test_arg_from {
    ($($from:ty => $value:ident: $arg:expr;)*) => {
        $(impl From<$from> for TestArg {
            fn from($value: $from) -> Self {
                Self::Plain($arg)
            }
        })*
    };
}

test_arg_from! {
    Arg => a: a;
    i32 => i: Arg::Int(i64::from(i));
    i64 => i: Arg::Int(i);
    f64 => f: Arg::Float(f);
    bool => b: Arg::Bool(b);
    &str => s: Arg::Text(s.to_owned());
    DType => d: Arg::DType(d);
    ValueId => id: Arg::Tensor(id);
}

impl<const N: usize> From<[i64; N]> for TestArg {
    fn from(items: [i64; N]) -> Self {
        Self::Plain(Arg::List(items.into_iter().map(Arg::Int).collect()))
    }
}

/// The arguments of a node: `args![self: x(F32, [2]), alpha: 1]`.
macro_rules! args {
    ($($name:ident: $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::dsl::TestArg::from($value))),*]
    };
}
pub(crate) use args;

pub(crate) type TestArgs = Vec<(&'static str, TestArg)>;

/// A graph under construction. Inputs are numbered first, so nodes are kept until [`GraphBuilder::finish`].
#[derive(Default)]
pub(crate) struct GraphBuilder {
    pub(crate) inputs: Vec<Input>,
    pub(crate) constants: Vec<Constant>,
    nodes: Vec<(&'static str, TestArgs, Vec<Option<TensorMeta>>)>,
}

/// A value of a [`GraphBuilder`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ref {
    Input(usize),
    Constant(usize),
    /// Node and output.
    Node(usize, usize),
}

/// `Ref`s travel in arguments as numbers above all real ones, a range for each kind.
const CONSTANTS: u32 = 1 << 28;
const NODES: u32 = 1 << 29;

impl From<Ref> for TestArg {
    fn from(value: Ref) -> Self {
        Self::Plain(Arg::Tensor(ValueId(match value {
            Ref::Input(i) => i as u32,
            Ref::Constant(i) => CONSTANTS + i as u32,
            Ref::Node(i, output) => NODES + (i * 256 + output) as u32,
        })))
    }
}

impl GraphBuilder {
    pub(crate) fn input<const N: usize>(&mut self, role: InputRole, dtype: DType, sizes: [i64; N]) -> Ref {
        self.inputs.push(Input { role, meta: meta(dtype, sizes) });
        Ref::Input(self.inputs.len() - 1)
    }

    pub(crate) fn user<const N: usize>(&mut self, dtype: DType, sizes: [i64; N]) -> Ref {
        self.input(InputRole::User, dtype, sizes)
    }

    pub(crate) fn constant<const N: usize>(&mut self, dtype: DType, sizes: [i64; N], data: &[u8]) -> Ref {
        self.constants.push(Constant { meta: meta(dtype, sizes), data: data.to_vec() });
        Ref::Constant(self.constants.len() - 1)
    }

    /// Adds a node; returns its first output.
    pub(crate) fn node(&mut self, op: &'static str, args: TestArgs, outputs: &[TensorMeta]) -> Ref {
        self.nodes.push((op, args, outputs.iter().cloned().map(Some).collect()));
        Ref::Node(self.nodes.len() - 1, 0)
    }

    /// The graph with these outputs. Node `i` comes from line `10 * (i + 1)` of `model.py`.
    pub(crate) fn finish(mut self, outputs: &[(OutputRole, Ref)]) -> Graph {
        let mut nodes = std::mem::take(&mut self.nodes);
        for (_, args, _) in &mut nodes {
            args.iter_mut().for_each(|(_, arg)| self.add_inputs(arg));
        }
        let mut first = self.inputs.len() + self.constants.len();
        let mut firsts = Vec::new();
        for (_, _, metas) in &nodes {
            firsts.push(first as u32);
            first += metas.len();
        }
        let inputs = self.inputs.len() as u32;
        let number = |id: ValueId| {
            ValueId(match id.0 {
                n if n >= NODES => firsts[((n - NODES) / 256) as usize] + (n - NODES) % 256,
                n if n >= CONSTANTS => inputs + n - CONSTANTS,
                n => n,
            })
        };
        let nodes = nodes.into_iter().enumerate().map(|(index, (op, args, outputs))| Node {
            index,
            op: op.to_owned(),
            args: args
                .into_iter()
                .map(|(name, arg)| Argument { name: name.to_owned(), value: plain(arg, &number) })
                .collect(),
            outputs,
            first_output: ValueId(firsts[index]),
            location: Some(line(10 * (index as u32 + 1))),
        });
        let outputs = outputs.iter().map(|(role, value)| {
            let Arg::Tensor(id) = plain(TestArg::from(*value), &number) else { unreachable!() };
            Output { role: *role, value: id }
        });
        Graph {
            name: "test".into(),
            symbols: vec![],
            nodes: nodes.collect(),
            outputs: outputs.collect(),
            inputs: self.inputs,
            constants: self.constants,
        }
    }

    fn add_inputs(&mut self, arg: &mut TestArg) {
        match arg {
            TestArg::NewInput(meta) => {
                let input = Input { role: InputRole::User, meta: meta.clone() };
                self.inputs.push(input);
                *arg = Ref::Input(self.inputs.len() - 1).into();
            }
            TestArg::List(items) => items.iter_mut().for_each(|item| self.add_inputs(item)),
            TestArg::Plain(_) => {}
        }
    }
}

fn plain(arg: TestArg, number: &dyn Fn(ValueId) -> ValueId) -> Arg {
    match arg {
        TestArg::Plain(Arg::Tensor(id)) => Arg::Tensor(number(id)),
        TestArg::Plain(arg) => arg,
        TestArg::List(items) => Arg::List(items.into_iter().map(|item| plain(item, number)).collect()),
        TestArg::NewInput(_) => unreachable!("inputs were added"),
    }
}

/// A line of `model.py`.
pub(crate) fn line(line: u32) -> Arc<Location> {
    Arc::new(Location {
        file: "model.py".into(),
        line,
        function: "forward".into(),
        code: String::new(),
        module_path: String::new(),
    })
}

/// A graph of one node that returns all its outputs.
pub(crate) fn single(op: &'static str, args: TestArgs, outputs: &[TensorMeta]) -> Graph {
    let mut g = GraphBuilder::default();
    g.node(op, args, outputs);
    let returned: Vec<_> = (0..outputs.len()).map(|i| (OutputRole::User, Ref::Node(0, i))).collect();
    g.finish(&returned)
}

/// The StableHLO text of a graph.
pub(crate) fn text(graph: &Graph) -> Result<String, LoweringError> {
    lower(graph, &LoweringOptions::default()).map(|lowered| lowered.module.to_string())
}

/// Compares the text of a graph of one node with the snapshot of the test's name.
macro_rules! snapshot {
    ($op:expr, $args:expr, [$($dtype:ident $sizes:tt),+ $(,)?]) => {{
        let outputs = [$($crate::dsl::meta($crate::dsl::$dtype, $sizes)),+];
        let text = $crate::dsl::text(&$crate::dsl::single($op, $args, &outputs)).unwrap();
        insta::with_settings!({ omit_expression => true, description => $op }, {
            insta::assert_snapshot!(text);
        });
    }};
}
pub(crate) use snapshot;
