//! Checks: what they add to a module, and that nothing is there without the option.

use tpud_graph::{Arg, OutputRole};
use tpud_lowering::{Check, CheckKind, Lowered, LoweringOptions, lower};
use tpud_stablehlo::{ElementType, TensorType};

use crate::dsl::*;

const CHECKED: LoweringOptions = LoweringOptions {
    precision: tpud_lowering::Precision::Highest,
    emulate_tpu_precision: false,
    checks: true,
};

fn checked(graph: &tpud_graph::Graph) -> Lowered {
    lower(graph, &CHECKED).unwrap()
}

fn gather(rows: i64) -> tpud_graph::Graph {
    let args = args![self: x(F32, [3, 4]), dim: 1, index: x(I64, [rows, 2]), sparse_grad: false];
    match rows {
        0 => single("aten.gather.default", args, &[meta(F32, [0, 2])]),
        _ => single("aten.gather.default", args, &[meta(F32, [3, 2])]),
    }
}

#[test]
fn a_check_adds_one_number() {
    let graph = gather(3);
    let (plain, with) = (lower(&graph, &LoweringOptions::default()).unwrap(), checked(&graph));
    assert_eq!((plain.module.results.len(), plain.checks.len()), (1, 0));
    assert_eq!(with.module.results.len(), 2);
    let flag = &with.module.types[with.module.results[1].index()];
    assert_eq!(flag, &TensorType::scalar(ElementType::I32));
    let expected = Check {
        node: 0,
        op: "aten.gather.default".into(),
        message: "an index is out of range in dimension 1 of size 4: valid are 0 to 3".into(),
        kind: CheckKind::Runtime,
    };
    assert_eq!(with.checks, [expected]);
}

#[test]
fn what_has_nothing_to_check_is_the_same_module() {
    let args = args![self: x(F32, [2, 3]), mat2: x(F32, [3, 4])];
    let mm = single("aten.mm.default", args, &[meta(F32, [2, 4])]);
    for graph in [mm, gather(0)] {
        assert_eq!(checked(&graph).module.to_string(), text(&graph).unwrap());
    }
}

#[test]
fn indices_are_compared_before_they_are_narrowed() {
    let with = checked(&gather(3)).module.to_string();
    let compare = with.find("stablehlo.compare").unwrap();
    let narrowed = with.find("stablehlo.convert").unwrap();
    assert!(with[compare..].contains("xi64"), "{with}");
    assert!(compare < narrowed, "{with}");
}

#[test]
fn checks_come_in_the_order_of_the_graph_and_equal_ones_once() {
    let mut g = GraphBuilder::default();
    let (data, index) = (g.user(F32, [4]), g.user(I64, [4]));
    let f = &[meta(F32, [4])];
    let first = g.node("aten.gather.default", args![self: data, dim: 0, index: index, sparse_grad: false], f);
    let again =
        g.node("aten.gather.default", args![self: first, dim: 0, index: index, sparse_grad: false], f);
    let quotient = g.node("aten.floor_divide.default", args![self: index, other: index], &[meta(I64, [4])]);
    let graph = g.finish(&[(OutputRole::User, again), (OutputRole::User, quotient)]);
    let found: Vec<_> = checked(&graph).checks.into_iter().map(|check| (check.node, check.op)).collect();
    assert_eq!(found, [(0, "aten.gather.default".into()), (2, "aten.floor_divide.default".into())]);
}

#[test]
fn floats_divide_by_zero() {
    let args = args![self: x(F32, [4]), other: x(F32, [4])];
    assert!(checked(&single("aten.floor_divide.default", args, &[meta(F32, [4])])).checks.is_empty());
}

#[test]
fn assertions_say_what_they_raise() {
    let assertion = |text: &str| {
        let args = args![self: x(BOOL, []), assert_msg: Arg::Text(text.into())];
        checked(&single("aten._assert_async.msg", args, &[])).checks.remove(0)
    };
    let marked = assertion("tpud check: IndexError: aten.x.default: no");
    assert_eq!((marked.kind, marked.message.as_str()), (CheckKind::Index, "aten.x.default: no"));
    let plain = assertion("IndexErrors: no");
    assert_eq!((plain.kind, plain.message.as_str()), (CheckKind::Runtime, "IndexErrors: no"));
    let linalg = args![info: x(I32, [2]), api_name: "linalg.inv", is_matrix: false];
    let linalg = checked(&single("aten._linalg_check_errors.default", linalg, &[])).checks.remove(0);
    assert_eq!(linalg.kind, CheckKind::LinAlg);
    assert_eq!(linalg.message, "linalg.inv: the input matrix is singular");
}

#[test]
fn ops_that_only_raise_are_nothing_without_the_option() {
    let args = args![self: x(BOOL, []), assert_msg: "no"];
    let plain = lower(&single("aten._assert_async.msg", args, &[]), &LoweringOptions::default()).unwrap();
    assert!(plain.checks.is_empty() && plain.module.results.is_empty());
}
