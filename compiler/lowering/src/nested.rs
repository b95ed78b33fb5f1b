//! Graphs inside of graphs: lowered with the same rules where the builder stands.

use std::mem;

use tpud_graph::{Node, Subgraph};
use tpud_stablehlo::Value;

use crate::context::LoweringContext;
use crate::driver::{lower_node, static_type};
use crate::error::{LoweringError, RuleError};

impl LoweringContext<'_> {
    /// Lowers a nested graph of `node`, also into the region of an op. Unsupported nodes in it are noted like all
    /// others.
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
