//! Reductions over sliding windows.

use crate::{Attr, BuildError, Builder, Direction, Monoid, Result, TensorType, Value};

use super::{Slide, padding_attr};

/// A sliding window over every dimension of the operand (size 1 and stride 1 where it does not slide).
#[derive(Debug, Clone)]
pub struct Window {
    /// Window sizes.
    pub sizes: Vec<i64>,
    /// Steps between windows.
    pub strides: Vec<i64>,
    /// (low, high) padding with the initial value.
    pub padding: Vec<(i64, i64)>,
    /// Distance between elements of a window.
    pub dilations: Vec<i64>,
    /// Distance that is put between elements of the operand.
    pub base_dilations: Vec<i64>,
}

impl Window {
    /// A window of size 1 in each of `rank` dimensions: change what slides.
    pub fn identity(rank: usize) -> Self {
        Self {
            sizes: vec![1; rank],
            strides: vec![1; rank],
            padding: vec![(0, 0); rank],
            dilations: vec![1; rank],
            base_dilations: vec![1; rank],
        }
    }

    /// The result's sizes.
    fn output_dims(&self, op: &'static str, dims: &[i64]) -> Result<Vec<i64>> {
        let rank = dims.len();
        let lengths = [
            self.sizes.len(),
            self.strides.len(),
            self.padding.len(),
            self.dilations.len(),
            self.base_dilations.len(),
        ];
        let positions = |d: usize| {
            Slide {
                size: dims[d],
                base_dilation: self.base_dilations[d],
                padding: self.padding[d],
                window: self.sizes[d],
                dilation: self.dilations[d],
                stride: self.strides[d],
            }
            .positions()
        };
        let out = if lengths == [rank; 5] { (0..rank).map(positions).collect() } else { None };
        out.ok_or_else(|| BuildError::new(op, format!("{self:?} does not fit {dims:?}")))
    }
}

impl Builder {
    /// `stablehlo.reduce_window` of several tensors of one shape; see [`Builder::reduce`] for `body`.
    pub fn reduce_window(
        &mut self,
        inputs: &[Value],
        inits: &[Value],
        window: &Window,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let op = "stablehlo.reduce_window";
        let shape = inputs.first().map(|v| self.dims(*v).to_vec()).unwrap_or_default();
        self.check_accumulators(op, inputs, inits)?;
        let out = window.output_dims(op, &shape)?;
        let scalars: Vec<TensorType> =
            inits.iter().chain(inputs).map(|v| TensorType::scalar(self.element(*v))).collect();
        let (region, results) = self.region(&scalars, body)?;
        if results[..] != scalars[..inits.len()] {
            return Err(BuildError::new(op, format!("the body returns {results:?}")));
        }
        let types = results.iter().map(|ty| ty.with_dims(out.clone())).collect();
        let operands: Vec<Value> = inputs.iter().chain(inits).copied().collect();
        let attrs = vec![
            ("window_dimensions", Attr::I64s(window.sizes.clone())),
            ("window_strides", Attr::I64s(window.strides.clone())),
            ("base_dilations", Attr::I64s(window.base_dilations.clone())),
            ("window_dilations", Attr::I64s(window.dilations.clone())),
            ("padding", padding_attr(&window.padding)?),
        ];
        self.push(op, &operands, attrs, vec![region], types)
    }

    /// A window reduction of one tensor by a monoid.
    pub fn reduce_window_monoid(&mut self, x: Value, monoid: Monoid, window: &Window) -> Result<Value> {
        let element = self.element(x);
        let init = self.scalar(monoid.neutral(element), element)?;
        let out =
            self.reduce_window(&[x], &[init], window, |b, a| Ok(vec![monoid.combine(b, a[0], a[1])?]))?;
        Ok(out[0])
    }

    /// `stablehlo.select_and_scatter`: each element of `source` is added at the place of its window's largest (or
    /// smallest) element of `x`, and `init` is what nothing is added to. The backward pass of max pooling. Windows
    /// have no dilations.
    pub fn select_and_scatter(
        &mut self,
        x: Value,
        source: Value,
        init: Value,
        window: &Window,
        select: Direction,
    ) -> Result<Value> {
        let op = "stablehlo.select_and_scatter";
        let (ty, from) = (self.ty(x).clone(), self.ty(source).clone());
        let out = window.output_dims(op, &ty.dims)?;
        let dilated = window.dilations.iter().chain(&window.base_dilations).any(|d| *d != 1);
        let scalar = TensorType::scalar(ty.element);
        if dilated || from != ty.with_dims(out) || *self.ty(init) != scalar {
            let message = format!("{ty}, source {from}, initial value {}, {window:?}", self.ty(init));
            return Err(BuildError::new(op, message));
        }
        let args = [scalar.clone(), scalar];
        let (selected, _) = self.region(&args, |b, a| Ok(vec![b.compare(select, a[0], a[1])?]))?;
        let (scattered, _) = self.region(&args, |b, a| Ok(vec![b.add(a[0], a[1])?]))?;
        let attrs = vec![
            ("window_dimensions", Attr::I64s(window.sizes.clone())),
            ("window_strides", Attr::I64s(window.strides.clone())),
            ("padding", padding_attr(&window.padding)?),
        ];
        Ok(self.push(op, &[x, source, init], attrs, vec![selected, scattered], vec![ty])?[0])
    }
}
