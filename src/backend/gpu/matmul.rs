//! Matrix products.
//!
//! Note [Kernels of a product]
//! The template `shaders/matmul.wgsl` has two kernels, each rendered for a tile size and for the layout of the
//! operands. The direct kernel computes one tile per invocation straight from the operands: it is fastest on software
//! adapters, which gain nothing from workgroup memory, and for products with few rows or columns. The tiled kernel
//! stages both operands in workgroup memory. Both load four adjacent elements at once where the layout allows, along
//! the depth or along the rows or columns. On software adapters loads dominate, since they are executed lane by lane
//! and cost as much for 64 bits as for 32; so there the direct kernel also exists with loads of eight adjacent
//! elements as four 64-bit words, and with larger tiles, which load less. A product with few results and great depth
//! is split along the depth, and a reduction sums the segments. For large products the tuner measures the candidates
//! once per adapter and class of shapes; others are selected by size.

mod direct;
pub(super) mod tiled;

use smallvec::{SmallVec, smallvec};

use super::copy::copy;
use super::device::{Gpu, of};
use super::params::Params;
use super::pipeline::Launch;
use super::pointwise::add_to;
use super::reduce;
use super::tune;
use super::window::{excess, farthest, fits, halves, shown, too_large};
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::copy::fill;
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::template::{self, stored};
use crate::layout::Layout;

const FRAME: &str = crate::formula::shader_text!("matmul.wgsl");

/// Minimum number of multiplications for tuning.
const WORTH_TUNING: usize = 1 << 26;
/// The number of invocations that occupies a GPU, and a software adapter.
const BUSY: usize = 1 << 14;
const BUSY_CPU: usize = 1 << 8;
/// Minimum depth of a segment.
const SEGMENT: usize = 256;

/// A kernel of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// Rows, and quads of columns, of an invocation's tile.
    Direct(u8, u8),
    /// The same with loads of eight adjacent elements; columns are a multiple of eight. For 32-bit elements.
    Paired(u8, u8),
    /// Rows and columns of a workgroup's tile: 64 or 128.
    Tiled(u8),
}

/// Direct kernels, from the fewest loads to the most invocations.
pub const DIRECT: [Kernel; 6] = [
    Kernel::Direct(8, 4),
    Kernel::Direct(4, 4),
    Kernel::Direct(4, 2),
    Kernel::Direct(4, 1),
    Kernel::Direct(2, 1),
    Kernel::Direct(1, 1),
];

/// Direct kernels with loads of eight elements, in the same order.
pub const PAIRED: [Kernel; 2] = [Kernel::Paired(16, 8), Kernel::Paired(8, 4)];

impl Kernel {
    /// Adjacent elements per load where the layout allows.
    fn by(self) -> usize {
        if let Kernel::Paired(..) = self { 8 } else { 4 }
    }
}

/// How the elements of an operand are loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    Single,
    /// Several along the depth.
    Depth,
    /// Several along the other dimension.
    Side,
}

/// The sizes of a product, and how its operands are accessed.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    /// Adjacent elements per load.
    by: usize,
    a: Load,
    b: Load,
    /// Whether results are stored four at a time.
    quads: bool,
    dtype: DType,
}

/// `out = a @ b + bias`; see `backend::matmul`.
pub fn product(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    let views: SmallVec<[View; 4]> = [out, a, b].into_iter().chain(bias).collect();
    if fits(gpu, &views) { whole(a, b, bias, out) } else { in_parts(gpu, &views) }
}

/// The dimension along which a product that exceeds the binding size is halved.
enum Side {
    Rows,
    Columns,
    Depth,
}

/// A product (`out`, `a`, `b`, and optionally the bias) that exceeds the binding size: recursively halves the
/// dimension along which the largest tensor extends farthest.
fn in_parts(gpu: &'static Gpu, views: &[View]) -> Result<()> {
    let (out, a, b, bias) = (views[0], views[1], views[2], views.get(3).copied());
    let Some((far, bytes)) = views.iter().enumerate().find_map(|(i, v)| Some((i, excess(gpu, v)?))) else {
        return shown(gpu, views, &mut |v| whole(v[1], v[2], v.get(3).copied(), v[0]));
    };
    let part = |a: &Layout, b: &Layout, bias: Option<(View, &Layout)>, out: View| {
        let parts: SmallVec<[View; 4]> =
            [out, View { layout: a, ..views[1] }, View { layout: b, ..views[2] }]
                .into_iter()
                .chain(bias.map(|(v, layout)| View { layout, ..v }))
                .collect();
        in_parts(gpu, &parts)
    };
    let r = out.layout.rank();
    let (row, column) = (r - 2, r - 1);
    // Part of a batch of contiguous matrices is contiguous, while some rows of every matrix are not.
    if r == 3 && out.layout.shape[0] > 1 {
        for (start, n) in halves(out.layout.shape[0]) {
            let [a, b, y] = [a, b, out].map(|v| v.layout.slice(0, start, n, 1));
            part(&a, &b, bias.map(|v| (v, v.layout)), View { layout: &y, ..out })?;
        }
        return Ok(());
    }
    let side = match (far, farthest(views[far].layout)) {
        (0 | 1, Some(d)) if d == row => Side::Rows,
        (1, Some(d)) if d == column => Side::Depth,
        (2, Some(d)) if d == row => Side::Depth,
        (_, Some(_)) => Side::Columns,
        (_, None) => return Err(too_large(gpu, "matmul", bytes)),
    };
    match side {
        Side::Rows => {
            for (start, n) in halves(out.layout.shape[row]) {
                let [a, y] = [a, out].map(|v| v.layout.slice(row, start, n, 1));
                part(&a, b.layout, bias.map(|v| (v, v.layout)), View { layout: &y, ..out })?;
            }
        }
        Side::Columns => {
            for (start, n) in halves(out.layout.shape[column]) {
                let [b, y] = [b, out].map(|v| v.layout.slice(column, start, n, 1));
                let some = bias.map(|v| v.layout.slice(0, start, n, 1));
                let held = Workspace::new(gpu, y.numel(), out.dtype)?;
                let layout = Layout::contiguous(y.shape.clone());
                let held = View { layout: &layout, ..held.view() };
                part(a.layout, &b, bias.zip(some.as_ref()), held)?;
                copy(held, View { layout: &y, ..out })?;
            }
        }
        Side::Depth => {
            let [first, rest] = halves(a.layout.shape[column]);
            let of = |(start, n)| (a.layout.slice(column, start, n, 1), b.layout.slice(row, start, n, 1));
            let (left, right) = of(first);
            part(&left, &right, bias.map(|v| (v, v.layout)), out)?;
            let held = Workspace::new(gpu, out.layout.numel(), out.dtype)?;
            let layout = Layout::contiguous(out.layout.shape.clone());
            let held = View { layout: &layout, ..held.view() };
            let (left, right) = of(rest);
            part(&left, &right, None, held)?;
            add_to(out, held)?;
        }
    }
    Ok(())
}

/// A product whose tensors fit in bindings.
fn whole(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let s = Shape::of(a, b, out, 4);
    if s.k == 0 {
        return match bias {
            Some(bias) => copy(View { layout: &bias_rows(bias, s.m), ..bias }, out),
            None => fill(out, Scalar::Int(0)),
        };
    }
    let gpu = of(out)?;
    gpu.expect("matmul", out.dtype)?;
    let eights = Shape::of(a, b, out, 8);
    let kernel = choose(gpu, &s, &eights, |kernel| run(kernel, a, b, bias, out))?;
    let segments = match kernel {
        Kernel::Direct(..) | Kernel::Paired(..) => {
            (busy(gpu) / invocations(&s, kernel)).min(s.k / SEGMENT).max(1)
        }
        Kernel::Tiled(_) => 1,
    };
    if segments == 1 {
        return run(kernel, a, b, bias, out);
    }
    let lanes = out.layout.numel();
    let partial = Workspace::new(gpu, lanes * segments, out.dtype)?;
    let s = if kernel.by() == 8 { eights } else { s };
    launch(gpu, kernel, segments, a, b, bias, partial.view(), &Shape { quads: s.n.is_multiple_of(4), ..s })?;
    reduce::fold(ReduceOp::Sum, partial.view(), ReduceDims { outer: 1, n: segments, inner: lanes }, out)
}

/// A non-empty product by a given kernel.
pub fn run(kernel: Kernel, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    launch(of(out)?, kernel, 1, a, b, bias, out, &Shape::of(a, b, out, kernel.by()))
}

impl Shape {
    /// The shape for loads of `by` adjacent elements.
    fn of(a: View, b: View, out: View, by: usize) -> Shape {
        let r = a.layout.rank();
        let (m, k, n) = (a.layout.shape[r - 2], a.layout.shape[r - 1], b.layout.shape[r - 1]);
        Shape {
            batch: if r == 3 { a.layout.shape[0] } else { 1 },
            m,
            n,
            k,
            by,
            a: load_of(a, r - 1, r - 2, by),
            b: load_of(b, r - 2, r - 1, by),
            quads: n.is_multiple_of(4) && out.layout.offset.is_multiple_of(4),
            dtype: out.dtype,
        }
    }

    /// Whether both operands are loaded several elements at a time.
    fn is_loaded_beside(&self) -> bool {
        self.a != Load::Single && self.b != Load::Single
    }
}

/// How an operand with matrix dimensions `depth` and `side` is loaded: `by` adjacent elements at once if possible.
fn load_of(v: View, depth: usize, side: usize, by: usize) -> Load {
    let strides = &v.layout.strides;
    let beside = |rest: usize| {
        let others =
            strides.iter().enumerate().filter(|(d, _)| *d != rest).all(|(_, s)| s % by as isize == 0);
        strides[rest] == 1 && others && v.layout.offset.is_multiple_of(by)
    };
    match () {
        () if beside(side) => Load::Side,
        () if beside(depth) && v.layout.shape[depth].is_multiple_of(by) => Load::Depth,
        () => Load::Single,
    }
}

fn busy(gpu: &Gpu) -> usize {
    if gpu.caps.is_cpu { BUSY_CPU } else { BUSY }
}

fn invocations(s: &Shape, kernel: Kernel) -> usize {
    match kernel {
        Kernel::Direct(rows, fours) | Kernel::Paired(rows, fours) => {
            s.batch * s.m.div_ceil(rows as usize) * s.n.div_ceil(4 * fours as usize)
        }
        Kernel::Tiled(side) => s.batch * s.m.div_ceil(side as usize) * s.n.div_ceil(side as usize) * 256,
    }
}

/// Whether loads of eight elements are possible and profitable; `eights` is the shape with such loads.
fn pairs(gpu: &Gpu, eights: &Shape) -> bool {
    gpu.caps.is_cpu && gpu.caps.int64 && eights.dtype.size() == 4 && eights.is_loaded_beside()
}

/// The candidates for a large product, the most likely first.
fn candidates(gpu: &Gpu, s: &Shape, pairs: bool) -> SmallVec<[Kernel; 4]> {
    let direct = [Kernel::Direct(8, 4), Kernel::Direct(4, 4), Kernel::Direct(4, 2)];
    match (gpu.caps.is_cpu, s.dtype.size()) {
        // The largest tile is excluded when it would leave few invocations.
        (true, _) if pairs => {
            PAIRED.into_iter().filter(|&k| invocations(s, k) >= busy(gpu) || k == PAIRED[1]).collect()
        }
        (true, _) => SmallVec::from_slice(&direct),
        (false, 4) => smallvec![Kernel::Tiled(64), Kernel::Tiled(128), direct[1], direct[0]],
        // Tiles of 8-byte elements exceed the workgroup memory guaranteed on all adapters.
        (false, _) => SmallVec::from_slice(&direct),
    }
}

/// Selects a kernel by size alone.
fn usual(gpu: &Gpu, s: &Shape, pairs: bool) -> Kernel {
    if !gpu.caps.is_cpu && s.dtype.size() == 4 && s.m.min(s.n) >= 32 {
        let busy_with = |kernel| invocations(s, kernel) >= BUSY;
        return if s.m.min(s.n) >= 96 && busy_with(Kernel::Tiled(128)) {
            Kernel::Tiled(128)
        } else {
            Kernel::Tiled(64)
        };
    }
    let fits = |k: &&Kernel| matches!(k, Kernel::Direct(rows, _) | Kernel::Paired(rows, _) if (*rows as usize) < 2 * s.m);
    let enough = |k: &&Kernel| fits(k) && invocations(s, **k) >= busy(gpu);
    // The largest tile takes seconds to compile, so it is used only after tuning.
    let paired = if pairs { &PAIRED[1..] } else { &[] };
    paired.iter().chain(&DIRECT).find(enough).copied().unwrap_or(if s.m > 1 {
        Kernel::Direct(2, 1)
    } else {
        Kernel::Direct(1, 1)
    })
}

fn choose(
    gpu: &'static Gpu,
    s: &Shape,
    eights: &Shape,
    run: impl Fn(Kernel) -> Result<()>,
) -> Result<Kernel> {
    let pairs = pairs(gpu, eights);
    if s.batch * s.m * s.n * s.k < WORTH_TUNING {
        return Ok(usual(gpu, s, pairs));
    }
    let kernels = candidates(gpu, s, pairs);
    // Sizes within a class differ by less than a factor of two.
    let class = |n: usize| n.ilog2();
    let key = format!(
        "{} {} {:?} {:?} {} {} {} {}",
        if pairs { "matmul_paired" } else { "matmul" },
        s.dtype.name(),
        s.a,
        s.b,
        class(s.batch),
        class(s.m),
        class(s.n),
        class(s.k)
    );
    let names: SmallVec<[String; 4]> = kernels.iter().map(|k| format!("{k:?}")).collect();
    let best = tune::fastest(gpu, &key, &names, |i| run(kernels[i]))?;
    Ok(kernels[best])
}

fn launch(
    gpu: &Gpu,
    kernel: Kernel,
    segments: usize,
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
    s: &Shape,
) -> Result<()> {
    // Tile sizes, and the number of adjacent tiles that form a strip, which is processed row by row.
    let (rows, columns, strip) = match kernel {
        Kernel::Direct(rows, fours) | Kernel::Paired(rows, fours) => {
            let columns = s.n.div_ceil(4 * fours as usize);
            (s.m.div_ceil(rows as usize), columns, columns.div_ceil(columns.div_ceil(direct::STRIP)))
        }
        Kernel::Tiled(side) => (s.m.div_ceil(side as usize), s.n.div_ceil(side as usize), 1),
    };
    let strips = columns.div_ceil(strip);
    let count = s.batch * segments * strips * rows * strip;
    let step = if let Kernel::Tiled(_) = kernel { tiled::DEPTH } else { s.by };
    let depth = s.k.div_ceil(segments).next_multiple_of(step);
    let mut params = Params::new(count as u32);
    for v in [s.m, s.n, s.k, rows, strip, strips, segments, depth] {
        params.u32(v as u32);
    }
    let r = a.layout.rank();
    for v in [a, b] {
        let strides = &v.layout.strides;
        params.u32(v.layout.offset as u32).u32(if r == 3 { strides[0] as u32 } else { 0 });
        params.u32(strides[r - 2] as u32).u32(strides[r - 1] as u32);
    }
    params.u32(bias.map_or(0, |v| v.layout.offset) as u32);
    params.u32(bias.map_or(0, |v| v.layout.strides[0]) as u32);
    params.u32(out.layout.offset as u32);
    let read = [a, b, bias.unwrap_or(b)];
    let (name, tag, groups) = match kernel {
        Kernel::Direct(rows, fours) => ("matmul", [rows, fours], count.div_ceil(direct::GROUP)),
        Kernel::Paired(rows, fours) => ("matmul_paired", [rows, fours], count.div_ceil(direct::GROUP)),
        Kernel::Tiled(side) => ("matmul_tiled", [side, 0], count),
    };
    // Whether the depth is a multiple of the load length.
    let whole = s.k.is_multiple_of(s.by);
    let variant = [
        s.dtype as u8,
        bias.is_some() as u8,
        s.a as u8,
        s.b as u8,
        s.quads as u8,
        whole as u8,
        tag[0],
        tag[1],
    ];
    gpu.launch(Launch {
        op: "matmul",
        kernel: name,
        variant: &variant,
        source: &|| match kernel {
            Kernel::Direct(rows, fours) | Kernel::Paired(rows, fours) => {
                direct::source(s, bias.is_some(), rows.into(), fours.into(), whole)
            }
            Kernel::Tiled(side) => tiled::source(s, bias.is_some(), side.into()),
        },
        written: &[out],
        read: &read[..2 + bias.is_some() as usize],
        params: &params,
        groups,
    })
}

/// The declarations shared by both kernels: the bindings, and the bias of a column.
fn declarations(s: &Shape, bias: bool) -> (String, &'static str) {
    let kind = |fours: bool| {
        if fours { format!("vec4<{}>", stored(s.dtype)) } else { stored(s.dtype).to_owned() }
    };
    let operand = |load: Load| {
        if s.by == 8 && load != Load::Single { "vec4<u64>".to_owned() } else { kind(load != Load::Single) }
    };
    let mut bindings = template::binding(1, "read_write", "result", &kind(s.quads));
    bindings += &template::binding(2, "read", "a", &operand(s.a));
    bindings += &template::binding(3, "read", "b", &operand(s.b));
    if !bias {
        return (bindings, "fn bias_of(column: u32) -> T { return T(0); }\n");
    }
    bindings += &template::binding(4, "read", "bias", &kind(false));
    (
        bindings,
        "fn bias_of(column: u32) -> T { return bias[params.first_bias + column * params.bias_column]; }\n",
    )
}

/// The function that stores four adjacent results.
fn write(s: &Shape) -> &'static str {
    if s.quads {
        "fn write(part: u32, row: u32, column: u32, v: vec4<T>) {
    if row < params.m && column < params.n {
        result[(params.first_result + (part * params.m + row) * params.n + column) >> 2u] = v;
    }
}
"
    } else {
        template::content(FRAME, "write")
    }
}

/// A kernel embedded in the template of products, with the slots of both filled.
fn rendered(kernel: &str, dtype: DType, own: &[(&str, &str)], slots: &[(&str, &str)]) -> Result<String> {
    let kernel = template::fill(kernel, own);
    let mut slots = slots.to_vec();
    slots.push(("kernels", &kernel));
    template::shader(FRAME, dtype, &slots).map_err(Error::NotImplemented)
}

fn bias_rows(bias: View, m: usize) -> Layout {
    let n = bias.layout.shape[0];
    bias.layout.expand(&[m, n]).unwrap_or_default()
}
