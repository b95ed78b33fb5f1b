//! The contract, checked once: lowerings may then assume it.

use crate::{
    Arg, Graph, GraphError, InputRole, Node, OutputRole, Subgraph, SymExpr, TensorMeta, ValueId, random,
};

type Result = std::result::Result<(), GraphError>;

/// The largest number of elements of one tensor (a byte count must fit an i64).
const MAX_ELEMENTS: i64 = 1 << 48;
/// XLA's own limit on ranks is lower, but this keeps arithmetic safe.
const MAX_RANK: usize = 64;

pub(crate) fn check(graph: &Graph) -> Result {
    check_symbols(graph)?;
    for (i, input) in graph.inputs.iter().enumerate() {
        let place = || format!("input {i}");
        check_meta(graph, &input.meta, &place)?;
        random::check_input(&place, input)?;
        if let InputRole::Symbol(s) = input.role
            && s >= graph.symbols.len()
        {
            return Err(GraphError::contract(place(), format!("symbol {s} does not exist")));
        }
    }
    for (i, constant) in graph.constants.iter().enumerate() {
        let place = || format!("constant {i}");
        check_meta(graph, &constant.meta, &place)?;
        let Some(sizes) = constant.meta.static_sizes() else {
            return Err(GraphError::contract(place(), "a constant needs static sizes"));
        };
        let bytes = sizes.iter().product::<i64>() as usize * constant.meta.dtype.byte_width();
        if bytes != constant.data.len() {
            let message = format!("{} needs {bytes} bytes, got {}", constant.meta, constant.data.len());
            return Err(GraphError::contract(place(), message));
        }
    }
    let mut defined = vec![true; graph.inputs.len() + graph.constants.len()];
    check_nodes(graph, &graph.nodes, "", &mut defined)?;
    random::check_nodes(graph)?;
    check_outputs(graph)
}

fn check_symbols(graph: &Graph) -> Result {
    for symbol in &graph.symbols {
        if symbol.min < 0 || symbol.min > symbol.max {
            let message = format!("the range [{}, {}] is empty or negative", symbol.min, symbol.max);
            return Err(GraphError::contract(format!("symbol {}", symbol.name), message));
        }
    }
    Ok(())
}

/// Checks nodes in a scope of values that are defined already, and adds theirs. `outer` says which argument holds the
/// nodes, when they are nested.
fn check_nodes(graph: &Graph, nodes: &[Node], outer: &str, defined: &mut Vec<bool>) -> Result {
    for node in nodes {
        let place = || format!("{outer}{}", node.describe());
        if node.op.is_empty() {
            return Err(GraphError::contract(place(), "the op is missing"));
        }
        for argument in &node.args {
            let place = || format!("{}, argument {}", place(), argument.name);
            check_arg(graph, &argument.value, &place, defined)?;
        }
        for meta in node.outputs.iter().flatten() {
            check_meta(graph, meta, &place)?;
        }
        defined.extend(node.outputs.iter().map(Option::is_some));
    }
    Ok(())
}

fn check_arg(graph: &Graph, arg: &Arg, place: &dyn Fn() -> String, defined: &[bool]) -> Result {
    match arg {
        Arg::Tensor(id) => check_value(defined, *id, place),
        Arg::List(items) => items.iter().try_for_each(|item| check_arg(graph, item, place, defined)),
        Arg::Sym(expr) => check_expr(graph, expr, place),
        Arg::Graph(nested) => check_subgraph(graph, nested, place),
        _ => Ok(()),
    }
}

fn check_subgraph(graph: &Graph, nested: &Subgraph, place: &dyn Fn() -> String) -> Result {
    for (i, meta) in nested.inputs.iter().enumerate() {
        check_meta(graph, meta, &|| format!("{}, input {i}", place()))?;
    }
    let mut defined = vec![true; nested.inputs.len()];
    check_nodes(graph, &nested.nodes, &format!("{}, ", place()), &mut defined)?;
    let mut outputs = nested.outputs.iter().enumerate();
    outputs.try_for_each(|(i, id)| check_value(&defined, *id, &|| format!("{}, output {i}", place())))
}

fn check_value(defined: &[bool], id: ValueId, place: &dyn Fn() -> String) -> Result {
    match defined.get(id.index()) {
        Some(true) => Ok(()),
        Some(false) => Err(GraphError::contract(place(), format!("value {} is absent (None)", id.0))),
        None => Err(GraphError::contract(place(), format!("value {} is not defined before", id.0))),
    }
}

fn check_outputs(graph: &Graph) -> Result {
    let metas = graph.value_metas();
    let defined: Vec<bool> = metas.iter().map(Option::is_some).collect();
    let mut written_inputs = vec![false; graph.inputs.len()];
    for (i, output) in graph.outputs.iter().enumerate() {
        let place = || format!("output {i}");
        check_value(&defined, output.value, &place)?;
        let OutputRole::Mutation { input } = output.role else { continue };
        let Some(target) = graph.inputs.get(input) else {
            return Err(GraphError::contract(place(), format!("input {input} does not exist")));
        };
        let written = metas[output.value.index()];
        if written.is_none_or(|m| m.dtype != target.meta.dtype || m.sizes != target.meta.sizes) {
            let message = format!(
                "{} cannot become the content of input {input}",
                written.map_or("nothing".into(), ToString::to_string)
            );
            return Err(GraphError::contract(place(), message));
        }
        if std::mem::replace(&mut written_inputs[input], true) {
            return Err(GraphError::contract(place(), format!("input {input} is written twice")));
        }
    }
    Ok(())
}

fn check_meta(graph: &Graph, meta: &TensorMeta, place: &dyn Fn() -> String) -> Result {
    if meta.sizes.len() > MAX_RANK {
        return Err(GraphError::contract(place(), format!("rank {} is over {MAX_RANK}", meta.sizes.len())));
    }
    let mut elements: i64 = 1;
    for size in &meta.sizes {
        check_expr(graph, size, place)?;
        let Some(n) = size.as_constant() else { continue };
        if n < 0 {
            return Err(GraphError::contract(place(), format!("size {n} is negative")));
        }
        elements = elements.saturating_mul(n.max(1));
    }
    if elements > MAX_ELEMENTS {
        return Err(GraphError::contract(place(), format!("{meta} has too many elements")));
    }
    meta.strides.iter().chain([&meta.storage_offset]).try_for_each(|e| check_expr(graph, e, place))
}

fn check_expr(graph: &Graph, expr: &SymExpr, place: &dyn Fn() -> String) -> Result {
    match expr {
        SymExpr::Constant(_) => Ok(()),
        SymExpr::Symbol(i) if *i < graph.symbols.len() => Ok(()),
        SymExpr::Symbol(i) => Err(GraphError::contract(place(), format!("symbol {i} does not exist"))),
        SymExpr::Call(_, args) if args.is_empty() => {
            Err(GraphError::contract(place(), "a size expression has no arguments"))
        }
        SymExpr::Call(_, args) => args.iter().try_for_each(|a| check_expr(graph, a, place)),
    }
}
