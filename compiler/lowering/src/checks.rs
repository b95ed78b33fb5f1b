//! Checks: where eager PyTorch raises on values, the module says so in one output more.
//!
//! A rule states what would be wrong with [`LoweringContext::check`] or one of its helpers. Without the option they build
//! nothing, so a module without checks has the bytes it always had. With it, the last output is an i32: the position of
//! the first violated check in the order of the graph, or -1.

use std::collections::BTreeSet;

use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;

/// What eager PyTorch raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckKind {
    /// `IndexError`
    Index,
    /// `RuntimeError`
    Runtime,
    /// `torch.linalg.LinAlgError`
    LinAlg,
}

/// Something on which eager PyTorch raises at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Index of the node in the graph.
    pub node: usize,
    /// Overload name.
    pub op: String,
    /// What is wrong when the check is violated.
    pub message: String,
    /// What eager PyTorch raises.
    pub kind: CheckKind,
}

/// The checks of a module under construction.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    stated: Vec<(Check, Value)>,
    known: BTreeSet<usize>,
}

impl LoweringContext<'_> {
    /// Whether checks are wanted: a rule asks before it builds what only a check needs.
    pub(crate) fn checking(&self) -> bool {
        self.options.checks
    }

    /// States that eager PyTorch raises where `violated` (a bool of any shape) is true anywhere.
    pub(crate) fn check(
        &mut self,
        violated: Value,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<(), RuleError> {
        if !self.checking() || self.b.ty(violated).elements() == 0 {
            return Ok(());
        }
        if self.b.in_region() {
            return Err(RuleError::unsupported(
                "options={\"checks\": True} cannot see into the body of a loop or branch",
            ));
        }
        // The same condition again (equal ops are shared) could never be the first one that is violated.
        if !self.checks.known.insert(violated.index()) {
            return Ok(());
        }
        let all: Vec<i64> = (0..self.b.rank(violated) as i64).collect();
        let any = if all.is_empty() { violated } else { self.b.reduce_monoid(violated, Monoid::Or, &all)? };
        let (node, op) = self.current.clone();
        self.checks.stated.push((Check { node, op, message: message.into(), kind }, any));
        Ok(())
    }

    /// States that eager PyTorch raises on integers outside of `valid`, as they came: before anything narrows them.
    pub(crate) fn check_range(
        &mut self,
        index: Value,
        valid: std::ops::Range<i64>,
        kind: CheckKind,
        message: impl FnOnce() -> String,
    ) -> Result<(), RuleError> {
        if !self.checking() {
            return Ok(());
        }
        // So that the limits can be written in the type that is compared.
        let wide = self.convert(index, ElementType::I64)?;
        let low = self.fill_like(Scalar::Int(valid.start), wide)?;
        let high = self.fill_like(Scalar::Int(valid.end), wide)?;
        let below = self.b.compare(Direction::Lt, wide, low)?;
        let above = self.b.compare(Direction::Ge, wide, high)?;
        let outside = self.b.or(below, above)?;
        self.check(outside, kind, message())
    }

    /// States that eager PyTorch raises on an index outside of a dimension of `size` elements; with `wraps`, negative
    /// indices count from the end.
    pub(crate) fn check_index(
        &mut self,
        index: Value,
        (dim, size): (usize, i64),
        wraps: bool,
        kind: CheckKind,
    ) -> Result<(), RuleError> {
        let low = if wraps { -size } else { 0 };
        self.check_range(index, low..size, kind, || {
            format!(
                "an index is out of range in dimension {dim} of size {size}: valid are {low} to {}",
                size - 1
            )
        })
    }

    /// The extra output and what its numbers mean; nothing when there is nothing to check.
    pub(crate) fn finish_checks(&mut self) -> tpud_stablehlo::Result<Option<(Value, Vec<Check>)>> {
        let stated = std::mem::take(&mut self.checks).stated;
        if stated.is_empty() {
            return Ok(None);
        }
        let count = stated.len() as i64;
        let columns = stated
            .iter()
            .map(|(_, any)| self.b.reshape(*any, &[1]))
            .collect::<tpud_stablehlo::Result<Vec<_>>>()?;
        let violated = self.b.concatenate(&columns, 0)?;
        let line = TensorType::new(ElementType::I32, vec![count]);
        let (position, none) = (self.b.iota(&line, 0)?, self.b.splat(Scalar::Int(count), &line)?);
        let violated = self.b.select(violated, position, none)?;
        let first = self.b.reduce_monoid(violated, Monoid::Min, &[0])?;
        let (count, minus) =
            (self.b.splat_like(Scalar::Int(count), first)?, self.b.splat_like(Scalar::Int(-1), first)?);
        let fine = self.b.compare(Direction::Eq, first, count)?;
        let flag = self.b.select(fine, minus, first)?;
        Ok(Some((flag, stated.into_iter().map(|(check, _)| check).collect())))
    }
}
