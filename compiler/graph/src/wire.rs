//! `tpud.v1.Graph` to [`Graph`].

use std::sync::Arc;

use prost::Message;
use tpud_proto::v1 as pb;

use crate::contract;
use crate::nodes::Reader;
use crate::{
    Constant, DType, Graph, GraphError, Input, InputRole, Location, Output, OutputRole, SymExpr, SymFunction,
    Symbol, TensorMeta, ValueId,
};

/// The schema that this build reads.
pub(crate) const SCHEMA_VERSION: u32 = 1;

type Result<T> = std::result::Result<T, GraphError>;

/// Decodes the message and checks its version.
pub(crate) fn message(bytes: &[u8]) -> Result<pb::Graph> {
    let graph = pb::Graph::decode(bytes).map_err(|e| GraphError::Decode(e.to_string()))?;
    if graph.schema_version != SCHEMA_VERSION {
        return Err(GraphError::SchemaVersion { found: graph.schema_version, supported: SCHEMA_VERSION });
    }
    Ok(graph)
}

impl Graph {
    /// Reads an encoded `tpud.v1.Graph` and checks the contract.
    ///
    /// # Errors
    /// Bytes that are no graph, another schema version, or a broken contract with its place.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let graph = from_message(message(bytes)?)?;
        contract::check(&graph)?;
        Ok(graph)
    }
}

fn from_message(graph: pb::Graph) -> Result<Graph> {
    let locations: Vec<Arc<Location>> = graph.locations.into_iter().map(|l| Arc::new(location(l))).collect();
    let first = graph.inputs.len() + graph.constants.len();
    let inputs = enumerate(graph.inputs, "input", input)?;
    let constants = enumerate(graph.constants, "constant", constant)?;
    let nodes = Reader::new(&locations).nodes(first, graph.nodes)?;
    let outputs = enumerate(graph.outputs, "output", output)?;
    let symbols = graph
        .symbols
        .into_iter()
        .map(|s| Symbol { name: s.name, min: s.min, max: s.max, hint: s.hint })
        .collect();
    Ok(Graph { name: graph.name, symbols, inputs, constants, nodes, outputs })
}

/// Converts a list; an error gets the item's place.
fn enumerate<M, T>(
    items: Vec<M>,
    what: &str,
    convert: fn(M) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    let convert_at =
        |(i, m)| convert(m).map_err(|message| GraphError::contract(format!("{what} {i}"), message));
    items.into_iter().enumerate().map(convert_at).collect()
}

fn location(l: pb::Location) -> Location {
    Location { file: l.file, line: l.line, function: l.function, code: l.code, module_path: l.module_path }
}

fn input(input: pb::Input) -> std::result::Result<Input, String> {
    let role = match input.role() {
        pb::input::Role::UserInput => InputRole::User,
        pb::input::Role::Parameter => InputRole::Parameter,
        pb::input::Role::Constant => InputRole::Constant,
        pb::input::Role::Symbol => InputRole::Symbol(input.symbol as usize),
        pb::input::Role::Seed => InputRole::Seed,
        pb::input::Role::Unspecified => return Err("the role is missing or unknown".into()),
    };
    let meta =
        input.meta.ok_or("the type is missing").and_then(|m| tensor_meta(m).ok_or("a dtype is missing"))?;
    Ok(Input { role, meta: meta? })
}

fn constant(constant: pb::Constant) -> std::result::Result<Constant, String> {
    let meta = constant.meta.and_then(tensor_meta).ok_or("the type is missing")??;
    Ok(Constant { meta, data: constant.data })
}

fn output(output: pb::Output) -> std::result::Result<Output, String> {
    let role = match output.role() {
        pb::output::Role::UserOutput => OutputRole::User,
        pb::output::Role::Mutation => OutputRole::Mutation { input: output.input as usize },
        pb::output::Role::Saved => OutputRole::Saved,
        pb::output::Role::Unspecified => return Err("the role is missing or unknown".into()),
    };
    Ok(Output { role, value: ValueId(output.value) })
}

/// `None`: the dtype is unspecified, so there is no tensor.
pub(crate) fn tensor_meta(meta: pb::TensorMeta) -> Option<std::result::Result<TensorMeta, String>> {
    if meta.dtype == 0 {
        return None;
    }
    let convert = || {
        let list = |exprs: &[pb::SymExpr]| -> std::result::Result<Vec<SymExpr>, String> {
            exprs.iter().map(|e| sym_expr(Some(e), 0)).collect()
        };
        Ok(TensorMeta {
            dtype: dtype(meta.dtype).ok_or_else(|| format!("unknown dtype {}", meta.dtype))?,
            sizes: list(&meta.sizes)?,
            strides: list(&meta.strides)?,
            storage_offset: match &meta.storage_offset {
                None => SymExpr::Constant(0),
                offset => sym_expr(offset.as_ref(), 0)?,
            },
        })
    };
    Some(convert())
}

/// Expressions deeper than this are refused (they would exhaust the stack of whoever walks them). prost itself gives up
/// at 100 nested messages, two for each level here.
const MAX_EXPR_DEPTH: usize = 32;

pub(crate) fn sym_expr(expr: Option<&pb::SymExpr>, depth: usize) -> std::result::Result<SymExpr, String> {
    use pb::sym_call::Function;
    use pb::sym_expr::Kind;
    if depth > MAX_EXPR_DEPTH {
        return Err("a size expression is nested too deeply".into());
    }
    match expr.and_then(|e| e.kind.as_ref()) {
        None => Err("a size expression is empty".into()),
        Some(Kind::Constant(n)) => Ok(SymExpr::Constant(*n)),
        Some(Kind::Symbol(i)) => Ok(SymExpr::Symbol(*i as usize)),
        Some(Kind::Call(call)) => {
            let function = match call.function() {
                Function::Add => SymFunction::Add,
                Function::Mul => SymFunction::Mul,
                Function::FloorDiv => SymFunction::FloorDiv,
                Function::CeilDiv => SymFunction::CeilDiv,
                Function::Mod => SymFunction::Mod,
                Function::Min => SymFunction::Min,
                Function::Max => SymFunction::Max,
                Function::Pow => SymFunction::Pow,
                Function::Unspecified => return Err("unknown function in a size expression".into()),
            };
            let args = call
                .args
                .iter()
                .map(|a| sym_expr(Some(a), depth + 1))
                .collect::<std::result::Result<_, _>>()?;
            Ok(SymExpr::Call(function, args))
        }
    }
}

pub(crate) fn dtype(value: i32) -> Option<DType> {
    Some(match pb::DType::try_from(value).ok()? {
        pb::DType::DtypeUnspecified => return None,
        pb::DType::Bool => DType::Bool,
        pb::DType::Uint8 => DType::UInt8,
        pb::DType::Uint16 => DType::UInt16,
        pb::DType::Uint32 => DType::UInt32,
        pb::DType::Uint64 => DType::UInt64,
        pb::DType::Int8 => DType::Int8,
        pb::DType::Int16 => DType::Int16,
        pb::DType::Int32 => DType::Int32,
        pb::DType::Int64 => DType::Int64,
        pb::DType::Float16 => DType::Float16,
        pb::DType::Bfloat16 => DType::BFloat16,
        pb::DType::Float32 => DType::Float32,
        pb::DType::Float64 => DType::Float64,
        pb::DType::Complex64 => DType::Complex64,
        pb::DType::Complex128 => DType::Complex128,
        pb::DType::Float8E4m3fn => DType::Float8E4M3FN,
        pb::DType::Float8E5m2 => DType::Float8E5M2,
    })
}

impl From<DType> for pb::DType {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool,
            DType::UInt8 => Self::Uint8,
            DType::UInt16 => Self::Uint16,
            DType::UInt32 => Self::Uint32,
            DType::UInt64 => Self::Uint64,
            DType::Int8 => Self::Int8,
            DType::Int16 => Self::Int16,
            DType::Int32 => Self::Int32,
            DType::Int64 => Self::Int64,
            DType::Float16 => Self::Float16,
            DType::BFloat16 => Self::Bfloat16,
            DType::Float32 => Self::Float32,
            DType::Float64 => Self::Float64,
            DType::Complex64 => Self::Complex64,
            DType::Complex128 => Self::Complex128,
            DType::Float8E4M3FN => Self::Float8E4m3fn,
            DType::Float8E5M2 => Self::Float8E5m2,
        }
    }
}
