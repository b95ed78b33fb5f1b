//! The `tpud` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    tpud_daemon::cli::main()
}
