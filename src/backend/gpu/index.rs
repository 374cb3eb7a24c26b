//! Gathers and scatters. Indices are first converted to offsets, the only form that the kernels moving elements read.

use smallvec::SmallVec;

use super::copy::{self, bits};
use super::device::{Gpu, of};
use super::device_assert;
use super::packed_kernel::{GROUP, PackedKernel, Walk, fits, loader, render};
use super::params::Params;
use super::pipeline::{LOOPS, Launch};
use super::pointwise;
use super::window::{
    BufferWindow, Window, by_rows, excess, expect_words, fits as fits_bindings, halves, rows_of, shown,
    too_large,
};
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::index::{BoundsPolicy, Combine, IndexGrid, Pick};
use crate::backend::pointwise::Kernel;
use crate::backend::pointwise::{Operand, Program, compute_type};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::formula::template::{binding, encode, lanes, line, mask, place, stored};
use crate::formula::{Arith, recorded};
use crate::layout::{Dims, Layout};
use crate::storage::Storage;

const OFFSETS: &str = crate::formula::shader_text!("offsets.wgsl");
const GATHER: &str = crate::formula::shader_text!("gather.wgsl");
const SCATTER: &str = crate::formula::shader_text!("scatter.wgsl");

/// A view of a list of offsets.
fn list<'a>(storage: &'a Storage, layout: &'a Layout) -> View<'a> {
    View { storage, layout, dtype: DType::I32 }
}

fn vector(n: usize) -> Layout {
    Layout::contiguous(Dims::from([n]))
}

/// Computes the sum of the offsets of several picks and `base`; `places` adds an offset per entry.
fn offsets(gpu: &'static Gpu, picks: &[Pick], n: usize, base: usize, places: &Walk) -> Result<Workspace> {
    let out = Workspace::new(gpu, n, DType::I32)?;
    if picks.is_empty() {
        copy::fill(out.view(), Scalar::Int(base as i64))?;
    }
    let still = Walk::over(&[], &[]);
    for (k, p) in picks.iter().enumerate() {
        let (base, places) = if k == 0 { (base, places) } else { (0, &still) };
        let mut params = Params::new(n as u32);
        let kind = match p.rule {
            BoundsPolicy::Listed => device_assert::LISTED,
            BoundsPolicy::Flat => device_assert::FLAT,
            BoundsPolicy::Dimension(d) => device_assert::in_dimension(device_assert::DIMENSION, d),
            BoundsPolicy::Along(d) => device_assert::in_dimension(device_assert::ALONG, d),
        };
        params.u32(0).u32(p.index.layout.offset as u32).u32(p.size as u32).u32(p.stride as u32);
        params.u32(p.rule.wraps() as u32).u32((k > 0) as u32).u32(gpu.fault_word(kind)).u32(base as u32);
        places.params(&mut params);
        fits("index", &params)?;
        let source = || {
            let (fields, function) = place("place", places.rank());
            render("index", OFFSETS, DType::I32, &[("params", &*fields), ("place", &*function)])
        };
        gpu.launch(Launch {
            op: "index",
            kernel: "offsets",
            variant: &[places.rank() as u8],
            source: &source,
            written: &[out.view(), gpu.faults()?.view()],
            read: &[p.index],
            params: &params,
            groups: n.div_ceil(GROUP),
        })?;
    }
    // On a software adapter waiting is cheap relative to the work, so an invalid index is reported immediately.
    if gpu.caps.is_cpu && !picks.is_empty() {
        gpu.finish()?;
    }
    Ok(out)
}

/// The dimensions before and after the indexed ones.
struct Around {
    before: Walk,
    after: Walk,
    n: usize,
    width: usize,
}

impl Around {
    fn new(before: &Layout, n: usize, after: &Layout) -> Around {
        Around { before: Walk::new(before), after: Walk::new(after), n, width: after.numel() }
    }

    fn nothing(n: usize) -> Around {
        Around::new(&Layout::default(), n, &Layout::default())
    }

    fn variant(&self) -> [u8; 2] {
        [self.before.rank() as u8, self.after.rank() as u8]
    }

    fn slots(&self) -> (String, String) {
        let (before, after) = (place("before", self.before.rank()), place("after", self.after.rank()));
        (before.0 + &after.0, before.1 + &after.1)
    }

    fn params(&self, p: &mut Params) {
        self.before.params(p);
        self.after.params(p);
    }
}

/// Calls `f` with windows that together cover a tensor's memory, and the number of elements in each. The view keeps
/// the tensor's offset relative to the window, which may wrap below zero.
fn in_windows(gpu: &Gpu, op: &str, x: View, f: &mut dyn FnMut(View, u32) -> Result<()>) -> Result<()> {
    if fits_bindings(gpu, &[x]) {
        return f(x, u32::MAX);
    }
    let size = x.dtype.size() as u64;
    let bytes = x.storage.len() as u64;
    if bytes / size > u32::MAX as u64 {
        return Err(too_large(gpu, op, bytes));
    }
    let most = gpu.caps.max_binding / gpu.caps.binding_align * gpu.caps.binding_align;
    for first in (0..bytes).step_by(most as usize) {
        let bytes = most.min((bytes - first).next_multiple_of(16));
        let offset = x.layout.offset.wrapping_sub((first / size) as usize);
        let layout = Layout { offset, ..Layout::default() };
        let shown = BufferWindow::in_window(&x, Window { first, bytes }, layout)?;
        f(shown.view(), (bytes / size) as u32)?;
    }
    Ok(())
}

fn gather_by(x: View, offsets: View, around: &Around, out: View) -> Result<()> {
    in_windows(of(out)?, "gather", x, &mut |x, limit| gather_within(x, limit, offsets, around, out))
}

/// Gathers the elements within the first `limit` elements of `x`; leaves the rest of the result unchanged.
fn gather_within(x: View, limit: u32, offsets: View, around: &Around, out: View) -> Result<()> {
    let dtype = bits(x.dtype);
    let is_part = limit < u32::MAX;
    let [before, after] = around.variant();
    PackedKernel {
        op: "gather",
        kernel: "gather",
        frame: GATHER,
        compute: compute_type(dtype),
        variant: &[before, after, is_part as u8],
        out: View { dtype, ..out },
        read: &[("x", View { dtype, ..x }), ("offsets", offsets)],
        slots: &|| {
            let (fields, mut places) = around.slots();
            let mut outside = String::new();
            if is_part {
                places += &loader("result", dtype);
                let first = format!("params.first * {}u", lanes(dtype).0);
                line(
                    &mut outside,
                    format!("    if at >= params.limit {{ return load_result({first} + i); }}"),
                );
            }
            vec![("params", fields), ("places", places), ("outside", outside)]
        },
        params: &|p| {
            p.u32(around.n as u32).u32(around.width as u32).u32(limit);
            around.params(p);
        },
    }
    .run()
}

/// 64-bit sums propagate a carry between the two words, each of which is correct once all additions are done.
const ADD_WIDE: &str = "fn write(i: u32, value: T) {
    let low = u32(value & T(0xffffffff));
    let old = atomicAdd(&result[2u * i], low);
    let carry = select(0u, 1u, old + low < old);
    atomicAdd(&result[2u * i + 1u], u32((value >> 32u) & T(0xffffffff)) + carry);
}
";

/// Whether elements are wider than an atomic word, so that they must be combined in order by one invocation.
fn in_order(dtype: DType, how: Combine) -> bool {
    match dtype {
        DType::F64 => how != Combine::Set,
        DType::I64 => !matches!(how, Combine::Set | Combine::Add),
        _ => false,
    }
}

/// Decodes the element in the lowest of `bits`.
fn decode(dtype: DType) -> String {
    match dtype {
        DType::Bool | DType::U8 => "i32(bits)".into(),
        DType::I8 | DType::I16 => format!("extractBits(bitcast<i32>(bits), 0u, {}u)", lanes(dtype).1),
        DType::F16 => "decode_half(bits)".into(),
        DType::BF16 => "decode_bfloat16(bits)".into(),
        _ => format!("bitcast<{}>(bits)", stored(dtype)),
    }
}

/// The type of the result's binding, and the function that combines a value with one of its elements.
fn write(dtype: DType, how: Combine) -> (String, String) {
    let (count, bits) = lanes(dtype);
    if how == Combine::Set && count == 1 {
        let kind = stored(dtype);
        return (kind.into(), format!("fn write(i: u32, value: T) {{ result[i] = {kind}(value); }}\n"));
    }
    let atomic = "atomic<u32>".to_owned();
    match (dtype, how) {
        (DType::I32, Combine::Add) => {
            let add = "fn write(i: u32, value: T) { atomicAdd(&result[i], bitcast<u32>(value)); }\n";
            return (atomic, add.into());
        }
        (DType::I64, Combine::Add) => return (atomic, ADD_WIDE.into()),
        _ => {}
    }
    let combined = match how {
        Combine::Set => "value",
        Combine::Add => "old + value",
        Combine::Mul => "old * value",
        Combine::Max => "m_maximum(old, value)",
        Combine::Min => "m_minimum(old, value)",
    };
    let combine = format!("fn combine(old: T, value: T) -> T {{ return {combined}; }}\n");
    if in_order(dtype, how) {
        let write = "fn write(i: u32, value: T) { result[i] = combine(result[i], value); }\n";
        return (stored(dtype).into(), combine + write);
    }
    let (last, per_word, mask) = (count - 1, count.ilog2(), mask(dtype));
    let text = format!(
        "{combine}fn decode(bits: u32) -> T {{ return {}; }}
fn encode(value: T) -> u32 {{ return {}; }}
fn write(i: u32, value: T) {{
    let shift = (i & {last}u) * {bits}u;
    var word = atomicLoad(&result[i >> {per_word}u]);
    loop {{
        let old = (word >> shift) & {mask}u;
        let kept = word & ~({mask}u << shift);
        let tried = atomicCompareExchangeWeak(
            &result[i >> {per_word}u], word, kept | (encode(combine(decode(old), value)) << shift));
        if tried.exchanged {{ break; }}
        word = tried.old_value;
    }}
}}
",
        decode(dtype),
        encode(dtype)
    );
    (atomic, text)
}

/// Combines `values`, dense or a single one, with elements of `x`.
fn scatter_by(
    x: View,
    offsets: View,
    around: &Around,
    values: View,
    count: usize,
    how: Combine,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    // The offsets include the tensor's storage offset.
    let whole = Layout::default();
    in_windows(of(x)?, "scatter", View { layout: &whole, ..x }, &mut |x, limit| {
        scatter_within(x, limit, offsets, around, values, count, how)
    })
}

/// Combines the values whose targets are within the first `limit` elements of `x`.
fn scatter_within(
    x: View,
    limit: u32,
    offsets: View,
    around: &Around,
    values: View,
    count: usize,
    how: Combine,
) -> Result<()> {
    let gpu = of(x)?;
    let dtype = if how == Combine::Set { bits(x.dtype) } else { x.dtype };
    let (x, values) = (View { dtype, ..x }, View { dtype, ..values });
    gpu.expect("scatter", dtype)?;
    let (compute, in_order) = (compute_type(dtype), in_order(dtype, how));
    let (element, write) = write(dtype, how);
    // When one invocation processes all offsets, each launch handles a limited number: see Note [Long loops].
    let (count, most) = if in_order { (count / around.n, LOOPS) } else { (count, around.n.max(1)) };
    let source = || {
        let bindings =
            binding(1, "read_write", "result", &element) + &binding(2, "read", "values", stored(dtype));
        let (fields, places) = around.slots();
        let load = loader("values", dtype);
        let slots = [
            ("bindings", &*bindings),
            ("params", &*fields),
            ("places", &*places),
            ("load", &*load),
            ("write", &*write),
            ("body", if in_order { "    combine_values(at);\n" } else { "    combine_value(at);\n" }),
        ];
        render("scatter", SCATTER, compute, &slots)
    };
    for begin in (0..around.n).step_by(most) {
        let mut params = Params::new(count as u32);
        params.u32(x.layout.offset as u32).u32(values.layout.offset as u32).u32(offsets.layout.offset as u32);
        params
            .u32(around.n as u32)
            .u32(around.width as u32)
            .u32((values.layout.numel() > 1) as u32)
            .u32(limit);
        params.u32(begin as u32).u32((begin + most).min(around.n) as u32);
        around.params(&mut params);
        fits("scatter", &params)?;
        gpu.launch(Launch {
            op: "scatter",
            kernel: "scatter",
            variant: &[dtype as u8, how as u8, around.variant()[0], around.variant()[1]],
            source: &source,
            written: &[x],
            read: &[values, offsets],
            params: &params,
            groups: count.div_ceil(GROUP),
        })?;
    }
    Ok(())
}

/// Calls `f` with parts of an index grid, and of dense values of its shape, that fit in bindings.
fn in_parts(
    gpu: &'static Gpu,
    op: &str,
    l: &IndexGrid,
    values: View,
    f: &mut dyn FnMut(&IndexGrid, View) -> Result<()>,
) -> Result<()> {
    let views: SmallVec<[View; 4]> = [values].into_iter().chain(l.picks.iter().map(|p| p.index)).collect();
    if fits_bindings(gpu, &views) {
        return f(l, values);
    }
    let Some(bytes) = views.iter().find_map(|v| excess(gpu, v)) else {
        expect_words(gpu, op, &[values])?;
        return shown(gpu, &views, &mut |v| {
            let picks: SmallVec<[Pick; 4]> =
                l.picks.iter().zip(&v[1..]).map(|(p, index)| Pick { index: *index, ..*p }).collect();
            f(&IndexGrid { picks: &picks, ..*l }, v[0])
        });
    };
    // A single value may be used for all elements.
    let rows =
        |n, part| if values.layout.numel() > 1 { rows_of(&values, n, part) } else { values.layout.clone() };
    if let Some(dim) = l.before.shape.iter().position(|n| *n > 1) {
        let n = l.before.shape[dim];
        for part in halves(n) {
            let (before, layout) = (l.before.slice(dim, part.0, part.1, 1), rows(n, part));
            in_parts(gpu, op, &IndexGrid { before: &before, ..*l }, View { layout: &layout, ..values }, f)?;
        }
        return Ok(());
    }
    if l.n < 2 {
        return Err(too_large(gpu, op, bytes));
    }
    for part in halves(l.n) {
        let layout = rows(l.n, part);
        let indices: SmallVec<[Layout; 4]> = l.picks.iter().map(|p| rows_of(&p.index, l.n, part)).collect();
        let picks: SmallVec<[Pick; 4]> = l
            .picks
            .iter()
            .zip(&indices)
            .map(|(p, layout)| Pick { index: View { layout, ..p.index }, ..*p })
            .collect();
        let l = IndexGrid { picks: &picks, n: part.1, ..*l };
        in_parts(gpu, op, &l, View { layout: &layout, ..values }, f)?;
    }
    Ok(())
}

/// Gathers the selected elements into `out`, contiguously.
pub fn gather(x: View, l: &IndexGrid, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    let (gpu, whole) = (of(x)?, Layout::default());
    in_parts(gpu, "gather", l, out, &mut |l, out| {
        let at = offsets(gpu, l.picks, l.n, l.before.offset, &Walk::over(&[], &[]))?;
        gather_by(View { layout: &whole, ..x }, at.view(), &Around::new(l.before, l.n, l.after), out)
    })
}

/// Combines dense `values` with the selected elements.
pub fn scatter(x: View, l: &IndexGrid, values: View, how: Combine) -> Result<()> {
    if l.before.numel() * l.n * l.after.numel() == 0 {
        return Ok(());
    }
    let gpu = of(x)?;
    in_parts(gpu, "scatter", l, values, &mut |l, values| {
        let count = l.before.numel() * l.n * l.after.numel();
        let at = offsets(gpu, l.picks, l.n, l.before.offset, &Walk::over(&[], &[]))?;
        scatter_by(x, at.view(), &Around::new(l.before, l.n, l.after), values, count, how)
    })
}

/// The offsets for one index per element, along `dim` of `x`.
fn offsets_along(x: View, dim: usize, pick: Pick) -> Result<Workspace> {
    let mut strides = x.layout.strides.clone();
    strides[dim] = 0;
    let n = pick.index.layout.numel();
    offsets(of(x)?, &[pick], n, x.layout.offset, &Walk::over(&pick.index.layout.shape, &strides))
}

/// Adds `src` to the elements of `out`, in which several indices may refer to one element.
pub fn accumulate(src: View, out: View) -> Result<()> {
    let n = out.layout.numel();
    if n == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    let (none, still) = (Workspace::new(gpu, n, DType::I64)?, Layout::contiguous(Dims::from([n])));
    copy::fill(none.view(), Scalar::Int(0))?;
    let index = View { layout: &still, ..none.view() };
    let pick = Pick { index, size: 1, stride: 0, rule: BoundsPolicy::Listed };
    let at = offsets(gpu, &[pick], n, out.layout.offset, &Walk::new(out.layout))?;
    let (values, dense) = (Workspace::new(gpu, n, out.dtype)?, Layout::contiguous(out.layout.shape.clone()));
    copy::copy(src, View { layout: &dense, ..values.view() })?;
    scatter_by(out, at.view(), &Around::nothing(n), values.view(), n, Combine::Add)
}

/// Calls `f` with parts of an index with one entry per element, of `x`, and of a tensor that is at least as large as
/// the index in every dimension, such that each part of the index fits in a binding.
fn in_parts_along(
    gpu: &Gpu,
    (x, dim): (View, usize),
    pick: Pick,
    values: View,
    f: &mut dyn FnMut(View, Pick, View) -> Result<()>,
) -> Result<()> {
    let index = pick.index;
    if fits_bindings(gpu, &[index, values]) {
        return f(x, pick, values);
    }
    let Some(bytes) = [index, values].iter().find_map(|v| excess(gpu, v)) else {
        return shown(gpu, &[index, values], &mut |v| f(x, Pick { index: v[0], ..pick }, v[1]));
    };
    let Some(first) = index.layout.shape.iter().position(|n| *n > 1) else {
        return Err(too_large(gpu, "gather", bytes));
    };
    for (start, n) in halves(index.layout.shape[first]) {
        let [index, values_part] = [index, values].map(|v| v.layout.slice(first, start, n, 1));
        let mut moved = x.layout.clone();
        if first != dim {
            moved = moved.slice(first, start, n, 1);
        }
        let pick = Pick { index: View { layout: &index, ..pick.index }, ..pick };
        let values = View { layout: &values_part, ..values };
        in_parts_along(gpu, (View { layout: &moved, ..x }, dim), pick, values, f)?;
    }
    Ok(())
}

pub fn gather_along(x: View, dim: usize, pick: Pick, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    in_parts_along(gpu, (x, dim), pick, out, &mut |x, pick, out| {
        expect_words(gpu, "gather", &[out])?;
        gather_part(x, dim, pick, out)
    })
}

fn gather_part(x: View, dim: usize, pick: Pick, out: View) -> Result<()> {
    let at = offsets_along(x, dim, pick)?;
    let whole = Layout::default();
    gather_by(View { layout: &whole, ..x }, at.view(), &Around::nothing(out.layout.numel()), out)
}

pub fn scatter_along(out: View, dim: usize, pick: Pick, src: View, how: Combine) -> Result<()> {
    if pick.index.layout.numel() == 0 {
        return Ok(());
    }
    in_parts_along(of(out)?, (out, dim), pick, src, &mut |out, pick, src| {
        scatter_part(out, dim, pick, src, how)
    })
}

fn scatter_part(out: View, dim: usize, pick: Pick, src: View, how: Combine) -> Result<()> {
    let shape = &pick.index.layout.shape;
    let n = shape.numel();
    let gpu = of(out)?;
    let at = offsets_along(out, dim, pick)?;
    // The leading part of the source, with the shape of the index.
    let part = Layout { shape: shape.clone(), ..src.layout.clone() };
    let (values, dense) = (Workspace::new(gpu, n, src.dtype)?, Layout::contiguous(shape.clone()));
    let values = View { layout: &dense, ..values.view() };
    copy::copy(View { layout: &part, ..src }, values)?;
    scatter_by(out, at.view(), &Around::nothing(n), values, n, how)
}

/// The elements of dense `x` at positions, which are 32-bit words.
pub fn gather_flat(x: View, positions: &Storage, out: View) -> Result<()> {
    let n = out.layout.numel();
    by_rows(of(x)?, "gather", n, &[out, list(positions, &vector(n))], &mut |n, v| {
        gather_by(x, v[1], &Around::nothing(n), v[0])
    })
}

/// Writes the first `n` elements of dense `values` to positions of dense `out`, which has storage offset 0.
pub fn scatter_flat(values: View, positions: &Storage, n: usize, out: View) -> Result<()> {
    let (every, some) = (vector(n), Layout { offset: values.layout.offset, ..vector(n) });
    let views = [View { layout: &some, ..values }, list(positions, &every)];
    by_rows(of(out)?, "scatter", n, &views, &mut |n, v| {
        scatter_by(out, v[1], &Around::nothing(n), v[0], n, Combine::Set)
    })
}

/// The mean, given a sum and a count of at least 1.
const MEAN: Program = Program {
    name: "embedding_dense_backward",
    kernel: Kernel::NONE,
    formula: &|| recorded!(|a| a[0] / a[1].maximum(Arith::one())),
};

pub fn sum_rows(g: View, index: View, padding: Option<usize>, by_frequency: bool, out: View) -> Result<()> {
    let (rows, width, n) = (out.layout.shape[0], out.layout.shape[1], index.layout.numel());
    copy::fill(out, Scalar::Int(0))?;
    let (start, after) = (Layout { offset: out.layout.offset, ..Layout::default() }, vector(width));
    let pick = |stride| [Pick { index, size: rows, stride, rule: BoundsPolicy::Listed }];
    let picks = pick(width as isize);
    scatter(out, &IndexGrid { before: &start, picks: &picks, n, after: &after }, g, Combine::Add)?;
    if let (Some(row), true) = (padding, width > 0) {
        let row = Layout { offset: out.layout.offset + row * width, ..after };
        copy::fill(View { layout: &row, ..out }, Scalar::Int(0))?;
    }
    if by_frequency && n > 0 {
        let gpu = of(out)?;
        let (counts, one) = (Workspace::new(gpu, rows, out.dtype)?, Workspace::new(gpu, 1, out.dtype)?);
        let (counts, one, single) = (counts.view(), one.view(), Layout::default());
        copy::fill(counts, Scalar::Int(0))?;
        copy::fill(one, Scalar::Int(1))?;
        let lattice = IndexGrid { before: &single, picks: &pick(1), n, after: &single };
        scatter(counts, &lattice, one, Combine::Add)?;
        let across = Layout { shape: out.layout.shape.clone(), strides: [1, 0].into(), offset: 0 };
        let operands = [Operand::View(out), Operand::View(View { layout: &across, ..counts })];
        pointwise::run(&MEAN, out.dtype, &operands, &[], out)?;
    }
    Ok(())
}
