//! The builder's core: regions, values, common subexpressions. The ops are in `build/`.

use std::collections::HashMap;

use crate::{Attr, BuildError, LocationId, Module, Op, Region, Result, SourceLocation, TensorType, Value};

/// What makes two region-less ops equal.
type OpKey = (&'static str, Vec<Value>, Vec<(&'static str, Attr)>, Vec<TensorType>);

/// A region under construction, with the ops in it that may be shared.
#[derive(Debug, Default)]
struct Scope {
    region: Region,
    shared: HashMap<OpKey, Vec<Value>>,
}

/// Builds one module. Values of an enclosing region must not be used inside the regions of reductions and sorts
/// (XLA does not capture there): pass them as operands.
#[derive(Debug)]
pub struct Builder {
    types: Vec<TensorType>,
    scopes: Vec<Scope>,
    aliases: Vec<Option<usize>>,
    locations: Vec<SourceLocation>,
    location_ids: HashMap<SourceLocation, LocationId>,
    location: Option<LocationId>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// An empty module.
    pub fn new() -> Self {
        Self {
            types: Vec::new(),
            scopes: vec![Scope::default()],
            aliases: Vec::new(),
            locations: Vec::new(),
            location_ids: HashMap::new(),
            location: None,
        }
    }

    /// Adds the next input of the module. Inputs come before ops.
    pub fn input(&mut self, ty: TensorType) -> Value {
        let value = self.new_value(ty);
        let args = &mut self.scopes[0].region.args;
        args.push(value);
        self.aliases.resize(args.len().max(self.aliases.len()), None);
        value
    }

    /// Donates input `input` to output `output`: XLA may write the output where the input was.
    pub fn alias(&mut self, input: usize, output: usize) {
        // `finish` refuses an input or output that is not there.
        if input >= self.aliases.len() {
            self.aliases.resize(input + 1, None);
        }
        self.aliases[input] = Some(output);
    }

    /// Ops built from now on stand for this line.
    pub fn set_location(&mut self, location: Option<SourceLocation>) {
        self.location = location.map(|loc| {
            *self.location_ids.entry(loc).or_insert_with_key(|loc| {
                self.locations.push(loc.clone());
                LocationId((self.locations.len() - 1) as u32)
            })
        });
    }

    /// Whether the next op goes into the body of another op.
    pub fn in_region(&self) -> bool {
        self.scopes.len() > 1
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.types[value.index()]
    }

    /// The sizes of a value.
    pub fn dims(&self, value: Value) -> &[i64] {
        &self.types[value.index()].dims
    }

    /// The element type of a value.
    pub fn element(&self, value: Value) -> crate::ElementType {
        self.types[value.index()].element
    }

    /// The number of dimensions of a value.
    pub fn rank(&self, value: Value) -> usize {
        self.types[value.index()].rank()
    }

    /// Ends the module.
    pub fn finish(mut self, results: &[Value]) -> Result<Module> {
        if self.scopes.len() != 1 {
            return Err(BuildError::new("func.func", "a region was left open"));
        }
        self.check_aliases(results)?;
        self.location = None;
        self.push("func.return", results, vec![], vec![], vec![])?;
        let body = self.scopes.pop().map(|s| s.region).unwrap_or_default();
        let mut module = Module {
            body,
            aliases: self.aliases,
            types: self.types,
            locations: self.locations,
            results: results.to_vec(),
        };
        remove_dead_ops(&mut module);
        Ok(module)
    }

    /// Each alias ties an input to an output of its own, of the same type.
    fn check_aliases(&self, results: &[Value]) -> Result<()> {
        let mut taken = vec![false; results.len()];
        for (input, output) in self.aliases.iter().enumerate().filter_map(|(i, o)| Some((i, (*o)?))) {
            let arg = self.scopes[0].region.args.get(input);
            let fits = match (arg, results.get(output)) {
                (Some(arg), Some(result)) => self.ty(*arg) == self.ty(*result),
                _ => false,
            };
            if !fits || std::mem::replace(&mut taken[output], true) {
                let message = format!("input {input} cannot be donated to output {output}");
                return Err(BuildError::new("func.func", message));
            }
        }
        Ok(())
    }

    /// Appends an op with one result; an equal op of this region is used again.
    pub(crate) fn op(
        &mut self,
        name: &'static str,
        operands: &[Value],
        attrs: Vec<(&'static str, Attr)>,
        ty: TensorType,
    ) -> Result<Value> {
        Ok(self.push(name, operands, attrs, vec![], vec![ty])?[0])
    }

    /// Appends any op.
    pub(crate) fn push(
        &mut self,
        name: &'static str,
        operands: &[Value],
        attrs: Vec<(&'static str, Attr)>,
        regions: Vec<Region>,
        types: Vec<TensorType>,
    ) -> Result<Vec<Value>> {
        if let Some(ty) = types.iter().find(|ty| ty.dims.iter().any(|d| *d < 0)) {
            return Err(BuildError::new(name, format!("a size of the result {ty} is negative")));
        }
        let key = (regions.is_empty() && !types.is_empty())
            .then(|| (name, operands.to_vec(), attrs.clone(), types.clone()));
        let top = self.scopes.len() - 1;
        if let Some(found) = key.as_ref().and_then(|key| self.scopes[top].shared.get(key)) {
            return Ok(found.clone());
        }
        let results: Vec<Value> = types.into_iter().map(|ty| self.new_value(ty)).collect();
        let op = Op {
            name,
            operands: operands.to_vec(),
            results: results.clone(),
            attrs,
            regions,
            location: self.location,
        };
        let scope = &mut self.scopes[top];
        scope.region.ops.push(op);
        if let Some(key) = key {
            scope.shared.insert(key, results.clone());
        }
        Ok(results)
    }

    /// Builds a region: `body` gets its arguments and returns what the region returns.
    pub(crate) fn region(
        &mut self,
        arg_types: &[TensorType],
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<(Region, Vec<TensorType>)> {
        let args: Vec<Value> = arg_types.iter().map(|ty| self.new_value(ty.clone())).collect();
        self.scopes
            .push(Scope { region: Region { args: args.clone(), ops: vec![] }, shared: HashMap::new() });
        let outcome = body(self, &args).and_then(|results| {
            let types = results.iter().map(|v| self.ty(*v).clone()).collect();
            self.push("stablehlo.return", &results, vec![], vec![], vec![])?;
            Ok(types)
        });
        let region = self.scopes.pop().map(|s| s.region).unwrap_or_default();
        Ok((region, outcome?))
    }

    fn new_value(&mut self, ty: TensorType) -> Value {
        self.types.push(ty);
        Value((self.types.len() - 1) as u32)
    }
}

/// Drops ops of the body whose results nobody uses (every op is pure).
fn remove_dead_ops(module: &mut Module) {
    fn mark(op: &Op, live: &mut [bool]) {
        for operand in &op.operands {
            live[operand.index()] = true;
        }
        for inner in op.regions.iter().flat_map(|r| &r.ops) {
            mark(inner, live);
        }
    }
    let mut live = vec![false; module.types.len()];
    let mut kept = Vec::with_capacity(module.body.ops.len());
    for op in std::mem::take(&mut module.body.ops).into_iter().rev() {
        if op.results.is_empty() || op.results.iter().any(|r| live[r.index()]) {
            mark(&op, &mut live);
            kept.push(op);
        }
    }
    kept.reverse();
    module.body.ops = kept;
}
