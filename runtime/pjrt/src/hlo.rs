//! The little of XLA's HLO protobuf that is read back: an executable's parameters and aliases.

use prost::Message;

use crate::element_type::{ElementType, TensorType};
use crate::error::{Error, Result};

/// Inputs and outputs of an executable, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What each input must be.
    pub inputs: Vec<TensorType>,
    /// What each output is.
    pub outputs: Vec<TensorType>,
    /// Outputs that can take over the memory of a donated input.
    pub aliases: Vec<Alias>,
}

/// Output `output` takes over the memory of input `input` when that is donated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Index of the input.
    pub input: usize,
    /// Index of the output.
    pub output: usize,
}

/// Inputs and aliases of an optimised program, in the two formats that plugins give it in.
pub(crate) fn inputs_and_aliases(format: &str, code: &[u8]) -> Result<(Vec<TensorType>, Vec<Alias>)> {
    let broken = |what: String| Error::BrokenContract { call: "PJRT_Executable_OptimizedProgram", what };
    let module = match format {
        "hlo" => HloModuleProto::decode(code),
        "hlo_with_config" => {
            HloModuleProtoWithConfig::decode(code).map(|with| with.hlo_module.unwrap_or_default())
        }
        other => return Err(broken(format!("a program in the unknown format \"{other}\""))),
    }
    .map_err(|error| broken(format!("an undecodable program: {error}")))?;
    let shape = module.host_program_shape.ok_or_else(|| broken("a program without a shape".to_owned()))?;
    let inputs = shape.parameters.iter().map(tensor_type).collect::<Option<Vec<_>>>();
    let inputs = inputs.ok_or_else(|| broken("a parameter that is no plain tensor".to_owned()))?;
    let entries = module.input_output_alias.unwrap_or_default().entries;
    Ok((inputs, entries.iter().filter_map(alias).collect()))
}

fn tensor_type(shape: &ShapeProto) -> Option<TensorType> {
    let element_type = ElementType::from_primitive_type(shape.element_type)?;
    Some(TensorType { element_type, dims: shape.dimensions.clone() })
}

/// A single output is not a tuple, and then its index is empty.
fn alias(entry: &AliasEntryProto) -> Option<Alias> {
    let output = entry.output_shape_index.first().copied().unwrap_or(0);
    Some(Alias {
        input: usize::try_from(entry.parameter_number).ok()?,
        output: usize::try_from(output).ok()?,
    })
}

/// `xla.HloModuleProtoWithConfig`.
#[derive(Clone, PartialEq, Message)]
struct HloModuleProtoWithConfig {
    #[prost(message, optional, tag = "1")]
    hlo_module: Option<HloModuleProto>,
}

/// `xla.HloModuleProto`.
#[derive(Clone, PartialEq, Message)]
struct HloModuleProto {
    #[prost(message, optional, tag = "4")]
    host_program_shape: Option<ProgramShapeProto>,
    #[prost(message, optional, tag = "8")]
    input_output_alias: Option<InputOutputAliasProto>,
}

/// `xla.ProgramShapeProto`.
#[derive(Clone, PartialEq, Message)]
struct ProgramShapeProto {
    #[prost(message, repeated, tag = "1")]
    parameters: Vec<ShapeProto>,
}

/// `xla.ShapeProto`.
#[derive(Clone, PartialEq, Message)]
struct ShapeProto {
    #[prost(int32, tag = "2")]
    element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    dimensions: Vec<i64>,
}

/// `xla.HloInputOutputAliasProto`.
#[derive(Clone, PartialEq, Message)]
struct InputOutputAliasProto {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<AliasEntryProto>,
}

/// `xla.HloInputOutputAliasProto.AliasEntryProto`.
#[derive(Clone, PartialEq, Message)]
struct AliasEntryProto {
    #[prost(int64, repeated, tag = "1")]
    output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    parameter_number: i64,
}
