//! Which ops draw random numbers, and what the contract asks of them.
//!
//! Such a node names where its numbers come from: `seed`, two words that the client draws anew for every call (an
//! input of role SEED, or what `tpud.load_rng_state` gives back), and `stream`, a number that no other node with
//! this seed has. So nodes are independent of each other, and nothing random is part of a module.

use std::collections::BTreeMap;

use crate::{Arg, Argument, DType, Graph, GraphError, Input, InputRole, Node, TensorMeta};

/// The argument with the seed.
pub const SEED: &str = "seed";
/// The argument that tells the nodes of one seed apart.
pub const STREAM: &str = "stream";

/// Ops that draw, without their overloads, sorted.
const OPS: &[&str] = &[
    "aten._sample_dirichlet",
    "aten._standard_gamma",
    "aten.bernoulli",
    "aten.binomial",
    "aten.cauchy",
    "aten.exponential",
    "aten.geometric",
    "aten.log_normal",
    "aten.multinomial",
    "aten.native_dropout",
    "aten.normal",
    "aten.normal_functional",
    "aten.poisson",
    "aten.rand",
    "aten.rand_like",
    "aten.randint",
    "aten.randint_like",
    "aten.randn",
    "aten.randn_like",
    "aten.random",
    "aten.randperm",
    "aten.rrelu_with_noise_functional",
    "aten.uniform",
];

/// Whether an op overload draws random numbers.
pub fn is_random(op: &str) -> bool {
    op.rsplit_once('.').is_some_and(|(name, _)| OPS.binary_search(&name).is_ok())
}

fn is_seed(meta: &TensorMeta) -> bool {
    meta.dtype == DType::UInt64 && meta.static_sizes().as_deref() == Some(&[2])
}

/// An input of role SEED is two words.
pub(crate) fn check_input(place: &dyn Fn() -> String, input: &Input) -> Result<(), GraphError> {
    if input.role == InputRole::Seed && !is_seed(&input.meta) {
        return Err(GraphError::contract(place(), format!("a seed is uint64[2], not {}", input.meta)));
    }
    Ok(())
}

/// Every node that draws has a seed, and a stream of its own. To be called when every value is known to exist.
pub(crate) fn check_nodes(graph: &Graph) -> Result<(), GraphError> {
    graph.nodes.iter().try_for_each(|node| check_nested(node, &node.args))?;
    let metas = graph.value_metas();
    let mut drawn: BTreeMap<(u32, i64), &Node> = BTreeMap::new();
    for node in graph.nodes.iter().filter(|node| is_random(&node.op)) {
        let broken = |message: String| Err(GraphError::contract(node.describe(), message));
        let Some(Arg::Tensor(seed)) = node.arg(SEED) else {
            return broken("it draws random numbers, but has no seed: an input of role SEED".into());
        };
        let meta = metas.get(seed.index()).copied().flatten();
        let is_input = graph.inputs.get(seed.index()).is_none_or(|input| input.role == InputRole::Seed);
        if !meta.is_some_and(is_seed) || !is_input {
            return broken(format!("value {} is not a seed: an input of role SEED, uint64[2]", seed.0));
        }
        let Some(Arg::Int(stream @ 0..)) = node.arg(STREAM) else {
            return broken("its stream should be a number that is not negative".into());
        };
        if let Some(other) = drawn.insert((seed.0, *stream), node) {
            return broken(format!("it would draw the same numbers as {}", other.describe()));
        }
    }
    Ok(())
}

/// A nested graph may run often, or not at all: no node inside of it has a stream of its own.
fn check_nested(outer: &Node, args: &[Argument]) -> Result<(), GraphError> {
    let nested =
        args.iter().filter_map(|each| if let Arg::Graph(graph) = &each.value { Some(graph) } else { None });
    for node in nested.flat_map(|graph| &graph.nodes) {
        if is_random(&node.op) {
            let message = format!("{} inside of it draws random numbers: draw them before it", node.op);
            return Err(GraphError::contract(outer.describe(), message));
        }
        check_nested(outer, &node.args)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{OPS, is_random};

    #[test]
    fn names_are_sorted_and_found() {
        assert!(OPS.is_sorted());
        assert!(is_random("aten.rand.generator") && is_random("aten.native_dropout.default"));
        assert!(!is_random("aten.random") && !is_random("aten.native_dropout_backward.default"));
    }
}
