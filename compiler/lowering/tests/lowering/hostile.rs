//! Whatever the arguments of a node are, its rule answers with values or an error.
//!
//! The schema comments above the rules say what arguments an op has; here each gets random values of its type.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tpud_graph::{Arg, Argument, DType, Graph, OutputRole, SymExpr, TensorMeta, ValueId};
use tpud_lowering::LoweringError;

use crate::dsl::*;

/// Rounds for each op; a fault found once is worth a test of its own.
const ROUNDS: u64 = 40;
const INPUTS: usize = 4;

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] }).collect()
}

/// Argument names and types of each op, e.g. `aten.add.Tensor` → `[("self", "Tensor"), …]`.
fn schemas() -> BTreeMap<String, Vec<(String, String)>> {
    let mut schemas = BTreeMap::new();
    for file in rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops")) {
        let source = std::fs::read_to_string(file).unwrap();
        // A schema goes on in the next comment line.
        let joined = source.replace("\n//   ", " ");
        for schema in joined.lines().filter_map(|line| line.strip_prefix("// aten::")) {
            let Some((name, rest)) = schema.split_once('(') else { continue };
            let op = if name.contains('.') { format!("aten.{name}") } else { format!("aten.{name}.default") };
            schemas.insert(op, arguments(rest.split(") ->").next().unwrap_or(rest)));
        }
    }
    schemas
}

/// Reads `Tensor(a) self, *, int[2] kernel_size=[1, 1]`.
fn arguments(text: &str) -> Vec<(String, String)> {
    let words = |part: &str| {
        let declaration = part.split('=').next().unwrap_or(part).trim().to_owned();
        let (ty, name) = declaration.rsplit_once(' ')?;
        let ty: String = ty.replace("(a)", "").replace("(a -> *)", "").replace("SymInt", "int");
        let name = name.to_owned();
        name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some((name, ty))
    };
    text.split(", ").filter_map(words).collect()
}

/// SplitMix64: the same arguments in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[(self.next() % items.len() as u64) as usize]
    }

    fn int(&mut self) -> i64 {
        self.pick(&[0, 1, 2, 3, -1, -2, 1, 2, 0, 1, i64::MAX, i64::MIN, 1 << 40])
    }

    fn meta(&mut self) -> TensorMeta {
        let dtype = self.pick(&[F32, F32, F32, BF16, I64, I64, BOOL, U8, C64, F64, DType::Float8E5M2]);
        let rank = self.pick(&[0, 1, 2, 2, 3, 4]);
        let sizes = (0..rank).map(|_| SymExpr::Constant(self.pick(&[0, 1, 2, 3, 3, 4]))).collect();
        TensorMeta { sizes, ..meta(dtype, []) }
    }

    fn arg(&mut self, ty: &str) -> Arg {
        let base = ty.split(['[', '?']).next().unwrap_or(ty);
        let optional = ty.ends_with('?');
        if (optional && self.once_in(3)) || self.once_in(40) {
            return Arg::None;
        }
        if ty.contains('[') {
            let n = self.pick(&[0, 1, 1, 2, 2, 2, 3, 4]);
            let item = if ty.contains("?[") { format!("{base}?") } else { base.to_owned() };
            return Arg::List((0..n).map(|_| self.arg(&item)).collect());
        }
        match base {
            "Tensor" => Arg::Tensor(ValueId(self.pick(&[0, 1, 2, 3]))),
            "bool" => Arg::Bool(self.once_in(2)),
            "float" => Arg::Float(self.pick(&[0.0, 1.0, 0.5, -2.0, f64::NAN, f64::INFINITY])),
            "Scalar" => {
                if self.once_in(2) {
                    Arg::Int(self.int())
                } else {
                    Arg::Float(1.5)
                }
            }
            "ScalarType" => Arg::DType(self.pick(&[F32, I64, BF16, BOOL, C64])),
            "str" => {
                Arg::Text(self.pick(&["none", "tanh", "mean", "sum", "floor", "prod", "reflect"]).into())
            }
            _ => Arg::Int(self.int()),
        }
    }
}

/// A graph of one node of the op. In every other round all tensors have one type, so that more of the rule runs.
fn graph(op: &'static str, schema: &[(String, String)], random: &mut Random, round: u64) -> Graph {
    let mut g = GraphBuilder::default();
    let same = random.meta();
    for i in 0..INPUTS {
        g.user(F32, []);
        g.inputs[i].meta = if round.is_multiple_of(2) { same.clone() } else { random.meta() };
    }
    let output = |random: &mut Random| if random.once_in(2) { same.clone() } else { random.meta() };
    let outputs: Vec<_> = (0..random.pick(&[1, 1, 1, 2, 3])).map(|_| output(random)).collect();
    let node = g.node(op, vec![], &outputs);
    let mut graph = g.finish(&[(OutputRole::User, node)]);
    graph.nodes[0].args =
        schema.iter().map(|(name, ty)| Argument { name: name.clone(), value: random.arg(ty) }).collect();
    graph
}

#[test]
fn any_arguments_get_an_answer() {
    let schemas = schemas();
    let (mut asked, mut lowered) = (0, 0);
    for op in tpud_lowering::supported_ops() {
        let Some(schema) = schemas.get(op) else { continue };
        let mut random = Random(op.bytes().map(u64::from).sum());
        for round in 0..ROUNDS {
            asked += 1;
            match text(&graph(op, schema, &mut random, round)) {
                Ok(_) => lowered += 1,
                Err(LoweringError::Internal(issue)) => assert_eq!((issue.node, issue.op.as_str()), (0, op)),
                Err(LoweringError::Unsupported(issues)) => assert_eq!(issues.len(), 1),
                Err(LoweringError::Symbolic) => panic!("no size is symbolic"),
            }
        }
    }
    // Most ops have their schema above their rule, and not all nonsense is nonsense.
    assert!(asked > 300 * ROUNDS && lowered > asked / 20, "{lowered} of {asked}");
}

#[test]
fn a_rule_that_panics_is_an_internal_error() {
    // A diagonal of a vector: torch refuses it before it is a graph.
    let error = text(&single("aten.tril.default", args![self: x(F32, [4]), diagonal: 0], &[meta(F32, [4])]));
    let Err(LoweringError::Internal(issue)) = error else { panic!("{error:?}") };
    assert_eq!((issue.node, issue.op.as_str()), (0, "aten.tril.default"));
}
