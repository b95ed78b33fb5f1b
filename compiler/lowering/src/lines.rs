//! Lines of a tensor at positions that are known when lowering: slices and broadcasts where these do, else a gather.

use tpud_stablehlo::{Literal, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;

type Result<T> = std::result::Result<T, RuleError>;

/// Repetitions and phases that are looked for.
const FACTORS: std::ops::RangeInclusive<usize> = 2..=16;

/// `index[i] = clamp(start + i · step, 0, size - 1)`: how many are clamped low, how many are inside, and (start, step)
/// of these.
#[derive(Debug, PartialEq, Eq)]
struct Progression {
    low: usize,
    inside: usize,
    start: i64,
    step: i64,
}

fn progression(index: &[i64], size: i64) -> Option<Progression> {
    let last = index.len() - 1;
    let step = index.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1).max(1);
    // Runs at either end that stand on the border; one element of each is the border itself.
    let low = index.iter().take_while(|i| **i == 0).count().saturating_sub(1).min(last);
    let high = index.iter().rev().take_while(|i| **i == size - 1).count().saturating_sub(1).min(last - low);
    let mut low = low;
    // A clamped element may be followed by one that is not a whole step away.
    if low + 1 < index.len() && index[low] == 0 && index[low + 1] != step {
        low += 1;
    }
    let mut inside = index.len() - high - low;
    if inside >= 2 && index[low + inside - 1] - index[low + inside - 2] != step {
        inside -= 1;
    }
    let start = *index.get(low)?;
    let regular = inside >= 1 && (0..inside).all(|i| index[low + i] == start + i as i64 * step);
    let borders =
        index[..low].iter().all(|i| *i == 0) && index[low + inside..].iter().all(|i| *i == size - 1);
    (regular && borders).then_some(Progression { low, inside, start, step })
}

impl LoweringContext<'_> {
    /// `x` with dimension `dim` replaced by its lines at `index`, all in range.
    pub(crate) fn lines(&mut self, x: Value, dim: usize, index: &[i64]) -> Result<Value> {
        let size = self.b.dims(x)[dim];
        if index.iter().copied().eq(0..size) {
            return Ok(x);
        }
        if index.is_empty() || self.b.ty(x).elements() == 0 {
            return self.gathered_lines(x, dim, index);
        }
        if let Some(found) = progression(index, size) {
            return self.clamped_slice(x, dim, &found, index.len());
        }
        for factor in FACTORS {
            if !index.len().is_multiple_of(factor) {
                continue;
            }
            if index.chunks_exact(factor).all(|chunk| chunk.iter().all(|i| *i == chunk[0])) {
                let firsts: Vec<i64> = index.iter().copied().step_by(factor).collect();
                let x = self.lines(x, dim, &firsts)?;
                return self.repeated(x, dim, factor as i64);
            }
            let phases: Vec<Vec<i64>> =
                (0..factor).map(|p| index.iter().copied().skip(p).step_by(factor).collect()).collect();
            if phases.iter().all(|phase| phase.len() >= 4 && progression(phase, size).is_some()) {
                return self.interleaved(x, dim, &phases);
            }
        }
        self.gathered_lines(x, dim, index)
    }

    fn clamped_slice(&mut self, x: Value, dim: usize, found: &Progression, count: usize) -> Result<Value> {
        let size = self.b.dims(x)[dim];
        let Progression { low, inside, start, step } = *found;
        let mut parts = Vec::with_capacity(3);
        if low > 0 {
            parts.push(self.edge(x, dim, 0, low as i64)?);
        }
        parts.push(self.every(x, dim, (start, step), inside as i64)?);
        let high = count - low - inside;
        if high > 0 {
            parts.push(self.edge(x, dim, size - 1, high as i64)?);
        }
        Ok(self.b.concatenate(&parts, dim)?)
    }

    /// `count` lines from `start` on, `step` apart. Not a strided slice: fusions of several of these crash libtpu.
    fn every(&mut self, x: Value, dim: usize, (start, step): (i64, i64), count: i64) -> Result<Value> {
        if step == 1 || count == 1 {
            return Ok(self.b.slice_dim(x, dim, start, start + count, 1)?);
        }
        let mut dims = self.b.dims(x).to_vec();
        let missing = (start + count * step - dims[dim]).max(0);
        let (none, mut high) = (vec![0; dims.len()], vec![0; dims.len()]);
        high[dim] = missing;
        let zero = self.scalar(Scalar::Int(0), self.b.element(x))?;
        let padded = self.b.pad(x, zero, &none, &high, &none)?;
        let run = self.b.slice_dim(padded, dim, start, start + count * step, 1)?;
        dims[dim] = count;
        let mut split = dims.clone();
        split.insert(dim + 1, step);
        let run = self.b.reshape(run, &split)?;
        let firsts = self.b.slice_dim(run, dim + 1, 0, 1, 1)?;
        Ok(self.b.reshape(firsts, &dims)?)
    }

    fn edge(&mut self, x: Value, dim: usize, at: i64, count: i64) -> Result<Value> {
        let line = self.b.slice_dim(x, dim, at, at + 1, 1)?;
        let mut dims = self.b.dims(line).to_vec();
        dims[dim] = count;
        Ok(self.b.broadcast_to(line, &dims)?)
    }

    /// Each line `factor` times.
    fn repeated(&mut self, x: Value, dim: usize, factor: i64) -> Result<Value> {
        let mut dims = self.b.dims(x).to_vec();
        let map: Vec<i64> = (0..dims.len()).map(|d| (d + usize::from(d > dim)) as i64).collect();
        let mut split = dims.clone();
        split.insert(dim + 1, factor);
        let wide = self.b.broadcast_in_dim(x, &split, &map)?;
        dims[dim] *= factor;
        Ok(self.b.reshape(wide, &dims)?)
    }

    /// The lines of several index lists in turn.
    fn interleaved(&mut self, x: Value, dim: usize, phases: &[Vec<i64>]) -> Result<Value> {
        let mut parts = Vec::with_capacity(phases.len());
        for phase in phases {
            let part = self.lines(x, dim, phase)?;
            let mut dims = self.b.dims(part).to_vec();
            dims.insert(dim + 1, 1);
            parts.push(self.b.reshape(part, &dims)?);
        }
        let stacked = self.b.concatenate(&parts, dim + 1)?;
        let mut dims = self.b.dims(x).to_vec();
        dims[dim] = (phases.len() * phases[0].len()) as i64;
        Ok(self.b.reshape(stacked, &dims)?)
    }

    fn gathered_lines(&mut self, x: Value, dim: usize, index: &[i64]) -> Result<Value> {
        let element = index_element(self.b.dims(x)[dim]);
        let bytes = index.iter().flat_map(|i| Scalar::Int(*i).to_bytes(element)).collect();
        let literal = Literal::dense(TensorType::new(element, vec![index.len() as i64]), bytes)?;
        let index = self.b.constant(literal)?;
        self.take_along(x, index, dim)
    }
}

#[cfg(test)]
mod tests {
    use super::{Progression, progression};

    #[test]
    fn progressions_are_found_between_clamped_ends() {
        let found =
            |index: &[i64], size| progression(index, size).map(|p| (p.low, p.inside, p.start, p.step));
        assert_eq!(found(&[0, 1, 2, 3], 5), Some((0, 4, 0, 1)));
        assert_eq!(found(&[0, 0, 1, 2], 5), Some((1, 3, 0, 1)));
        assert_eq!(found(&[1, 2, 3, 3], 4), Some((0, 3, 1, 1)));
        assert_eq!(found(&[0, 2, 4, 6], 8), Some((0, 4, 0, 2)));
        assert_eq!(found(&[0, 1, 3, 5], 8), Some((1, 3, 1, 2)));
        assert_eq!(found(&[0, 3, 6, 7], 8), Some((0, 3, 0, 3)));
        assert_eq!(found(&[5], 8), Some((0, 1, 5, 1)));
        assert_eq!(found(&[0, 0, 0], 1), Some((2, 1, 0, 1)));
        assert_eq!(found(&[0, 0, 1, 1, 2, 2], 3), None);
        assert_eq!(found(&[0, 2, 3, 5], 9), None);
        assert_eq!(progression(&[0, 0, 1], 2), Some(Progression { low: 1, inside: 2, start: 0, step: 1 }));
    }
}
