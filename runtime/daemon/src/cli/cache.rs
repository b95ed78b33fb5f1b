//! `tpud cache`.

use std::fmt::Write;
use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tpud_proto::v1::{self, cache_client::CacheClient, explain_cache_request::Subject};

use super::connect::{Absent, MAX_REPLY, connect};
use super::failure::Failure;
use super::output::{Output, bytes};
use super::{Common, graph_file, json};

/// Looks into the cache.
#[derive(Debug, clap::Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List entries, most recently used first.
    List {
        /// How many at most.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show what a key is made of; for a graph, also the nearest stored entry and what differs.
    Explain {
        /// A key, the beginning of one (8 digits or more), or a graph file.
        subject: String,
        /// For a graph: the target, e.g. cpu or v6e:2x2; default: the daemon's device.
        #[arg(long)]
        target: Option<String>,
    },
    /// Check every entry; broken ones are put aside.
    Verify,
    /// Remove least recently used entries.
    Prune {
        /// Bytes that may stay.
        #[arg(long, value_name = "BYTES")]
        max_bytes: u64,
    },
}

/// Runs one of the actions.
pub(super) async fn run(args: &CacheArgs, output: Output) -> Result<(), Failure> {
    let channel = connect(&args.common, Absent::Start).await?;
    let mut client = CacheClient::new(channel).max_decoding_message_size(MAX_REPLY);
    match &args.action {
        Action::List { limit } => list(&mut client, *limit, output).await,
        Action::Explain { subject, target } => explain(&mut client, subject, target.as_deref(), output).await,
        Action::Verify => {
            let reply = client.verify(v1::VerifyCacheRequest {}).await?.into_inner();
            let value = json!({"checked": reply.checked, "quarantined": reply.quarantined});
            let text = || {
                let mut text =
                    format!("{} entries checked, {} broken", reply.checked, reply.quarantined.len());
                reply.quarantined.iter().for_each(|key| text.push_str(&format!("\n  {key}")));
                text
            };
            Ok(output.result(&value, text)?)
        }
        Action::Prune { max_bytes } => {
            let reply = client.prune(v1::PruneCacheRequest { max_bytes: *max_bytes }).await?.into_inner();
            let value = json!({"removed": reply.removed, "freed_bytes": reply.freed_bytes});
            Ok(output.result(&value, || {
                format!("{} entries removed, {} freed", reply.removed, bytes(reply.freed_bytes))
            })?)
        }
    }
}

async fn list(client: &mut CacheClient<Channel>, limit: u32, output: Output) -> Result<(), Failure> {
    let reply = client.list(v1::ListCacheRequest { limit }).await?.into_inner();
    let entries: Vec<Value> = reply.entries.iter().map(json::entry).collect();
    let value =
        json!({"entries": entries, "total_entries": reply.total_entries, "total_bytes": reply.total_bytes});
    let text = || {
        let mut text = format!("{} entries, {}\n", reply.total_entries, bytes(reply.total_bytes));
        for entry in &reply.entries {
            let key = entry.key.get(..16).unwrap_or(&entry.key);
            let target = ["platform", "topology"].map(|name| component(&entry.components, name)).join(" ");
            let _ = writeln!(
                text,
                "  {key}  {:6}  {:6}  {:>10}  {}",
                entry.kind,
                entry.tier,
                bytes(entry.bytes),
                target.trim_end()
            );
        }
        text
    };
    Ok(output.result(&value, text)?)
}

fn component<'a>(components: &'a [v1::KeyComponent], name: &str) -> &'a str {
    components
        .iter()
        .find(|component| component.name == name)
        .map_or("", |component| component.value.as_str())
}

async fn explain(
    client: &mut CacheClient<Channel>,
    subject: &str,
    target: Option<&str>,
    output: Output,
) -> Result<(), Failure> {
    let path = Path::new(subject);
    let subject = if path.is_file() {
        Subject::Graph(graph_file::read(path)?)
    } else {
        Subject::Key(subject.to_owned())
    };
    let target = target.map(graph_file::target);
    let options = Some(v1::CompileOptions { target, ..v1::CompileOptions::default() });
    let request = v1::ExplainCacheRequest { subject: Some(subject), options };
    let reply = client.explain(request).await?.into_inner();
    Ok(output.result(&json::explanation(&reply), || explanation(&reply))?)
}

/// How the SHA-256 of nothing begins.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb924";

fn explanation(reply: &v1::ExplainCacheReply) -> String {
    let mut text = format!("{}  {}\n", reply.key, if reply.stored { "stored" } else { "not stored" });
    let other = reply.nearest.as_ref().map(|nearest| nearest.components.as_slice()).unwrap_or_default();
    let show = |component: &v1::KeyComponent| match component.value.as_str() {
        "" if component.digest.starts_with(NOTHING) => "none".to_owned(),
        "" => format!("sha256 {}", component.digest.get(..16).unwrap_or(&component.digest)),
        value => value.to_owned(),
    };
    for component in &reply.components {
        let differs = reply.differing.contains(&component.name);
        let _ =
            writeln!(text, "{} {:16} {}", if differs { "!" } else { " " }, component.name, show(component));
        if differs && let Some(other) = other.iter().find(|other| other.name == component.name) {
            let _ = writeln!(text, "  {:16} {} in the nearest entry", "", show(other));
        }
    }
    match &reply.nearest {
        None => text.push_str("nothing of this kind is stored\n"),
        Some(nearest) if !reply.differing.is_empty() => {
            let _ = writeln!(
                text,
                "nearest entry: {}, which differs in {}",
                nearest.key,
                reply.differing.join(", ")
            );
        }
        Some(_) => {}
    }
    text
}
