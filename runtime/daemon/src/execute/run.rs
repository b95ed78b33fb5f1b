//! The Run command: inputs in, launch, outputs out.

use std::sync::Arc;
use std::time::Instant;

use tpud_device::Buffer;
use tpud_proto::v1::{Done, HostTensor, Run, RunInput, RunOutput, host_data::Place, run_input::Source};

use super::host;
use super::program::{DeviceBuffer, Program};
use super::runner::Runner;
use crate::counters::count;
use crate::error::{DaemonError, Result};

impl Runner {
    /// Runs an executable. Waits for the device only if an output is fetched.
    pub(super) fn run(&mut self, run: &Run) -> Result<Done> {
        let program = self.session.executables.get(run.executable)?;
        let waits = run.outputs.iter().any(|output| output.fetch);
        let inline = program.is_short() && !self.unfinished;
        let done = self.blocking_unless(inline, |runner| runner.run_program(&program, run))?;
        // What was launched and not waited for makes whoever waits next wait for it too.
        self.unfinished = !waits && (self.unfinished || !program.is_short());
        Ok(done)
    }

    fn run_program(&self, program: &Program, run: &Run) -> Result<Done> {
        self.check_outputs(program, run)?;
        let inputs = self.inputs(program, &run.inputs)?;
        let launched = Instant::now();
        let outputs = program.executable.execute(&inputs, &[])?;
        count(&self.daemon.counters.executions);
        if outputs.len() != run.outputs.len() {
            let what = format!(
                "the executable gave {} outputs, its signature has {}",
                outputs.len(),
                run.outputs.len()
            );
            return Err(DaemonError::System { what: "running an executable", problem: what });
        }
        let mut done = Done::default();
        let fetched = run.outputs.iter().zip(&outputs).filter(|(asked, _)| asked.fetch);
        for (asked, buffer) in fetched {
            if done.outputs.is_empty() {
                buffer.wait_ready()?;
                let time = launched.elapsed();
                program.took(time);
                done.device_nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            }
            done.outputs.push(self.give(asked, buffer.as_ref())?);
        }
        for (asked, buffer) in run.outputs.iter().zip(outputs) {
            self.keep(asked.buffer, buffer)?;
        }
        Ok(done)
    }

    /// Everything that can be refused before the device has worked for nothing.
    fn check_outputs(&self, program: &Program, run: &Run) -> Result<()> {
        let signature = program.signature();
        if signature.outputs.len() != run.outputs.len() {
            let (given, has) = (run.outputs.len(), signature.outputs.len());
            return Err(DaemonError::InvalidCommand(format!(
                "{given} outputs are named, the executable has {has}"
            )));
        }
        if signature.inputs.len() != run.inputs.len() {
            let (given, has) = (run.inputs.len(), signature.inputs.len());
            return Err(DaemonError::InvalidCommand(format!(
                "{given} inputs are given, the executable takes {has}"
            )));
        }
        let mut inline = 0;
        for (asked, kind) in run.outputs.iter().zip(&signature.outputs) {
            if asked.buffer != 0 {
                self.session.buffers.check_free(asked.buffer)?;
            }
            if asked.fetch && asked.shared.is_none() {
                inline += host::byte_count(kind)? as u64;
            }
        }
        self.fits_in_message(inline)
    }

    fn inputs(&self, program: &Program, given: &[RunInput]) -> Result<Vec<Arc<dyn Buffer>>> {
        let expected = &program.signature().inputs;
        let mut buffers = Vec::with_capacity(given.len());
        for (index, (input, expected)) in given.iter().zip(expected).enumerate() {
            let mismatch = |found: &tpud_device::TensorType| DaemonError::InputMismatch {
                index,
                expected: expected.to_string(),
                found: found.to_string(),
            };
            buffers.push(match &input.source {
                Some(Source::Buffer(handle)) => {
                    let held = self.session.buffers.get(*handle)?;
                    if held.buffer.tensor_type() != expected {
                        return Err(mismatch(held.buffer.tensor_type()));
                    }
                    Arc::clone(&held.buffer)
                }
                Some(Source::Tensor(tensor)) => {
                    let kind = host::tensor_type(tensor)?;
                    if kind != *expected {
                        return Err(mismatch(&kind));
                    }
                    host::upload(self.device.as_ref(), &self.session, kind, &tensor.data)?
                }
                None => return Err(DaemonError::InvalidCommand(format!("input {index} has no source"))),
            });
        }
        Ok(buffers)
    }

    /// A fetched output, as the client wants it.
    fn give(&self, asked: &RunOutput, buffer: &dyn Buffer) -> Result<HostTensor> {
        let bytes = host::fetch(buffer)?;
        let place = match &asked.shared {
            Some(range) => {
                self.session.shared()?.write(range, &bytes)?;
                Place::Shared(range.clone())
            }
            None => Place::Inline(bytes.into()),
        };
        Ok(host::message(buffer.tensor_type(), place))
    }

    /// Puts a buffer under a handle; 0 drops it.
    pub(super) fn keep(&self, handle: u64, buffer: Arc<dyn Buffer>) -> Result<()> {
        if handle == 0 {
            return Ok(());
        }
        let charge = self.session.memory.reserve(buffer.bytes() as u64)?;
        self.session.buffers.insert(handle, Arc::new(DeviceBuffer::new(buffer, charge)))
    }
}
