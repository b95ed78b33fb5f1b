//! Graphs inside of graphs: lowered with the same rules into the regions of an op.
//!
//! A region is built by closures that get the builder, and a rule works on a context that owns it. So the context gives
//! its builder away while an op with regions is built ([`LoweringContext::with_regions`]) and gets it back inside of each
//! region ([`Regions::lower`]).

use std::cell::RefCell;
use std::mem;

use tpud_graph::{Node, Subgraph};
use tpud_stablehlo::{BuildError, Builder, Value};

use crate::context::LoweringContext;
use crate::driver::{lower_node, static_type};
use crate::error::{LoweringError, RuleError};

/// Lowers nested graphs of one node into the region that is open.
pub(crate) struct Regions<'c, 'g> {
    ctx: RefCell<&'c mut LoweringContext<'g>>,
    node: &'c Node,
}

impl Regions<'_, '_> {
    /// The results of `graph` for these arguments, built where `b` stands.
    pub(crate) fn lower(
        &self,
        b: &mut Builder,
        graph: &Subgraph,
        args: &[Value],
    ) -> tpud_stablehlo::Result<Vec<Value>> {
        self.run(b, |ctx, node| ctx.inline(node, graph, args))
    }

    /// Runs part of a rule in the region that is open.
    pub(crate) fn run<T>(
        &self,
        b: &mut Builder,
        part: impl FnOnce(&mut LoweringContext<'_>, &Node) -> Result<T, RuleError>,
    ) -> tpud_stablehlo::Result<T> {
        let ctx = &mut **self.ctx.borrow_mut();
        mem::swap(&mut ctx.b, b);
        let outcome = part(ctx, self.node);
        mem::swap(&mut ctx.b, b);
        outcome.map_err(|error| {
            ctx.failure = Some(error);
            BuildError::new("region", "a nested graph could not be lowered")
        })
    }
}

impl<'g> LoweringContext<'g> {
    /// Builds an op of `node` whose regions hold nested graphs.
    pub(crate) fn with_regions<T>(
        &mut self,
        node: &Node,
        build: impl FnOnce(&mut Builder, &Regions<'_, 'g>) -> tpud_stablehlo::Result<T>,
    ) -> Result<T, RuleError> {
        let mut b = mem::take(&mut self.b);
        let outcome = build(&mut b, &Regions { ctx: RefCell::new(&mut *self), node });
        self.b = b;
        outcome.map_err(|error| self.failure.take().unwrap_or_else(|| error.into()))
    }

    /// Lowers a nested graph of `node` where the builder stands. Unsupported nodes in it are noted like all others.
    pub(crate) fn inline(
        &mut self,
        node: &Node,
        graph: &Subgraph,
        args: &[Value],
    ) -> Result<Vec<Value>, RuleError> {
        self.check_arguments(graph, args)?;
        let around = mem::replace(&mut self.values, args.iter().copied().map(Some).collect());
        let outermost = self.outer.is_none();
        if outermost {
            self.outer = Some(node.index);
        }
        let outcome = graph.nodes.iter().try_for_each(|inner| lower_node(self, inner));
        let results = outcome
            .map_err(|error| match error {
                LoweringError::Internal(issue) => RuleError::Internal(format!("in a nested graph: {issue}")),
                other => RuleError::Internal(other.to_string()),
            })
            .and_then(|()| graph.outputs.iter().map(|id| self.value(*id)).collect());
        if outermost {
            self.outer = None;
        }
        self.values = around;
        self.locate(node);
        results
    }

    fn check_arguments(&self, graph: &Subgraph, args: &[Value]) -> Result<(), RuleError> {
        if graph.inputs.len() != args.len() {
            let message = format!("a nested graph takes {} values, not {}", graph.inputs.len(), args.len());
            return Err(RuleError::Internal(message));
        }
        for (i, (meta, arg)) in graph.inputs.iter().zip(args).enumerate() {
            let wanted = static_type(meta).map_err(|e| RuleError::Internal(e.to_string()))?;
            if *self.b.ty(*arg) != wanted {
                let message =
                    format!("input {i} of a nested graph is {wanted}, but it gets {}", self.b.ty(*arg));
                return Err(RuleError::Internal(message));
            }
        }
        Ok(())
    }
}
