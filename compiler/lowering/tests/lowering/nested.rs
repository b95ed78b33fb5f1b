//! Graphs inside of graphs: the regions they become, and what is said about what cannot be lowered.

use tpud_graph::{Arg, Argument, DType, Graph, Node, Subgraph, TensorMeta, ValueId};
use tpud_lowering::{LoweringError, LoweringOptions, lower};

use crate::dsl::*;

/// A nested graph of unary ops, one after the other; it takes `inputs` and returns the last result.
fn chain(inputs: &[TensorMeta], ops: &[&str]) -> Subgraph {
    let node = |(i, op): (usize, &&str)| Node {
        index: i,
        op: (*op).to_owned(),
        args: vec![tensor("self", if i == 0 { 0 } else { inputs.len() + i - 1 })],
        outputs: vec![Some(inputs[0].clone())],
        first_output: ValueId((inputs.len() + i) as u32),
        location: Some(line(100 + i as u32)),
    };
    let last = if ops.is_empty() { 0 } else { inputs.len() + ops.len() - 1 };
    Subgraph {
        inputs: inputs.to_vec(),
        nodes: ops.iter().enumerate().map(node).collect(),
        outputs: vec![ValueId(last as u32)],
    }
}

fn tensor(name: &str, id: usize) -> Argument {
    Argument { name: name.into(), value: Arg::Tensor(ValueId(id as u32)) }
}

fn graph_arg(graph: Subgraph) -> Arg {
    Arg::Graph(Box::new(graph))
}

fn cond(then: Subgraph, otherwise: Subgraph) -> Graph {
    let args = args![
        pred: x(BOOL, [1]),
        true_fn: graph_arg(then),
        false_fn: graph_arg(otherwise),
        operands: list([x(F32, [2])]),
    ];
    single("higher_order.cond", args, &[meta(F32, [2])])
}

fn pair() -> [TensorMeta; 1] {
    [meta(F32, [2])]
}

fn snapshot_of(name: &str, graph: &Graph) {
    let text = text(graph).unwrap();
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

#[test]
fn branches() {
    snapshot_of(
        "branches",
        &cond(
            chain(&pair(), &["aten.sin.default"]),
            chain(&pair(), &["aten.cos.default", "aten.neg.default"]),
        ),
    );
}

#[test]
fn a_known_predicate_needs_no_branch() {
    let arms = [chain(&pair(), &["aten.sin.default"]), chain(&pair(), &["aten.cos.default"])];
    for (pred, kept, dropped) in [(true, "sine", "cosine"), (false, "cosine", "sine")] {
        let mut graph = cond(arms[0].clone(), arms[1].clone());
        graph.nodes[0].args[0].value = Arg::Bool(pred);
        let text = text(&graph).unwrap();
        assert!(text.contains(&format!("stablehlo.{kept}\"")), "{text}");
        assert!(
            !text.contains(&format!("stablehlo.{dropped}\"")) && !text.contains("stablehlo.if"),
            "{text}"
        );
    }
}

#[test]
fn rows() {
    let body = chain(&[meta(F32, [3])], &["aten.exp.default"]);
    let args = args![f: graph_arg(body), xs: list([x(F32, [5, 3])]), pos_args: list([])];
    snapshot_of("rows", &single("higher_order.map_impl", args, &[meta(F32, [5, 3])]));
}

#[test]
fn no_rows_are_no_loop() {
    let body = chain(&[meta(F32, [3])], &["aten.exp.default"]);
    let args = args![f: graph_arg(body), xs: list([x(F32, [0, 3])]), pos_args: list([])];
    let text = text(&single("higher_order.map_impl", args, &[meta(F32, [0, 3])])).unwrap();
    assert!(!text.contains("stablehlo.while"), "{text}");
}

#[test]
fn unsupported_nodes_in_branches_are_reported_all_at_once_with_their_lines() {
    let graph = cond(
        chain(&pair(), &["aten.made_up.default", "aten.neg.default"]),
        chain(&pair(), &["aten.sin.default", "aten.also_made_up.default"]),
    );
    let error = lower(&graph, &LoweringOptions::default()).unwrap_err();
    let LoweringError::Unsupported(issues) = &error else { panic!("{error}") };
    let found: Vec<_> =
        issues.iter().map(|i| (i.node, i.op.as_str(), i.location.as_ref().unwrap().line)).collect();
    assert_eq!(found, [(0, "aten.made_up.default", 100), (0, "aten.also_made_up.default", 101)]);
}

#[test]
fn graphs_that_do_not_fit_their_operands_are_internal() {
    let fits = || chain(&pair(), &["aten.sin.default"]);
    let mut two_results = fits();
    two_results.outputs.push(ValueId(0));
    let wide = chain(&[meta(DType::Float64, [2])], &["aten.sin.default"]);
    let more = chain(&[meta(F32, [2]), meta(F32, [2])], &["aten.sin.default"]);
    for (graph, wanted) in [
        (cond(wide, fits()), "input 0 of a nested graph is tensor<2xf64>, but it gets tensor<2xf32>"),
        (cond(fits(), more), "a nested graph takes 2 values, not 1"),
        (cond(two_results, fits()), "branches return"),
    ] {
        let error = lower(&graph, &LoweringOptions::default()).unwrap_err();
        let LoweringError::Internal(issue) = &error else { panic!("{error}") };
        assert!(issue.message.contains(wanted), "{issue}");
        assert_eq!((issue.op.as_str(), issue.location.as_ref().unwrap().line), ("higher_order.cond", 10));
    }
}

#[test]
fn a_fault_inside_of_a_graph_names_the_inner_node() {
    let mut broken = chain(&pair(), &["aten.argmax.default"]);
    broken.nodes[0].args.push(Argument { name: "dim".into(), value: Arg::Text("one".into()) });
    let error = lower(&cond(broken, chain(&pair(), &[])), &LoweringOptions::default()).unwrap_err();
    let LoweringError::Internal(issue) = &error else { panic!("{error}") };
    assert!(issue.message.contains("in a nested graph: aten.argmax.default: argument dim"), "{issue}");
    assert!(issue.message.contains("model.py:100"), "{issue}");
}

#[test]
fn nested_ops_are_counted_and_deep_graphs_lowered() {
    let deepest = chain(&pair(), &["aten.sin.default"]);
    let nested = (0..14).fold(deepest, |inner, _| {
        let mut outer = chain(&pair(), &["higher_order.cond"]);
        outer.nodes[0].args = vec![
            Argument { name: "pred".into(), value: Arg::Bool(true) },
            Argument { name: "true_fn".into(), value: graph_arg(inner.clone()) },
            Argument { name: "false_fn".into(), value: graph_arg(chain(&pair(), &["aten.cos.default"])) },
            Argument { name: "operands".into(), value: Arg::List(vec![Arg::Tensor(ValueId(0))]) },
        ];
        outer
    });
    let lowered = lower(&cond(nested, chain(&pair(), &[])), &LoweringOptions::default()).unwrap();
    assert!(lowered.op_counts.contains(&("higher_order.cond".into(), 15)), "{:?}", lowered.op_counts);
    assert!(lowered.op_counts.contains(&("aten.sin.default".into(), 1)));
}
