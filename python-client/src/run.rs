//! Running an executable: where each input comes from and each output goes.

use tokio::sync::oneshot;
use tpud_proto::v1::execute_command::Command;
use tpud_proto::v1::host_data::Place;
use tpud_proto::v1::{Done, HostTensor, Run, RunInput, RunOutput, run_input::Source};

use crate::error::ClientError;
use crate::host_memory::HostWrite;
use crate::segments::{Lease, align};
use crate::session::Session;
use crate::stream::Answer;
use crate::transfer::{HostInput, count, inline_data, lease_missing, memory_error, range, shared_error};

/// One input of a call.
pub(crate) enum Input {
    Buffer(u64),
    Host(HostInput),
}

/// What becomes of one output.
pub(crate) struct Output {
    pub(crate) keep: bool,
    pub(crate) fetch: Option<HostWrite>,
}

/// How a fetched output arrives.
enum Arrival {
    Inline(HostWrite),
    /// At this offset of the call's range.
    Shared(HostWrite, u64),
    /// Left on the device under a handle and read in pieces afterwards.
    Chunked(HostWrite, u64),
}

/// A run that is ready to be sent.
struct Plan {
    run: Run,
    arrivals: Vec<Arrival>,
    kept: Vec<u64>,
    lease: Option<Lease>,
}

/// Buffers that exist only for one call.
struct Temporaries<'session>(&'session Session, Vec<u64>);

impl Drop for Temporaries<'_> {
    fn drop(&mut self) {
        for &handle in &self.1 {
            self.0.stream.free_buffer(handle);
        }
    }
}

impl Session {
    /// Runs an executable and returns the handle of each output (0: not kept).
    pub(crate) fn run(
        &self,
        executable: u64,
        inputs: Vec<Input>,
        outputs: &[Output],
        wait: bool,
    ) -> Result<Vec<u64>, ClientError> {
        self.ensure_stream()?;
        for input in &inputs {
            if let Input::Buffer(handle) = input {
                self.stream.check_buffer(*handle)?;
            }
        }
        count(&self.stats.runs, 1);
        let used: Vec<u64> = if wait { buffers_of(&inputs) } else { Vec::new() };
        let mut temporaries = Temporaries(self, Vec::new());
        let plan = self.plan(executable, inputs, outputs, &mut temporaries)?;
        let command = Command::Run(plan.run);
        if !wait {
            let permit = self.permit(plan.lease.as_ref().map_or(0, |_| crate::transfer::INLINE_LIMIT))?;
            let made = plan.kept.iter().copied().filter(|&handle| handle != 0).collect();
            self.stream.post(command, made, plan.lease, Some(permit))?;
            self.driver.flush();
            return Ok(plan.kept);
        }
        let answer = self.stream.call(command, plan.lease)?;
        let finished = self.finish(answer, plan.arrivals);
        if let Err(error) = finished {
            self.abandon(&plan.kept);
            // An input whose making failed explains more than the run that missed it.
            used.iter().try_for_each(|&handle| self.stream.check_buffer(handle))?;
            return Err(error);
        }
        Ok(plan.kept)
    }

    /// After an error nobody learns the handles of a run; if it did run (the caller was interrupted), they are freed.
    fn abandon(&self, kept: &[u64]) {
        for &handle in kept.iter().filter(|&&handle| handle != 0) {
            self.stream.free_buffer(handle);
        }
    }

    fn plan(
        &self,
        executable: u64,
        inputs: Vec<Input>,
        outputs: &[Output],
        temporaries: &mut Temporaries<'_>,
    ) -> Result<Plan, ClientError> {
        let host = inputs.iter().map(|input| match input {
            Input::Buffer(_) => 0,
            Input::Host(host) => host.memory.bytes(),
        });
        let fetched = outputs.iter().filter_map(|output| output.fetch).map(HostWrite::bytes);
        let sizes: Vec<usize> = host.chain(fetched).collect();
        let total = sizes.iter().fold(0_usize, |sum, &bytes| sum.saturating_add(bytes));
        let lease = if total > self.inline_limit() {
            let aligned = sizes.iter().fold(0_u64, |sum, &bytes| sum.saturating_add(align(bytes as u64)));
            self.lease(usize::try_from(aligned).unwrap_or(usize::MAX))
        } else {
            None
        };
        let mut placer = Placer { session: self, lease, next: 0, budget: self.chunk() };
        let inputs = inputs
            .into_iter()
            .map(|input| {
                let source = match input {
                    Input::Buffer(handle) => Source::Buffer(handle),
                    Input::Host(host) => placer.input(&host, temporaries)?,
                };
                Ok(RunInput { source: Some(source) })
            })
            .collect::<Result<Vec<_>, ClientError>>()?;
        let (mut arrivals, mut kept, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for output in outputs {
            let handle = if output.keep { self.new_handle() } else { 0 };
            kept.push(handle);
            wanted.push(placer.output(handle, output.fetch, &mut arrivals, temporaries));
        }
        let run = Run { executable, inputs, outputs: wanted };
        Ok(Plan { run, arrivals, kept, lease: placer.lease })
    }

    /// Waits for the answer and fills the fetched outputs.
    fn finish(&self, answer: oneshot::Receiver<Answer>, arrivals: Vec<Arrival>) -> Result<(), ClientError> {
        let (done, lease) = self.receive(answer)?;
        let mut returned = returned_outputs(done, &arrivals)?.into_iter();
        let mut chunked = Vec::new();
        for arrival in arrivals {
            match arrival {
                Arrival::Inline(target) => {
                    let tensor = returned.next().unwrap_or_default();
                    target.fill(0, &inline_data(tensor, target.bytes())?).map_err(memory_error)?;
                }
                Arrival::Shared(target, offset) => {
                    returned.next();
                    let lease = lease.as_ref().ok_or_else(lease_missing)?;
                    let at = lease.offset + offset;
                    target.read_from(&lease.file, at).map_err(|error| shared_error(lease, &error))?;
                }
                Arrival::Chunked(target, handle) => chunked.push((target, handle)),
            }
        }
        chunked.into_iter().try_for_each(|(target, handle)| self.download_chunked(handle, target))
    }
}

fn buffers_of(inputs: &[Input]) -> Vec<u64> {
    inputs
        .iter()
        .filter_map(|input| if let Input::Buffer(handle) = input { Some(*handle) } else { None })
        .collect()
}

/// The answer's outputs, one for each output that was fetched in the call itself.
fn returned_outputs(done: Done, arrivals: &[Arrival]) -> Result<Vec<HostTensor>, ClientError> {
    let expected = arrivals.iter().filter(|arrival| !matches!(arrival, Arrival::Chunked(..))).count();
    if done.outputs.len() != expected {
        let cause = format!("{} fetched outputs where {expected} were asked for", done.outputs.len());
        return Err(ClientError::BadReply { cause });
    }
    Ok(done.outputs)
}

/// Decides for one host tensor after the other: into the call's range if it has one, else into the message while
/// there is room, else in pieces.
struct Placer<'session> {
    session: &'session Session,
    lease: Option<Lease>,
    next: u64,
    budget: usize,
}

impl Placer<'_> {
    fn input(&mut self, host: &HostInput, temporaries: &mut Temporaries<'_>) -> Result<Source, ClientError> {
        let (memory, bytes, stats) = (host.memory, host.memory.bytes(), &self.session.stats);
        // An empty tensor has no range.
        if bytes > 0
            && let Some(lease) = &self.lease
        {
            let at = lease.offset + self.next;
            memory.write_to(0, bytes, &lease.file, at).map_err(|error| shared_error(lease, &error))?;
            let place = Place::Shared(range(lease, self.next, bytes));
            self.next += align(bytes as u64);
            count(&stats.shared_bytes, bytes);
            return Ok(Source::Tensor(host.tensor(place)));
        }
        if bytes <= self.budget {
            self.budget -= bytes;
            count(&stats.inline_bytes, bytes);
            let data = memory.copy(0, bytes).map_err(memory_error)?;
            return Ok(Source::Tensor(host.tensor(Place::Inline(data))));
        }
        let handle = self.session.upload(host)?;
        temporaries.1.push(handle);
        Ok(Source::Buffer(handle))
    }

    fn output(
        &mut self,
        handle: u64,
        fetch: Option<HostWrite>,
        arrivals: &mut Vec<Arrival>,
        temporaries: &mut Temporaries<'_>,
    ) -> RunOutput {
        let Some(target) = fetch else { return RunOutput { buffer: handle, fetch: false, shared: None } };
        let (bytes, stats) = (target.bytes(), &self.session.stats);
        if bytes > 0
            && let Some(lease) = &self.lease
        {
            let shared = Some(range(lease, self.next, bytes));
            arrivals.push(Arrival::Shared(target, self.next));
            self.next += align(bytes as u64);
            count(&stats.shared_bytes, bytes);
            return RunOutput { buffer: handle, fetch: true, shared };
        }
        if bytes <= self.budget {
            self.budget -= bytes;
            count(&stats.inline_bytes, bytes);
            arrivals.push(Arrival::Inline(target));
            return RunOutput { buffer: handle, fetch: true, shared: None };
        }
        let handle = if handle == 0 {
            let temporary = self.session.new_handle();
            temporaries.1.push(temporary);
            temporary
        } else {
            handle
        };
        arrivals.push(Arrival::Chunked(target, handle));
        RunOutput { buffer: handle, fetch: false, shared: None }
    }
}
