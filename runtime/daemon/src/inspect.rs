//! Looking into the cache, for people.

use tpud_cache::{Cache, Component, EntryInfo};
use tpud_proto::v1::{self, explain_cache_request::Subject};

use crate::compile::Compiler;
use crate::error::{DaemonError, Result};

/// Entries listed when the client sets no limit.
const DEFAULT_LIMIT: usize = 1000;

/// Key components as messages.
pub(crate) fn components(components: &[Component]) -> Vec<v1::KeyComponent> {
    let encode = |component: &Component| v1::KeyComponent {
        name: component.name.clone(),
        value: component.value.clone().unwrap_or_default(),
        digest: tpud_cache::fingerprint::hex(&component.digest),
    };
    components.iter().map(encode).collect()
}

fn entry(info: &EntryInfo) -> v1::CacheEntry {
    v1::CacheEntry {
        key: info.key.to_string(),
        kind: info.kind.name().to_owned(),
        tier: info.tier.to_owned(),
        bytes: info.bytes,
        last_used_unix_seconds: info.last_used_unix_seconds,
        components: components(&info.components),
    }
}

/// The most recently used entries.
pub(crate) async fn list(cache: &Cache, limit: u32) -> v1::ListCacheReply {
    let limit = if limit == 0 { DEFAULT_LIMIT } else { limit as usize };
    let listing = cache.list(limit).await;
    v1::ListCacheReply {
        entries: listing.entries.iter().map(entry).collect(),
        total_entries: listing.total_entries,
        total_bytes: listing.total_bytes,
    }
}

/// What a key is made of, and what the nearest stored entry has differently.
pub(crate) async fn explain(
    compiler: &Compiler,
    request: v1::ExplainCacheRequest,
) -> Result<v1::ExplainCacheReply> {
    match request.subject {
        Some(Subject::Key(prefix)) => {
            let key = compiler.cache.resolve(&prefix).await?;
            // It may have been evicted just now.
            let found = compiler.cache.describe(&key).await;
            let info = found.ok_or_else(|| DaemonError::from(tpud_cache::KeyError::Unknown { prefix }))?;
            Ok(v1::ExplainCacheReply {
                key: key.to_string(),
                stored: true,
                components: components(&info.components),
                nearest: Some(entry(&info)),
                differing: Vec::new(),
            })
        }
        Some(Subject::Graph(graph)) => {
            let prepared = compiler.prepare(graph.into(), request.options.unwrap_or_default()).await?;
            let nearest = compiler.cache.nearest(&prepared.key).await;
            Ok(v1::ExplainCacheReply {
                key: prepared.key.key().to_string(),
                stored: nearest.as_ref().is_some_and(|nearest| nearest.differing.is_empty()),
                components: components(prepared.key.components()),
                differing: nearest.as_ref().map(|nearest| nearest.differing.clone()).unwrap_or_default(),
                nearest: nearest.map(|nearest| entry(&nearest.entry)),
            })
        }
        None => Err(DaemonError::InvalidCommand("explain needs a key or a graph".to_owned())),
    }
}

/// Checks every entry.
pub(crate) async fn verify(cache: &Cache) -> Result<v1::VerifyCacheReply> {
    let report = cache.verify().await?;
    let quarantined = report.quarantined.iter().map(ToString::to_string).collect();
    Ok(v1::VerifyCacheReply { checked: report.checked, quarantined })
}

/// Makes the cache no larger than `max_bytes`.
pub(crate) async fn prune(cache: &Cache, max_bytes: u64) -> Result<v1::PruneCacheReply> {
    let report = cache.prune(max_bytes).await?;
    Ok(v1::PruneCacheReply { removed: report.removed.len() as u64, freed_bytes: report.freed_bytes })
}
