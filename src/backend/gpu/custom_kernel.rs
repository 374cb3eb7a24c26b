//! Kernels written by users in WGSL; their bindings are found by reflection.
//!
//! Such a kernel is a complete module with one entry point, `main`. Written storage has the bindings from 1 on,
//! followed by read-only storage; a uniform struct of numbers may have binding 0. Names and types are reflected from
//! the module, so that nothing is declared twice.

use std::sync::atomic::{AtomicU16, Ordering};

use wgpu::naga::front::wgsl;
use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};
use wgpu::naga::{AddressSpace, Module, Scalar as Number, ScalarKind, ShaderStage, StorageAccess, TypeInner};

use super::device::Gpu;
use super::params::{MAX_PARAMS, Params};
use super::pipeline::Launch;
use crate::backend::View;
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::{bail, ensure};

/// A field of the uniform struct.
struct Field {
    name: String,
    at: usize,
    ty: Number,
}

/// A storage binding of a kernel.
struct Bound {
    name: String,
    element: Number,
    written: bool,
}

/// A kernel whose WGSL was validated.
pub struct Kernel {
    /// Leaked, since cached pipelines refer to it for the rest of the process.
    name: &'static str,
    number: u16,
    source: String,
    invocations: usize,
    bound: Vec<Bound>,
    fields: Vec<Field>,
}

/// The field for the number of elements of the first result, filled in unless the caller passes it.
const COUNT: &str = "count";

impl Kernel {
    /// Parses and validates a module.
    ///
    /// # Errors
    /// `RuntimeError` with the line and a caret for invalid WGSL, and for unsupported bindings.
    pub fn new(name: &str, source: &str) -> Result<Kernel> {
        static NUMBER: AtomicU16 = AtomicU16::new(0);
        let invalid = |text: String| Error::Runtime(format!("wgsl_op '{name}' is not valid WGSL:\n{text}"));
        let module =
            wgsl::parse_str(source).map_err(|e| invalid(e.emit_to_string_with_path(source, name)))?;
        Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|e| invalid(e.emit_to_string_with_path(source, name)))?;
        let main = module.entry_points.iter().find(|e| e.stage == ShaderStage::Compute && e.name == "main");
        let Some(main) = main else {
            bail!(Runtime, "wgsl_op '{name}': there is no @compute function 'main'")
        };
        let invocations = main.workgroup_size.iter().product::<u32>().max(1) as usize;
        let (bound, fields) = bindings(name, &module)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = String::leak(name.to_owned());
        Ok(Kernel { name, number, source: source.to_owned(), invocations, bound, fields })
    }

    /// Names of the written, or of the read, tensors in order.
    pub fn tensors(&self, written: bool) -> impl Iterator<Item = &str> {
        self.bound.iter().filter(move |b| b.written == written).map(|b| b.name.as_str())
    }

    /// Names of the numbers that a call must pass.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|f| f.name.as_str()).filter(|name| *name != COUNT)
    }

    /// Launches at least `invocations` of `main`. Tensors are dense with storage offset 0.
    pub fn launch(
        &self,
        gpu: &Gpu,
        written: &[View],
        read: &[View],
        numbers: &[(String, Scalar)],
        invocations: usize,
    ) -> Result<()> {
        let of = |written| self.tensors(written).count();
        let (name, results, inputs) = (self.name, of(true), of(false));
        ensure!(
            written.len() == results && read.len() == inputs,
            Type,
            "{name}() takes {inputs} tensors and gives {results}, but got {} and {}",
            read.len(),
            written.len()
        );
        for (bound, v) in self.bound.iter().zip(written.iter().chain(read)) {
            gpu.expect(name, v.dtype)?;
            ensure!(
                holds(bound.element, v.dtype),
                Type,
                "{name}(): '{}' is an array of {}, but the tensor is of {}",
                bound.name,
                wgsl_name(bound.element),
                v.dtype
            );
        }
        let count = written.first().map_or(0, |v| v.layout.numel());
        let mut params = Params::new(count as u32);
        for field in &self.fields {
            let given = numbers.iter().find(|(name, _)| *name == field.name).map(|(_, value)| *value);
            let value = match given {
                Some(value) => value,
                None if field.name == COUNT => Scalar::Int(count as i64),
                None => bail!(Type, "{name}() missing the number '{}'", field.name),
            };
            params.put(field.at, &bytes(value, field.ty));
        }
        gpu.launch(Launch {
            op: name,
            kernel: name,
            // No built-in kernel has a variant of exactly these two bytes.
            variant: &self.number.to_le_bytes(),
            source: &|| Ok(self.source.clone()),
            written,
            read,
            params: &params,
            groups: invocations.div_ceil(self.invocations),
        })
    }
}

fn bindings(name: &str, module: &Module) -> Result<(Vec<Bound>, Vec<Field>)> {
    let mut bound: Vec<(u32, Bound)> = Vec::new();
    let mut fields = Vec::new();
    for (_, v) in module.global_variables.iter() {
        let Some(at) = v.binding else { continue };
        let of = v.name.clone().unwrap_or_default();
        ensure!(at.group == 0, Runtime, "wgsl_op '{name}': '{of}' must be in @group(0)");
        match (v.space, &module.types[v.ty].inner) {
            (AddressSpace::Uniform, TypeInner::Struct { members, span }) if at.binding == 0 => {
                ensure!(
                    *span as usize <= MAX_PARAMS,
                    Runtime,
                    "wgsl_op '{name}': '{of}' is larger than {MAX_PARAMS} bytes"
                );
                for m in members {
                    let (TypeInner::Scalar(ty), Some(field)) = (&module.types[m.ty].inner, &m.name) else {
                        bail!(Runtime, "wgsl_op '{name}': the fields of '{of}' must be numbers");
                    };
                    fields.push(Field { name: field.clone(), at: m.offset as usize, ty: *ty });
                }
            }
            (AddressSpace::Storage { access }, TypeInner::Array { base, .. }) => {
                let element = match module.types[*base].inner {
                    TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } | TypeInner::Atomic(s) => s,
                    _ => bail!(Runtime, "wgsl_op '{name}': '{of}' must be an array of numbers or vectors"),
                };
                let written = access.contains(StorageAccess::STORE);
                bound.push((at.binding, Bound { name: of, element, written }));
            }
            _ => bail!(
                Runtime,
                "wgsl_op '{name}': '{of}' is neither an array in storage nor a uniform struct at @binding(0)"
            ),
        }
    }
    bound.sort_by_key(|b| b.0);
    ensure!(
        bound.iter().enumerate().all(|(i, b)| b.0 as usize == i + 1)
            && bound.first().is_some_and(|b| b.1.written),
        Runtime,
        "wgsl_op '{name}': arrays must stand at @binding(1), @binding(2), …, and the first be read_write"
    );
    let bound: Vec<Bound> = bound.into_iter().map(|b| b.1).collect();
    ensure!(
        bound.is_sorted_by_key(|b| !b.written),
        Runtime,
        "wgsl_op '{name}': arrays that are read_write must stand before those that are read"
    );
    Ok((bound, fields))
}

/// Whether a binding's array type can hold elements of `dtype`: elements below 32 bits are packed into words.
fn holds(element: Number, dtype: DType) -> bool {
    match (element.kind, element.width) {
        (ScalarKind::Float, 4) => dtype == DType::F32,
        (ScalarKind::Float, 8) => dtype == DType::F64,
        (ScalarKind::Sint, 4) => dtype == DType::I32,
        (ScalarKind::Sint, 8) => dtype == DType::I64,
        (ScalarKind::Uint, 4) => dtype.size() < 4 || dtype == DType::I32,
        _ => false,
    }
}

fn wgsl_name(n: Number) -> String {
    let letter = match n.kind {
        ScalarKind::Float => 'f',
        ScalarKind::Sint => 'i',
        _ => 'u',
    };
    format!("{letter}{}", 8 * n.width)
}

/// The bytes of a number in a field.
fn bytes(value: Scalar, ty: Number) -> Vec<u8> {
    match (ty.kind, ty.width) {
        (ScalarKind::Float, 8) => f64::from_scalar(value).to_le_bytes().to_vec(),
        (ScalarKind::Float, _) => f32::from_scalar(value).to_le_bytes().to_vec(),
        (_, 8) => i64::from_scalar(value).to_le_bytes().to_vec(),
        // The same bits for unsigned fields.
        _ => (i64::from_scalar(value) as u32).to_le_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "struct Params { count: u32, k: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@compute @workgroup_size(8, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x].y * params.k; }
";

    #[test]
    fn a_kernel_is_read_for_what_it_binds() {
        let k = Kernel::new("good", GOOD).unwrap();
        assert_eq!(k.tensors(true).collect::<Vec<_>>(), ["y"]);
        assert_eq!(k.tensors(false).collect::<Vec<_>>(), ["x"]);
        assert_eq!(k.numbers().collect::<Vec<_>>(), ["k"]);
        assert_eq!((k.invocations, k.fields[1].at), (32, 4));
    }

    #[test]
    fn a_kernel_that_is_not_valid_is_refused_with_the_line_and_a_caret() {
        let told = |source: &str| Kernel::new("bad", source).err().unwrap().to_string();
        let unknown = told(&GOOD.replace("params.k;", "params.j;"));
        assert!(unknown.contains("bad:6:") && unknown.contains('^'), "{unknown}");
        assert!(told(&GOOD.replace("binding(2)", "binding(3)")).contains("@binding(2)"));
        assert!(told(&GOOD.replace("main", "other")).contains("no @compute function 'main'"));
    }
}
