//! What a compiler is given: a program, and options in XLA's own message.

use std::collections::BTreeMap;

use prost::Message;
use tpud_pjrt_sys as sys;

/// A program to compile: StableHLO as text or as MLIR bytecode.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    code: &'a [u8],
}

const FORMAT: &str = "mlir";

impl<'a> Program<'a> {
    /// An MLIR module, in text or in bytecode (version 4 is read by every plugin).
    #[must_use]
    pub fn mlir(code: &'a [u8]) -> Self {
        Self { code }
    }

    pub(crate) fn to_raw(self) -> sys::Padded<sys::PJRT_Program> {
        let mut program = sys::Padded::<sys::PJRT_Program>::new();
        program.code = self.code.as_ptr().cast_mut().cast();
        program.code_size = self.code.len();
        program.format = FORMAT.as_ptr().cast();
        program.format_size = FORMAT.len();
        program
    }
}

/// The value of an XLA debug option.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are protobuf's
pub enum OptionValue {
    Text(String),
    Bool(bool),
    Integer(i64),
    Float(f64),
}

/// How to compile.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// XLA debug options by name, e.g. `xla_cpu_max_isa`. Unknown names are an INVALID_ARGUMENT of the plugin.
    pub overrides: BTreeMap<String, OptionValue>,
    /// Copies of the program that run on different data.
    pub num_replicas: u32,
    /// Devices that one copy is partitioned over.
    pub num_partitions: u32,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self { overrides: BTreeMap::new(), num_replicas: 1, num_partitions: 1 }
    }
}

impl CompileOptions {
    /// Sets an XLA debug option.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: OptionValue) -> Self {
        self.overrides.insert(name.into(), value);
        self
    }

    /// The serialised `xla.CompileOptionsProto`; the same options give the same bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        CompileOptionsProto {
            executable_build_options: Some(ExecutableBuildOptionsProto {
                device_ordinal: -1,
                num_replicas: i64::from(self.num_replicas),
                num_partitions: i64::from(self.num_partitions),
                use_spmd_partitioning: self.num_partitions > 1,
                use_shardy_partitioner: self.num_partitions > 1,
            }),
            compile_portable_executable: false,
            env_option_overrides: self
                .overrides
                .iter()
                .map(|(name, value)| (name.clone(), OptionOverrideProto { value: Some(value.into()) }))
                .collect(),
        }
        .encode_to_vec()
    }
}

impl From<&OptionValue> for option_override::Value {
    fn from(value: &OptionValue) -> Self {
        match value {
            OptionValue::Text(text) => Self::Text(text.clone()),
            OptionValue::Bool(flag) => Self::Bool(*flag),
            OptionValue::Integer(number) => Self::Integer(*number),
            OptionValue::Float(number) => Self::Float(*number),
        }
    }
}

/// `xla.CompileOptionsProto`, the fields that are set here.
#[derive(Clone, PartialEq, Message)]
struct CompileOptionsProto {
    #[prost(message, optional, tag = "3")]
    executable_build_options: Option<ExecutableBuildOptionsProto>,
    #[prost(bool, tag = "4")]
    compile_portable_executable: bool,
    #[prost(btree_map = "string, message", tag = "7")]
    env_option_overrides: BTreeMap<String, OptionOverrideProto>,
}

/// `xla.ExecutableBuildOptionsProto`.
#[derive(Clone, PartialEq, Message)]
struct ExecutableBuildOptionsProto {
    #[prost(int64, tag = "1")]
    device_ordinal: i64,
    #[prost(int64, tag = "4")]
    num_replicas: i64,
    #[prost(int64, tag = "5")]
    num_partitions: i64,
    #[prost(bool, tag = "6")]
    use_spmd_partitioning: bool,
    #[prost(bool, tag = "19")]
    use_shardy_partitioner: bool,
}

/// `xla.OptionOverrideProto`.
#[derive(Clone, PartialEq, Message)]
struct OptionOverrideProto {
    #[prost(oneof = "option_override::Value", tags = "1, 2, 3, 4")]
    value: Option<option_override::Value>,
}

mod option_override {
    //! The oneof of `xla.OptionOverrideProto`.

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Value {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "3")]
        Integer(i64),
        #[prost(double, tag = "4")]
        Float(f64),
    }
}
