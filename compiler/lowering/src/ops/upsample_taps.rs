//! Where resampling reads and with which weights, computed as torch's CPU kernels compute it.

/// A way to resample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    LinearAntialiased,
    CubicAntialiased,
}

/// The sizes of one dimension and how they relate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) input: i64,
    pub(super) output: i64,
    /// The factor that the user gave; otherwise it follows from the sizes.
    pub(super) factor: Option<f64>,
    pub(super) align_corners: bool,
    /// Computed in f64 instead of f32.
    pub(super) double: bool,
}

impl Scale {
    /// Rounds to the type that torch computes in.
    fn round(&self, x: f64) -> f64 {
        if self.double { x } else { f64::from(x as f32) }
    }

    /// Input elements for each output element.
    fn step(&self) -> f64 {
        if self.align_corners {
            let gaps = (self.output - 1).max(1) as f64;
            return if self.output > 1 { self.round((self.input - 1) as f64 / gaps) } else { 0.0 };
        }
        match self.factor {
            Some(factor) if factor > 0.0 => self.round(1.0 / factor),
            _ => self.round(self.input as f64 / self.output as f64),
        }
    }

    /// The position in the input of the centre of output element `i`.
    fn source(&self, i: i64) -> f64 {
        if self.align_corners {
            return self.round(self.step() * i as f64);
        }
        self.round(self.round(self.step() * (i as f64 + 0.5)) - 0.5)
    }
}

/// For each output element as many positions as there are taps, with their weights; a tap that an element does not
/// have repeats a position of it with weight 0.
#[derive(Debug)]
pub(super) struct Taps {
    of: Vec<Vec<(i64, f64)>>,
    weighted: bool,
}

impl Taps {
    pub(super) fn new(method: Method, scale: &Scale) -> Self {
        let weighted = !matches!(method, Method::Nearest | Method::NearestExact);
        let of = (0..scale.output)
            .map(|i| match method {
                Method::Nearest => vec![(nearest(scale, i, 0.0), 1.0)],
                Method::NearestExact => vec![(nearest(scale, i, 0.5), 1.0)],
                Method::Linear => linear(scale, i),
                Method::Cubic => cubic(scale, i),
                Method::LinearAntialiased => antialiased(scale, i, 1.0, triangle),
                Method::CubicAntialiased => antialiased(scale, i, 2.0, |x| keys(x, -0.5)),
            })
            .collect();
        Self { of, weighted }.filled()
    }

    fn filled(mut self) -> Self {
        let most = self.of.iter().map(Vec::len).max().unwrap_or(0);
        for list in &mut self.of {
            let last = list.last().map_or(0, |tap| tap.0);
            list.resize(most, (last, 0.0));
        }
        self
    }

    /// The taps of the adjoint: for each of `input` elements, the output elements that read it.
    pub(super) fn adjoint(&self, input: i64) -> Self {
        let mut of = vec![Vec::new(); input as usize];
        for (i, list) in self.of.iter().enumerate() {
            for &(from, weight) in list.iter().filter(|tap| tap.1 != 0.0) {
                of[from as usize].push((i as i64, weight));
            }
        }
        Self { of, weighted: true }.filled()
    }

    /// The positions, when each output element is one input element unchanged.
    pub(super) fn single(&self) -> Option<Vec<i64>> {
        let plain = !self.weighted || self.of.iter().all(|list| matches!(list[..], [(_, 1.0)]));
        plain.then(|| self.of.iter().map(|list| list[0].0).collect())
    }

    /// Whether every tap repeats only positions that its element reads anyway.
    pub(super) fn each_is_read(&self) -> bool {
        self.of.iter().all(|list| list.first().is_some_and(|tap| tap.1 != 0.0))
    }

    /// (positions, weights) of each tap in turn.
    pub(super) fn each(&self) -> Vec<(Vec<i64>, Vec<f64>)> {
        let count = self.of.first().map_or(0, Vec::len);
        (0..count).map(|t| self.of.iter().map(|list| list[t]).unzip()).collect()
    }
}

fn nearest(scale: &Scale, i: i64, centre: f64) -> i64 {
    let position = scale.round(scale.step() * (i as f64 + centre));
    (position.floor() as i64).clamp(0, scale.input - 1)
}

/// A position taken apart: the element before it, and how far it is behind that one.
fn split(scale: &Scale, position: f64) -> (i64, f64) {
    let before = (position.floor() as i64).min(scale.input - 1);
    (before, scale.round(position - before as f64).clamp(0.0, 1.0))
}

fn linear(scale: &Scale, i: i64) -> Vec<(i64, f64)> {
    if scale.input == scale.output {
        return vec![(i, 1.0)];
    }
    let (before, fraction) = split(scale, scale.source(i).max(0.0));
    vec![(before, scale.round(1.0 - fraction)), ((before + 1).min(scale.input - 1), fraction)]
}

/// The cubic convolution kernel at distance `x`.
fn keys(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

fn cubic(scale: &Scale, i: i64) -> Vec<(i64, f64)> {
    let (before, fraction) = split(scale, scale.source(i));
    (-1..=2)
        .map(|t| ((before + t).clamp(0, scale.input - 1), scale.round(keys(fraction - t as f64, -0.75))))
        .collect()
}

/// When shrinking, the filter is stretched over all input elements that an output element stands for.
fn antialiased(scale: &Scale, i: i64, radius: f64, filter: fn(f64) -> f64) -> Vec<(i64, f64)> {
    let step = scale.step();
    let stretch = step.max(1.0);
    let (support, centre) = (radius * stretch, scale.round(step * (i as f64 + 0.5)));
    let first = ((centre - support + 0.5) as i64).max(0);
    let end = ((centre + support + 0.5) as i64).min(scale.input).max(first + 1);
    let weight = |j: i64| scale.round(filter((j as f64 - centre + 0.5) / stretch));
    let total: f64 = (first..end).map(weight).sum();
    let total = if total == 0.0 { 1.0 } else { total };
    (first..end).map(|j| (j.min(scale.input - 1), scale.round(weight(j) / total))).collect()
}
