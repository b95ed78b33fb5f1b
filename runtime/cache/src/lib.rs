//! The compile cache: keys as named lists, signed entries, tiers that compose, one compile per key.
//!
//! This crate sees bytes and keys only. It knows nothing of graphs, modules, gRPC or PJRT: the caller hands it the
//! components of a key ([`GraphKeyParts`], [`ModuleKeyParts`]) and opaque payloads, and gets back entries whose every
//! byte was checked, or a miss. A tier that fails is a miss with a counter, never an error of the compile.
//!
//! The daemon's whole use of it:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tpud_cache::{Cache, CacheConfig, Entry, GraphKeyParts, GraphRecord, Target};
//!
//! let cache = Cache::open(&CacheConfig {
//!     directory: "/var/cache/tpud".into(),
//!     memory_bytes: 256 << 20,
//!     disk_bytes: 10 << 30,
//! })?;
//! let material = GraphKeyParts {
//!     graph: b"canonical bytes",
//!     bucket: &[("s0", 128)],
//!     padding: "pow2",
//!     precision: "highest",
//!     emulation: false,
//!     checks: false,
//!     xla_flags: &[],
//!     lowering: "1",
//!     target: Target { platform: "cpu", topology: "", device_kind: "x86-64+avx2", plugin: "xla-cpu 0.0.1" },
//! }
//! .material();
//! match cache.get(&material).await {
//!     Some(hit) => println!("{} hit: {}", hit.tier, GraphRecord::decode(hit.entry.payload())?.module_key),
//!     None => {
//!         let record = GraphRecord { module_key: "00".repeat(32).parse()?, metadata: b"signature".as_slice().into() };
//!         cache.put(Entry::new(material, record.encode())).await;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod cache;
mod disk;
mod entry;
mod error;
pub mod fingerprint;
mod key;
mod memory;
mod payload;
mod signing;
mod single_flight;
mod tier;
mod tiered;

pub use cache::{Cache, CacheConfig, CacheCounters, EntryInfo, Listing, Nearest};
pub use disk::{Disk, DiskCounters, PruneReport, VerifyReport};
pub use entry::Entry;
pub use error::{CacheError, EntryError, KeyError};
pub use key::{
    Component, GraphKeyParts, Key, KeyBuilder, KeyMaterial, Kind, ModuleKeyParts, Target, differing,
};
pub use memory::Memory;
pub use payload::{GraphRecord, ModuleRecord};
pub use signing::SigningKey;
pub use single_flight::{Flight, FlightError, SingleFlight};
pub use tier::{Stored, Tier};
pub use tiered::{Hit, TierCounters, Tiered};
