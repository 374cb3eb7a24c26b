//! The command stream of a device: one encoder with one open pass, submitted in batches; uploads and downloads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferDescriptor,
    BufferSize, BufferUsages, CommandEncoder, ComputePass, ComputePassDescriptor, Device, MapMode, PollType,
    SubmissionIndex,
};

use super::buffer_pool::{Binding, Block};
use super::device::{Caps, Counters, Gpu, allocation};
use super::device_assert::SIZE;
use super::lock;
use super::params::{MAX_PARAMS, Params};
use super::pipeline::Pipeline;
use super::profile::Profile;
use crate::error::{Error, Result};

/// Launches per batch, on a GPU and on a software adapter, where submitting is expensive.
const BATCH: usize = 64;
pub(super) const BATCH_CPU: usize = 256;
/// Maximum bytes of uploads pending for a submission.
const UPLOADS: usize = 64 << 20;
/// Maximum number of submissions in flight.
const IN_FLIGHT: usize = 4;
/// Bytes of parameters per batch.
const ARENA: usize = 64 << 10;
/// Maximum number of cached bind groups.
const GROUPS: usize = 4096;

/// A bind group's layout, its buffers, and its windows: binding, offset and length of each.
#[derive(PartialEq, Eq, Hash)]
struct GroupKey {
    layout: u32,
    buffers: SmallVec<[u64; 8]>,
}

pub struct Stream {
    encoder: Option<CommandEncoder>,
    pass: Option<ComputePass<'static>>,
    /// The pipeline that is set in the pass.
    pipeline: u64,
    /// The parameters of the current batch, written to `arena` on submission.
    params: Vec<u8>,
    arena: Buffer,
    align: usize,
    operations: Vec<&'static str>,
    most: usize,
    uploaded: usize,
    /// The number of the current batch.
    batch: u64,
    in_flight: VecDeque<SubmissionIndex>,
    pub(super) profile: Option<Profile>,
    groups: HashMap<GroupKey, BindGroup>,
    staging: Vec<Buffer>,
}

impl Stream {
    pub fn new(device: &Device, caps: &Caps) -> Stream {
        let arena = device.create_buffer(&BufferDescriptor {
            label: Some("parameters"),
            size: (ARENA + MAX_PARAMS) as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Stream {
            encoder: None,
            pass: None,
            pipeline: 0,
            params: Vec::with_capacity(ARENA),
            arena,
            align: caps.uniform_align,
            operations: Vec::new(),
            most: if caps.is_cpu { BATCH_CPU } else { BATCH },
            uploaded: 0,
            batch: 1,
            in_flight: VecDeque::new(),
            profile: None,
            groups: HashMap::new(),
            staging: Vec::new(),
        }
    }

    /// Cached bind groups keep their buffers alive.
    pub fn forget_groups(&mut self) {
        self.groups.clear();
    }

    fn group(&mut self, gpu: &Gpu, pipeline: &Pipeline, bindings: &[Binding]) -> BindGroup {
        let mut key =
            GroupKey { layout: pipeline.layout, buffers: bindings.iter().map(|b| b.block.id).collect() };
        for (i, b) in bindings.iter().enumerate() {
            key.buffers.extend(b.window.iter().flat_map(|w| [i as u64, w.first, w.bytes]));
        }
        if let Some(group) = self.groups.get(&key) {
            return group.clone();
        }
        if self.groups.len() >= GROUPS {
            self.groups.clear();
        }
        let params =
            BufferBinding { buffer: &self.arena, offset: 0, size: BufferSize::new(MAX_PARAMS as u64) };
        let mut entries: SmallVec<[BindGroupEntry; 8]> = SmallVec::new();
        entries.push(BindGroupEntry { binding: 0, resource: BindingResource::Buffer(params) });
        for (i, b) in bindings.iter().enumerate() {
            let resource = match b.window {
                None => b.block.buffer.as_entire_binding(),
                Some(w) => {
                    let (buffer, size) = (&b.block.buffer, BufferSize::new(w.bytes));
                    BindingResource::Buffer(BufferBinding { buffer, offset: w.first, size })
                }
            };
            entries.push(BindGroupEntry { binding: i as u32 + 1, resource });
        }
        let group = gpu.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.group_layout,
            entries: &entries,
        });
        Counters::add(&gpu.counters.bind_groups);
        self.groups.insert(key, group.clone());
        group
    }

    fn encoder(&mut self, gpu: &Gpu) -> &mut CommandEncoder {
        self.encoder.get_or_insert_with(|| gpu.device.create_command_encoder(&Default::default()))
    }

    /// Ends the pass, so that the encoder accepts other commands.
    fn close_pass(&mut self) {
        self.pass = None;
        self.pipeline = 0;
    }

    /// Records a launch of at least one workgroup.
    fn dispatch(
        &mut self,
        gpu: &Gpu,
        op: &'static str,
        kernel: &'static str,
        pipeline: &Pipeline,
        bindings: &[Binding],
        params: &Params,
        grid: [u32; 3],
    ) -> Result<()> {
        let at = self.params.len().next_multiple_of(self.align);
        let at = if at + params.bytes().len() > ARENA {
            self.submit(gpu)?;
            0
        } else {
            at
        };
        self.params.resize(at, 0);
        self.params.extend_from_slice(params.bytes());
        let group = self.group(gpu, pipeline, bindings);
        let batch = self.batch;
        bindings.iter().for_each(|b| b.block.used_by(batch));
        if self.profile.is_some() {
            // Timestamps apply to whole passes, so each launch gets its own.
            self.close_pass();
        }
        if self.pass.is_none() {
            let encoder =
                self.encoder.get_or_insert_with(|| gpu.device.create_command_encoder(&Default::default()));
            let timestamp_writes = self.profile.as_mut().map(|p| p.next(op, kernel, grid));
            let pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            self.pass = Some(pass.forget_lifetime());
        }
        if let Some(pass) = &mut self.pass {
            if self.pipeline != pipeline.id {
                pass.set_pipeline(&pipeline.pipeline);
                self.pipeline = pipeline.id;
            }
            pass.set_bind_group(0, &group, &[at as u32]);
            let [x, y, z] = grid;
            pass.dispatch_workgroups(x, y, z);
        }
        Counters::add(&gpu.counters.dispatches);
        self.operations.push(op);
        if self.operations.len() >= self.most {
            self.submit(gpu)?;
        }
        Ok(())
    }

    /// Submits the recorded commands, and limits the number of submissions in flight.
    pub(super) fn submit(&mut self, gpu: &Gpu) -> Result<()> {
        gpu.expect_own_process()?;
        self.close_pass();
        let Some(mut encoder) = self.encoder.take() else {
            if self.uploaded > 0 {
                self.in_flight.push_back(gpu.queue.submit([]));
                self.uploaded = 0;
            }
            return Ok(());
        };
        if !self.params.is_empty() {
            self.params.resize(self.params.len().next_multiple_of(4), 0);
            gpu.queue.write_buffer(&self.arena, 0, &self.params);
            self.params.clear();
        }
        if let Some(profile) = &mut self.profile {
            profile.close_batch(gpu, &mut encoder);
        }
        self.in_flight.push_back(gpu.queue.submit([encoder.finish()]));
        Counters::add(&gpu.counters.submissions);
        self.uploaded = 0;
        self.batch += 1;
        let operations = std::mem::take(&mut self.operations);
        // The oldest submission has most likely finished.
        while self.in_flight.len() > IN_FLIGHT {
            if let Some(oldest) = self.in_flight.pop_front() {
                wait(gpu, Some(oldest))?;
            }
        }
        gpu.fault.check(&operations)
    }
}

pub(super) fn wait(gpu: &Gpu, submission: Option<SubmissionIndex>) -> Result<()> {
    match gpu.device.poll(PollType::Wait { submission_index: submission, timeout: None }) {
        Ok(_) => Ok(()),
        Err(e) => Err(Error::Runtime(format!("GPU error: waiting for the device failed: {e}"))),
    }
}

impl Gpu {
    pub(super) fn record(
        &self,
        op: &'static str,
        kernel: &'static str,
        pipeline: &Pipeline,
        bindings: &[Binding],
        params: &Params,
        grid: [u32; 3],
    ) -> Result<()> {
        lock(&self.stream).dispatch(self, op, kernel, pipeline, bindings, params, grid)
    }

    /// Records a copy between buffers; offsets and length are multiples of 4.
    pub(super) fn copy_bytes(
        &self,
        from: (&Arc<Block>, u64),
        to: (&Arc<Block>, u64),
        len: u64,
    ) -> Result<()> {
        let mut stream = lock(&self.stream);
        stream.close_pass();
        let batch = stream.batch;
        [from.0, to.0].iter().for_each(|b| b.used_by(batch));
        stream.encoder(self).copy_buffer_to_buffer(&from.0.buffer, from.1, &to.0.buffer, to.1, len);
        stream.operations.push("copy");
        if stream.operations.len() >= stream.most {
            stream.submit(self)?;
        }
        Ok(())
    }

    /// Submits all recorded commands.
    pub fn flush(&self) -> Result<()> {
        lock(&self.stream).submit(self)
    }

    /// Waits for all recorded commands and reports their errors.
    pub fn finish(&self) -> Result<()> {
        // The fault record is copied in the same submission.
        if let Some(faults) = self.open_faults()
            && let Some(block) = allocation(faults.view().storage).and_then(|a| a.block())
        {
            self.told(faults, &self.read(block, 0, SIZE, None)?)?;
        }
        {
            let mut stream = lock(&self.stream);
            stream.submit(self)?;
            stream.in_flight.clear();
        }
        wait(self, None)?;
        self.fault.check(&[])
    }

    /// Writes bytes to a buffer at a multiple of 4; bytes up to the next multiple of 4 are overwritten with
    /// unspecified values.
    pub(super) fn upload(&self, block: &Arc<Block>, at: u64, data: &[u8]) -> Result<()> {
        self.expect_own_process()?;
        let mut stream = lock(&self.stream);
        // An upload runs before the commands recorded in the current batch.
        if block.is_used_by(stream.batch) {
            stream.submit(self)?;
        }
        let whole = data.len() / 4 * 4;
        if whole > 0 {
            self.queue.write_buffer(&block.buffer, at, &data[..whole]);
        }
        if whole < data.len() {
            let mut last = [0; 4];
            last[..data.len() - whole].copy_from_slice(&data[whole..]);
            self.queue.write_buffer(&block.buffer, at + whole as u64, &last);
        }
        stream.uploaded += data.len();
        if stream.uploaded > UPLOADS {
            stream.submit(self)?;
        }
        Ok(())
    }

    /// Reads bytes of a buffer, from a multiple of 4, after all recorded commands.
    pub(super) fn download(&self, block: &Arc<Block>, at: u64, len: usize) -> Result<Vec<u8>> {
        let Some(faults) = self.open_faults() else { return self.read(block, at, len, None) };
        let record = allocation(faults.view().storage).and_then(|a| a.block());
        let mut bytes = self.read(block, at, len, record)?;
        if record.is_some() {
            self.told(faults, &bytes.split_off(len.next_multiple_of(4)))?;
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Reads bytes of a buffer, followed (at a multiple of 4) by the fault record if requested.
    fn read(&self, block: &Arc<Block>, at: u64, len: usize, record: Option<&Arc<Block>>) -> Result<Vec<u8>> {
        let own = (len as u64).next_multiple_of(4);
        let size = own + if record.is_some() { SIZE as u64 } else { 0 };
        let (staging, submission) = {
            let mut stream = lock(&self.stream);
            let kept = stream.staging.iter().position(|b| b.size() >= size && b.size() <= 4 * size.max(1024));
            let staging = match kept {
                Some(i) => stream.staging.swap_remove(i),
                None => self.device.create_buffer(&BufferDescriptor {
                    label: Some("staging"),
                    size: size.next_power_of_two().max(1024),
                    usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                }),
            };
            stream.close_pass();
            stream.encoder(self).copy_buffer_to_buffer(&block.buffer, at, &staging, 0, own);
            if let Some(record) = record {
                stream.encoder(self).copy_buffer_to_buffer(&record.buffer, 0, &staging, own, SIZE as u64);
            }
            stream.submit(self)?;
            (staging, stream.in_flight.back().cloned())
        };
        let (done, mapped) = std::sync::mpsc::channel();
        staging.map_async(MapMode::Read, 0..size, move |r| {
            // The receiver is gone only if waiting failed, which is reported.
            let _ = done.send(r);
        });
        wait(self, submission)?;
        self.fault.check(&[])?;
        // If another thread polled the device at the same time, it runs the callback, which may not have finished.
        if !matches!(mapped.recv(), Ok(Ok(()))) {
            return Err(Error::Runtime("GPU error: memory of the device cannot be read".into()));
        }
        let bytes = match staging.get_mapped_range(0..size) {
            Ok(view) => view[..if record.is_some() { size as usize } else { len }].to_vec(),
            Err(e) => return Err(Error::Runtime(format!("GPU error: {e}"))),
        };
        staging.unmap();
        let mut stream = lock(&self.stream);
        if stream.staging.len() < IN_FLIGHT {
            stream.staging.push(staging);
        }
        Ok(bytes)
    }
}
