//! A worker's plugins print what they like. The protocol therefore moves to descriptors that they don't know, and
//! what they print to standard output goes to standard error, which the daemon keeps as the log.

use std::fs::File;
use std::io;

/// The protocol's two ends.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) input: File,
    pub(crate) output: File,
}

/// Takes standard input and output away from everybody else in this process.
pub(crate) fn take() -> io::Result<Pipes> {
    // 3 and above, and closed in children.
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Pipes { input: input.into(), output: output.into() })
}
