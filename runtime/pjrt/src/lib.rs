//! Safe PJRT: one file per noun of the C API, every handle owned, `Send + Sync`, and every failure a typed error.
//!
//! ```text
//! Plugin ──create_client──▶ Client ──compile──▶ LoadedExecutable ──execute──▶ Buffer
//!    │                        └─────deserialize────┘  │
//!    └──topology──▶ Topology ──compile──▶ Executable ◀┘ (serialize, memory, cost, signature)
//! ```
//! Nothing here knows tpud's graphs, keys or messages: programs and executables are bytes.

#![allow(unsafe_code)] // the calls into the plugin; each block says why it is sound
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[macro_use]
mod api;
mod buffer;
mod client;
mod compile;
mod device;
mod element_type;
mod error;
mod event;
mod executable;
mod heap;
mod hlo;
mod host_memory;
mod identity;
mod loaded_executable;
mod named_value;
pub mod platform;
mod plugin;
mod topology;

pub use buffer::Buffer;
pub use client::Client;
pub use compile::{CompileOptions, OptionValue, Program};
pub use device::{Device, DeviceDescription, DeviceMemory};
pub use element_type::{ElementType, TensorType};
pub use error::{Code, Error, Result};
pub use event::Event;
pub use executable::{CostAnalysis, Executable, MemoryStats, OptimizedProgram};
pub use heap::release_unused_memory;
pub use hlo::{Alias, Signature};
pub use host_memory::AlignedBytes;
pub use identity::PluginIdentity;
pub use loaded_executable::LoadedExecutable;
pub use named_value::NamedValue;
pub use plugin::Plugin;
pub use topology::Topology;
