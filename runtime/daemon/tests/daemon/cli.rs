//! The `tpud` command, as a person or a script runs it.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::*;

fn tpud(daemon: &TestDaemon, arguments: &[&str]) -> Output {
    Command::new(TPUD).args(arguments).env("TPUD_ADDRESS", daemon.address()).output().unwrap()
}

fn json(daemon: &TestDaemon, arguments: &[&str]) -> Value {
    let output = tpud(daemon, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_graph_file_is_compiled_explained_and_found_again() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let path = daemon.directory.path().join("model.tpudgraph");
    std::fs::write(&path, add_graph(512)).unwrap();
    let file = path.to_str().unwrap();

    let first = json(&daemon, &["compile", file, "--target", "cpu"]);
    assert_eq!(first["outcome"], "COMPILED");
    assert_eq!(first["ops"][0]["op"], "aten.add.Tensor");
    let again = tpud(&daemon, &["compile", file, "--target", "cpu"]);
    assert!(again.status.success() && text(&again).contains("from the memory cache"), "{}", text(&again));
    let flagged =
        json(&daemon, &["compile", file, "--target", "cpu", "--xla-flag", "xla_cpu_enable_fast_math=true"]);
    assert_eq!(flagged["outcome"], "COMPILED");
    assert_ne!(flagged["graph_key"], first["graph_key"]);

    let list = json(&daemon, &["cache", "list"]);
    assert_eq!(list["total_entries"], 4, "two graphs and two modules");
    let key = first["graph_key"].as_str().unwrap();
    let explained = json(&daemon, &["cache", "explain", &key[..12]]);
    assert_eq!((explained["key"].as_str(), explained["stored"].as_bool()), (Some(key), Some(true)));
    let other = daemon.directory.path().join("other.tpudgraph");
    std::fs::write(&other, add_graph(513)).unwrap();
    let near = json(&daemon, &["cache", "explain", other.to_str().unwrap(), "--target", "cpu"]);
    assert_eq!((near["stored"].as_bool(), &near["differing"]), (Some(false), &serde_json::json!(["graph"])));
    assert_eq!(json(&daemon, &["cache", "verify"])["quarantined"], serde_json::json!([]));
    assert_eq!(json(&daemon, &["cache", "prune", "--max-bytes", "0"])["removed"], 4);

    let stablehlo = daemon.directory.path().join("model.mlir");
    let output =
        tpud(&daemon, &["compile", file, "--target", "cpu", "--stablehlo", stablehlo.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(std::fs::read_to_string(stablehlo).unwrap().contains("stablehlo.add"));
}

#[test]
fn failures_are_readable_and_have_an_exit_code() {
    use prost::Message;
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let path = daemon.directory.path().join("model.tpudgraph");
    std::fs::write(&path, graph_of("aten.no_such_op.default", 4, "").encode_to_vec()).unwrap();
    let file = path.to_str().unwrap();
    let output = tpud(&daemon, &["compile", file, "--target", "cpu"]);
    assert!(!output.status.success());
    for part in ["aten.no_such_op.default", "model.py:7", "UNSUPPORTED_OP"] {
        assert!(text(&output).contains(part), "{}", text(&output));
    }
    assert_eq!(json(&daemon, &["compile", file, "--target", "cpu"])["error"]["reason"], "UNSUPPORTED_OP");
    assert_eq!(json(&daemon, &["compile", file, "--target", "v9x:2x2"])["error"]["reason"], "INVALID_TARGET");
    let missing = tpud(&daemon, &["compile", "nothing.tpudgraph", "--target", "cpu"]);
    assert!(text(&missing).contains("nothing.tpudgraph is not a file"), "{}", text(&missing));

    let archive = daemon.directory.path().join("model.pt2");
    std::fs::write(&archive, b"").unwrap();
    let output = Command::new(TPUD)
        .args(["compile", archive.to_str().unwrap(), "--target", "cpu"])
        .env("TPUD_PYTHON", "/nowhere/python")
        .output()
        .unwrap();
    assert!(!output.status.success() && text(&output).contains("TPUD_PYTHON"), "{}", text(&output));
}

#[test]
fn commands_start_the_per_user_daemon_and_can_end_it() {
    let runtime = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(TPUD);
        command.args(arguments).env_remove("TPUD_ADDRESS");
        command.env("TPUD_RUNTIME_DIR", runtime.path().join("run"));
        command.env("TPUD_CACHE_DIR", runtime.path().join("cache")).env("TPUD_DEVICE", "none");
        command.output().unwrap()
    };
    let status = run(&["status"]);
    assert!(!status.status.success() && text(&status).contains("tpud serve"), "{}", text(&status));
    let devices = run(&["devices", "--json"]);
    let devices: Value =
        serde_json::from_slice(&devices.stdout).unwrap_or_else(|_| panic!("{}", text(&devices)));
    assert_eq!(devices["devices"], serde_json::json!([]));
    assert_eq!(devices["platforms"][0]["platform"], "cpu");
    assert_eq!(devices["platforms"][0]["available"], true, "{devices}");
    let status = run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["version"], tpud_daemon::VERSION);
    let ops: Value = serde_json::from_slice(&run(&["ops", "--json"]).stdout).unwrap();
    assert!(ops["ops"].as_array().unwrap().contains(&Value::from("aten.add.Tensor")));
    assert!(run(&["shutdown"]).status.success());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let process = format!("/proc/{}", status["pid"]);
    while std::fs::read_to_string(format!("{process}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(std::time::Instant::now() < deadline, "the daemon lives on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
