//! What a rule works with: the builder, the values so far, the options.

use tpud_graph::{Graph, Node, ValueId};
use tpud_stablehlo::{Builder, ElementType, Scalar, SourceLocation, TensorType, Value};

use crate::checks::Checks;
use crate::driver::LoweringOptions;
use crate::error::{Issue, RuleError};
use crate::types::element_type;

/// The state of one lowering. Arguments are read by the methods of `args.rs`, dtypes by those of `types.rs`.
pub(crate) struct LoweringContext<'g> {
    /// The StableHLO builder.
    pub(crate) b: Builder,
    /// What changes the module beside the graph.
    pub(crate) options: &'g LoweringOptions,
    /// The values of the graph that is being lowered; a nested graph has its own.
    pub(crate) values: Vec<Option<Value>>,
    /// Every unsupported node so far.
    pub(crate) issues: Vec<Issue>,
    /// The node of the whole graph inside of which a nested graph is being lowered.
    pub(crate) outer: Option<usize>,
    /// What eager PyTorch would raise on; see `checks.rs`.
    pub(crate) checks: Checks,
    /// Index and op of the node that is lowered; a nested one counts as the node of the whole graph that it is in.
    pub(crate) current: (usize, String),
}

impl<'g> LoweringContext<'g> {
    pub(crate) fn new(graph: &Graph, options: &'g LoweringOptions) -> Self {
        Self {
            b: Builder::new(),
            options,
            values: Vec::with_capacity(graph.value_count()),
            issues: Vec::new(),
            outer: None,
            checks: Checks::default(),
            current: Default::default(),
        }
    }

    /// Ops built from now on stand for the line of this node.
    pub(crate) fn locate(&mut self, node: &Node) {
        self.b.set_location(node.location.as_ref().map(|l| SourceLocation {
            file: l.file.clone(),
            line: l.line,
            name: node.op.clone(),
        }));
    }

    /// Gives the next graph value its StableHLO value.
    pub(crate) fn define(&mut self, value: Option<Value>) {
        self.values.push(value);
    }

    /// The StableHLO value of a graph value.
    pub(crate) fn value(&self, id: ValueId) -> Result<Value, RuleError> {
        self.values
            .get(id.index())
            .copied()
            .flatten()
            .ok_or_else(|| RuleError::Internal(format!("value {} does not exist", id.0)))
    }

    /// The type that torch gave output `i` of a node.
    pub(crate) fn output_type(&self, node: &Node, i: usize) -> Result<TensorType, RuleError> {
        let meta = node
            .outputs
            .get(i)
            .and_then(Option::as_ref)
            .ok_or_else(|| RuleError::Internal(format!("output {i} does not exist")))?;
        let dims = meta.static_sizes().ok_or_else(|| RuleError::Internal("a size is symbolic".into()))?;
        Ok(TensorType::new(element_type(meta.dtype), dims))
    }

    /// A 0-d constant.
    pub(crate) fn scalar(&mut self, value: Scalar, element: ElementType) -> Result<Value, RuleError> {
        Ok(self.b.scalar(value, element)?)
    }

    /// A constant that fills the shape of `like`, in its element type.
    pub(crate) fn fill_like(&mut self, value: Scalar, like: Value) -> Result<Value, RuleError> {
        Ok(self.b.splat_like(value, like)?)
    }

    /// Converts to an element type and broadcasts to sizes, as torch does for operands.
    pub(crate) fn fit(&mut self, x: Value, ty: &TensorType) -> Result<Value, RuleError> {
        let x = self.convert(x, ty.element)?;
        Ok(self.b.broadcast_to(x, &ty.dims)?)
    }
}
