//! Ops that only raise. Without the option `checks` they are nothing: a compiled program cannot raise by itself.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar};

use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// How the client marks the assertions that stand for eager PyTorch's own checks: then comes what it raises.
const MARK: &str = "tpud check: ";

/// What an assertion raises, and what it says.
fn reading(text: &str) -> (CheckKind, &str) {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    for (name, kind) in [
        ("IndexError: ", CheckKind::Index),
        ("LinAlgError: ", CheckKind::LinAlg),
        ("RuntimeError: ", CheckKind::Runtime),
    ] {
        if let Some(message) = text.strip_prefix(name) {
            return (kind, message);
        }
    }
    (CheckKind::Runtime, text)
}

// aten::_assert_async(Tensor self) -> ()
// aten::_assert_async.msg(Tensor self, str assert_msg) -> ()
fn lower_assert_async(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if ctx.checking() {
        let condition = ctx.tensor(node, "self")?;
        let zero = ctx.fill_like(Scalar::Int(0), condition)?;
        let violated = ctx.b.compare(Direction::Eq, condition, zero)?;
        let (kind, message) =
            reading(ctx.opt_text(node, "assert_msg")?.unwrap_or("the assertion does not hold"));
        ctx.check(violated, kind, message)?;
    }
    // torch returns None, which a graph may count as an output that is absent.
    Ok(Outputs(vec![None; node.outputs.len()]))
}

// aten::_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()
fn lower_linalg_check_errors(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if ctx.checking() {
        let info = ctx.tensor(node, "info")?;
        let zero = ctx.fill_like(Scalar::Int(0), info)?;
        let failed = ctx.b.compare(Direction::Ne, info, zero)?;
        let name = ctx.opt_text(node, "api_name")?.unwrap_or_default();
        let why = if name.contains("cholesky") {
            "the input is not positive-definite"
        } else if name.contains("svd") || name.contains("eig") {
            "the algorithm failed to converge"
        } else {
            "the input matrix is singular"
        };
        ctx.check(failed, CheckKind::LinAlg, format!("{name}: {why}"))?;
    }
    // torch returns None, which a graph may count as an output that is absent.
    Ok(Outputs(vec![None; node.outputs.len()]))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._assert_async.default", lower_assert_async),
    Rule::new("aten._assert_async.msg", lower_assert_async),
    Rule::new("aten._linalg_check_errors.default", lower_linalg_check_errors),
];
