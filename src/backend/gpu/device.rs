//! An open device: its handles, what it can do, and the parts of the runtime that belong to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use wgpu::{Adapter, Device, DeviceDescriptor, DeviceType, Features, MemoryHints, PollType, Queue};

use super::buffer_pool::{Allocation, Pool};
use super::cache::{self, Cache};
use super::device_assert::FaultSlot;
use super::error::Fault;
use super::instance;
use super::pipeline::Pipelines;
use super::queue::Stream;
use super::tune::Tuner;
use crate::backend::View;
use crate::backend::calling::name_calls;
use crate::bail;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::Storage;

/// What the adapter can do, as far as kernels ask.
#[derive(Clone, Debug)]
pub struct Caps {
    pub name: String,
    /// Software on the CPU.
    pub is_cpu: bool,
    pub int64: bool,
    pub float64: bool,
    /// Storage buffers that a shader may bind.
    pub max_buffers: usize,
    /// Whether kernels can be timed.
    pub timestamps: bool,
    /// Bytes of a buffer that one binding may show.
    pub max_binding: u64,
    /// Alignment of the first byte that a binding shows.
    pub binding_align: u64,
    /// Bytes of a buffer.
    pub max_buffer: u64,
    /// Workgroups in the first dimension of a grid.
    pub max_groups: usize,
    /// Alignment of offsets into uniform buffers.
    pub uniform_align: usize,
}

/// Counters that only grow.
#[derive(Default, Debug)]
pub struct Counters {
    pub buffers: AtomicU64,
    pub bind_groups: AtomicU64,
    pub pipelines: AtomicU64,
    pub submissions: AtomicU64,
    pub dispatches: AtomicU64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Gpu {
    pub index: u8,
    pub caps: Caps,
    pub counters: Counters,
    pub(super) device: Device,
    pub(super) queue: Queue,
    pub(super) fault: Arc<Fault>,
    pub(super) fault_slot: FaultSlot,
    pub(super) pool: Mutex<Pool>,
    pub(super) stream: Mutex<Stream>,
    pub(super) pipelines: Mutex<Pipelines>,
    pub(super) tuner: Tuner,
    pub(super) cache: Cache,
    /// Whether memory is filled with NaNs before it is handed out, so that what a kernel forgets to write shows.
    pub(super) poison: bool,
    /// Whether there ever was a buffer larger than a binding shows.
    pub(super) large: AtomicBool,
    /// The process that opened the device; a forked child cannot use it.
    process: u32,
}

/// More than any machine has; the list must have some length.
const MOST: usize = 16;

/// The open devices. One that is reset stays in memory for the tensors that still name it.
static OPEN: [RwLock<Option<&'static Gpu>>; MOST] = [const { RwLock::new(None) }; MOST];

/// The device of a number, opened at its first use.
///
/// # Errors
/// `RuntimeError` where there is none, where it cannot be opened, after it was lost, and in a forked child.
pub fn gpu(index: u8) -> Result<&'static Gpu> {
    let Some(slot) = OPEN.get(index as usize) else { bail!(Runtime, "gpu:{index}: invalid device ordinal") };
    if let Some(gpu) = *slot.read().unwrap_or_else(PoisonError::into_inner) {
        gpu.expect_own_process()?;
        gpu.expect_alive()?;
        return Ok(gpu);
    }
    let adapter = instance::adapter(index)?;
    let mut slot = slot.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = *slot {
        return Ok(gpu);
    }
    let gpu: &'static Gpu = Box::leak(Box::new(open(index, adapter)?));
    *slot = Some(gpu);
    Ok(gpu)
}

/// As [`gpu`], by the name of the device.
pub fn gpu_of(device: crate::device::Device) -> Result<&'static Gpu> {
    gpu(device.index().and_then(|i| u8::try_from(i).ok()).unwrap_or(u8::MAX))
}

/// Every device that this process has open.
pub fn opened() -> impl Iterator<Item = &'static Gpu> {
    OPEN.iter()
        .filter_map(|slot| *slot.read().unwrap_or_else(PoisonError::into_inner))
        .filter(|gpu| gpu.process == std::process::id())
}

/// Closes a device, lost or not: its tensors raise from now on, and the next use of the number opens it anew.
pub fn reset(index: u8) -> Result<()> {
    instance::adapter(index)?;
    let slot = OPEN.get(index as usize);
    let closed = slot.and_then(|slot| slot.write().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(gpu) = closed {
        gpu.expect_own_process()?;
        gpu.fault.lose("the device was reset".into());
        gpu.device.destroy();
        gpu.empty_cache();
    }
    Ok(())
}

fn open(index: u8, adapter: &Adapter) -> Result<Gpu> {
    name_calls();
    let info = adapter.get_info();
    let wanted =
        Features::SHADER_INT64 | Features::SHADER_F64 | Features::TIMESTAMP_QUERY | Features::PIPELINE_CACHE;
    let features = adapter.features() & wanted & !cache::avoided(&info);
    let limits = adapter.limits();
    let tuner = Tuner::new(&info);
    let max_binding = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
    let caps = Caps {
        is_cpu: info.device_type == DeviceType::Cpu,
        int64: features.contains(Features::SHADER_INT64),
        float64: features.contains(Features::SHADER_INT64 | Features::SHADER_F64),
        // What is told of 32 and more is told by a mask of as many bits.
        max_buffers: limits.max_storage_buffers_per_shader_stage.min(32) as usize,
        timestamps: features.contains(Features::TIMESTAMP_QUERY),
        max_binding: number("RGRAD_GPU_MAX_BINDING").map_or(max_binding, |n| n.min(max_binding)),
        binding_align: limits.min_storage_buffer_offset_alignment.into(),
        max_buffer: limits.max_buffer_size,
        // As many as every adapter takes; few of them try out what many would show.
        max_groups: number("RGRAD_GPU_MAX_GROUPS").unwrap_or(65_535).clamp(1, 65_535) as usize,
        uniform_align: limits.min_uniform_buffer_offset_alignment as usize,
        name: info.name.clone(),
    };
    let opened = pollster::block_on(adapter.request_device(&DeviceDescriptor {
        required_features: features,
        required_limits: limits,
        // The pool keeps and reuses buffers.
        memory_hints: MemoryHints::MemoryUsage,
        ..DeviceDescriptor::default()
    }));
    let (device, queue) = match opened {
        Ok(opened) => opened,
        Err(e) => bail!(Runtime, "gpu:{index} ({}) cannot be opened: {e}", caps.name),
    };
    let fault = Arc::new(Fault::default());
    let uncaptured = fault.clone();
    device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| uncaptured.raise(e.to_string())));
    let lost = fault.clone();
    device.set_device_lost_callback(move |reason, message| {
        lost.lose(format!("the device was lost ({reason:?}): {message}"));
    });
    Ok(Gpu {
        index,
        counters: Counters::default(),
        fault,
        fault_slot: FaultSlot::default(),
        pool: Mutex::new(Pool::new(&caps)),
        stream: Mutex::new(Stream::new(&device, &caps)),
        pipelines: Mutex::new(Pipelines::default()),
        tuner,
        cache: Cache::load(&device, &info),
        poison: number("RGRAD_GPU_POISON") == Some(1),
        large: AtomicBool::new(false),
        process: std::process::id(),
        caps,
        device,
        queue,
    })
}

/// A variable of the environment that is a number.
pub(super) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// The device of a view.
pub fn of(view: View) -> Result<&'static Gpu> {
    match allocation(view.storage) {
        Some(a) => {
            a.gpu().expect_alive()?;
            Ok(a.gpu())
        }
        None => bail!(Error::DevicesDiffer(view.storage.device(), crate::device::Device::current_gpu())),
    }
}

/// The buffer behind a storage, if it is one of a GPU.
pub fn allocation(storage: &Storage) -> Option<&Allocation> {
    storage.memory().and_then(|m| m.downcast_ref())
}

impl Gpu {
    /// Errors in a forked child: the driver's threads do not exist there.
    pub(super) fn expect_own_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        bail!(
            Runtime,
            "Cannot re-initialize the GPU in a forked subprocess. To use the GPU with multiprocessing, you must use the \
             'spawn' start method"
        )
    }

    /// Errors once the device is lost.
    pub(super) fn expect_alive(&self) -> Result<()> {
        match self.fault.lost() {
            None => Ok(()),
            Some(why) => bail!(
                Runtime,
                "GPU error: {why}. Tensors of gpu:{} cannot be used any more; rgrad.gpu.reset({}) opens it again",
                self.index,
                self.index
            ),
        }
    }

    /// Writes what the driver has compiled to disk.
    pub fn save_cache(&self) {
        self.cache.save();
    }

    /// Has the driver drop the device, as if it had failed: what happens then can be tried out.
    pub fn lose(&self) {
        self.device.destroy();
        // The callback runs while somebody waits.
        let _ = self.device.poll(PollType::Poll);
        self.fault.lose("the device was lost (Destroyed)".into());
    }

    /// Errors unless kernels on this adapter can load and compute `dtype`.
    pub fn expect(&self, op: &str, dtype: DType) -> Result<()> {
        // An int64 that the adapter lacks is computed with pairs of words: Note [Lowering int64].
        if dtype != DType::F64 || self.caps.float64 {
            return Ok(());
        }
        bail!(
            NotImplemented,
            "'{op}' is not implemented for {dtype} on {}, which has no such type; cast the tensor, or move it with .cpu()",
            self.caps.name
        )
    }
}
