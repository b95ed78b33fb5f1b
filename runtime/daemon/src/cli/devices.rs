//! `tpud devices`.

use std::fmt::Write;

use serde_json::{Value, json};
use tpud_proto::v1::{self, device_client::DeviceClient};

use super::connect::{Absent, connect};
use super::failure::Failure;
use super::output::{Output, bytes};
use super::{Common, json};

/// Lists devices and platforms.
pub(super) async fn run(common: &Common, output: Output) -> Result<(), Failure> {
    let mut client = DeviceClient::new(connect(common, Absent::Start).await?);
    let reply = client.list(v1::ListDevicesRequest {}).await?.into_inner();
    let devices: Vec<Value> = reply.devices.iter().map(json::device).collect();
    let platforms: Vec<Value> = reply.platforms.iter().map(json::platform).collect();
    Ok(output.result(&json!({"devices": devices, "platforms": platforms}), || text(&reply))?)
}

fn text(reply: &v1::ListDevicesReply) -> String {
    let mut text = String::from("executes on\n");
    if reply.devices.is_empty() {
        text.push_str("  nothing (a compile server)\n");
    }
    for device in &reply.devices {
        let memory =
            if device.memory_bytes == 0 { "host memory".to_owned() } else { bytes(device.memory_bytes) };
        let _ = writeln!(text, "  {}  {} ({}), {memory}", device.platform, device.description, device.kind);
    }
    text.push_str("compiles for\n");
    for platform in &reply.platforms {
        if platform.available {
            let _ = writeln!(text, "  {}  {}", platform.platform, platform.plugin_identity);
            if !platform.topologies.is_empty() {
                let _ = writeln!(text, "       e.g. {}", platform.topologies.join(", "));
            }
        } else {
            let _ = writeln!(text, "  {}  not available: {}", platform.platform, platform.detail);
        }
    }
    text
}
