//! Kernel times from timestamps that the device writes at the start and end of a pass.

use std::time::Instant;

use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePassTimestampWrites, MapMode, QuerySet,
    QuerySetDescriptor, QueryType,
};

use super::device::Gpu;
use super::lock;
use super::queue::{BATCH_CPU, wait};
use crate::bail;
use crate::error::{Error, Result};

/// Launches per timestamp query set: those of a batch.
const MOST: u32 = BATCH_CPU as u32;
/// Size of a timestamp in bytes.
const TIMESTAMP: u64 = 8;

/// A launch with times in microseconds since profiling began; the device clock is aligned at its first launch.
#[derive(Clone, Debug)]
pub struct Timed {
    pub op: &'static str,
    pub kernel: &'static str,
    pub groups: u64,
    /// When the host recorded the launch.
    pub recorded: f64,
    pub begin: f64,
    pub end: f64,
}

struct Recorded {
    op: &'static str,
    kernel: &'static str,
    groups: u64,
    at: f64,
}

/// The timestamps of a submission that are being copied to the host.
struct Batch {
    stamps: Buffer,
    launches: Vec<Recorded>,
}

pub struct Profile {
    start: Instant,
    set: QuerySet,
    open: Vec<Recorded>,
    done: Vec<Batch>,
}

impl Profile {
    /// The timestamp writes for the pass of a launch.
    pub fn next(
        &mut self,
        op: &'static str,
        kernel: &'static str,
        grid: [u32; 3],
    ) -> ComputePassTimestampWrites<'_> {
        let at = self.open.len() as u32 * 2;
        let groups = grid.into_iter().map(u64::from).product();
        self.open.push(Recorded { op, kernel, groups, at: self.start.elapsed().as_secs_f64() * 1e6 });
        ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        }
    }

    /// Records a copy of the current batch's timestamps to host-readable memory.
    pub fn close_batch(&mut self, gpu: &Gpu, encoder: &mut CommandEncoder) {
        let launches = std::mem::take(&mut self.open);
        if launches.is_empty() {
            return;
        }
        let size = 2 * TIMESTAMP * launches.len() as u64;
        let buffer = |usage| {
            gpu.device.create_buffer(&BufferDescriptor {
                label: None,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let resolved = buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC);
        let stamps = buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        encoder.resolve_query_set(&self.set, 0..2 * launches.len() as u32, &resolved, 0);
        encoder.copy_buffer_to_buffer(&resolved, 0, &stamps, 0, size);
        self.done.push(Batch { stamps, launches });
    }
}

impl Gpu {
    /// Starts timing every launch.
    ///
    /// # Errors
    /// `NotImplementedError` if the adapter lacks timestamps, `RuntimeError` if profiling is on already.
    pub fn start_profile(&self) -> Result<()> {
        if !self.caps.timestamps {
            bail!(NotImplemented, "{} has no timestamps: kernels cannot be timed there", self.caps.name);
        }
        let mut stream = lock(&self.stream);
        if stream.profile.is_some() {
            bail!(Runtime, "gpu:{} is being profiled already", self.index);
        }
        stream.submit(self)?;
        let descriptor = QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: 2 * MOST };
        let set = self.device.create_query_set(&descriptor);
        stream.profile = Some(Profile { start: Instant::now(), set, open: Vec::new(), done: Vec::new() });
        Ok(())
    }

    /// Stops timing, waits, and returns the launches in order.
    pub fn stop_profile(&self) -> Result<Vec<Timed>> {
        let profile = {
            let mut stream = lock(&self.stream);
            stream.submit(self)?;
            stream.profile.take()
        };
        let Some(profile) = profile else { bail!(Runtime, "gpu:{} is not being profiled", self.index) };
        let (done, mapped) = std::sync::mpsc::channel();
        for batch in &profile.done {
            let done = done.clone();
            batch.stamps.map_async(MapMode::Read, .., move |r| {
                // The receiver is gone only if waiting failed, which is reported.
                let _ = done.send(r);
            });
        }
        drop(done);
        wait(self, None)?;
        // Wait for all callbacks; failed copies are detected by their ranges.
        mapped.iter().for_each(drop);
        let period = f64::from(self.queue.get_timestamp_period()) / 1e3;
        let mut timed = Vec::new();
        let mut first = None;
        for Batch { stamps, launches } in profile.done {
            let bytes = match stamps.get_mapped_range(..) {
                Ok(bytes) => bytes,
                Err(e) => return Err(Error::Runtime(format!("GPU error: {e}"))),
            };
            for (launch, stamps) in launches.into_iter().zip(bytes.chunks_exact(2 * TIMESTAMP as usize)) {
                let (begin, end) = (stamp(stamps), stamp(&stamps[TIMESTAMP as usize..]));
                let (zero, offset) = *first.get_or_insert((begin, launch.at));
                let micros = |t: u64| offset + t.wrapping_sub(zero) as i64 as f64 * period;
                let (begin, end) = (micros(begin), micros(end));
                let Recorded { op, kernel, groups, at: recorded } = launch;
                timed.push(Timed { op, kernel, groups, recorded, begin, end });
            }
        }
        Ok(timed)
    }
}

/// The number at the start of a slice.
fn stamp(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}
