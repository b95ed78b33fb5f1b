//! The walk over a graph: errors, aliases, constants, order, sharing.

use tpud_graph::{Graph, InputRole, OutputRole, SymExpr, Symbol};
use tpud_lowering::{Lowered, LoweringError, LoweringOptions, Precision, lower, rule_shapes, supported_ops};
use tpud_stablehlo::{ElementType, TensorType};

use crate::dsl::*;

const USER: OutputRole = OutputRole::User;

fn lowered(graph: &Graph) -> Lowered {
    lower(graph, &LoweringOptions::default()).unwrap()
}

fn error(graph: &Graph) -> LoweringError {
    lower(graph, &LoweringOptions::default()).unwrap_err()
}

/// How often an op is in a module's text.
fn count(text: &str, op: &str) -> usize {
    text.matches(&format!("\"{op}\"")).count()
}

#[test]
fn every_unsupported_op_is_reported_at_once() {
    let mut g = GraphBuilder::default();
    let a = g.user(F32, [2]);
    let b = g.node("aten.made_up.default", args![self: a], &[meta(F32, [2])]);
    let c = g.node("aten.neg.default", args![self: b], &[meta(F32, [2])]);
    // Known op, unsupported use: the size depends on data.
    let mask = g.user(BOOL, [2]);
    let d = g.node("aten.index.Tensor", args![self: c, indices: list([mask.into()])], &[meta(F32, [1])]);
    let e = g.node("prims.also_made_up.default", args![x: d], &[meta(F32, [1])]);
    let error = error(&g.finish(&[(USER, e)]));
    let LoweringError::Unsupported(issues) = &error else { panic!("{error}") };
    let found: Vec<_> = issues
        .iter()
        .map(|issue| (issue.node, issue.op.as_str(), issue.location.as_ref().unwrap().line))
        .collect();
    let expected = [
        (0, "aten.made_up.default", 10),
        (2, "aten.index.Tensor", 30),
        (3, "prims.also_made_up.default", 40),
    ];
    assert_eq!(found, expected);
    let text = error.to_string();
    assert!(text.starts_with("3 ops are not supported: aten.made_up.default: "), "{text}");
    assert!(text.contains("(model.py:10)") && text.contains("use torch.where"), "{text}");
}

#[test]
fn absent_outputs_of_an_unsupported_op_stay_absent() {
    let mut graph =
        single("aten.made_up.default", args![self: x(F32, [2])], &[meta(F32, [2]), meta(F32, [2])]);
    graph.nodes[0].outputs[1] = None;
    graph.outputs.truncate(1);
    assert!(matches!(error(&graph), LoweringError::Unsupported(issues) if issues.len() == 1));
}

#[test]
fn symbolic_sizes_are_refused() {
    let symbol = Symbol { name: "s0".into(), min: 1, max: 8, hint: 4 };
    let graph = || {
        let mut graph = single("aten.neg.default", args![self: x(F32, [2])], &[meta(F32, [2])]);
        graph.symbols = vec![symbol.clone()];
        graph
    };
    let (mut input, mut output) = (graph(), graph());
    input.inputs[0].meta.sizes[0] = SymExpr::Symbol(0);
    output.nodes[0].outputs[0].as_mut().unwrap().sizes[0] = SymExpr::Symbol(0);
    assert_eq!(error(&input), LoweringError::Symbolic);
    assert_eq!(error(&output), LoweringError::Symbolic);
    // A symbol that no size mentions does no harm.
    lowered(&graph());
}

#[test]
fn a_result_that_torch_types_differently_is_internal() {
    let product = || args![self: x(F32, [2, 3]), mat2: x(F32, [3, 4])];
    for (op, args, outputs, wanted) in [
        (
            "aten.argmax.default",
            argmax(),
            vec![meta(I32, [2])],
            "is tensor<2xi64>, but torch says tensor<2xi32>",
        ),
        (
            "aten.mm.default",
            product(),
            vec![meta(F32, [2, 5])],
            "is tensor<2x4xf32>, but torch says tensor<2x5xf32>",
        ),
        (
            "aten.argmax.default",
            argmax(),
            vec![meta(I64, [2]); 2],
            "the rule returns 1 values, the graph has 2",
        ),
    ] {
        let error = error(&single(op, args, &outputs));
        let LoweringError::Internal(issue) = &error else { panic!("{error}") };
        assert!(issue.message.contains(wanted), "{issue}");
        assert_eq!((issue.node, issue.op.as_str()), (0, op));
        assert_eq!(issue.location.as_ref().unwrap().line, 10);
    }
}

fn argmax() -> TestArgs {
    args![self: x(F32, [2, 3]), dim: 1, keepdim: false]
}

#[test]
fn a_wrong_argument_is_internal_and_named() {
    for (args, wanted) in [
        (args![self: x(F32, [2, 3]), dim: "one", keepdim: false], "argument dim should be an integer"),
        (args![dim: 1, keepdim: false], "argument self should be a tensor"),
        (args![self: x(F32, [2, 3]), dim: 2, keepdim: false], "dimension 2 is out of range for rank 2"),
    ] {
        let error = error(&single("aten.argmax.default", args, &[meta(I64, [2])]));
        let LoweringError::Internal(issue) = &error else { panic!("{error}") };
        assert!(issue.message.contains(wanted), "{issue}");
    }
}

#[test]
fn written_parameters_are_aliases() {
    let mut g = GraphBuilder::default();
    let buffer = g.input(InputRole::User, F32, [2]);
    let first = g.input(InputRole::Parameter, F32, [2]);
    let second = g.input(InputRole::Parameter, F32, [2]);
    let sum = g.node("aten.add.Tensor", args![self: first, other: second, alpha: 1], &[meta(F32, [2])]);
    let negated = g.node("aten.neg.default", args![self: buffer], &[meta(F32, [2])]);
    let graph = g.finish(&[
        (USER, sum),
        (OutputRole::Mutation { input: 2 }, sum),
        (OutputRole::Mutation { input: 0 }, negated),
        (OutputRole::Saved, negated),
    ]);
    let module = lowered(&graph).module;
    // A user's input may still be used by the user after the call: it is not donated.
    assert_eq!(module.aliases, [None, None, Some(1)]);
    assert_eq!(module.results.len(), 4);
    assert!(module.to_string().contains("%arg2: tensor<2xf32> {tf.aliasing_output = 1 : i32}"), "{module}");
}

#[test]
fn unused_inputs_stay_in_the_signature() {
    let mut g = GraphBuilder::default();
    g.user(I64, [7]);
    let used = g.user(F32, [2]);
    g.input(InputRole::Seed, U64, [2]);
    let module = lowered(&g.finish(&[(USER, used)])).module;
    let types: Vec<TensorType> = module.input_types().cloned().collect();
    let expected = [
        TensorType::new(ElementType::I64, [7]),
        TensorType::new(ElementType::F32, [2]),
        TensorType::new(ElementType::U64, [2]),
    ];
    assert_eq!(types, expected);
}

#[test]
fn constants_of_every_kind() {
    let mut g = GraphBuilder::default();
    let nan_and_zeros: Vec<u8> = [f32::NAN, -0.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let values = [
        g.constant(BOOL, [3], &[1, 0, 1]),
        g.constant(BF16, [2], &[0x80, 0x3f, 0xc0, 0x7f]), // 1, NaN
        g.constant(F32, [0, 4], &[]),
        g.constant(F32, [3], &nan_and_zeros),
        g.constant(U8, [], &[255]),
        g.constant(C64, [1], &[0, 0, 128, 63, 0, 0, 0, 192]), // 1 - 2i
    ];
    let text = text(&g.finish(&values.map(|v| (USER, v)))).unwrap();
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(text) });
}

#[test]
fn a_constant_of_the_wrong_size_is_internal() {
    let mut g = GraphBuilder::default();
    let constant = g.constant(F32, [2], &[0; 4]);
    assert!(matches!(error(&g.finish(&[(USER, constant)])), LoweringError::Internal(_)));
}

#[test]
fn op_counts_are_sorted() {
    let mut g = GraphBuilder::default();
    let mut value = g.user(F32, [2]);
    for op in ["aten.neg.default", "aten.sin.default", "aten.cos.default", "aten.neg.default"] {
        value = g.node(op, args![self: value], &[meta(F32, [2])]);
    }
    let counts = lowered(&g.finish(&[(USER, value)])).op_counts;
    let expected = [("aten.neg.default", 2), ("aten.cos.default", 1), ("aten.sin.default", 1)];
    assert_eq!(counts, expected.map(|(op, n)| (op.to_owned(), n)));
}

#[test]
fn equal_expressions_are_shared_and_dead_code_is_dropped() {
    let mut g = GraphBuilder::default();
    let input = g.user(F32, [2]);
    let twice = [0, 1].map(|_| g.node("aten.sin.default", args![self: input], &[meta(F32, [2])]));
    let sum = g.node("aten.add.Tensor", args![self: twice[0], other: twice[1], alpha: 1], &[meta(F32, [2])]);
    g.node("aten.cos.default", args![self: sum], &[meta(F32, [2])]);
    let lowered = lowered(&g.finish(&[(USER, sum)]));
    let text = lowered.module.to_string();
    assert_eq!(count(&text, "stablehlo.sine"), 1, "{text}");
    assert_eq!(count(&text, "stablehlo.cosine"), 0, "{text}");
    // The counts are those of the graph.
    assert_eq!(lowered.op_counts.iter().map(|(_, n)| n).sum::<u32>(), 4);
}

#[test]
fn lowering_is_deterministic() {
    let graph = || {
        let mut g = GraphBuilder::default();
        let input = g.user(F32, [4, 8]);
        let weight = g.input(InputRole::Parameter, F32, [8]);
        let types = [meta(F32, [4, 8]), meta(F32, [4, 1]), meta(F32, [4, 1])];
        let args = args![input: input, normalized_shape: [8], weight: weight, bias: NONE, eps: 1e-5];
        let normed = g.node("aten.native_layer_norm.default", args, &types);
        let args = args![self: normed, k: 2, dim: -1, largest: true, sorted: true];
        let top = g.node("aten.topk.default", args, &[meta(F32, [4, 2]), meta(I64, [4, 2])]);
        g.finish(&[(USER, top), (USER, Ref::Node(1, 1))])
    };
    let (first, second) = (lowered(&graph()), lowered(&graph()));
    assert_eq!(first.module, second.module);
    assert_eq!(first.module.to_string(), second.module.to_string());
    assert_eq!(first.op_counts, second.op_counts);
}

#[test]
fn ops_carry_the_line_that_made_them() {
    let mut g = GraphBuilder::default();
    let input = g.user(F32, [2]);
    let sine = g.node("aten.sin.default", args![self: input], &[meta(F32, [2])]);
    let cosine = g.node("aten.cos.default", args![self: sine], &[meta(F32, [2])]);
    let module = lowered(&g.finish(&[(USER, cosine)])).module;
    let lines: Vec<_> = module
        .body
        .ops
        .iter()
        .filter_map(|op| op.location.map(|id| &module.locations[id.index()]))
        .map(|location| (location.file.as_str(), location.line, location.name.as_str()))
        .collect();
    assert_eq!(lines, [("model.py", 10, "aten.sin.default"), ("model.py", 20, "aten.cos.default")]);
}

#[test]
fn precision_reaches_matrix_products() {
    let args = args![self: x(F32, [2, 3]), mat2: x(F32, [3, 4])];
    let graph = single("aten.mm.default", args, &[meta(F32, [2, 4])]);
    for (precision, name) in
        [(Precision::Highest, "HIGHEST"), (Precision::High, "HIGH"), (Precision::Medium, "DEFAULT")]
    {
        let text =
            lower(&graph, &LoweringOptions { precision, ..Default::default() }).unwrap().module.to_string();
        assert!(text.contains(&format!("#stablehlo<precision {name}>")), "{text}");
    }
}

#[test]
fn the_list_of_rules_is_sorted_and_known() {
    let ops = supported_ops();
    assert!(ops.is_sorted() && ops.len() > 300, "{}", ops.len());
    assert!(ops.iter().all(|op| rule_shapes(op).is_some()));
    assert_eq!(rule_shapes("aten.made_up.default"), None);
}
