//! Every rule, by op overload.

use std::collections::HashMap;
use std::sync::OnceLock;

use tpud_graph::Node;
use tpud_stablehlo::Value;

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::ops;

/// What a rule returns: a value for each output of the node, `None` where torch returns None.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outputs(pub(crate) Vec<Option<Value>>);

impl From<Value> for Outputs {
    fn from(value: Value) -> Self {
        Self(vec![Some(value)])
    }
}

impl From<Vec<Value>> for Outputs {
    fn from(values: Vec<Value>) -> Self {
        Self(values.into_iter().map(Some).collect())
    }
}

impl<const N: usize> From<[Value; N]> for Outputs {
    fn from(values: [Value; N]) -> Self {
        Self(values.into_iter().map(Some).collect())
    }
}

/// The one shape of all rules.
pub(crate) type LowerFn = fn(&mut LoweringContext<'_>, &Node) -> Result<Outputs, RuleError>;

/// Which sizes a rule can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// Sizes must be numbers.
    Static,
    /// Padded sizes are masked exactly.
    Bounded,
}

/// The lowering of one op overload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// E.g. `aten.add.Tensor`.
    pub(crate) op: &'static str,
    /// Builds the StableHLO of one node.
    pub(crate) lower: LowerFn,
    /// Which sizes it can take.
    pub(crate) shapes: Shapes,
}

impl Rule {
    /// A rule for static sizes.
    pub(crate) const fn new(op: &'static str, lower: LowerFn) -> Self {
        Self { op, lower, shapes: Shapes::Static }
    }
}

fn table() -> &'static HashMap<&'static str, Rule> {
    static TABLE: OnceLock<HashMap<&'static str, Rule>> = OnceLock::new();
    TABLE
        .get_or_init(|| ops::ALL.iter().flat_map(|rules| rules.iter()).map(|rule| (rule.op, *rule)).collect())
}

/// The rule of an op overload.
pub(crate) fn rule(op: &str) -> Option<&'static Rule> {
    table().get(op)
}

/// Which sizes the rule of an op can take; `None` when it has no rule.
pub fn rule_shapes(op: &str) -> Option<Shapes> {
    rule(op).map(|rule| rule.shapes)
}

/// Every op overload that has a rule, sorted.
pub fn supported_ops() -> Vec<&'static str> {
    let mut ops: Vec<&'static str> =
        ops::ALL.iter().flat_map(|rules| rules.iter()).map(|rule| rule.op).collect();
    ops.sort_unstable();
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_op_has_two_rules() {
        let ops = supported_ops();
        let twice: Vec<_> = ops.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
