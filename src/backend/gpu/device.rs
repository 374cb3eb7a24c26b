//! An open device: its handles, what it can do, and the parts of the runtime that belong to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use wgpu::{Device, DeviceDescriptor, DeviceType, Features, MemoryHints, Queue};

use super::error::Fault;
use super::fault::FaultSlot;
use super::instance;
use super::pipeline::Pipelines;
use super::pool::{Allocation, Pool};
use super::queue::Stream;
use super::tune::Tuner;
use crate::backend::View;
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
    /// Bytes of a buffer that one binding may show.
    pub max_binding: u64,
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
    /// The process that opened the device; a forked child cannot use it.
    process: u32,
}

/// More than any machine has; the list must have some length.
const MOST: usize = 16;

/// The device of a number, opened at its first use.
pub fn gpu(index: u8) -> Result<&'static Gpu> {
    static OPEN: [OnceLock<Result<Gpu, String>>; MOST] = [const { OnceLock::new() }; MOST];
    let adapter = instance::adapter(index)?;
    let Some(slot) = OPEN.get(index as usize) else { bail!(Runtime, "gpu:{index}: invalid device ordinal") };
    match slot.get_or_init(|| open(index, adapter)) {
        Ok(gpu) if gpu.process == std::process::id() => Ok(gpu),
        Ok(_) => bail!(
            Runtime,
            "Cannot re-initialize the GPU in a forked subprocess. To use the GPU with multiprocessing, you must use the \
             'spawn' start method"
        ),
        Err(message) => bail!(Runtime, "{message}"),
    }
}

fn open(index: u8, adapter: &wgpu::Adapter) -> Result<Gpu, String> {
    let info = adapter.get_info();
    let wanted = Features::SHADER_INT64 | Features::SHADER_F64;
    let features = adapter.features() & wanted;
    let limits = adapter.limits();
    let tuner = Tuner::new(&info);
    let caps = Caps {
        name: info.name,
        is_cpu: info.device_type == DeviceType::Cpu,
        int64: features.contains(Features::SHADER_INT64),
        float64: features.contains(Features::SHADER_INT64 | Features::SHADER_F64),
        // What is told of 32 and more is told by a mask of as many bits.
        max_buffers: limits.max_storage_buffers_per_shader_stage.min(32) as usize,
        max_binding: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
        uniform_align: limits.min_uniform_buffer_offset_alignment as usize,
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&DeviceDescriptor {
        required_features: features,
        required_limits: limits,
        // The pool keeps and reuses buffers.
        memory_hints: MemoryHints::MemoryUsage,
        ..DeviceDescriptor::default()
    }))
    .map_err(|e| format!("gpu:{index} ({}) cannot be opened: {e}", caps.name))?;
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
        process: std::process::id(),
        caps,
        device,
        queue,
    })
}

/// The device of a view.
pub fn of(view: View) -> Result<&'static Gpu> {
    match allocation(view.storage) {
        Some(a) => Ok(a.gpu()),
        None => bail!(Error::DevicesDiffer(view.storage.device(), crate::device::Device::current_gpu())),
    }
}

/// The buffer behind a storage, if it is one of a GPU.
pub fn allocation(storage: &Storage) -> Option<&Allocation> {
    storage.memory().and_then(|m| m.downcast_ref())
}

impl Gpu {
    /// Errors unless kernels on this adapter can load and compute `dtype`.
    pub fn expect(&self, op: &str, dtype: DType) -> Result<()> {
        let able = match dtype {
            DType::I64 => self.caps.int64,
            DType::F64 => self.caps.float64,
            _ => true,
        };
        if able {
            return Ok(());
        }
        bail!(
            NotImplemented,
            "'{op}' is not implemented for {dtype} on {}, which has no such type; cast the tensor, or move it with .cpu()",
            self.caps.name
        )
    }
}
