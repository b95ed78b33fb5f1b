//! What keeps a worker from outliving its daemon or eating the machine.

use std::io;

use rustix::process::{Resource, Rlimit, Signal};

/// Ends this process at once, without the exit handlers of plugins.
pub(crate) fn end() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    std::process::abort()
}

/// Dies with `parent`, leaves no core files, and takes no more than `memory_bytes` of private memory (0: no limit).
pub(crate) fn enclose(parent: u32, memory_bytes: u64) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before we asked.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now != Some(parent) {
        end();
    }
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if memory_bytes > 0 {
        // RLIMIT_DATA counts private writable memory. RLIMIT_AS would count what plugins merely reserve.
        let limit = Rlimit { current: Some(memory_bytes), maximum: Some(memory_bytes) };
        rustix::process::setrlimit(Resource::Data, limit)?;
    }
    Ok(())
}
