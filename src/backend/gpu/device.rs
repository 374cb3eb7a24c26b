//! An open device: its handles, capabilities, and runtime state.

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

/// The capabilities of the adapter that kernels depend on.
#[derive(Clone, Debug)]
pub struct Caps {
    pub name: String,
    /// A software adapter.
    pub is_cpu: bool,
    pub int64: bool,
    pub float64: bool,
    /// Maximum number of storage buffers per shader.
    pub max_buffers: usize,
    /// Whether kernels can be timed.
    pub timestamps: bool,
    /// Maximum size of a binding in bytes.
    pub max_binding: u64,
    /// Alignment of binding offsets in bytes.
    pub binding_align: u64,
    /// Maximum size of a buffer in bytes.
    pub max_buffer: u64,
    /// Maximum number of workgroups in one dimension.
    pub max_groups: usize,
    /// Alignment of offsets into uniform buffers.
    pub uniform_align: usize,
}

/// Monotonic counters.
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
    /// Whether new memory is filled with NaN, to reveal elements that a kernel does not write.
    pub(super) poison: bool,
    /// Whether any buffer ever exceeded the binding size.
    pub(super) large: AtomicBool,
    /// The process that opened the device; it cannot be used in a forked child.
    process: u32,
}

/// Maximum number of devices; no machine has more.
const MOST: usize = 16;

/// The open devices. A reset device is leaked for the tensors that still refer to it.
static OPEN: [RwLock<Option<&'static Gpu>>; MOST] = [const { RwLock::new(None) }; MOST];

/// The device with an index, opened on first use.
///
/// # Errors
/// `RuntimeError` if it does not exist, cannot be opened or was lost, and in a forked child.
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

/// As [`gpu`], for a [`Device`](crate::device::Device).
pub fn gpu_of(device: crate::device::Device) -> Result<&'static Gpu> {
    gpu(device.index().and_then(|i| u8::try_from(i).ok()).unwrap_or(u8::MAX))
}

/// All devices that this process has opened.
pub fn opened() -> impl Iterator<Item = &'static Gpu> {
    OPEN.iter()
        .filter_map(|slot| *slot.read().unwrap_or_else(PoisonError::into_inner))
        .filter(|gpu| gpu.process == std::process::id())
}

/// Closes a device, lost or not: its tensors raise errors from now on, and the index is reopened on next use.
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
        // A 32-bit mask describes the buffers.
        max_buffers: limits.max_storage_buffers_per_shader_stage.min(32) as usize,
        timestamps: features.contains(Features::TIMESTAMP_QUERY),
        max_binding: number("RGRAD_GPU_MAX_BINDING").map_or(max_binding, |n| n.min(max_binding)),
        binding_align: limits.min_storage_buffer_offset_alignment.into(),
        max_buffer: limits.max_buffer_size,
        // The limit that all adapters support; a lower one exercises the splitting of large grids in tests.
        max_groups: number("RGRAD_GPU_MAX_GROUPS").unwrap_or(65_535).clamp(1, 65_535) as usize,
        uniform_align: limits.min_uniform_buffer_offset_alignment as usize,
        name: info.name.clone(),
    };
    let opened = pollster::block_on(adapter.request_device(&DeviceDescriptor {
        required_features: features,
        required_limits: limits,
        // The buffer pool already reuses buffers.
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

/// An environment variable as a number.
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

/// The GPU buffer of a storage, if it has one.
pub fn allocation(storage: &Storage) -> Option<&Allocation> {
    storage.memory().and_then(|m| m.downcast_ref())
}

impl Gpu {
    /// Errors in a forked child, where the driver's threads do not exist.
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

    /// Errors if the device is lost.
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

    /// Saves the driver's pipeline cache to disk.
    pub fn save_cache(&self) {
        self.cache.save();
    }

    /// Destroys the device as if it had failed, for tests.
    pub fn lose(&self) {
        self.device.destroy();
        // Polling runs the callback.
        let _ = self.device.poll(PollType::Poll);
        self.fault.lose("the device was lost (Destroyed)".into());
    }

    /// Errors unless kernels on this adapter support `dtype`.
    pub fn expect(&self, op: &str, dtype: DType) -> Result<()> {
        // On adapters without int64 it is emulated with pairs of words: Note [Lowering int64]. Shaders know no limited
        // dtype: these are only moved.
        if !dtype.is_limited() && (dtype != DType::F64 || self.caps.float64) {
            return Ok(());
        }
        bail!(
            NotImplemented,
            "'{op}' is not implemented for {dtype} on {}, which has no such type; cast the tensor, or move it with .cpu()",
            self.caps.name
        )
    }
}
