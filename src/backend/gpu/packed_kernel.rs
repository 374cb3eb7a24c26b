//! Kernels in which each invocation computes one word of a contiguous result, element by element.
//!
//! The parameters of their templates start with the offset of the result (in words) and of each tensor that is read,
//! in order; `load_NAME` loads an element of a tensor.

use smallvec::SmallVec;

use super::device::of;
use super::params::{MAX_PARAMS, Params};
use super::pipeline::Launch;
use crate::backend::View;
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, lanes, line, load, store, stored};
use crate::layout::{Layout, collapse};

/// Invocations per workgroup.
pub const GROUP: usize = 64;

pub struct PackedKernel<'a> {
    pub op: &'static str,
    pub kernel: &'static str,
    pub frame: &'static str,
    /// The type to compute in: float32, float64, int32 or int64.
    pub compute: DType,
    /// Distinguishes this shader from others of the same template and dtypes.
    pub variant: &'a [u8],
    pub out: View<'a>,
    pub read: &'a [(&'static str, View<'a>)],
    /// The template's own slots, rendered only for a new shader.
    pub slots: &'a dyn Fn() -> Vec<(&'static str, String)>,
    /// The template's own parameters.
    pub params: &'a dyn Fn(&mut Params),
}

impl PackedKernel<'_> {
    /// Runs the kernel. The result must be contiguous and start at a word boundary.
    pub fn run(&self) -> Result<()> {
        let n = self.out.layout.numel();
        if n == 0 {
            return Ok(());
        }
        let gpu = of(self.out)?;
        let views: SmallVec<[View; 6]> = self.read.iter().map(|r| r.1).collect();
        for dtype in views.iter().chain([&self.out]).map(|v| v.dtype).chain([self.compute]) {
            gpu.expect(self.op, dtype)?;
        }
        let per_word = lanes(self.out.dtype).0;
        let mut params = Params::new(n as u32);
        params.u32((self.out.layout.offset / per_word) as u32);
        views.iter().for_each(|v| {
            params.u32(v.layout.offset as u32);
        });
        (self.params)(&mut params);
        fits(self.op, &params)?;
        let mut variant: SmallVec<[u8; 24]> = SmallVec::from_slice(self.variant);
        variant.extend([self.compute as u8, self.out.dtype as u8]);
        variant.extend(views.iter().map(|v| v.dtype as u8));
        gpu.launch(Launch {
            op: self.op,
            kernel: self.kernel,
            variant: &variant,
            source: &|| self.source(),
            written: &[self.out],
            read: &views,
            params: &params,
            groups: n.div_ceil(per_word).div_ceil(GROUP),
        })
    }

    fn source(&self) -> Result<String> {
        let (mut bindings, mut loads) =
            (binding(1, "read_write", "result", stored(self.out.dtype)), String::new());
        for (k, (name, v)) in self.read.iter().enumerate() {
            bindings += &binding(k + 2, "read", name, stored(v.dtype));
            loads += &loader(name, v.dtype);
        }
        let own = (self.slots)();
        let store = store(self.out.dtype);
        let mut slots = vec![("bindings", &*bindings), ("load", &*loads), ("store", &*store)];
        slots.extend(own.iter().map(|(name, text)| (*name, &**text)));
        render(self.op, self.frame, self.compute, &slots)
    }
}

/// The function that loads element `i` of a tensor.
pub fn loader(name: &str, dtype: DType) -> String {
    let mut s = String::new();
    line(&mut s, format!("fn load_{name}(i: u32) -> T {{ return T({}); }}", load(name, dtype)));
    s
}

/// A template with its slots filled.
pub fn render(op: &str, frame: &str, compute: DType, slots: &[(&str, &str)]) -> Result<String> {
    template::shader(frame, compute, slots).map_err(|why| {
        Error::NotImplemented(format!(
            "'{op}' is not implemented on the GPU: {why}; cast the tensor, or move it with .cpu()"
        ))
    })
}

/// Errors if the parameters exceed the uniform size.
pub fn fits(op: &str, params: &Params) -> Result<()> {
    ensure!(
        params.bytes().len() <= MAX_PARAMS,
        Runtime,
        "{op}: the strides of so many dimensions are more than a GPU takes; make the tensors contiguous"
    );
    Ok(())
}

/// Dimensions to iterate over in a kernel: adjacent ones are merged, and there is at least one.
pub struct Walk {
    pub shape: SmallVec<[usize; 6]>,
    pub strides: SmallVec<[isize; 6]>,
}

impl Walk {
    pub fn new(layout: &Layout) -> Walk {
        Walk::over(&layout.shape, &layout.strides)
    }

    pub fn over(shape: &[usize], strides: &[isize]) -> Walk {
        let (mut shape, [mut strides]) = collapse(shape, [strides]);
        if shape.is_empty() {
            shape.push(1);
            strides.push(0);
        }
        Walk { shape, strides }
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The parameters declared by `template::place`.
    pub fn params(&self, p: &mut Params) {
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            // Negative strides wrap, and so do the sums.
            p.u32(n as u32).u32(s as u32);
        }
    }
}
