//! Each breach of the contract is refused with its place.

use tpud_graph::{Graph, GraphError};
use tpud_proto::v1 as pb;
use tpud_proto::v1::value::Kind;

use crate::messages::{argument, call, changed, constant_size, list, meta, symbol, value};

/// Checks that the valid graph, changed, is refused at `place` for a reason that contains `reason`.
fn refused(place: &str, reason: &str, change: impl FnOnce(&mut pb::Graph)) {
    match Graph::decode(&changed(change)) {
        Err(GraphError::Contract { place: found, message }) => {
            assert_eq!(found, place, "{message}");
            assert!(message.contains(reason), "{message}");
        }
        other => panic!("{reason}: {other:?}"),
    }
}

fn sizes(graph: &mut pb::Graph) -> &mut Vec<pb::SymExpr> {
    &mut graph.inputs[1].meta.as_mut().unwrap().sizes
}

const SUM: &str = "node 0 (aten.add.Tensor)";
const OTHER: &str = "node 0 (aten.add.Tensor), argument other";

#[test]
fn values_are_defined_before_they_are_used() {
    let other = |kind| move |g: &mut pb::Graph| g.nodes[0].args[1] = argument("other", kind);
    // Its own output, one of a later node, one of none, one in a list.
    refused(OTHER, "value 6 is not defined before", other(Kind::Tensor(6)));
    refused(OTHER, "value 7 is not defined before", other(Kind::Tensor(7)));
    refused(OTHER, "value 4294967295 is not defined before", other(Kind::Tensor(u32::MAX)));
    refused(OTHER, "value 9 is not defined before", other(list(vec![value(Kind::Tensor(9))])));
    refused("output 0", "value 9 is not defined before", |g| g.outputs[0].value = 9);
}

#[test]
fn absent_values_are_not_used() {
    refused("output 0", "value 8 is absent (None)", |g| g.outputs[0].value = 8);
    refused("node 2 (aten.neg.default), argument self", "value 8 is absent (None)", |g| {
        g.nodes.push(pb::Node {
            op: "aten.neg.default".into(),
            args: vec![argument("self", Kind::Tensor(8))],
            outputs: vec![meta(pb::DType::Int64, &[])],
            location: 0,
        });
    });
}

#[test]
fn constants_have_the_bytes_they_claim() {
    refused("constant 0", "bfloat16[2] needs 4 bytes, got 3", |g| g.constants[0].data.truncate(3));
    refused("constant 0", "bfloat16[2] needs 4 bytes, got 5", |g| g.constants[0].data.push(0));
    refused("constant 0", "a constant needs static sizes", |g| {
        g.constants[0].meta.as_mut().unwrap().sizes[0] = symbol(0);
    });
    refused("constant 0", "the type is missing", |g| g.constants[0].meta = None);
}

#[test]
fn mutations_fit_their_target() {
    refused("output 1", "input 5 does not exist", |g| g.outputs[1].input = 5);
    refused("output 1", "float32[2, 3] cannot become the content of input 0", |g| g.outputs[1].input = 0);
    refused("output 1", "int64[] cannot become the content of input 1", |g| g.outputs[1].value = 7);
    refused("output 3", "input 1 is written twice", |g| g.outputs.push(g.outputs[1]));
}

#[test]
fn roles_and_types_are_known() {
    refused("input 1", "the role is missing or unknown", |g| g.inputs[1].role = 0);
    refused("input 1", "the role is missing or unknown", |g| g.inputs[1].role = 77);
    refused("input 1", "the type is missing", |g| g.inputs[1].meta = None);
    refused("input 1", "a dtype is missing", |g| g.inputs[1].meta.as_mut().unwrap().dtype = 0);
    refused("input 1", "unknown dtype 99", |g| g.inputs[1].meta.as_mut().unwrap().dtype = 99);
    refused("output 0", "the role is missing or unknown", |g| g.outputs[0].role = 9);
    refused(SUM, "unknown dtype -1", |g| g.nodes[0].outputs[0].dtype = -1);
    refused(SUM, "argument alpha: unknown dtype 99", |g| {
        g.nodes[0].args[2] = argument("alpha", Kind::Dtype(99))
    });
    refused("node 0 ()", "the op is missing", |g| g.nodes[0].op.clear());
    refused(SUM, "location 2 does not exist", |g| g.nodes[0].location = 2);
}

#[test]
fn sizes_are_sane() {
    refused("input 1", "size -1 is negative", |g| sizes(g)[0] = constant_size(-1));
    refused("input 1", "has too many elements", |g| sizes(g)[0] = constant_size(i64::MAX));
    refused("input 1", "has too many elements", |g| sizes(g).extend([constant_size(1 << 47)]));
    // An empty tensor with absurd sizes is absurd too: programs over it may still multiply them.
    refused("input 1", "has too many elements", |g| {
        *sizes(g) = vec![constant_size(0), constant_size(1 << 49)]
    });
    refused("input 1", "rank 65 is over 64", |g| *sizes(g) = vec![constant_size(1); 65]);
    refused(SUM, "size -5 is negative", |g| g.nodes[0].outputs[0].sizes[1] = constant_size(-5));
}

#[test]
fn symbols_exist_and_have_a_range() {
    refused("input 1", "symbol 1 does not exist", |g| sizes(g)[0] = symbol(1));
    refused("input 2", "symbol 3 does not exist", |g| g.inputs[2].symbol = 3);
    refused("input 1", "symbol 4 does not exist", |g| {
        g.inputs[1].meta.as_mut().unwrap().storage_offset = Some(symbol(4));
    });
    refused(OTHER, "symbol 9 does not exist", |g| {
        let sum = call(pb::sym_call::Function::Add, vec![constant_size(1), symbol(9)]);
        g.nodes[0].args[1] = argument("other", Kind::Symbolic(sum));
    });
    for (min, max) in [(-1, 4), (5, 4)] {
        refused("symbol s0", "is empty or negative", |g| (g.symbols[0].min, g.symbols[0].max) = (min, max));
    }
}

#[test]
fn size_expressions_are_well_formed() {
    use pb::sym_call::Function;
    refused("input 1", "a size expression is empty", |g| sizes(g)[0] = pb::SymExpr { kind: None });
    refused("input 1", "a size expression has no arguments", |g| sizes(g)[0] = call(Function::Max, vec![]));
    refused("input 1", "unknown function", |g| sizes(g)[0] = call(Function::Unspecified, vec![symbol(0)]));
    let deep =
        |levels: usize| (0..levels).fold(symbol(0), |e, _| call(Function::Add, vec![e, constant_size(1)]));
    Graph::decode(&changed(|g| g.inputs[0].meta.as_mut().unwrap().sizes[0] = deep(32))).unwrap();
    refused("input 1", "nested too deeply", |g| sizes(g)[0] = deep(33));
    refused(SUM, "argument other: a size expression is nested too deeply", |g| {
        g.nodes[0].args[1] = argument("other", Kind::Symbolic(deep(33)));
    });
    // So deep that the decoder itself gives up.
    let bytes = changed(|g| sizes(g)[0] = deep(1000));
    assert!(matches!(Graph::decode(&bytes), Err(GraphError::Decode(_))));
}

#[test]
fn lists_are_not_too_deep() {
    let nested = |levels: usize| (0..levels).fold(Kind::Integer(1), |kind, _| list(vec![value(kind)]));
    Graph::decode(&changed(|g| g.nodes[0].args[2] = argument("alpha", nested(8)))).unwrap();
    refused(SUM, "argument alpha: lists are nested too deeply", |g| {
        g.nodes[0].args[2] = argument("alpha", nested(9));
    });
}

/// Adds a node that draws from value `seed`.
fn draw(graph: &mut pb::Graph, seed: u32, stream: i64) {
    graph.nodes.push(pb::Node {
        op: "aten.rand.default".into(),
        args: vec![
            argument("size", list(vec![])),
            argument("seed", Kind::Tensor(seed)),
            argument("stream", Kind::Integer(stream)),
        ],
        outputs: vec![meta(pb::DType::Float32, &[])],
        location: 0,
    });
}

#[test]
fn random_nodes_have_a_seed_and_a_stream_of_their_own() {
    const RAND: &str = "node 2 (aten.rand.default)";
    assert!(
        Graph::decode(&changed(|g| {
            draw(g, 3, 0);
            draw(g, 3, 1);
        }))
        .is_ok()
    );
    refused(RAND, "no seed: an input of role SEED", |g| {
        draw(g, 3, 0);
        g.nodes[2].args.remove(1);
    });
    refused(RAND, "value 0 is not a seed", |g| draw(g, 0, 0));
    refused(RAND, "value 3 is not a seed", |g| {
        draw(g, 3, 0);
        g.inputs[3].role = pb::input::Role::UserInput.into();
    });
    refused(RAND, "its stream should be a number", |g| draw(g, 3, -1));
    refused("node 3 (aten.rand.default)", "would draw the same numbers as node 2", |g| {
        draw(g, 3, 4);
        draw(g, 3, 4);
    });
    refused("input 3", "a seed is uint64[2], not int32[]", |g| {
        g.inputs[3].meta = Some(meta(pb::DType::Int32, &[]));
    });
}
