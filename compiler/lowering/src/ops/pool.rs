//! Pooling over sliding windows: `max_pool` with indices and `avg_pool`, of one to three spatial dimensions.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Direction, ElementType, Literal, Monoid, Scalar, TensorType, Value, Window};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// The geometry of a pooling node: one number for each spatial dimension. These are the last dimensions.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) kernel: Vec<i64>,
    pub(super) stride: Vec<i64>,
    pub(super) padding: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    /// Sizes of the input.
    pub(super) input: Vec<i64>,
    /// Sizes of the output: torch has applied `ceil_mode` already.
    pub(super) output: Vec<i64>,
}

/// No size of a window is this large: sums of their products fit an i64.
const MOST_REACH: i64 = 1 << 24;

impl Pool {
    /// Reads the arguments of an op on `spatial` dimensions, given the sizes of its input and output.
    pub(super) fn read(
        ctx: &LoweringContext<'_>,
        node: &Node,
        spatial: usize,
        input: &[i64],
        output: &[i64],
    ) -> Result<Self, RuleError> {
        let list = |name: &str, default: &[i64]| -> Result<Vec<i64>, RuleError> {
            let given = if node.arg(name).is_some() { ctx.opt_ints(node, name)? } else { None };
            match given.filter(|list| !list.is_empty()) {
                None => Ok(default.to_vec()),
                Some(one) if one.len() == 1 => Ok(vec![one[0]; spatial]),
                Some(all) if all.len() == spatial => Ok(all),
                Some(other) => {
                    Err(RuleError::Internal(format!("{name} is {other:?} for {spatial} dimensions")))
                }
            }
        };
        let kernel = list("kernel_size", &[])?;
        if kernel.len() != spatial || input.len() < spatial || output.len() < spatial {
            return Err(RuleError::Internal(format!("a window {kernel:?} over {input:?}")));
        }
        let (stride, padding) = (list("stride", &kernel)?, list("padding", &vec![0; spatial])?);
        let dilation = list("dilation", &vec![1; spatial])?;
        let within = |sizes: &[i64], least| sizes.iter().all(|n| (least..MOST_REACH).contains(n));
        if !([&kernel, &stride, &dilation].into_iter().all(|sizes| within(sizes, 1)) && within(&padding, 0)) {
            return Err(RuleError::Internal(format!(
                "a window {kernel:?} with stride {stride:?}, padding {padding:?}, dilation {dilation:?}"
            )));
        }
        Ok(Self {
            stride,
            padding,
            dilation,
            kernel,
            input: input[input.len() - spatial..].to_vec(),
            output: output[output.len() - spatial..].to_vec(),
        })
    }

    /// Planes of these sizes, without a window.
    pub(super) fn planes(input: &[i64], output: &[i64]) -> Self {
        let ones = vec![1; input.len()];
        Self {
            kernel: ones.clone(),
            stride: ones.clone(),
            padding: vec![0; input.len()],
            dilation: ones,
            input: input.to_vec(),
            output: output.to_vec(),
        }
    }

    /// Number of spatial dimensions.
    pub(super) fn spatial(&self) -> usize {
        self.kernel.len()
    }

    /// The StableHLO window over a tensor of the given rank.
    fn window(&self, rank: usize) -> Window {
        let mut window = Window::identity(rank);
        for s in 0..self.spatial() {
            let d = rank - self.spatial() + s;
            let reach = (self.output[s] - 1) * self.stride[s] + (self.kernel[s] - 1) * self.dilation[s] + 1;
            window.sizes[d] = self.kernel[s];
            window.strides[d] = self.stride[s];
            window.dilations[d] = self.dilation[s];
            window.padding[d] = (self.padding[s], (reach - self.input[s] - self.padding[s]).max(0));
        }
        window
    }
}

/// Positions in the flattened spatial dimensions, in the shape of `like`.
fn plane_positions(ctx: &mut LoweringContext<'_>, like: &[i64], spatial: usize) -> Result<Value, RuleError> {
    let plane = &like[like.len() - spatial..];
    let count: i64 = plane.iter().product();
    let line = ctx.b.iota(&TensorType::new(index_element(count), vec![count]), 0)?;
    let grid = ctx.b.reshape(line, plane)?;
    Ok(ctx.b.broadcast_to(grid, like)?)
}

/// Of two (value, position) pairs the one that max pooling keeps: the larger value, of equal ones the first, but the
/// last of several NaN. The initial pair has the largest position.
pub(super) fn larger(b: &mut Builder, args: &[Value]) -> tpud_stablehlo::Result<Vec<Value>> {
    let [a, i, c, j] = args else { return Ok(vec![]) };
    let (a, i, c, j) = (*a, *i, *c, *j);
    let mut better = b.compare(Direction::Gt, a, c)?;
    let equal = b.compare(Direction::Eq, a, c)?;
    let earlier = b.compare(Direction::Lt, i, j)?;
    let tie = b.and(equal, earlier)?;
    better = b.or(better, tie)?;
    if b.element(a).is_float() {
        let (a_nan, c_nan) = (b.compare(Direction::Ne, a, a)?, b.compare(Direction::Ne, c, c)?);
        let c_number = b.not(c_nan)?;
        let later = b.compare(Direction::Gt, i, j)?;
        let wins = b.or(c_number, later)?;
        let nan_wins = b.and(a_nan, wins)?;
        better = b.or(better, nan_wins)?;
    }
    Ok(vec![b.select(better, a, c)?, b.select(better, i, j)?])
}

/// The initial pair of [`larger`].
pub(super) fn least(
    ctx: &mut LoweringContext<'_>,
    value: ElementType,
    position: ElementType,
) -> Result<[Value; 2], RuleError> {
    let (lowest, last) = (Monoid::Max.neutral(value), Monoid::Min.neutral(position));
    Ok([ctx.scalar(lowest, value)?, ctx.scalar(last, position)?])
}

/// The number of spatial dimensions that the op's name says.
pub(super) fn spatial_of(node: &Node) -> Result<usize, RuleError> {
    ["1d", "2d", "3d"]
        .iter()
        .position(|name| node.op.contains(name))
        .map(|i| i + 1)
        .ok_or_else(|| RuleError::Internal("the op's name tells no dimensions".into()))
}

// aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1,
//   bool ceil_mode=False) -> Tensor
// aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0,
//   int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
/// Values and positions are two reductions: where the positions are not used, XLA drops theirs.
fn lower_max_pool(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let shape = ctx.b.dims(x).to_vec();
    let out = ctx.output_type(node, 0)?;
    let pool = Pool::read(ctx, node, spatial_of(node)?, &shape, &out.dims)?;
    let window = pool.window(shape.len());
    let value = if out.elements() == 0 {
        ctx.b.splat(Scalar::Int(0), &out)?
    } else {
        ctx.b.reduce_window_monoid(x, Monoid::Max, &window)?
    };
    if node.outputs.len() == 1 {
        return Ok(value.into());
    }
    let out = ctx.output_type(node, 1)?;
    if out.elements() == 0 {
        return Ok([value, ctx.b.splat(Scalar::Int(0), &out)?].into());
    }
    let position = plane_positions(ctx, &shape, pool.spatial())?;
    let inits = least(ctx, ctx.b.element(x), ctx.b.element(position))?;
    let best = ctx.b.reduce_window(&[x, position], &inits, &window, larger)?;
    Ok([value, ctx.convert(best[1], out.element)?].into())
}

/// By how much the sum of each window is divided, in the shape of the output's spatial dimensions.
pub(super) fn divisors(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    pool: &Pool,
    element: ElementType,
) -> Result<Value, RuleError> {
    let ty = TensorType::new(element, pool.output.clone());
    if node.arg("divisor_override").is_some()
        && let Some(divisor) = ctx.opt_int(node, "divisor_override")?
    {
        return Ok(ctx.b.splat(Scalar::Int(divisor), &ty)?);
    }
    let with_padding = ctx.boolean(node, "count_include_pad")?;
    let mut product = ctx.b.splat(Scalar::Int(1), &ty)?;
    for s in 0..pool.spatial() {
        let bytes = (0..pool.output[s])
            .map(|o| {
                let start = o * pool.stride[s] - pool.padding[s];
                // Windows that ceil_mode lets hang over the padding are cut there.
                let end = (start + pool.kernel[s]).min(pool.input[s] + pool.padding[s]);
                if with_padding { end - start } else { end.min(pool.input[s]) - start.max(0) }
            })
            // A window without elements sums to 0, whatever it is divided by.
            .flat_map(|n| Scalar::Int(n.max(1)).to_bytes(element))
            .collect();
        let line = Literal::dense(TensorType::new(element, vec![pool.output[s]]), bytes)?;
        let line = ctx.b.constant(line)?;
        let line = ctx.b.broadcast_in_dim(line, &pool.output, &[s as i64])?;
        product = ctx.b.mul(product, line)?;
    }
    Ok(product)
}

// aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False,
//   bool count_include_pad=True) -> Tensor
// aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False,
//   bool count_include_pad=True, int? divisor_override=None) -> Tensor
fn lower_avg_pool(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let x = ctx.tensor(node, "self")?;
    let x = ctx.convert(x, accumulation_type(out.element))?;
    let shape = ctx.b.dims(x).to_vec();
    let pool = Pool::read(ctx, node, spatial_of(node)?, &shape, &out.dims)?;
    let total = ctx.b.reduce_window_monoid(x, Monoid::Sum, &pool.window(shape.len()))?;
    let divisor = divisors(ctx, node, &pool, ctx.b.element(total))?;
    let divisor = ctx.b.broadcast_to(divisor, &out.dims)?;
    let mean = ctx.b.div(total, divisor)?;
    Ok(ctx.convert(mean, out.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.avg_pool1d.default", lower_avg_pool),
    Rule::new("aten.avg_pool2d.default", lower_avg_pool),
    Rule::new("aten.avg_pool3d.default", lower_avg_pool),
    Rule::new("aten.max_pool1d.default", lower_max_pool),
    Rule::new("aten.max_pool1d_with_indices.default", lower_max_pool),
    Rule::new("aten.max_pool2d.default", lower_max_pool),
    Rule::new("aten.max_pool2d_with_indices.default", lower_max_pool),
    Rule::new("aten.max_pool3d.default", lower_max_pool),
    Rule::new("aten.max_pool3d_with_indices.default", lower_max_pool),
];
