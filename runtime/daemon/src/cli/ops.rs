//! `tpud ops`.

use serde_json::json;
use tpud_proto::v1::{self, compile_client::CompileClient};

use super::Common;
use super::connect::{Absent, connect};
use super::failure::Failure;
use super::output::Output;

/// Lists the ops of the daemon that was named, or of this build.
pub(super) async fn run(common: &Common, output: Output) -> Result<(), Failure> {
    let ops: Vec<String> = match &common.address {
        Some(_) => {
            let mut client = CompileClient::new(connect(common, Absent::Refuse).await?);
            client.ops(v1::OpsRequest {}).await?.into_inner().ops
        }
        None => crate::supported_ops(),
    };
    Ok(output.result(&json!({"ops": ops}), || ops.join("\n"))?)
}
