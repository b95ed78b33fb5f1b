//! Nested graphs that run once for each row: `scan`, `associative_scan`, `map`.
//!
//! Each is one loop. It carries a counter, the running values, the results so far, and what it reads: then no region
//! looks outside of itself.

use tpud_graph::{Node, Subgraph};
use tpud_stablehlo::{Direction, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// A loop over the rows (dimension 0) of tensors.
struct Rows {
    /// How many there are.
    count: i64,
    /// The first one that is visited.
    first: i64,
    /// Running values: the graph's first inputs and outputs.
    carry: Vec<Value>,
    /// A row of each is the graph's next input.
    rows: Vec<Value>,
    /// The graph's last inputs, always the same.
    extra: Vec<Value>,
    /// Where the graph's other outputs are gathered, a row for each round.
    gathered: Vec<Value>,
}

impl Rows {
    /// Runs `graph` for each row in turn: the last running values, then what was gathered.
    fn run(
        self,
        ctx: &mut LoweringContext<'_>,
        node: &Node,
        graph: &Subgraph,
    ) -> Result<Vec<Value>, RuleError> {
        let (carry, gathered) = (self.carry.len(), self.gathered.len());
        let index = index_element(self.count);
        let first = ctx.scalar(Scalar::Int(self.first), index)?;
        let state: Vec<Value> = [first]
            .into_iter()
            .chain(self.carry.iter().chain(&self.gathered).chain(&self.rows).chain(&self.extra).copied())
            .collect();
        let mut results = ctx.repeat_while(
            &state,
            |ctx, args| {
                let end = ctx.scalar(Scalar::Int(self.count), index)?;
                Ok(ctx.b.compare(Direction::Lt, args[0], end)?)
            },
            |ctx, args| self.round(ctx, node, graph, args),
        )?;
        results.truncate(1 + carry + gathered);
        results.remove(0);
        Ok(results)
    }

    /// One round of the loop: the state after it.
    fn round(
        &self,
        ctx: &mut LoweringContext<'_>,
        node: &Node,
        graph: &Subgraph,
        args: &[Value],
    ) -> Result<Vec<Value>, RuleError> {
        let i = args[0];
        let (carry, rest) = args[1..].split_at(self.carry.len());
        let (gathered, unchanged) = rest.split_at(self.gathered.len());
        let (rows, extra) = unchanged.split_at(self.rows.len());
        let mut inputs = carry.to_vec();
        for row in rows {
            inputs.push(ctx.row(*row, i)?);
        }
        inputs.extend(extra);
        let results = ctx.inline(node, graph, &inputs)?;
        if results.len() != carry.len() + gathered.len() {
            let message = format!("a nested graph returns {} values", results.len());
            return Err(RuleError::Internal(message));
        }
        let one = ctx.scalar(Scalar::Int(1), ctx.b.element(i))?;
        let (running, fresh) = results.split_at(carry.len());
        let mut next = vec![ctx.b.add(i, one)?];
        next.extend(running);
        for (whole, row) in gathered.iter().zip(fresh) {
            next.push(ctx.set_row(*whole, *row, i)?);
        }
        next.extend(unchanged);
        Ok(next)
    }
}

impl LoweringContext<'_> {
    /// Row `i` of a tensor.
    fn row(&mut self, x: Value, i: Value) -> Result<Value, RuleError> {
        let mut sizes = self.b.dims(x).to_vec();
        let starts = self.row_starts(i, sizes.len())?;
        sizes[0] = 1;
        let row = self.b.dynamic_slice(x, &starts, &sizes)?;
        Ok(self.b.reshape(row, &sizes[1..])?)
    }

    /// The tensor with another row `i`.
    fn set_row(&mut self, x: Value, row: Value, i: Value) -> Result<Value, RuleError> {
        let sizes: Vec<i64> = [1].into_iter().chain(self.b.dims(row).iter().copied()).collect();
        let starts = self.row_starts(i, sizes.len())?;
        let row = self.b.reshape(row, &sizes)?;
        Ok(self.b.dynamic_update_slice(x, row, &starts)?)
    }

    fn row_starts(&mut self, i: Value, rank: usize) -> Result<Vec<Value>, RuleError> {
        let zero = self.scalar(Scalar::Int(0), self.b.element(i))?;
        let mut starts = vec![zero; rank];
        *starts.first_mut().ok_or_else(|| RuleError::Internal("a row of a 0-d tensor".into()))? = i;
        Ok(starts)
    }

    /// Zeros of the types of the node's outputs from `first` on.
    fn empty_outputs(&mut self, node: &Node, first: usize) -> Result<Vec<Value>, RuleError> {
        (first..node.outputs.len())
            .map(|i| {
                let ty = self.output_type(node, i)?;
                Ok(self.b.splat(Scalar::Int(0), &ty)?)
            })
            .collect()
    }

    /// How many rows these tensors have.
    fn row_count(&self, rows: &[Value]) -> Result<i64, RuleError> {
        let mut counts = rows.iter().map(|x| self.b.dims(*x).first().copied());
        match counts.next() {
            Some(Some(count)) if counts.all(|other| other == Some(count)) => Ok(count),
            _ => Err(RuleError::Internal("tensors with different numbers of rows".into())),
        }
    }
}

// scan(combine_fn, init, xs, additional_inputs)
fn lower_scan(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let graph = ctx.graph(node, "combine_fn")?;
    let (carry, rows) = (ctx.tensors(node, "init")?, ctx.tensors(node, "xs")?);
    let gathered = ctx.empty_outputs(node, carry.len())?;
    let count = ctx.row_count(&rows)?;
    if count == 0 {
        return Ok(carry.into_iter().chain(gathered).collect::<Vec<_>>().into());
    }
    let extra = ctx.tensors(node, "additional_inputs")?;
    Ok(Rows { count, first: 0, carry, rows, extra, gathered }.run(ctx, node, graph)?.into())
}

// map_impl(f, xs, pos_args)
fn lower_map(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let graph = ctx.graph(node, "f")?;
    let rows = ctx.tensors(node, "xs")?;
    let gathered = ctx.empty_outputs(node, 0)?;
    let count = ctx.row_count(&rows)?;
    if count == 0 {
        return Ok(gathered.into());
    }
    let extra = ctx.tensors(node, "pos_args")?;
    Ok(Rows { count, first: 0, carry: vec![], rows, extra, gathered }.run(ctx, node, graph)?.into())
}

// associative_scan(combine_fn, xs, additional_inputs): running results, each row included
/// In order: the function was traced for one row, so rows can't be joined in pairs at once.
fn lower_associative_scan(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let graph = ctx.graph(node, "combine_fn")?;
    let rows = ctx.tensors(node, "xs")?;
    let count = ctx.row_count(&rows)?;
    if count <= 1 {
        return Ok(rows.into());
    }
    let mut carry = Vec::with_capacity(rows.len());
    for x in &rows {
        let first = ctx.b.slice_dim(*x, 0, 0, 1, 1)?;
        let dims = ctx.b.dims(first)[1..].to_vec();
        carry.push(ctx.b.reshape(first, &dims)?);
    }
    // The first row is its own result; the running value of each round is also what the round gathers.
    let twice = Subgraph { outputs: graph.outputs.repeat(2), ..graph.clone() };
    let results = carry.len();
    let extra = ctx.tensors(node, "additional_inputs")?;
    let loops = Rows { count, first: 1, carry, gathered: rows.clone(), rows, extra };
    Ok(loops.run(ctx, node, &twice)?.split_off(results).into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("higher_order.associative_scan", lower_associative_scan),
    Rule::new("higher_order.map_impl", lower_map),
    Rule::new("higher_order.scan", lower_scan),
];
