//! The available GPUs, enumerated once on first use.

use std::sync::OnceLock;

use wgpu::{Backends, DeviceType, Instance, InstanceDescriptor, InstanceFlags};

use crate::bail;
use crate::error::Result;

/// The available adapters, best first. Software adapters are included only if `RGRAD_GPU_ALLOW_CPU=1`;
/// `RGRAD_GPU_ADAPTER` selects one by index or by part of its name.
pub fn adapters() -> &'static [wgpu::Adapter] {
    static ADAPTERS: OnceLock<Vec<wgpu::Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
        let instance = Instance::new(InstanceDescriptor {
            backends,
            flags: InstanceFlags::empty(),
            ..InstanceDescriptor::new_without_display_handle()
        });
        let mut found = pollster::block_on(instance.enumerate_adapters(backends));
        let allow_cpu = std::env::var("RGRAD_GPU_ALLOW_CPU").is_ok_and(|v| v == "1");
        found.retain(|a| allow_cpu || a.get_info().device_type != DeviceType::Cpu);
        // Bubble sort of a few elements: instantiating a library sort for this large type costs much code.
        for end in (1..found.len()).rev() {
            for i in 0..end {
                if rank(found[i].get_info().device_type) > rank(found[i + 1].get_info().device_type) {
                    found.swap(i, i + 1);
                }
            }
        }
        match std::env::var("RGRAD_GPU_ADAPTER") {
            Ok(wanted) if !wanted.is_empty() => choose(found, &wanted),
            _ => found,
        }
    })
}

/// Sort key: discrete, integrated, virtual, unknown, software.
fn rank(kind: DeviceType) -> u8 {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

fn choose(found: Vec<wgpu::Adapter>, wanted: &str) -> Vec<wgpu::Adapter> {
    let number: Option<usize> = wanted.parse().ok();
    let wanted = wanted.to_lowercase();
    found
        .into_iter()
        .enumerate()
        .filter(|(i, a)| match number {
            Some(n) => n == *i,
            None => a.get_info().name.to_lowercase().contains(&wanted),
        })
        .map(|(_, a)| a)
        .collect()
}

/// The adapter with an index.
///
/// # Errors
/// `RuntimeError` that lists what was found and what would help.
pub fn adapter(index: u8) -> Result<&'static wgpu::Adapter> {
    let all = adapters();
    match all.get(index as usize) {
        Some(a) => Ok(a),
        None if all.is_empty() => bail!(
            Runtime,
            "No GPU is available: no Vulkan, Metal or DX12 driver offers an adapter. Software adapters are used only if \
             RGRAD_GPU_ALLOW_CPU=1."
        ),
        None => bail!(Runtime, "gpu:{index}: invalid device ordinal; there are {} GPUs", all.len()),
    }
}
