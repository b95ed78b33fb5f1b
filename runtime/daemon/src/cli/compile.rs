//! `tpud compile`.

use std::fmt::Write;
use std::path::PathBuf;

use tpud_pjrt::platform::tpu;
use tpud_proto::v1::compile_client::CompileClient;
use tpud_proto::v1::compile_event::Event;
use tpud_proto::v1::compile_progress::Stage;
use tpud_proto::v1::{self, CacheOutcome, xla_flag};

use super::connect::{Absent, MAX_REPLY, connect};
use super::failure::Failure;
use super::output::{Output, bytes, count, seconds};
use super::{Common, graph_file, json};

/// Compiles a graph for a target.
#[derive(Debug, clap::Args)]
pub(super) struct CompileArgs {
    /// A graph saved by the client (.tpudgraph), or an archive of torch.export (.pt2).
    file: PathBuf,
    /// `cpu`, or a TPU topology such as v6e:2x2, v5e:2x2, v5p:2x2x1, v7x:2x2x1.
    #[arg(long)]
    target: String,
    /// An XLA option; may be given several times.
    #[arg(long = "xla-flag", value_name = "NAME=VALUE", value_parser = parse_flag)]
    xla_flags: Vec<v1::XlaFlag>,
    /// Precision of f32 matrix products.
    #[arg(long, default_value = "highest", value_parser = ["highest", "high", "medium"])]
    precision: String,
    /// On the CPU: compute f32 matrix products as a TPU of that precision would.
    #[arg(long)]
    emulate_tpu_precision: bool,
    /// Report where eager PyTorch would raise on values in one output more.
    #[arg(long)]
    checks: bool,
    /// Write the StableHLO text to a file instead of compiling.
    #[arg(long, value_name = "FILE")]
    stablehlo: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

fn parse_flag(text: &str) -> Result<v1::XlaFlag, String> {
    let (name, value) = text.split_once('=').ok_or("an XLA option is written NAME=VALUE")?;
    let name = name.trim_start_matches('-');
    if name.is_empty() {
        return Err("an XLA option needs a name".to_owned());
    }
    let value = if let Ok(value) = value.parse() {
        xla_flag::Value::Boolean(value)
    } else if let Ok(value) = value.parse() {
        xla_flag::Value::Integer(value)
    } else if let Ok(value) = value.parse() {
        xla_flag::Value::Floating(value)
    } else {
        xla_flag::Value::Text(value.to_owned())
    };
    Ok(v1::XlaFlag { name: name.to_owned(), value: Some(value) })
}

/// Compiles, shows progress, prints the report.
pub(super) async fn run(args: &CompileArgs, output: Output) -> Result<(), Failure> {
    let graph = graph_file::read(&args.file)?;
    let mut xla_flags = args.xla_flags.clone();
    xla_flags.sort_by(|a, b| a.name.cmp(&b.name));
    let precision = match args.precision.as_str() {
        "high" => v1::Precision::High,
        "medium" => v1::Precision::Medium,
        _ => v1::Precision::Highest,
    };
    let target = Some(graph_file::target(&args.target));
    let options = Some(v1::CompileOptions {
        target,
        precision: precision.into(),
        xla_flags,
        checks: args.checks,
        emulate_tpu_precision: args.emulate_tpu_precision,
    });
    let channel = connect(&args.common, Absent::Start).await?;
    let mut client = CompileClient::new(channel).max_decoding_message_size(MAX_REPLY);
    if let Some(path) = &args.stablehlo {
        let reply = client.lower(v1::LowerRequest { graph, options }).await?.into_inner();
        std::fs::write(path, &reply.text)?;
        let value = serde_json::json!({"file": path, "module_bytes": reply.module_bytes, "module_digest": reply.module_digest});
        return Ok(output
            .result(&value, || format!("{}: {} as bytecode", path.display(), bytes(reply.module_bytes)))?);
    }
    let request = v1::CompileRequest { graph, options, ..v1::CompileRequest::default() };
    let result = follow(&mut client, request, output).await;
    output.progress("");
    let result = result?;
    let memory = result.report.as_ref().and_then(|report| report.memory).unwrap_or_default();
    let fits = (memory.available && memory.device_bytes > 0).then(|| needed(&memory) <= memory.device_bytes);
    Ok(output.result(&json::compile_result(&result, &args.target, fits), || text(&result, &args.target))?)
}

async fn follow(
    client: &mut CompileClient<tonic::transport::Channel>,
    request: v1::CompileRequest,
    output: Output,
) -> Result<v1::CompileResult, Failure> {
    let mut events = client.compile(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Progress(progress)) => output.progress(&progress_line(&progress)),
            Some(Event::Result(result)) => return Ok(result),
            None => {}
        }
    }
    Err(anyhow::anyhow!("the daemon ended the stream without a result").into())
}

fn progress_line(progress: &v1::CompileProgress) -> String {
    let elapsed = progress.elapsed_seconds;
    match progress.stage() {
        Stage::Queued => format!("waiting for a worker (place {})  {elapsed:.1} s", progress.queue_position),
        Stage::Lowering => format!("lowering  {elapsed:.1} s"),
        Stage::Compiling => format!("compiling  {elapsed:.1} s"),
        Stage::Loading => format!("loading  {elapsed:.1} s"),
        Stage::Waiting => format!("waiting for the same graph's compile  {elapsed:.1} s"),
        Stage::Unspecified => format!("{elapsed:.1} s"),
    }
}

/// Bytes of device memory that one execution takes.
fn needed(memory: &v1::MemoryReport) -> u64 {
    let parts = memory.argument_bytes + memory.output_bytes + memory.temporary_bytes + memory.code_bytes;
    memory.peak_bytes.max(parts.saturating_sub(memory.alias_bytes))
}

fn text(result: &v1::CompileResult, target: &str) -> String {
    let report = result.report.clone().unwrap_or_default();
    let timings = result.timings.unwrap_or_default();
    let outcome = match result.outcome() {
        CacheOutcome::Unspecified => "unknown",
        CacheOutcome::Compiled => "compiled",
        CacheOutcome::MemoryHit => "from the memory cache",
        CacheOutcome::DiskHit => "from the disk cache",
        CacheOutcome::ModuleHit => "lowered; the executable of its module was cached",
        CacheOutcome::Shared => "shared another request's compile",
    };
    let mut text = String::new();
    let _ = writeln!(text, "target      {target}");
    let _ = writeln!(text, "graph       {}  ({outcome})", result.graph_key);
    let _ = writeln!(text, "module      {}  ({})", result.module_key, bytes(report.module_bytes));
    let ops: u32 = report.ops.iter().map(|op| op.count).sum();
    let most: Vec<String> = report.ops.iter().take(4).map(|op| format!("{} {}", op.count, op.op)).collect();
    let _ = writeln!(
        text,
        "ops         {ops}: {}{}",
        most.join(", "),
        if report.ops.len() > 4 { ", …" } else { "" }
    );
    text.push_str(&memory_text(&report.memory.unwrap_or_default()));
    let cost = report.cost.unwrap_or_default();
    if cost.available {
        let estimate = match cost.optimal_seconds {
            known if known > 0.0 => format!("{} by XLA's estimate", seconds(known)),
            _ => "no estimate by XLA".to_owned(),
        };
        let roofline = tpu::roofline_seconds(target, cost.flops, cost.bytes_accessed)
            .map_or_else(String::new, |least| format!(", at least {} at the chip's peaks", seconds(least)));
        let _ = writeln!(
            text,
            "cost        {}FLOP, {}B accessed, {estimate}{roofline}",
            count(cost.flops),
            count(cost.bytes_accessed)
        );
    } else {
        let _ = writeln!(text, "cost        not known to this compiler");
    }
    let _ = writeln!(
        text,
        "time        {} in all: queue {}, lower {}, serialise {}, compile {}",
        seconds(timings.total_seconds),
        seconds(timings.queue_seconds),
        seconds(timings.lower_seconds),
        seconds(timings.serialize_seconds),
        seconds(timings.compile_seconds),
    );
    let _ = writeln!(text, "executable  {}", bytes(report.executable_bytes));
    text
}

fn memory_text(memory: &v1::MemoryReport) -> String {
    if !memory.available {
        return "memory      not known to this compiler\n".to_owned();
    }
    let mut text = format!(
        "memory      arguments {}, outputs {}, temporaries {}, code {}",
        bytes(memory.argument_bytes),
        bytes(memory.output_bytes),
        bytes(memory.temporary_bytes),
        bytes(memory.code_bytes),
    );
    if memory.alias_bytes > 0 {
        let _ = write!(text, ", of which {} shared by inputs and outputs", bytes(memory.alias_bytes));
    }
    if memory.peak_bytes > 0 {
        let _ = write!(text, "; peak {}", bytes(memory.peak_bytes));
    }
    text.push('\n');
    let (needed, has) = (needed(memory), memory.device_bytes);
    if has > 0 && needed <= has {
        let share = needed as f64 / has as f64 * 100.0;
        let _ = writeln!(text, "fits        yes: {} of {} HBM ({share:.1} %)", bytes(needed), bytes(has));
    } else if has > 0 {
        let over = bytes(needed - has);
        let _ = writeln!(
            text,
            "fits        NO: {} are needed, {over} more than the {} HBM",
            bytes(needed),
            bytes(has)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xla_options_are_typed_by_their_value() {
        let value = |text: &str| parse_flag(text).unwrap().value.unwrap();
        assert_eq!(value("a=true"), xla_flag::Value::Boolean(true));
        assert_eq!(value("--a=3"), xla_flag::Value::Integer(3));
        assert_eq!(value("a=0.5"), xla_flag::Value::Floating(0.5));
        assert_eq!(value("a=x=y"), xla_flag::Value::Text("x=y".into()));
        assert!(parse_flag("a").is_err() && parse_flag("=1").is_err());
    }

    #[test]
    fn what_does_not_fit_says_by_how_much() {
        let memory = v1::MemoryReport {
            available: true,
            argument_bytes: 40 << 30,
            device_bytes: 32 << 30,
            ..Default::default()
        };
        assert!(memory_text(&memory).contains("NO: 40.0 GiB are needed, 8.0 GiB more than the 32.0 GiB HBM"));
        let small = v1::MemoryReport { argument_bytes: 16 << 30, ..memory };
        assert!(memory_text(&small).contains("yes: 16.0 GiB of 32.0 GiB HBM (50.0 %)"));
    }
}
