//! Reductions over sliding windows.

use crate::{Attr, BuildError, Builder, ElementType, Literal, Monoid, Result, TensorType, Value};

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

    fn output_dims(&self, dims: &[i64]) -> Vec<i64> {
        let dilated = |n: i64, by: i64| if n == 0 { 0 } else { (n - 1) * by + 1 };
        (0..dims.len())
            .map(|d| {
                let size = dilated(dims[d], self.base_dilations[d]) + self.padding[d].0 + self.padding[d].1;
                let window = dilated(self.sizes[d], self.dilations[d]);
                if size < window { 0 } else { (size - window) / self.strides[d] + 1 }
            })
            .collect()
    }

    fn padding_attr(&self) -> Result<Attr> {
        let bytes = self.padding.iter().flat_map(|(l, h)| [*l, *h]).flat_map(i64::to_le_bytes).collect();
        let ty = TensorType::new(ElementType::I64, vec![self.padding.len() as i64, 2]);
        Ok(Attr::Dense(Literal::dense(ty, bytes)?))
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
        let rank = shape.len();
        let lengths = [
            window.sizes.len(),
            window.strides.len(),
            window.padding.len(),
            window.dilations.len(),
            window.base_dilations.len(),
        ];
        if inputs.is_empty() || inputs.len() != inits.len() || lengths != [rank; 5] {
            return Err(BuildError::new(op, format!("{window:?} does not fit {shape:?}")));
        }
        let scalars: Vec<TensorType> =
            inits.iter().chain(inputs).map(|v| TensorType::scalar(self.element(*v))).collect();
        let (region, results) = self.region(&scalars, body)?;
        if results[..] != scalars[..inits.len()] {
            return Err(BuildError::new(op, format!("the body returns {results:?}")));
        }
        let out = window.output_dims(&shape);
        let types = results.iter().map(|ty| ty.with_dims(out.clone())).collect();
        let operands: Vec<Value> = inputs.iter().chain(inits).copied().collect();
        let attrs = vec![
            ("window_dimensions", Attr::I64s(window.sizes.clone())),
            ("window_strides", Attr::I64s(window.strides.clone())),
            ("base_dilations", Attr::I64s(window.base_dilations.clone())),
            ("window_dilations", Attr::I64s(window.dilations.clone())),
            ("padding", window.padding_attr()?),
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
}
