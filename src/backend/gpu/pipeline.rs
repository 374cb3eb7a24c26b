//! Compute pipelines: one per kernel and variant, compiled on first use.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType,
    BufferSize, ComputePipeline, ComputePipelineDescriptor, ErrorFilter, PipelineCompilationOptions,
    PipelineLayout, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderSource, ShaderStages,
};

use super::buffer_pool::Binding;
use super::device::{Counters, Gpu, allocation};
use super::lock;
use super::lower_int64::{is_wide, lower};
use super::params::{MAX_PARAMS, Params};
use super::window::too_large;
use crate::backend::View;
use crate::bail;
use crate::error::{Error, Result};

/// The driver's pipeline cache is saved after this many new pipelines, and at exit.
const SAVE_EVERY: usize = 64;

// Note [Long loops] An invocation with long loops blocks the device, which the driver considers hung after a second or
// two; and llvmpipe silently leaves all loops of an invocation after `MOST_LOOPS` iterations in total. So lanes, sums
// and windows are divided until no invocation needs more than `LOOPS` iterations. Work that cannot be divided is
// refused on software adapters.

/// Maximum number of loop iterations per invocation where the launch can choose; and the limit of software adapters.
pub(super) const LOOPS: usize = 1 << 14;
const MOST_LOOPS: usize = 65_535;

/// Errors if one result needs more loop iterations than the adapter supports. See Note [Long loops].
pub(super) fn expect_loops(gpu: &Gpu, op: &str, loops: usize) -> Result<()> {
    if loops < MOST_LOOPS || !gpu.caps.is_cpu {
        return Ok(());
    }
    bail!(
        NotImplemented,
        "'{op}' is not implemented for a result that is made of {loops} elements on {}, whose loops end before; move the \
         tensor with .cpu()",
        gpu.caps.name
    )
}

/// A launch of a kernel; see the module documentation.
pub struct Launch<'a> {
    pub op: &'static str,
    pub kernel: &'static str,
    pub variant: &'a [u8],
    pub source: &'a dyn Fn() -> Result<String>,
    pub written: &'a [View<'a>],
    pub read: &'a [View<'a>],
    pub params: &'a Params,
    pub groups: usize,
}

pub struct Pipeline {
    pub pipeline: ComputePipeline,
    pub id: u64,
    /// Identifies the bind group layout: pipelines with the same layout share bind groups.
    pub layout: u32,
    pub group_layout: BindGroupLayout,
}

/// Inline size of a kernel's variant in bytes: a formula's identity, its types and its form.
pub(super) const KEY: usize = 40;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    kernel: &'static str,
    variant: SmallVec<[u8; KEY]>,
    writable: u32,
}

#[derive(Clone)]
struct Layouts {
    number: u32,
    group: BindGroupLayout,
    pipeline: PipelineLayout,
}

#[derive(Default)]
pub struct Pipelines {
    made: HashMap<Key, Arc<Pipeline>>,
    /// By number of buffers and a mask of the written ones.
    layouts: HashMap<(usize, u32), Layouts>,
}

impl Pipelines {
    fn layouts(&mut self, gpu: &Gpu, buffers: usize, writable: u32) -> Layouts {
        let number = self.layouts.len() as u32;
        let make = || {
            let entry = |binding: usize, ty, dynamic| BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: ShaderStages::COMPUTE,
                ty: BindingType::Buffer {
                    ty,
                    has_dynamic_offset: dynamic,
                    min_binding_size: if dynamic { BufferSize::new(MAX_PARAMS as u64) } else { None },
                },
                count: None,
            };
            let mut entries = vec![entry(0, BufferBindingType::Uniform, true)];
            for i in 0..buffers {
                let read_only = writable >> i & 1 == 0;
                entries.push(entry(i + 1, BufferBindingType::Storage { read_only }, false));
            }
            let group = gpu
                .device
                .create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries });
            let pipeline = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&group)],
                immediate_size: 0,
            });
            Layouts { number, group, pipeline }
        };
        self.layouts.entry((buffers, writable)).or_insert_with(make).clone()
    }
}

impl Gpu {
    /// Records a launch.
    pub fn launch(&self, l: Launch) -> Result<()> {
        if l.groups == 0 {
            return Ok(());
        }
        let mut bindings: SmallVec<[Binding; 8]> = SmallVec::new();
        for v in l.written.iter().chain(l.read) {
            match allocation(v.storage) {
                Some(a) if std::ptr::eq(a.gpu(), self) => match a.binding() {
                    Some(b) => bindings.push(b),
                    None => return Err(Error::Runtime(format!("{}: an empty tensor cannot be bound", l.op))),
                },
                other => {
                    if let Some(a) = other {
                        // The tensor may belong to an earlier device with this index that was reset.
                        a.gpu().expect_alive()?;
                    }
                    let here = crate::device::Device::Gpu(self.index);
                    return Err(Error::DevicesDiffer(here, v.storage.device()));
                }
            }
        }
        if let Some(b) = bindings.iter().find(|b| b.bytes() > self.caps.max_binding) {
            return Err(too_large(self, l.op, b.bytes()));
        }
        // A buffer that is both read and written must be writable in all of its bindings.
        let is_written = |b: &Binding| bindings[..l.written.len()].iter().any(|w| w.block.id == b.block.id);
        let writable = bindings.iter().enumerate().fold(0, |m, (i, b)| m | (is_written(b) as u32) << i);
        let pipeline = self.pipeline(&l, bindings.len(), writable)?;
        let x = l.groups.min(self.caps.max_groups);
        let grid = [x as u32, l.groups.div_ceil(x) as u32, 1];
        self.record(l.op, l.kernel, &pipeline, &bindings, l.params, grid)
    }

    fn pipeline(&self, l: &Launch, buffers: usize, writable: u32) -> Result<Arc<Pipeline>> {
        let key = Key { kernel: l.kernel, variant: SmallVec::from_slice(l.variant), writable };
        let mut pipelines = lock(&self.pipelines);
        if let Some(p) = pipelines.made.get(&key) {
            return Ok(p.clone());
        }
        let source = writable_bindings((l.source)()?, buffers, writable);
        let source = match self.caps.int64 || !is_wide(&source) {
            true => ShaderSource::Wgsl(source.into()),
            false => ShaderSource::Naga(Cow::Owned(lower(&source).map_err(|why| {
                Error::NotImplemented(format!(
                    "'{}' is not implemented for torch.int64 on {}, which has no such type, and {why}; cast the \
                     tensor, or move it with .cpu()",
                    l.op, self.caps.name
                ))
            })?)),
        };
        let layouts = pipelines.layouts(self, buffers, writable);
        let scope = self.device.push_error_scope(ErrorFilter::Validation);
        let module =
            self.device.create_shader_module(ShaderModuleDescriptor { label: Some(l.kernel), source });
        let pipeline = self.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(l.kernel),
            layout: Some(&layouts.pipeline),
            module: &module,
            entry_point: Some("main"),
            compilation_options: PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..PipelineCompilationOptions::default()
            },
            cache: self.cache.handle(),
        });
        if let Some(e) = pollster::block_on(scope.pop()) {
            return Err(Error::Runtime(format!(
                "the kernel of '{}' does not compile on {}: {e}",
                l.op, self.caps.name
            )));
        }
        Counters::add(&self.counters.pipelines);
        let id = pipelines.made.len() as u64 + 1;
        let made =
            Arc::new(Pipeline { pipeline, id, layout: layouts.number, group_layout: layouts.group.clone() });
        pipelines.made.insert(key, made.clone());
        if pipelines.made.len().is_multiple_of(SAVE_EVERY) {
            self.cache.save();
        }
        Ok(made)
    }
}

/// Makes read-only bindings of a shader writable.
fn writable_bindings(mut source: String, buffers: usize, writable: u32) -> String {
    for i in (0..buffers).filter(|i| writable >> i & 1 == 1) {
        let binding = format!("@binding({}) var<storage, read", i + 1);
        source = source.replace(&format!("{binding}>"), &format!("{binding}_write>"));
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_becomes_writable_where_its_bit_is_set() {
        let text = "@binding(1) var<storage, read> a;@binding(2) var<storage, read> b;@binding(12) var<storage, read> c;";
        let made = writable_bindings(text.into(), 12, 0b10);
        assert_eq!(made, text.replace("read> b", "read_write> b"));
    }
}
