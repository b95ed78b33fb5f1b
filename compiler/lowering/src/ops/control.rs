//! Branches and loops over nested graphs: `cond`, `while_loop`.

use tpud_graph::{Arg, Node};
use tpud_stablehlo::{ElementType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

impl LoweringContext<'_> {
    /// A tensor of one element as a 0-d bool.
    fn predicate(&mut self, x: Value) -> Result<Value, RuleError> {
        let scalar = self.b.reshape(x, &[])?;
        self.convert(scalar, ElementType::Bool)
    }
}

// cond(pred, true_fn, false_fn, operands): only the chosen branch runs
fn lower_cond(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (then, otherwise) = (ctx.graph(node, "true_fn")?, ctx.graph(node, "false_fn")?);
    let operands = ctx.tensors(node, "operands")?;
    if let Some(Arg::Bool(pred)) = node.arg("pred") {
        let chosen = if *pred { then } else { otherwise };
        return Ok(ctx.inline(node, chosen, &operands)?.into());
    }
    let pred = ctx.tensor(node, "pred")?;
    let pred = ctx.predicate(pred)?;
    let results = ctx.with_regions(|b, regions| {
        b.if_else(
            pred,
            |b| regions.run(b, |ctx| ctx.inline(node, then, &operands)),
            |b| regions.run(b, |ctx| ctx.inline(node, otherwise, &operands)),
        )
    })?;
    Ok(results.into())
}

// while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)
/// What does not change is carried too: then neither region looks outside of itself.
fn lower_while_loop(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (cond, body) = (ctx.graph(node, "cond_fn")?, ctx.graph(node, "body_fn")?);
    let mut state = ctx.tensors(node, "carried_inputs")?;
    let carried = state.len();
    state.extend(ctx.tensors(node, "additional_inputs")?);
    let mut results = ctx.repeat_while(
        &state,
        |ctx, args| match ctx.inline(node, cond, args)?.as_slice() {
            [one] => ctx.predicate(*one),
            many => Err(RuleError::Internal(format!("the condition returns {} values", many.len()))),
        },
        |ctx, args| {
            let mut next = ctx.inline(node, body, args)?;
            next.extend(&args[carried..]);
            Ok(next)
        },
    )?;
    results.truncate(carried);
    Ok(results.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] =
    &[Rule::new("higher_order.cond", lower_cond), Rule::new("higher_order.while_loop", lower_while_loop)];
