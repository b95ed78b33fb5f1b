//! Whatever arrives, the answer is a graph or an error.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message;
use tpud_graph::{Graph, canonical_bytes};
use tpud_proto::v1 as pb;

use crate::messages::{argument, call, constant_size, graph, list, meta, symbol, value, with_cond};

/// Reads bytes; what was accepted must also be safe to look at.
fn read(bytes: &[u8]) {
    let _ = canonical_bytes(bytes);
    let Ok(graph) = Graph::decode(bytes) else { return };
    let sizes = vec![3; graph.symbols.len()];
    let metas = graph.value_metas();
    assert_eq!(metas.len(), graph.value_count());
    for meta in metas.into_iter().flatten() {
        let _ = (meta.to_string(), meta.static_strides());
        for size in &meta.sizes {
            let _ = size.evaluate(&sizes);
        }
    }
}

fn sym_expr() -> impl Strategy<Value = pb::SymExpr> {
    let leaf = prop_oneof![any::<i64>().prop_map(constant_size), (0..3u32).prop_map(symbol)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        (0..=8i32, vec(inner, 0..3)).prop_map(|(function, args)| {
            let function = pb::sym_call::Function::try_from(function).unwrap_or_default();
            call(function, args)
        })
    })
}

fn kind() -> impl Strategy<Value = pb::value::Kind> {
    use pb::value::Kind;
    let leaf = prop_oneof![
        any::<u32>().prop_map(Kind::Tensor),
        (0..12u32).prop_map(Kind::Tensor),
        any::<i64>().prop_map(Kind::Integer),
        any::<f64>().prop_map(Kind::Floating),
        (-1..20i32).prop_map(Kind::Dtype),
        sym_expr().prop_map(Kind::Symbolic),
    ];
    leaf.prop_recursive(10, 20, 3, |inner| {
        prop_oneof![vec(inner.clone().prop_map(value), 0..3).prop_map(list), inner.prop_map(nested)]
    })
}

/// A nested graph whose one node has this argument.
fn nested(kind: pb::value::Kind) -> pb::value::Kind {
    let tensor = || meta(pb::DType::Float32, &[2]);
    let node = pb::Node {
        op: "aten.neg.default".into(),
        args: vec![argument("self", kind)],
        outputs: vec![tensor()],
        location: 0,
    };
    pb::value::Kind::Graph(pb::Subgraph { inputs: vec![tensor()], nodes: vec![node], outputs: vec![1] })
}

/// One change of a valid graph, small enough that most of the contract still holds.
#[derive(Debug, Clone)]
enum Change {
    Argument(Index, pb::value::Kind),
    Size(Index, pb::SymExpr),
    InputRole(Index, i32),
    InputDType(Index, i32),
    Output(Index, i32, u32, u32),
    Outputs(Index, usize),
    Constant(Vec<u8>),
    Symbol(i64, i64),
    Location(Index, u32),
    Version(u32),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), kind()).prop_map(|(i, kind)| Change::Argument(i, kind)),
        (any::<Index>(), sym_expr()).prop_map(|(i, size)| Change::Size(i, size)),
        (any::<Index>(), -1..8i32).prop_map(|(i, role)| Change::InputRole(i, role)),
        (any::<Index>(), -1..20i32).prop_map(|(i, dtype)| Change::InputDType(i, dtype)),
        (any::<Index>(), 0..5i32, 0..12u32, 0..8u32).prop_map(|(i, r, v, n)| Change::Output(i, r, v, n)),
        (any::<Index>(), 0..4usize).prop_map(|(i, n)| Change::Outputs(i, n)),
        vec(any::<u8>(), 0..8).prop_map(Change::Constant),
        (any::<i64>(), any::<i64>()).prop_map(|(min, max)| Change::Symbol(min, max)),
        (any::<Index>(), 0..4u32).prop_map(|(i, n)| Change::Location(i, n)),
        (0..3u32).prop_map(Change::Version),
    ]
}

fn apply(graph: &mut pb::Graph, change: Change) {
    let (inputs, nodes, outputs) = (graph.inputs.len(), graph.nodes.len(), graph.outputs.len());
    match change {
        Change::Argument(i, kind) => {
            let node = &mut graph.nodes[i.index(nodes)];
            let place = i.index(node.args.len());
            node.args[place] = argument("self", kind);
        }
        Change::Size(i, size) => graph.inputs[i.index(inputs)].meta.as_mut().unwrap().sizes.push(size),
        Change::InputRole(i, role) => graph.inputs[i.index(inputs)].role = role,
        Change::InputDType(i, dtype) => graph.inputs[i.index(inputs)].meta.as_mut().unwrap().dtype = dtype,
        Change::Output(i, role, value, input) => {
            graph.outputs[i.index(outputs)] = pb::Output { role, value, input };
        }
        Change::Outputs(i, n) => graph.nodes[i.index(nodes)].outputs.resize_with(n, pb::TensorMeta::default),
        Change::Constant(data) => graph.constants[0].data = data,
        Change::Symbol(min, max) => (graph.symbols[0].min, graph.symbols[0].max) = (min, max),
        Change::Location(i, n) => graph.nodes[i.index(nodes)].location = n,
        Change::Version(version) => graph.schema_version = version,
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn damaged_graphs(damage in vec((any::<Index>(), any::<u8>()), 1..4), cut in any::<Option<Index>>()) {
        let mut bytes = with_cond().encode_to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read(&bytes);
    }

    #[test]
    fn changed_graphs(changes in vec(change(), 1..4)) {
        let mut graph = with_cond();
        changes.into_iter().for_each(|change| apply(&mut graph, change));
        read(&graph.encode_to_vec());
    }

    #[test]
    fn an_accepted_graph_and_its_canonical_form_mean_the_same(changes in vec(change(), 0..3)) {
        let mut graph = graph();
        changes.into_iter().for_each(|change| apply(&mut graph, change));
        let bytes = graph.encode_to_vec();
        let Ok(accepted) = Graph::decode(&bytes) else { return Ok(()) };
        let mut canonical = Graph::decode(&canonical_bytes(&bytes).unwrap()).unwrap();
        prop_assert!(canonical.nodes.iter().all(|node| node.location.is_none()));
        prop_assert!(canonical.symbols.iter().all(|symbol| symbol.hint == 0));
        for (symbol, original) in canonical.symbols.iter_mut().zip(&accepted.symbols) {
            symbol.hint = original.hint;
        }
        canonical.name.clone_from(&accepted.name);
        for (node, original) in canonical.nodes.iter_mut().zip(&accepted.nodes) {
            node.location.clone_from(&original.location);
        }
        // Compared as text: NaN is not equal to itself.
        prop_assert_eq!(format!("{canonical:?}"), format!("{accepted:?}"));
    }
}
