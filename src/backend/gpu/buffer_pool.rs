//! Buffers of a device: one per storage, in size classes, cached for reuse.
//!
//! Note [Reuse in program order] When a storage is dropped, commands that were recorded but have not run may still use
//! its buffer. The buffer may nevertheless be reused at once, because all commands recorded for it later also run
//! later, on the single queue. Only the host must not write to it before those commands are submitted; for this each
//! buffer stores the number of the last batch that uses it.

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

/// A buffer with its bookkeeping.
pub struct Block {
    pub buffer: Buffer,
    /// Never reused for another buffer.
    pub id: u64,
    pub size: u64,
    /// The last batch of commands that uses the buffer.
    pub batch: AtomicU64,
}

/// A storage's handle to its buffer.
pub struct Allocation {
    gpu: &'static Gpu,
    block: Option<Arc<Block>>,
    /// The visible part of another storage's buffer, if this storage has no buffer of its own.
    window: Option<Window>,
}

impl Allocation {
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// The id and size of the buffer.
    pub fn memory(&self) -> Option<(u64, u64)> {
        self.block.as_ref().map(|b| (b.id, b.size))
    }

    pub(super) fn block(&self) -> Option<&Arc<Block>> {
        self.block.as_ref()
    }

    /// A window of this buffer, valid as long as the buffer's own storage.
    pub(super) fn within(&self, window: Window) -> Allocation {
        Allocation { gpu: self.gpu, block: self.block.clone(), window: Some(window) }
    }

    pub(super) fn binding(&self) -> Option<Binding<'_>> {
        self.block.as_ref().map(|block| Binding { block, window: self.window })
    }
}

/// The part of a buffer that a kernel binds: all of it, or a window.
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

/// Memory use of a device, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    /// In use by storages.
    pub allocated: u64,
    /// In use by storages or cached.
    pub reserved: u64,
    pub peak: u64,
}

pub struct Pool {
    free: HashMap<u64, Vec<Arc<Block>>>,
    next: u64,
    pub usage: Usage,
    budget: u64,
}

/// The default memory limit for a software adapter.
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

    /// Frees all cached buffers.
    pub fn trim(&mut self) {
        self.free.clear();
        self.usage.reserved = self.usage.allocated;
    }
}

/// The buffer size for `len` bytes. From 1 MiB on there are four size classes per power of two, which wastes at most
/// an eighth; the largest buffers are multiples of 2 MiB.
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

    /// Allocates memory with unspecified contents.
    ///
    /// # Errors
    /// `RuntimeError` above the maximum buffer size; `OutOfMemoryError` when memory is exhausted even after releasing
    /// all cached buffers.
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
        // Close to a limit, allocate the exact size.
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
                    // Release cached buffers, and the memory that the driver keeps for commands that have not run.
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
            // All bits set: NaN in every floating point type, and an unlikely result of an integer kernel.
            let layout = Layout::contiguous([size / 4].into());
            fill(View { storage: &storage, layout: &layout, dtype: DType::I32 }, Scalar::Int(-1))?;
        }
        Ok(storage)
    }

    /// Whether half of the memory that is left, and half of the largest buffer, hold so many bytes.
    pub fn has_room(&self, bytes: usize) -> bool {
        let pool = lock(&self.pool);
        let left = pool.budget.saturating_sub(pool.usage.allocated);
        bytes as u64 <= left.min(self.caps.max_binding) / 2
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

    /// Resets the peak to the current amount.
    pub fn reset_peak(&self) {
        let mut pool = lock(&self.pool);
        pool.usage.peak = pool.usage.allocated;
    }

    /// Releases cached memory to the driver.
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
