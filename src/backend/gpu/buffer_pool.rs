//! Buffers of a device: one per storage, in classes of sizes, kept for reuse.
//!
//! Note [Reuse in program order]
//! A buffer whose storage is dropped may still be read by commands that were recorded but have not run. It is handed
//! out again at once all the same: whatever is recorded for it later runs later, on the one queue. Only the host
//! must not write it before those commands are submitted, for which a buffer knows the last batch that uses it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wgpu::{Buffer, BufferDescriptor, BufferUsages, ErrorFilter};

use super::copy::fill;
use super::device::{Caps, Counters, Gpu, number};
use super::lock;
use super::window::Window;
use crate::backend::View;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::Storage;

/// A buffer and what the runtime knows of it.
pub struct Block {
    pub buffer: Buffer,
    /// Never given twice.
    pub id: u64,
    pub size: u64,
    /// The last batch of commands that uses it.
    pub batch: AtomicU64,
}

/// What a storage holds its buffer by.
pub struct Allocation {
    gpu: &'static Gpu,
    block: Option<Arc<Block>>,
    /// What of another storage's buffer is shown, if it is not a buffer of its own.
    window: Option<Window>,
}

impl Allocation {
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// The number of the buffer, and its bytes.
    pub fn memory(&self) -> Option<(u64, u64)> {
        self.block.as_ref().map(|b| (b.id, b.size))
    }

    pub(super) fn block(&self) -> Option<&Arc<Block>> {
        self.block.as_ref()
    }

    /// A part of what a kernel may be shown, for as long as the buffer's own storage lives.
    pub(super) fn within(&self, window: Window) -> Allocation {
        Allocation { gpu: self.gpu, block: self.block.clone(), window: Some(window) }
    }

    pub(super) fn binding(&self) -> Option<Binding<'_>> {
        self.block.as_ref().map(|block| Binding { block, window: self.window })
    }
}

/// What a kernel is shown of a buffer: all of it, or a window.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    pub block: &'a Arc<Block>,
    pub window: Option<Window>,
}

impl Binding<'_> {
    pub fn bytes(&self) -> u64 {
        self.window.map_or(self.block.size, |w| w.bytes)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && self.window.is_none()
            && self.gpu.fault.lost().is_none()
        {
            lock(&self.gpu.pool).put(block);
        }
    }
}

/// Bytes of a device's memory, by what they are.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    /// In storages.
    pub allocated: u64,
    /// In storages and kept for reuse.
    pub reserved: u64,
    pub peak: u64,
}

pub struct Pool {
    free: HashMap<u64, Vec<Arc<Block>>>,
    next: u64,
    pub usage: Usage,
    budget: u64,
}

/// What a software adapter may take of the machine's memory where nothing else is said.
const CPU_BUDGET: u64 = 2 << 30;

impl Pool {
    pub fn new(caps: &Caps) -> Pool {
        let budget = number("RGRAD_GPU_MEM_LIMIT").unwrap_or(if caps.is_cpu { CPU_BUDGET } else { u64::MAX });
        Pool { free: HashMap::new(), next: 1, usage: Usage::default(), budget }
    }

    fn take(&mut self, class: u64) -> Option<Arc<Block>> {
        let block = self.free.get_mut(&class)?.pop()?;
        self.count(class);
        Some(block)
    }

    fn count(&mut self, size: u64) {
        self.usage.allocated += size;
        self.usage.peak = self.usage.peak.max(self.usage.allocated);
    }

    fn put(&mut self, block: Arc<Block>) {
        self.usage.allocated -= block.size;
        self.free.entry(block.size).or_default().push(block);
    }

    /// Gives back every buffer that no storage holds.
    pub fn trim(&mut self) {
        self.free.clear();
        self.usage.reserved = self.usage.allocated;
    }
}

/// The size of the buffer for `len` bytes: powers of two with four steps between from 1 MiB on, of which at most an
/// eighth is waste, and multiples of 2 MiB for the largest.
pub fn class(len: u64) -> u64 {
    const STEPS_FROM: u64 = 1 << 20;
    const EXACT_FROM: u64 = 64 << 20;
    let len = len.max(256);
    match len {
        _ if len <= STEPS_FROM => len.next_power_of_two(),
        _ if len < EXACT_FROM => len.next_multiple_of(1 << (len.ilog2() - 2)),
        _ => len.next_multiple_of(2 << 20),
    }
}

impl Gpu {
    fn create(&self, class: u64) -> Result<Block, String> {
        {
            let pool = lock(&self.pool);
            if pool.usage.reserved.saturating_add(class) > pool.budget {
                return Err(format!("the limit of {} is reached", mib(pool.budget)));
            }
        }
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: class,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        if let Some(e) = pollster::block_on(scope.pop()) {
            return Err(e.to_string());
        }
        Counters::add(&self.counters.buffers);
        let mut pool = lock(&self.pool);
        pool.usage.reserved += class;
        pool.count(class);
        pool.next += 1;
        Ok(Block { buffer, id: pool.next, size: class, batch: AtomicU64::new(0) })
    }

    /// Memory of unspecified contents.
    ///
    /// # Errors
    /// `RuntimeError` above what a buffer can hold; `OutOfMemoryError` where nothing is left after everything that
    /// could be given back was.
    pub fn allocate(&'static self, len: usize) -> Result<Storage> {
        let device = Device::Gpu(self.index);
        if len == 0 {
            return Storage::on_device(
                device,
                0,
                Box::new(Allocation { gpu: self, block: None, window: None }),
            );
        }
        let most = |class| [self.caps.max_binding, self.caps.max_buffer].into_iter().find(|m| class <= *m);
        let mut class = class(len as u64);
        // No larger than need be where a limit is near.
        let exact = (len as u64).next_multiple_of(256);
        if most(class) != most(exact) {
            class = exact;
        }
        if class > self.caps.max_buffer {
            return Err(Error::Runtime(format!(
                "a tensor of {len} bytes is larger than a buffer of {} can be ({} bytes); split it, or keep it on the CPU",
                self.caps.name, self.caps.max_buffer
            )));
        }
        if class > self.caps.max_binding {
            self.large.store(true, Ordering::Relaxed);
        }
        let recycled = lock(&self.pool).take(class);
        let block = match recycled {
            Some(block) => block,
            None => Arc::new(match self.create(class) {
                Ok(block) => block,
                Err(_) => {
                    // What is kept for reuse, and what the driver holds for commands that have not run.
                    self.finish()?;
                    self.empty_cache();
                    self.create(class).map_err(|why| self.out_of_memory(len, &why))?
                }
            }),
        };
        let size = block.size as usize;
        let memory = Box::new(Allocation { gpu: self, block: Some(block), window: None });
        let storage = Storage::on_device(device, len, memory)?;
        if self.poison {
            // All bits set: NaN in every float type, and no number that an integer kernel would be likely to make.
            let layout = Layout::contiguous([size / 4].into());
            fill(View { storage: &storage, layout: &layout, dtype: DType::I32 }, Scalar::Int(-1))?;
        }
        Ok(storage)
    }

    #[cold]
    fn out_of_memory(&self, len: usize, why: &str) -> Error {
        let usage = self.usage();
        Error::OutOfMemory(format!(
            "GPU out of memory. Tried to allocate {}. GPU {} has {} allocated by tensors: {why}.",
            mib(len as u64),
            self.index,
            mib(usage.allocated)
        ))
    }

    pub fn usage(&self) -> Usage {
        lock(&self.pool).usage
    }

    /// Makes the greatest memory held so far the present one.
    pub fn reset_peak(&self) {
        let mut pool = lock(&self.pool);
        pool.usage.peak = pool.usage.allocated;
    }

    /// Gives memory that no tensor holds back to the driver.
    pub fn empty_cache(&self) {
        lock(&self.pool).trim();
        lock(&self.stream).forget_groups();
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}

impl Block {
    pub(super) fn used_by(&self, batch: u64) {
        self.batch.store(batch, Ordering::Relaxed);
    }

    pub(super) fn is_used_by(&self, batch: u64) -> bool {
        self.batch.load(Ordering::Relaxed) == batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_it_is_for_and_wastes_little_above_a_mebibyte() {
        for len in [1, 255, 257, 1000, (1 << 20) + 1, 3_000_000, 70_000_000, 129 << 20] {
            let c = class(len);
            assert!(c >= len && c.is_multiple_of(16), "{len}: {c}");
            assert!(len < 1 << 20 || c <= len + len / 4, "{len}: {c}");
            assert_eq!(class(c), c);
        }
    }
}
