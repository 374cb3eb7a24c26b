//! Gather and scatter along one dimension. Where several indices name one element, it is combined with by
//! compare-and-swap: exact for integers, in an order that may differ from run to run for floats.

use super::copy::copy;
use super::device::of;
use super::params::{MAX_PARAMS, Params};
use super::pipeline::Launch;
use super::temporary::Temporary;
use crate::backend::View;
use crate::backend::index::{Combine, Fault};
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, coordinates, lanes, mask};
use crate::layout::Layout;

const FRAME: &str = include_str!("../../../shaders/index.wgsl");

/// Invocations in a workgroup.
const GROUP: usize = 64;

/// A kernel over the elements of an index.
struct Kernel<'a> {
    name: &'static str,
    variant: u8,
    /// What `params.from_0, …` are the strides of, and what is read.
    from: View<'a>,
    to: View<'a>,
    /// The strides of the one that the index reaches into, 0 along the dimension, and the one along it.
    reached: Layout,
    along: isize,
    size: usize,
    count: usize,
    compute: DType,
    to_type: &'static str,
    functions: String,
}

/// The words of an element of a size.
const fn word(dtype: DType) -> &'static str {
    if dtype.size() == 8 { "vec2<u32>" } else { "u32" }
}

/// A 0-d view as one of one dimension.
fn at_least_1d(l: &Layout) -> Layout {
    if l.rank() == 0 { l.unsqueeze(0) } else { l.clone() }
}

/// The layout with no step along a dimension, and that step.
fn reach(l: &Layout, dim: usize) -> (Layout, isize, usize) {
    let mut l = l.clone();
    let (along, size) = (l.strides[dim], l.shape[dim]);
    l.strides[dim] = 0;
    (l, along, size)
}

pub fn gather_along(x: View, dim: usize, index: View, out: View, fault: Fault) -> Result<()> {
    let (from, shape) = (at_least_1d(x.layout), at_least_1d(index.layout));
    let (reached, along, size) = reach(&from, dim);
    let (per_word, bits) = lanes(x.dtype);
    let rank = shape.rank();
    let read = format!(
        "fn value(i: u32) -> {} {{
{}    let place = checked(indices[params.first_index{}]);
    let at = params.first_from{} + place * params.along;
    return {};
}}
",
        word(x.dtype),
        coordinates(rank),
        terms("index", rank),
        terms("from", rank),
        if per_word == 1 {
            "from[at]".into()
        } else {
            format!(
                "(from[at >> {}u] >> ((at & {}u) * {bits}u)) & {}u",
                per_word.ilog2(),
                per_word - 1,
                mask(x.dtype)
            )
        }
    );
    let functions = if per_word == 1 {
        format!("{read}fn element(i: u32) {{ to[params.first_to + i] = value(i); }}\n")
    } else {
        // An invocation has a word, and all elements in it.
        format!(
            "{read}fn element(word: u32) {{
    var packed = 0u;
    for (var lane = 0u; lane < {per_word}u && word * {per_word}u + lane < params.number.x; lane++) {{
        packed |= value(word * {per_word}u + lane) << (lane * {bits}u);
    }}
    to[params.first_to + word] = packed;
}}
"
        )
    };
    let n = out.layout.numel();
    let dense = View { layout: &Layout { offset: out.layout.offset / per_word, ..out.layout.clone() }, ..out };
    let kernel = Kernel {
        name: "gather",
        variant: x.dtype.size() as u8,
        from: x,
        to: dense,
        reached,
        along,
        size,
        count: n.div_ceil(per_word),
        compute: DType::I32,
        to_type: word(x.dtype),
        functions,
    };
    run(&kernel, index, &shape, None, n, fault)
}

pub fn scatter_along(
    out: View,
    dim: usize,
    index: View,
    src: View,
    how: Combine,
    fault: Fault,
) -> Result<()> {
    let count = index.layout.numel();
    if count == 0 {
        return Ok(());
    }
    let direct = how == Combine::Set || matches!(out.dtype, DType::F32 | DType::I32);
    if !direct {
        ensure!(
            out.dtype.size() < 4,
            NotImplemented,
            "a scatter that combines {} is not implemented for the gpu device; cast the tensor, or move it with .cpu()",
            out.dtype
        );
        // What is narrower is combined in 32 bits.
        let gpu = of(out)?;
        let wide = if out.dtype.is_float() { DType::F32 } else { DType::I32 };
        let (a, b) =
            (Temporary::new(gpu, out.layout.numel(), wide)?, Temporary::new(gpu, src.layout.numel(), wide)?);
        let (to, from) =
            (Layout::contiguous(out.layout.shape.clone()), Layout::contiguous(src.layout.shape.clone()));
        let (to, from) = (View { layout: &to, ..a.view() }, View { layout: &from, ..b.view() });
        copy(out, to)?;
        copy(src, from)?;
        scatter_along(to, dim, index, from, how, fault)?;
        return copy(to, out);
    }
    let (target, shape) = (at_least_1d(out.layout), at_least_1d(index.layout));
    let (reached, along, size) = reach(&target, dim);
    let rank = shape.rank();
    let (per_word, bits) = lanes(out.dtype);
    let source = if per_word == 1 {
        "from[at]".into()
    } else {
        format!(
            "(from[at >> {}u] >> ((at & {}u) * {bits}u)) & {}u",
            per_word.ilog2(),
            per_word - 1,
            mask(out.dtype)
        )
    };
    let (to_type, write) = match how {
        Combine::Set if per_word == 1 => (word(out.dtype), "    to[place] = v;\n".to_owned()),
        Combine::Set => (
            "atomic<u32>",
            format!(
                "    let shift = (place & {last}u) * {bits}u;
    atomicAnd(&to[place >> {shift}u], ~({mask}u << shift));
    atomicOr(&to[place >> {shift}u], v << shift);
",
                last = per_word - 1,
                shift = per_word.ilog2(),
                mask = mask(out.dtype)
            ),
        ),
        _ => ("atomic<u32>", swap(how)),
    };
    let functions = format!(
        "fn element(i: u32) {{
{}    let name = checked(indices[params.first_index{}]);
    let at = params.first_from{};
    let v = {source};
    let place = params.first_to{} + name * params.along;
{write}}}
",
        coordinates(rank),
        terms("index", rank),
        terms("from", rank),
        terms("to", rank)
    );
    let kernel = Kernel {
        name: "scatter",
        variant: (how as u8) << 4 | out.dtype.size() as u8,
        from: src,
        to: out,
        reached,
        along,
        size,
        count,
        compute: if out.dtype == DType::F32 { DType::F32 } else { DType::I32 },
        to_type,
        functions,
    };
    let from = at_least_1d(src.layout);
    run(&kernel, index, &shape, Some(&from), count, fault)
}

/// Combines by compare-and-swap.
fn swap(how: Combine) -> String {
    let combined = match how {
        Combine::Add => "old + new",
        Combine::Mul => "old * new",
        Combine::Max => "m_maximum(old, new)",
        Combine::Min => "m_minimum(old, new)",
        Combine::Set => "new",
    };
    format!(
        "    let new = bitcast<T>(v);
    var seen = atomicLoad(&to[place]);
    loop {{
        let old = bitcast<T>(seen);
        let swapped = atomicCompareExchangeWeak(&to[place], seen, bitcast<u32>({combined}));
        if swapped.exchanged {{ break; }}
        seen = swapped.old_value;
    }}
"
    )
}

fn terms(strides: &str, rank: usize) -> String {
    (0..rank).map(|d| format!(" + c{d} * params.{strides}_{d}")).collect()
}

/// Launches a kernel; `from` holds the strides of what is read where the index does not reach into that.
fn run(k: &Kernel, index: View, shape: &Layout, from: Option<&Layout>, n: usize, fault: Fault) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let gpu = of(k.to)?;
    let faults = gpu.faults()?;
    let rank = shape.rank();
    let mut params = Params::new(k.count as u32);
    params.u32(k.size as u32).u32(k.along as u32).u32(fault as u32);
    params.u32(index.layout.offset as u32).u32(k.from.layout.offset as u32).u32(k.to.layout.offset as u32);
    params.u32(n as u32).u32(0);
    let (read, written) = match from {
        None => (&k.reached, shape),
        Some(from) => (from, &k.reached),
    };
    let strides = [&shape.strides, &read.strides, &written.strides];
    for d in 0..rank {
        params.u32(shape.shape[d] as u32);
        strides.iter().for_each(|s| {
            params.u32(s[d] as u32);
        });
    }
    ensure!(params.bytes().len() <= MAX_PARAMS, Runtime, "{}: {rank} dimensions are too many for a GPU", k.name);
    let source = || {
        let mut fields = String::new();
        for d in 0..rank {
            fields += &format!("    n{d}: u32,\n    index_{d}: u32,\n    from_{d}: u32,\n    to_{d}: u32,\n");
        }
        let mut bindings = binding(1, "read_write", "to", k.to_type);
        bindings += &binding(2, "read_write", "faults", "atomic<u32>");
        bindings += &binding(3, "read", "indices", "vec2<u32>");
        bindings += &binding(4, "read", "from", word(k.from.dtype));
        let slots = [("params", &*fields), ("bindings", &*bindings), ("functions", &*k.functions)];
        template::shader(FRAME, k.compute, &slots).map_err(Error::NotImplemented)
    };
    gpu.launch(Launch {
        op: k.name,
        kernel: k.name,
        variant: &[k.variant, k.compute as u8, rank as u8],
        source: &source,
        written: &[k.to, faults.view()],
        read: &[index, k.from],
        params: &params,
        groups: k.count.div_ceil(GROUP),
    })
}
