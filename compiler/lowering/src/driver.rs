//! Walks a graph once and lowers node by node.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tpud_graph::{Arg, Graph, InputRole, Node, OutputRole, TensorMeta};
use tpud_stablehlo::{Literal, Module, Scalar, TensorType, Value};

use crate::checks::Check;
use crate::context::LoweringContext;
use crate::error::{Issue, LoweringError, RuleError};
use crate::registry::{Outputs, Rule, rule};
use crate::types::element_type;

/// Part of every cache key: raise it whenever a lowering changes what it emits.
pub const LOWERING_VERSION: u32 = 2;

/// Precision of f32 matrix products and convolutions (`torch.set_float32_matmul_precision`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f32 all through (bf16x6 on a TPU).
    #[default]
    Highest,
    /// bf16x3 on a TPU.
    High,
    /// bf16 operands on a TPU.
    Medium,
}

impl Precision {
    /// XLA's name.
    pub(crate) fn xla_name(self) -> &'static str {
        match self {
            Self::Highest => "HIGHEST",
            Self::High => "HIGH",
            Self::Medium => "DEFAULT",
        }
    }
}

/// What changes the module beside the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoweringOptions {
    /// Precision of f32 matrix products.
    pub precision: Precision,
    /// Build f32 matrix products from the parts of bf16 that a TPU takes, for a CPU.
    pub emulate_tpu_precision: bool,
    /// Report what eager PyTorch raises on in one output more.
    pub checks: bool,
}

/// A lowered graph.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// The module: inputs in the graph's order, outputs in the graph's order.
    pub module: Module,
    /// How often each op occurs, most frequent first, then by name.
    pub op_counts: Vec<(String, u32)>,
    /// What the module's last output, which is not the graph's, tells about; without checks there is no such output.
    pub checks: Vec<Check>,
}

/// Lowers a graph with static sizes.
///
/// # Errors
/// Every unsupported node at once; or the first internal fault.
pub fn lower(graph: &Graph, options: &LoweringOptions) -> Result<Lowered, LoweringError> {
    let mut ctx = LoweringContext::new(graph, options);
    for input in &graph.inputs {
        let value = ctx.b.input(static_type(&input.meta)?);
        ctx.define(Some(value));
    }
    for constant in &graph.constants {
        let ty = static_type(&constant.meta)?;
        let literal = Literal::dense(ty, constant.data.clone());
        let value =
            literal.and_then(|l| ctx.b.constant(l)).map_err(|e| broken("constant", &e.to_string()))?;
        ctx.define(Some(value));
    }
    for node in &graph.nodes {
        lower_node(&mut ctx, node)?;
    }
    if !ctx.issues.is_empty() {
        return Err(LoweringError::Unsupported(ctx.issues));
    }
    finish(ctx, graph)
}

/// Lowers one node. An unsupported one is noted and its outputs are replaced, so that the rest is checked too.
pub(crate) fn lower_node(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(), LoweringError> {
    ctx.locate(node);
    ctx.current = (ctx.outer.unwrap_or(node.index), node.op.clone());
    let types = node
        .outputs
        .iter()
        .map(|meta| meta.as_ref().map(static_type).transpose())
        .collect::<Result<Vec<_>, _>>()?;
    let outcome = match rule(&node.op) {
        Some(rule) => apply(rule, ctx, node).and_then(|outputs| check_outputs(ctx, &types, outputs)),
        None => Err(RuleError::unsupported("tpud has no lowering for this op")),
    };
    let outputs = match outcome {
        Ok(outputs) => outputs,
        Err(error) => {
            let (is_unsupported, issue) = error.at(node);
            if !is_unsupported {
                return Err(LoweringError::Internal(issue));
            }
            // A nested node is refused with the node of the whole graph that it is in.
            ctx.issues.push(Issue { node: ctx.outer.unwrap_or(issue.node), ..issue });
            stand_ins(ctx, &types).map_err(|e| broken(&node.op, &e.to_string()))?
        }
    };
    outputs.0.into_iter().for_each(|value| ctx.define(value));
    Ok(())
}

/// Runs a rule. Rules rely on what torch's own shape functions guarantee; a graph that torch did not make may break
/// that, and its sender gets an error at the node. The module is given up then, so its state does not matter.
fn apply(rule: &Rule, ctx: &mut LoweringContext<'_>, node: &Node) -> Result<Outputs, RuleError> {
    catch_unwind(AssertUnwindSafe(|| (rule.lower)(ctx, node))).unwrap_or_else(|panic| {
        let reason = panic.downcast_ref::<String>().map(String::as_str);
        let reason = reason.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        Err(RuleError::Internal(format!("the rule panicked on this node's arguments: {reason}")))
    })
}

fn check_outputs(
    ctx: &LoweringContext<'_>,
    types: &[Option<TensorType>],
    outputs: Outputs,
) -> Result<Outputs, RuleError> {
    if outputs.0.len() != types.len() {
        let message = format!("the rule returns {} values, the graph has {}", outputs.0.len(), types.len());
        return Err(RuleError::Internal(message));
    }
    for (i, (value, expected)) in outputs.0.iter().zip(types).enumerate() {
        let actual = value.map(|v| ctx.b.ty(v));
        // An output that torch drops (None) may still be computed by a rule.
        if expected.is_some() && actual != expected.as_ref() {
            let show = |ty: Option<&TensorType>| ty.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            let message =
                format!("output {i} is {}, but torch says {}", show(actual), show(expected.as_ref()));
            return Err(RuleError::Internal(message));
        }
    }
    Ok(outputs)
}

/// Zeros of the right types, in a module that will be thrown away.
fn stand_ins(ctx: &mut LoweringContext<'_>, types: &[Option<TensorType>]) -> tpud_stablehlo::Result<Outputs> {
    let zeros = types
        .iter()
        .map(|ty| ty.as_ref().map(|ty| ctx.b.splat(Scalar::Int(0), ty)).transpose())
        .collect::<tpud_stablehlo::Result<Vec<Option<Value>>>>()?;
    Ok(Outputs(zeros))
}

fn finish(mut ctx: LoweringContext<'_>, graph: &Graph) -> Result<Lowered, LoweringError> {
    let mut results = Vec::with_capacity(graph.outputs.len());
    for (i, output) in graph.outputs.iter().enumerate() {
        let value = ctx.value(output.value).map_err(|_| broken("output", "an output has no value"))?;
        if let OutputRole::Mutation { input } = output.role {
            // The old content is dead after the call: XLA may write in place.
            if graph.inputs[input].role == InputRole::Parameter {
                ctx.b.alias(input, i);
            }
        }
        results.push(value);
    }
    let found = ctx.finish_checks().map_err(|e| broken("checks", &e.to_string()))?;
    let (flag, checks) = found.unzip();
    results.extend(flag);
    let module = ctx.b.finish(&results).map_err(|e| broken("module", &e.to_string()))?;
    let mut counts = BTreeMap::new();
    count_ops(&graph.nodes, &mut counts);
    let mut op_counts: Vec<(String, u32)> = counts.into_iter().map(|(op, n)| (op.to_owned(), n)).collect();
    op_counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(Lowered { module, op_counts, checks: checks.unwrap_or_default() })
}

/// Counts nodes, nested ones included.
fn count_ops<'g>(nodes: &'g [Node], counts: &mut BTreeMap<&'g str, u32>) {
    for node in nodes {
        *counts.entry(&node.op).or_default() += 1;
        for arg in &node.args {
            if let Arg::Graph(nested) = &arg.value {
                count_ops(&nested.nodes, counts);
            }
        }
    }
}

pub(crate) fn static_type(meta: &TensorMeta) -> Result<TensorType, LoweringError> {
    let dims = meta.static_sizes().ok_or(LoweringError::Symbolic)?;
    Ok(TensorType::new(element_type(meta.dtype), dims))
}

fn broken(op: &str, message: &str) -> LoweringError {
    LoweringError::Internal(Issue { node: 0, op: op.to_owned(), message: message.to_owned(), location: None })
}
