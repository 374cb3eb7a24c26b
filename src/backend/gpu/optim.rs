//! Steps of optimizers: a launch per parameter.

use smallvec::SmallVec;

use super::device::of;
use super::params::Params;
use super::pipeline::Launch;
use crate::backend::View;
use crate::backend::optim::{NUMBERS, Step};
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};

const FRAME: &str = include_str!("../../../shaders/optim.wgsl");

/// Invocations in a workgroup.
const GROUP: usize = 64;
/// Tensors that a rule writes at most.
const WRITTEN: usize = 5;

/// Applies a rule to dense float32 tensors.
pub fn step(step: &Step, gradient: View, written: &[View]) -> Result<()> {
    let count = gradient.layout.numel();
    if count == 0 {
        return Ok(());
    }
    let gpu = of(gradient)?;
    let mut params = Params::new(count as u32);
    params.u32(gradient.layout.offset as u32);
    for k in 0..WRITTEN {
        params.u32(written.get(k).map_or(0, |v| v.layout.offset) as u32);
    }
    for k in 0..NUMBERS {
        params.f32(step.numbers.get(k).copied().unwrap_or(0.0));
    }
    let source = || {
        let kind = stored(gradient.dtype);
        let (mut bindings, mut body, mut after) = (String::new(), String::new(), String::new());
        for k in 0..written.len() {
            bindings += &binding(k + 1, "read_write", &format!("x{k}"), kind);
            body += &format!("    w{k} = x{k}[params.first{k} + i];\n");
            after += &format!("    x{k}[params.first{k} + i] = w{k};\n");
        }
        bindings += &binding(written.len() + 1, "read", "gradient", kind);
        let all = format!("    g = gradient[params.first_g + i];\n{body}    {}();\n{after}", step.rule);
        let slots = [("bindings", &*bindings), ("step", &*all)];
        template::shader(FRAME, gradient.dtype, &slots).map_err(Error::NotImplemented)
    };
    let views: SmallVec<[View; WRITTEN]> = SmallVec::from_slice(written);
    gpu.launch(Launch {
        op: step.rule,
        kernel: step.rule,
        variant: &[written.len() as u8],
        source: &source,
        written: &views,
        read: &[gradient],
        params: &params,
        groups: count.div_ceil(GROUP),
    })
}
