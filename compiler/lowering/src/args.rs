//! Reading a node's arguments by their schema names.

use tpud_graph::{Arg, Node, Subgraph};
use tpud_stablehlo::{ElementType, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::types::element_type;

type Result<T> = std::result::Result<T, RuleError>;

fn wrong(name: &str, wanted: &str, found: Option<&Arg>) -> RuleError {
    RuleError::Internal(format!("argument {name} should be {wanted}, but is {found:?}"))
}

fn present<'n>(node: &'n Node, name: &str) -> Option<&'n Arg> {
    node.arg(name).filter(|arg| **arg != Arg::None)
}

fn number(arg: &Arg) -> Option<Scalar> {
    match arg {
        Arg::Bool(b) => Some(Scalar::Bool(*b)),
        Arg::Int(i) => Some(Scalar::Int(*i)),
        Arg::Float(x) => Some(Scalar::Float(*x)),
        Arg::Complex(re, im) => Some(Scalar::Complex(*re, *im)),
        _ => None,
    }
}

impl LoweringContext<'_> {
    /// A required tensor.
    pub(crate) fn tensor(&self, node: &Node, name: &str) -> Result<Value> {
        self.opt_tensor(node, name)?.ok_or_else(|| wrong(name, "a tensor", node.arg(name)))
    }

    /// `Tensor?`
    pub(crate) fn opt_tensor(&self, node: &Node, name: &str) -> Result<Option<Value>> {
        match present(node, name) {
            None => Ok(None),
            Some(Arg::Tensor(id)) => Ok(Some(self.value(*id)?)),
            other => Err(wrong(name, "a tensor", other)),
        }
    }

    /// `Tensor[]`
    pub(crate) fn tensors(&self, node: &Node, name: &str) -> Result<Vec<Value>> {
        let items = self.opt_tensors(node, name)?;
        items
            .into_iter()
            .map(|item| item.ok_or_else(|| wrong(name, "a list of tensors", node.arg(name))))
            .collect()
    }

    /// `Tensor?[]`
    pub(crate) fn opt_tensors(&self, node: &Node, name: &str) -> Result<Vec<Option<Value>>> {
        let Some(Arg::List(items)) = node.arg(name) else {
            return Err(wrong(name, "a list of tensors", node.arg(name)));
        };
        items
            .iter()
            .map(|item| match item {
                Arg::None => Ok(None),
                Arg::Tensor(id) => Ok(Some(self.value(*id)?)),
                other => Err(wrong(name, "a list of tensors", Some(other))),
            })
            .collect()
    }

    /// A nested graph.
    pub(crate) fn graph<'n>(&self, node: &'n Node, name: &str) -> Result<&'n Subgraph> {
        match node.arg(name) {
            Some(Arg::Graph(graph)) => Ok(graph),
            other => Err(wrong(name, "a graph", other)),
        }
    }

    /// `int` or `SymInt`
    pub(crate) fn int(&self, node: &Node, name: &str) -> Result<i64> {
        self.opt_int(node, name)?.ok_or_else(|| wrong(name, "an integer", node.arg(name)))
    }

    /// `int?`
    pub(crate) fn opt_int(&self, node: &Node, name: &str) -> Result<Option<i64>> {
        match present(node, name) {
            None => Ok(None),
            Some(Arg::Int(i)) => Ok(Some(*i)),
            Some(Arg::Bool(b)) => Ok(Some(i64::from(*b))),
            other => Err(wrong(name, "an integer", other)),
        }
    }

    /// `int[]`
    pub(crate) fn ints(&self, node: &Node, name: &str) -> Result<Vec<i64>> {
        self.opt_ints(node, name)?.ok_or_else(|| wrong(name, "a list of integers", node.arg(name)))
    }

    /// `int[]?`; a single integer counts as a list of one.
    pub(crate) fn opt_ints(&self, node: &Node, name: &str) -> Result<Option<Vec<i64>>> {
        match present(node, name) {
            None => Ok(None),
            Some(Arg::Int(i)) => Ok(Some(vec![*i])),
            Some(Arg::List(items)) => items
                .iter()
                .map(|item| {
                    if let Arg::Int(i) = item {
                        Ok(*i)
                    } else {
                        Err(wrong(name, "a list of integers", Some(item)))
                    }
                })
                .collect::<Result<Vec<i64>>>()
                .map(Some),
            other => Err(wrong(name, "a list of integers", other)),
        }
    }

    /// `float[]?`
    pub(crate) fn opt_floats(&self, node: &Node, name: &str) -> Result<Option<Vec<f64>>> {
        match present(node, name) {
            None => Ok(None),
            Some(Arg::List(items)) => items
                .iter()
                .map(|item| {
                    number(item)
                        .map(Scalar::as_f64)
                        .ok_or_else(|| wrong(name, "a list of floats", Some(item)))
                })
                .collect::<Result<Vec<f64>>>()
                .map(Some),
            other => Err(wrong(name, "a list of floats", other)),
        }
    }

    /// `float`
    pub(crate) fn float(&self, node: &Node, name: &str) -> Result<f64> {
        self.opt_float(node, name)?.ok_or_else(|| wrong(name, "a float", node.arg(name)))
    }

    /// `float?`
    pub(crate) fn opt_float(&self, node: &Node, name: &str) -> Result<Option<f64>> {
        Ok(self.opt_number(node, name)?.map(Scalar::as_f64))
    }

    /// `bool`
    pub(crate) fn boolean(&self, node: &Node, name: &str) -> Result<bool> {
        match node.arg(name) {
            Some(Arg::Bool(b)) => Ok(*b),
            Some(Arg::Int(i)) => Ok(*i != 0),
            other => Err(wrong(name, "a bool", other)),
        }
    }

    /// `bool[]`
    pub(crate) fn booleans(&self, node: &Node, name: &str) -> Result<Vec<bool>> {
        let Some(Arg::List(items)) = node.arg(name) else {
            return Err(wrong(name, "a list of bools", node.arg(name)));
        };
        items
            .iter()
            .map(|item| match item {
                Arg::Bool(b) => Ok(*b),
                other => Err(wrong(name, "a list of bools", Some(other))),
            })
            .collect()
    }

    /// `Scalar`
    pub(crate) fn number(&self, node: &Node, name: &str) -> Result<Scalar> {
        self.opt_number(node, name)?.ok_or_else(|| wrong(name, "a number", node.arg(name)))
    }

    /// `Scalar?`: `None` also when the argument is a tensor.
    pub(crate) fn opt_number(&self, node: &Node, name: &str) -> Result<Option<Scalar>> {
        match present(node, name) {
            None | Some(Arg::Tensor(_)) => Ok(None),
            Some(arg) => number(arg).map(Some).ok_or_else(|| wrong(name, "a number", Some(arg))),
        }
    }

    /// `str?`
    pub(crate) fn opt_text<'n>(&self, node: &'n Node, name: &str) -> Result<Option<&'n str>> {
        match present(node, name) {
            None => Ok(None),
            Some(Arg::Text(text)) => Ok(Some(text)),
            other => Err(wrong(name, "a string", other)),
        }
    }

    /// `ScalarType?`
    pub(crate) fn opt_dtype(&self, node: &Node, name: &str) -> Result<Option<ElementType>> {
        match present(node, name) {
            None => Ok(None),
            Some(Arg::DType(dtype)) => Ok(Some(element_type(*dtype))),
            other => Err(wrong(name, "a dtype", other)),
        }
    }

    /// A dimension argument, wrapped: -1 is the last. A 0-d tensor counts as 1-d here.
    pub(crate) fn dim(&self, node: &Node, name: &str, rank: usize) -> Result<usize> {
        wrap_dim(self.int(node, name)?, rank)
    }

    /// Refuses dimensions without elements where a reduction has no neutral element: eager PyTorch raises there, too.
    pub(crate) fn with_elements(&self, x: Value, dims: &[i64]) -> Result<()> {
        let sizes = self.b.dims(x);
        match dims.iter().find(|d| sizes.get(**d as usize) == Some(&0)) {
            Some(d) => Err(RuleError::unsupported(format!(
                "dimension {d} has no elements, so there is nothing to choose from: eager PyTorch raises here, too"
            ))),
            None => Ok(()),
        }
    }

    /// `int[]?` of dimensions, wrapped and sorted; none or empty means all of them.
    pub(crate) fn dims(&self, node: &Node, name: &str, rank: usize) -> Result<Vec<i64>> {
        let listed = self.opt_ints(node, name)?.unwrap_or_default();
        if listed.is_empty() {
            return Ok((0..rank as i64).collect());
        }
        if rank == 0 {
            listed.iter().try_for_each(|d| wrap_dim(*d, 0).map(|_| ()))?;
            return Ok(Vec::new());
        }
        let mut dims = listed.iter().map(|d| Ok(wrap_dim(*d, rank)? as i64)).collect::<Result<Vec<i64>>>()?;
        dims.sort_unstable();
        dims.dedup();
        Ok(dims)
    }
}

/// Wraps a negative dimension; a 0-d tensor has dimensions -1 and 0.
pub(crate) fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if !(-n..n).contains(&dim) {
        return Err(RuleError::Internal(format!("dimension {dim} is out of range for rank {rank}")));
    }
    Ok((if dim < 0 { dim + n } else { dim }) as usize)
}
