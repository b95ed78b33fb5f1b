//! Random nodes: where their bits come from.

use tpud_graph::{Graph, InputRole, OutputRole};
use tpud_lowering::{LoweringError, LoweringOptions, lower};

use crate::dsl::*;

const USER: OutputRole = OutputRole::User;

/// Two nodes of one op with these streams.
fn two_draws(first: i64, second: i64) -> Graph {
    let mut g = GraphBuilder::default();
    let seed = g.input(InputRole::Seed, U64, [2]);
    let draws = [first, second].map(|stream| {
        let args = args![size: [5], dtype: F32, seed: seed, stream: stream];
        (USER, g.node("aten.rand.default", args, &[meta(F32, [5])]))
    });
    g.finish(&draws)
}

#[test]
fn a_stream_is_part_of_the_counter() {
    let mut g = GraphBuilder::default();
    let seed = g.input(InputRole::Seed, U64, [2]);
    let args = args![size: [2, 3], dtype: F32, seed: seed, stream: 4];
    let draw = g.node("aten.rand.default", args, &[meta(F32, [2, 3])]);
    let text = text(&g.finish(&[(USER, draw)])).unwrap();
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(text) });
}

#[test]
fn nodes_of_two_streams_do_not_share_their_bits() {
    let draws = |graph: &Graph| text(graph).unwrap().matches("\"stablehlo.rng_bit_generator\"").count();
    assert_eq!(draws(&two_draws(0, 1)), 2);
    // Equal expressions are shared, which is why the contract forbids this.
    assert_eq!(draws(&two_draws(1, 1)), 1);
}

#[test]
fn certain_outcomes_draw_nothing() {
    for (p, train) in [(0.0, true), (1.0, true), (0.5, false)] {
        let mut g = GraphBuilder::default();
        let seed = g.input(InputRole::Seed, U64, [2]);
        let args = args![input: x(F32, [3]), p: p, train: train, seed: seed, stream: 0];
        let out = g.node("aten.native_dropout.default", args, &[meta(F32, [3]), meta(BOOL, [3])]);
        let text = text(&g.finish(&[(USER, out)])).unwrap();
        assert!(!text.contains("rng_bit_generator"), "{text}");
    }
}

#[test]
fn a_node_without_a_seed_is_internal() {
    let graph = single("aten.rand.default", args![size: [5], dtype: F32], &[meta(F32, [5])]);
    let error = lower(&graph, &LoweringOptions::default()).unwrap_err();
    let LoweringError::Internal(issue) = error else { panic!("{error}") };
    assert!(issue.message.contains("argument seed should be a tensor"), "{issue}");
}

#[test]
fn what_eager_pytorch_refuses_is_unsupported() {
    for (op, args) in [
        ("aten.bernoulli.p", args![self: x(F32, [3]), p: 1.5]),
        ("aten.uniform.default", args![self: x(F32, [3]), from: 2.0, to: 1.0]),
        ("aten.exponential.default", args![self: x(F32, [3]), lambd: -1.0]),
        ("aten.geometric.default", args![self: x(F32, [3]), p: 1.0]),
        ("aten.cauchy.default", args![self: x(F32, [3]), median: 0.0, sigma: 0.0]),
        ("aten.normal_functional.default", args![self: x(F32, [3]), mean: 0.0, std: -1.0]),
        ("aten.multinomial.default", args![self: x(F32, [2]), num_samples: 3, replacement: false]),
        ("aten.randint.low", args![low: 5, high: 5, size: [3]]),
    ] {
        let mut g = GraphBuilder::default();
        let seed = g.input(InputRole::Seed, U64, [2]);
        let mut args = args;
        args.extend(args![seed: seed, stream: 0]);
        let dtype = if op.contains("randint") || op.contains("multinomial") { I64 } else { F32 };
        let out = g.node(op, args, &[meta(dtype, [3])]);
        let error = lower(&g.finish(&[(USER, out)]), &LoweringOptions::default()).unwrap_err();
        assert!(matches!(error, LoweringError::Unsupported(_)), "{op}: {error}");
    }
}
