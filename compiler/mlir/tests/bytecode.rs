//! Bytecode of every op's module: complete, deterministic, and refused with a reason when the module is broken.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../examples/all_ops/cases/mod.rs"]
mod cases;

use std::collections::BTreeSet;
use std::path::Path;

use tpud_mlir::{BYTECODE_VERSION, MlirError, to_bytecode};
use tpud_stablehlo::{
    Attr, Builder, ElementType, Literal, Module, Op, Region, Scalar, SourceLocation, TensorType,
};

const F32: ElementType = ElementType::F32;

fn each_op<'m>(region: &'m Region, visit: &mut impl FnMut(&'m Op)) {
    for op in &region.ops {
        visit(op);
        op.regions.iter().for_each(|inner| each_op(inner, visit));
    }
}

/// `main(x) = exp(x)` whose op a test changes afterwards.
fn exp_module() -> Module {
    let mut b = Builder::new();
    let x = b.input(TensorType::new(F32, [4]));
    let y = b.exp(x).unwrap();
    b.finish(&[y]).unwrap()
}

/// The name of every StableHLO or CHLO op in the builder's sources.
fn ops_of_the_builder() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stablehlo/src/build");
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let strings = text.split('"').skip(1).step_by(2);
        found.extend(strings.filter(|s| is_op_name(s)).map(str::to_owned));
    }
    found
}

fn is_op_name(text: &str) -> bool {
    let name = text.strip_prefix("stablehlo.").or_else(|| text.strip_prefix("chlo."));
    name.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

#[test]
fn every_op_of_the_builder_has_a_case() {
    let mut covered = BTreeSet::new();
    for case in cases::all().unwrap() {
        each_op(&case.module.body, &mut |op| {
            covered.insert(op.name.to_owned());
        });
    }
    let declared = ops_of_the_builder();
    assert!(declared.len() > 80, "{declared:?}");
    let missing: Vec<&String> = declared.difference(&covered).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn case_names_are_distinct() {
    let names: Vec<String> = cases::all().unwrap().into_iter().map(|c| c.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn every_module_has_bytecode_of_the_wanted_version() {
    for case in cases::all().unwrap() {
        let bytes = to_bytecode(&case.module).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(bytes[..4], *b"ML\xefR", "{}", case.name);
        // The version is a variable-length integer; small ones are `2 * n + 1`.
        assert_eq!(i64::from(bytes[4] >> 1), BYTECODE_VERSION, "{}", case.name);
    }
}

#[test]
fn two_builds_give_the_same_bytes() {
    let (first, second) = (cases::all().unwrap(), cases::all().unwrap());
    for (a, b) in first.iter().zip(&second) {
        assert_eq!(to_bytecode(&a.module).unwrap(), to_bytecode(&b.module).unwrap(), "{}", a.name);
    }
}

#[test]
fn threads_give_the_same_bytes() {
    let build = || {
        let all = cases::all().unwrap();
        all.iter().take(40).map(|case| to_bytecode(&case.module).unwrap()).collect::<Vec<_>>()
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(build)).collect();
    let expected = build();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), expected);
    }
}

#[test]
fn locations_do_not_reach_the_bytes() {
    let at = |line| {
        let mut b = Builder::new();
        let x = b.input(TensorType::new(F32, [4]));
        b.set_location(Some(SourceLocation { file: "model.py".into(), line, name: "aten.exp".into() }));
        let y = b.exp(x).unwrap();
        to_bytecode(&b.finish(&[y]).unwrap()).unwrap()
    };
    assert_eq!(at(3), at(4));
    assert_eq!(at(3), to_bytecode(&exp_module()).unwrap());
}

#[test]
fn different_constants_give_different_bytes() {
    let of = |element, value| {
        let mut b = Builder::new();
        let y = b.splat(value, &TensorType::new(element, [2, 3])).unwrap();
        to_bytecode(&b.finish(&[y]).unwrap()).unwrap()
    };
    for element in cases::ELEMENTS {
        assert_ne!(of(element, Scalar::Int(0)), of(element, Scalar::Int(1)), "{element}");
    }
}

#[test]
fn every_kind_of_attribute_is_emitted() {
    let literal = |bytes: &[u8]| {
        let ty = TensorType::new(ElementType::Bool, [bytes.len() as i64]);
        Attr::Dense(Literal::dense(ty, bytes.to_vec()).unwrap())
    };
    let attrs = [
        Attr::Bool(true),
        Attr::I64(-3),
        Attr::I32(i32::MIN),
        Attr::I64s(vec![]),
        Attr::I64s(vec![1, -2]),
        Attr::Bools(vec![]),
        Attr::Bools(vec![true, false]),
        Attr::Text("a \"quoted\" text\n".into()),
        Attr::Symbol("main".into()),
        literal(&[1, 0, 1]),
        literal(&[]),
        Attr::Verbatim("#stablehlo<precision HIGHEST>".into()),
        Attr::Verbatim("{nested = [1 : i8]}".into()),
        Attr::Array(vec![]),
        Attr::Array(vec![Attr::Bool(false), Attr::Array(vec![Attr::I64(1)])]),
    ];
    let mut seen = BTreeSet::new();
    for attr in attrs {
        let mut module = exp_module();
        module.body.ops[0].attrs.push(("an_attribute", attr.clone()));
        assert!(seen.insert(to_bytecode(&module).unwrap()), "{attr} gives the bytes of another attribute");
    }
}

#[test]
fn unreadable_attributes_are_errors_that_quote_mlir() {
    let mut module = exp_module();
    module.body.ops[0].attrs.push(("an_attribute", Attr::Verbatim("#stablehlo<unbalanced".into())));
    let error = to_bytecode(&module).unwrap_err();
    let MlirError::Attribute { op, name, text, diagnostics } = &error else { panic!("{error}") };
    assert_eq!(
        (*op, *name, text.as_str()),
        ("stablehlo.exponential", "an_attribute", "#stablehlo<unbalanced")
    );
    assert!(diagnostics.contains("unbalanced"), "{diagnostics}");
    // Also inside a list.
    let mut module = exp_module();
    module.body.ops[0].attrs.push(("list", Attr::Array(vec![Attr::Verbatim("!".into())])));
    assert!(matches!(to_bytecode(&module), Err(MlirError::Attribute { name: "list", .. })));
}

#[test]
fn values_out_of_scope_are_errors() {
    let mut module = exp_module();
    let result = module.body.ops[0].results[0];
    module.body.ops[0].operands = vec![result];
    let expected =
        MlirError::UndefinedValue { op: "stablehlo.exponential", operand: 0, value: result.index() };
    assert_eq!(to_bytecode(&module), Err(expected));
}

#[test]
fn values_of_a_region_end_with_it() {
    let mut b = Builder::new();
    let pred = b.input(TensorType::scalar(ElementType::Bool));
    let x = b.input(TensorType::new(F32, [4]));
    let mut inner = None;
    let branch = |b: &mut Builder| {
        let y = b.exp(x)?;
        inner = Some(y);
        Ok(vec![y])
    };
    let out = b.if_else(pred, branch, |_| Ok(vec![x])).unwrap();
    let y = b.neg(out[0]).unwrap();
    let mut module = b.finish(&[y]).unwrap();
    module.body.ops[1].operands = vec![inner.unwrap()];
    let error = to_bytecode(&module).unwrap_err();
    assert!(matches!(error, MlirError::UndefinedValue { op: "stablehlo.negate", .. }), "{error}");
}

#[test]
fn a_wrong_signature_is_an_error_that_quotes_mlir() {
    let mut module = exp_module();
    module.results.clear();
    let error = to_bytecode(&module).unwrap_err();
    let MlirError::Invalid { diagnostics } = &error else { panic!("{error}") };
    assert!(diagnostics.contains("func.return"), "{diagnostics}");
}

#[test]
fn negative_sizes_are_errors() {
    let mut b = Builder::new();
    let ty = TensorType::new(F32, [2, -1]);
    let x = b.input(ty.clone());
    let module = b.finish(&[x]).unwrap();
    assert_eq!(to_bytecode(&module), Err(MlirError::NegativeSize { ty }));
}
