//! Products of matrices.
//!
//! Note [Kernels of a product]
//! One frame (`shaders/matmul.wgsl`) has two kernels, each rendered for a tile and for how the operands lie. The direct one computes a tile an
//! invocation from where the operands are: it is the fastest on software adapters, which gain nothing from workgroup
//! memory, and for products that are thin. The tiled one carries both operands through workgroup memory. Either loads
//! four neighbours at once where an operand has them, along the depth or along its side. On software loads take most of the
//! time, as they go lane by lane, and as much for 64 bits as for 32: there the direct one also comes with loads of eight
//! neighbours in four words of 64 bits, and in larger tiles, which load less.
//! A product of few results and great depth is split: segments of the depth are summed by a reduction.
//! For large products the tuner times the candidates once per adapter and class of shapes; others go by size.

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

/// Multiplications from which on the candidates are timed.
const WORTH_TUNING: usize = 1 << 26;
/// Invocations that keep a GPU busy, and a software adapter.
const BUSY: usize = 1 << 14;
const BUSY_CPU: usize = 1 << 8;
/// The depth that a segment has at least.
const SEGMENT: usize = 256;

/// A kernel for a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// Rows, and fours of columns, of an invocation's tile.
    Direct(u8, u8),
    /// The same, loading eight neighbours at once; the columns are whole eights. For elements of 32 bits.
    Paired(u8, u8),
    /// Rows and columns of a workgroup's tile, 64 or 128.
    Tiled(u8),
}

/// Direct kernels from the one that reads least to the one that has the most invocations.
pub const DIRECT: [Kernel; 6] = [
    Kernel::Direct(8, 4),
    Kernel::Direct(4, 4),
    Kernel::Direct(4, 2),
    Kernel::Direct(4, 1),
    Kernel::Direct(2, 1),
    Kernel::Direct(1, 1),
];

/// Direct kernels that load eight neighbours, in the same order.
pub const PAIRED: [Kernel; 2] = [Kernel::Paired(16, 8), Kernel::Paired(8, 4)];

impl Kernel {
    /// Neighbours that a load takes where an operand has them.
    fn by(self) -> usize {
        if let Kernel::Paired(..) = self { 8 } else { 4 }
    }
}

/// How elements of an operand are loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    Single,
    /// Some along the dimension that is summed over.
    Depth,
    /// Some along the other one.
    Side,
}

/// The sizes of a product, and how it is read and written.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    /// Neighbours that a load takes.
    by: usize,
    a: Load,
    b: Load,
    /// The result is written four elements at a time.
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

/// What is halved of a product that is too large for a kernel.
enum Side {
    Rows,
    Columns,
    Depth,
}

/// A product (`out`, `a`, `b`, and perhaps the bias) of more than a kernel may see at once: by halves of the dimension
/// along which that reaches farthest.
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
    // Some matrices of a batch are dense, where some rows of each of them are not.
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

/// A product of tensors that a kernel may see.
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

/// A product that is not empty, by a kernel of choice.
pub fn run(kernel: Kernel, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    launch(of(out)?, kernel, 1, a, b, bias, out, &Shape::of(a, b, out, kernel.by()))
}

impl Shape {
    /// With loads of `by` neighbours.
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

    /// Whether neither operand is loaded one by one.
    fn is_loaded_beside(&self) -> bool {
        self.a != Load::Single && self.b != Load::Single
    }
}

/// How an operand is loaded whose dimensions `depth` and `side` are a matrix, `by` neighbours at once where it has them.
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

/// Whether loads of eight neighbours are possible and worth it; `eights` is the shape with them.
fn pairs(gpu: &Gpu, eights: &Shape) -> bool {
    gpu.caps.is_cpu && gpu.caps.int64 && eights.dtype.size() == 4 && eights.is_loaded_beside()
}

/// The kernels that may be the fastest for a large product, the likeliest first.
fn candidates(gpu: &Gpu, s: &Shape, pairs: bool) -> SmallVec<[Kernel; 4]> {
    let direct = [Kernel::Direct(8, 4), Kernel::Direct(4, 4), Kernel::Direct(4, 2)];
    match (gpu.caps.is_cpu, s.dtype.size()) {
        // The largest tile would have to be split where it leaves few invocations.
        (true, _) if pairs => {
            PAIRED.into_iter().filter(|&k| invocations(s, k) >= busy(gpu) || k == PAIRED[1]).collect()
        }
        (true, _) => SmallVec::from_slice(&direct),
        (false, 4) => smallvec![Kernel::Tiled(64), Kernel::Tiled(128), direct[1], direct[0]],
        // Tiles of wide elements are more than the workgroup memory that every adapter has.
        (false, _) => SmallVec::from_slice(&direct),
    }
}

/// The kernel by size alone.
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
    // The largest tile takes seconds to compile: it is for what is timed.
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
    // Shapes of one class differ by less than a factor of two.
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
    // Tiles, and how many of them side by side form a strip that is gone through row by row.
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
    // Steps along the depth must not pass the end of it.
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

/// The declarations that both kernels read through: the bindings, and the bias of a column.
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

/// The function that writes four results beside one another.
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

/// A kernel in the frame of products, both with their slots filled.
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
