//! Ops with control flow: sort, while, if, case.

use crate::{Attr, BuildError, Builder, Direction, ElementType, Result, TensorType, Value};

use super::check_dim;

/// The order of [`Builder::sort_by_key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SortOrder {
    Ascending,
    Descending,
}

impl Builder {
    /// `stablehlo.sort` of several tensors of one shape along `dim`. `less` gets (lhs, rhs) of each tensor in turn,
    /// all 0-d, and returns a 0-d bool.
    pub fn sort(
        &mut self,
        inputs: &[Value],
        dim: usize,
        stable: bool,
        less: impl FnOnce(&mut Self, &[Value]) -> Result<Value>,
    ) -> Result<Vec<Value>> {
        let op = "stablehlo.sort";
        let Some(&first) = inputs.first() else { return Err(BuildError::new(op, "no operands")) };
        check_dim(op, dim as i64, self.rank(first))?;
        if let Some(other) = inputs.iter().find(|v| self.dims(**v) != self.dims(first)) {
            return Err(BuildError::new(
                op,
                format!("{} and {} differ in shape", self.ty(first), self.ty(*other)),
            ));
        }
        let types: Vec<TensorType> = inputs.iter().map(|v| self.ty(*v).clone()).collect();
        let scalars: Vec<TensorType> =
            types.iter().flat_map(|ty| vec![TensorType::scalar(ty.element); 2]).collect();
        let (region, results) = self.region(&scalars, |b, args| Ok(vec![less(b, args)?]))?;
        if results != [TensorType::scalar(ElementType::Bool)] {
            return Err(BuildError::new(op, format!("the comparison returns {}", results[0])));
        }
        let attrs = vec![("dimension", Attr::I64(dim as i64)), ("is_stable", Attr::Bool(stable))];
        self.push(op, inputs, attrs, vec![region], types)
    }

    /// A stable sort by the first tensor with torch's order of floats: NaN is the largest value, -0 equals +0.
    pub fn sort_by_key(&mut self, inputs: &[Value], dim: usize, order: SortOrder) -> Result<Vec<Value>> {
        self.sort(inputs, dim, true, |b, args| {
            let (lhs, rhs) = match order {
                SortOrder::Ascending => (args[0], args[1]),
                SortOrder::Descending => (args[1], args[0]),
            };
            let less = b.compare(Direction::Lt, lhs, rhs)?;
            if !b.element(lhs).is_float() {
                return Ok(less);
            }
            let lhs_number = b.compare(Direction::Eq, lhs, lhs)?;
            let rhs_nan = b.compare(Direction::Ne, rhs, rhs)?;
            let before_nan = b.and(lhs_number, rhs_nan)?;
            b.or(less, before_nan)
        })
    }

    /// `stablehlo.while`: `cond` and `body` get the carried values; `cond` returns a 0-d bool.
    pub fn while_loop(
        &mut self,
        inits: &[Value],
        cond: impl FnOnce(&mut Self, &[Value]) -> Result<Value>,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let op = "stablehlo.while";
        let types: Vec<TensorType> = inits.iter().map(|v| self.ty(*v).clone()).collect();
        let (cond, cond_types) = self.region(&types, |b, args| Ok(vec![cond(b, args)?]))?;
        let (body, body_types) = self.region(&types, body)?;
        if cond_types != [TensorType::scalar(ElementType::Bool)] || body_types != types {
            return Err(BuildError::new(
                op,
                format!("carries {types:?}, but the body returns {body_types:?}"),
            ));
        }
        self.push(op, inits, vec![], vec![cond, body], types)
    }

    /// `stablehlo.if` on a 0-d bool. Branches may use values from outside and return the same types.
    pub fn if_else(
        &mut self,
        pred: Value,
        on_true: impl FnOnce(&mut Self) -> Result<Vec<Value>>,
        on_false: impl FnOnce(&mut Self) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let (then, types) = self.region(&[], |b, _| on_true(b))?;
        let (otherwise, other_types) = self.region(&[], |b, _| on_false(b))?;
        if types != other_types || *self.ty(pred) != TensorType::scalar(ElementType::Bool) {
            let message = format!("branches return {types:?} and {other_types:?}");
            return Err(BuildError::new("stablehlo.if", message));
        }
        self.push("stablehlo.if", &[pred], vec![], vec![then, otherwise], types)
    }

    /// `stablehlo.case`: the branch with the number `index`, a 0-d i32; the last one when there is none. Branches
    /// may use values from outside and return the same types.
    pub fn case<F>(&mut self, index: Value, branches: Vec<F>) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self) -> Result<Vec<Value>>,
    {
        let op = "stablehlo.case";
        if *self.ty(index) != TensorType::scalar(ElementType::I32) || branches.is_empty() {
            let message = format!("index {} of {} branches", self.ty(index), branches.len());
            return Err(BuildError::new(op, message));
        }
        let mut regions = Vec::with_capacity(branches.len());
        let mut types: Option<Vec<TensorType>> = None;
        for branch in branches {
            let (region, found) = self.region(&[], |b, _| branch(b))?;
            regions.push(region);
            let expected = types.get_or_insert_with(|| found.clone());
            if *expected != found {
                return Err(BuildError::new(op, format!("branches return {expected:?} and {found:?}")));
            }
        }
        self.push(op, &[index], vec![], regions, types.unwrap_or_default())
    }

    /// `stablehlo.optimization_barrier`: the same values, which XLA computes together and does not look through.
    pub fn optimization_barrier(&mut self, values: &[Value]) -> Result<Vec<Value>> {
        let types = values.iter().map(|v| self.ty(*v).clone()).collect();
        self.push("stablehlo.optimization_barrier", values, vec![], vec![], types)
    }

    /// `chlo.top_k`: the `k` largest elements of the last dimension in descending order and their indices (i32). NaN
    /// is the largest; of equal elements the first comes first.
    pub fn top_k(&mut self, x: Value, k: i64) -> Result<(Value, Value)> {
        let op = "chlo.top_k";
        let mut ty = self.ty(x).clone();
        match ty.dims.last_mut() {
            Some(last) if 0 <= k && k <= *last => *last = k,
            _ => return Err(BuildError::new(op, format!("{k} elements of {ty}"))),
        }
        if ty.element.is_complex() || ty.element == ElementType::Bool {
            return Err(BuildError::new(op, format!("not defined for {}", ty.element)));
        }
        let indices = ty.with_element(ElementType::I32);
        let out = self.push(op, &[x], vec![("k", Attr::I64(k))], vec![], vec![ty, indices])?;
        Ok((out[0], out[1]))
    }
}
