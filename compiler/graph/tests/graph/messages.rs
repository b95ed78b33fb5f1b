//! A valid message that uses every part of the schema, to be read, changed and broken by the tests.

use prost::Message;
use tpud_proto::v1 as pb;

pub(crate) fn constant_size(n: i64) -> pb::SymExpr {
    pb::SymExpr { kind: Some(pb::sym_expr::Kind::Constant(n)) }
}

pub(crate) fn symbol(i: u32) -> pb::SymExpr {
    pb::SymExpr { kind: Some(pb::sym_expr::Kind::Symbol(i)) }
}

pub(crate) fn call(function: pb::sym_call::Function, args: Vec<pb::SymExpr>) -> pb::SymExpr {
    let call = pb::SymCall { function: function.into(), args };
    pb::SymExpr { kind: Some(pb::sym_expr::Kind::Call(call)) }
}

pub(crate) fn meta(dtype: pb::DType, sizes: &[i64]) -> pb::TensorMeta {
    let sizes = sizes.iter().map(|n| constant_size(*n)).collect();
    pb::TensorMeta { dtype: dtype.into(), sizes, strides: vec![], storage_offset: None }
}

pub(crate) fn input(role: pb::input::Role, meta: pb::TensorMeta) -> pb::Input {
    pb::Input { role: role.into(), meta: Some(meta), symbol: 0 }
}

pub(crate) fn value(kind: pb::value::Kind) -> pb::Value {
    pb::Value { kind: Some(kind) }
}

pub(crate) fn argument(name: &str, kind: pb::value::Kind) -> pb::Argument {
    pb::Argument { name: name.into(), value: Some(value(kind)) }
}

pub(crate) fn list(items: Vec<pb::Value>) -> pb::value::Kind {
    pb::value::Kind::List(pb::ValueList { items })
}

/// Values 0 to 4 are inputs, 5 is a constant, 6 the sum, 7 and 8 the outputs of the last node (8 is absent).
pub(crate) fn graph() -> pb::Graph {
    use pb::input::Role;
    let f32_2x3 = || meta(pb::DType::Float32, &[2, 3]);
    let mut rows = f32_2x3();
    rows.sizes[0] = symbol(0);
    rows.strides = vec![constant_size(3), constant_size(1)];
    rows.storage_offset = Some(constant_size(6));
    let scalar = meta(pb::DType::Int32, &[]);
    pb::Graph {
        schema_version: 1,
        symbols: vec![pb::Symbol { name: "s0".into(), min: 1, max: 64, hint: 2 }],
        inputs: vec![
            input(Role::UserInput, rows),
            input(Role::Parameter, f32_2x3()),
            input(Role::Symbol, scalar),
            input(Role::Seed, meta(pb::DType::Uint64, &[2])),
            input(Role::Constant, meta(pb::DType::Bool, &[0])),
        ],
        constants: vec![pb::Constant { meta: Some(meta(pb::DType::Bfloat16, &[2])), data: vec![0, 1, 2, 3] }],
        nodes: vec![sum(), two_outputs()],
        outputs: vec![
            pb::Output { role: pb::output::Role::UserOutput.into(), value: 7, input: 0 },
            pb::Output { role: pb::output::Role::Mutation.into(), value: 6, input: 1 },
            pb::Output { role: pb::output::Role::Saved.into(), value: 5, input: 0 },
        ],
        locations: vec![pb::Location {
            file: "model.py".into(),
            line: 12,
            function: "forward".into(),
            code: "y = x + w".into(),
            module_path: "encoder.0".into(),
        }],
        name: "Model".into(),
    }
}

fn sum() -> pb::Node {
    use pb::value::Kind;
    pb::Node {
        op: "aten.add.Tensor".into(),
        args: vec![
            argument("self", Kind::Tensor(0)),
            argument("other", Kind::Tensor(1)),
            argument("alpha", Kind::Integer(-2)),
        ],
        outputs: vec![meta(pb::DType::Float32, &[2, 3])],
        location: 1,
    }
}

/// A node with an argument of every kind.
fn two_outputs() -> pb::Node {
    use pb::sym_call::Function;
    use pb::value::Kind;
    let complex = pb::Complex { real: Some(-0.0), imag: Some(2.5) };
    let half = call(Function::FloorDiv, vec![symbol(0), constant_size(2)]);
    let items = vec![value(Kind::Tensor(5)), pb::Value { kind: None }, value(list(vec![]))];
    pb::Node {
        op: "aten.two.default".into(),
        args: vec![
            argument("flag", Kind::Boolean(true)),
            argument("scale", Kind::Floating(f64::INFINITY)),
            argument("mode", Kind::Text("none".into())),
            argument("dtype", Kind::Dtype(pb::DType::Float8E5m2.into())),
            argument("items", list(items)),
            argument("size", Kind::Symbolic(half)),
            argument("fixed", Kind::Symbolic(constant_size(7))),
            argument("number", Kind::Complex(complex)),
            pb::Argument { name: "none".into(), value: None },
        ],
        outputs: vec![meta(pb::DType::Int64, &[]), pb::TensorMeta::default()],
        location: 0,
    }
}

/// A nested graph of one node, `op(input 0)`, that takes and returns f32[2, 3].
pub(crate) fn branch(op: &str) -> pb::Subgraph {
    let f32_2x3 = || meta(pb::DType::Float32, &[2, 3]);
    let node = pb::Node {
        op: op.into(),
        args: vec![argument("self", pb::value::Kind::Tensor(0))],
        outputs: vec![f32_2x3()],
        location: 1,
    };
    pb::Subgraph { inputs: vec![f32_2x3()], nodes: vec![node], outputs: vec![1] }
}

/// The valid message with a branch of two arms as its last node.
pub(crate) fn with_cond() -> pb::Graph {
    use pb::value::Kind;
    let mut graph = graph();
    graph.nodes.push(pb::Node {
        op: "higher_order.cond".into(),
        args: vec![
            argument("pred", Kind::Boolean(true)),
            argument("true_fn", Kind::Graph(branch("aten.sin.default"))),
            argument("false_fn", Kind::Graph(branch("aten.cos.default"))),
            argument("operands", list(vec![value(Kind::Tensor(1))])),
        ],
        outputs: vec![meta(pb::DType::Float32, &[2, 3])],
        location: 1,
    });
    graph
}

/// `branch` inside of branches, `levels` deep.
pub(crate) fn nested(levels: usize) -> pb::Subgraph {
    (1..levels).fold(branch("aten.sin.default"), |inner, _| {
        let mut outer = branch("higher_order.wrap");
        outer.nodes[0].args.push(argument("body", pb::value::Kind::Graph(inner)));
        outer
    })
}

/// The valid message, changed.
pub(crate) fn changed(change: impl FnOnce(&mut pb::Graph)) -> Vec<u8> {
    let mut graph = graph();
    change(&mut graph);
    graph.encode_to_vec()
}
