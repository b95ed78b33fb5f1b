//! Graphs inside of graphs: what arrives, what is refused and where, what decides a key.

use prost::Message;
use tpud_graph::{Arg, Graph, GraphError, Subgraph, ValueId, canonical_bytes};
use tpud_proto::v1 as pb;
use tpud_proto::v1::value::Kind;

use crate::messages::{argument, list, meta, nested, symbol, value, with_cond};

fn changed(change: impl FnOnce(&mut pb::Graph)) -> Vec<u8> {
    let mut graph = with_cond();
    change(&mut graph);
    graph.encode_to_vec()
}

/// The first arm of the branch.
fn arm(graph: &mut pb::Graph) -> &mut pb::Subgraph {
    match &mut graph.nodes[2].args[1].value.as_mut().unwrap().kind {
        Some(Kind::Graph(arm)) => arm,
        other => panic!("{other:?}"),
    }
}

fn refused(place: &str, reason: &str, change: impl FnOnce(&mut pb::Graph)) {
    match Graph::decode(&changed(change)) {
        Err(GraphError::Contract { place: found, message }) => {
            assert_eq!(found, place, "{message}");
            assert!(message.contains(reason), "{message}");
        }
        other => panic!("{reason}: {other:?}"),
    }
}

const NODE: &str = "node 2 (higher_order.cond)";
const ARM: &str = "node 2 (higher_order.cond), argument true_fn";
const INNER: &str = "node 2 (higher_order.cond), argument true_fn, node 0 (aten.sin.default)";

#[test]
fn a_nested_graph_arrives() {
    let graph = Graph::decode(&changed(|_| ())).unwrap();
    let Some(Arg::Graph(arm)) = graph.nodes[2].arg("true_fn") else { panic!("{:?}", graph.nodes[2]) };
    let Subgraph { inputs, nodes, outputs } = &**arm;
    assert_eq!(inputs[0].to_string(), "float32[2, 3]");
    assert_eq!(
        (nodes[0].describe().as_str(), nodes[0].first_output),
        ("node 0 (aten.sin.default)", ValueId(1))
    );
    assert_eq!(nodes[0].location.as_ref().unwrap().line, 12);
    assert_eq!(outputs, &[ValueId(1)]);
    // Its values are not those of the graph around it.
    assert_eq!(graph.value_count(), 10);
}

#[test]
fn a_nested_graph_holds_the_contract_too() {
    refused(&format!("{INNER}, argument self"), "value 1 is not defined before", |g| {
        arm(g).nodes[0].args[0] = argument("self", Kind::Tensor(1));
    });
    refused(&format!("{INNER}, argument self"), "value 6 is not defined before", |g| {
        arm(g).nodes[0].args[0] = argument("self", list(vec![value(Kind::Tensor(6))]));
    });
    refused(&format!("{ARM}, output 0"), "value 2 is not defined before", |g| arm(g).outputs[0] = 2);
    refused(&format!("{ARM}, output 0"), "value 1 is absent", |g| {
        arm(g).nodes[0].outputs[0] = pb::TensorMeta::default();
    });
    refused(&format!("{ARM}, input 0"), "size -1 is negative", |g| {
        arm(g).inputs[0] = meta(pb::DType::Float32, &[-1]);
    });
    refused(&format!("{ARM}, input 0"), "symbol 7 does not exist", |g| arm(g).inputs[0].sizes[0] = symbol(7));
    refused(INNER, "size -2 is negative", |g| arm(g).nodes[0].outputs[0] = meta(pb::DType::Float32, &[-2]));
    refused(&format!("{ARM}, node 0 ()"), "the op is missing", |g| arm(g).nodes[0].op.clear());
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    refused(NODE, "argument true_fn: node 0 (aten.sin.default): location 2 does not exist", |g| {
        arm(g).nodes[0].location = 2;
    });
    refused(NODE, "argument true_fn: node 0 (aten.sin.default): unknown dtype 99", |g| {
        arm(g).nodes[0].outputs[0].dtype = 99;
    });
    refused(NODE, "argument true_fn: input 0: a dtype is missing", |g| arm(g).inputs[0].dtype = 0);
}

#[test]
fn graphs_are_not_nested_too_deeply() {
    Graph::decode(&changed(|g| *arm(g) = nested(16))).unwrap();
    refused(NODE, "graphs are nested deeper than 16 levels", |g| *arm(g) = nested(17));
    // So deep that the decoder itself gives up, before anything recurses.
    let bytes = changed(|g| *arm(g) = nested(60));
    assert!(matches!(Graph::decode(&bytes), Err(GraphError::Decode(_))));
    assert!(matches!(canonical_bytes(&bytes), Err(GraphError::Decode(_))));
}

#[test]
fn lines_in_a_nested_graph_do_not_change_the_key() {
    let canonical = |change: fn(&mut pb::Graph)| canonical_bytes(&changed(change)).unwrap();
    let original = canonical(|_| ());
    assert_eq!(canonical(|g| arm(g).nodes[0].location = 0), original);
    assert_eq!(canonical(|g| g.locations.clear()), original);
    let deep = |line: u32| {
        canonical_bytes(&changed(|g| {
            *arm(g) = nested(3);
            g.locations[0].line = line;
        }))
    };
    assert_eq!(deep(1), deep(2));
    let others: [fn(&mut pb::Graph); 6] = [
        |g| arm(g).nodes[0].op = "aten.cos.default".into(),
        |g| arm(g).nodes[0].args[0].name = "other".into(),
        |g| arm(g).outputs.push(0),
        |g| arm(g).outputs[0] = 0,
        |g| arm(g).inputs.push(meta(pb::DType::Bool, &[])),
        |g| *arm(g) = nested(2),
    ];
    for other in others {
        assert_ne!(canonical(other), original);
    }
}
