//! Matrix factorizations; see Note [Who factors a matrix] in `shaders/factor.wgsl`.

use super::device::{Gpu, of};
use super::params::Params;
use super::pipeline::{LOOPS, Launch};
use super::softmax::{GROUP, Walk, no_type};
use super::window::by_rows;
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::factor::Factor;
use crate::bail;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};

const FRAME: &str = crate::formula::shader_text!("factor.wgsl");
const ELIMINATION: &str = crate::formula::shader_text!("elimination.wgsl");
const ORTHOGONAL: &str = crate::formula::shader_text!("orthogonal.wgsl");

/// Number of rows or columns from which on a workgroup factors a matrix on a GPU.
const GROUPED: usize = 9;
/// The same for software adapters, which only profit from shorter loops.
const GROUPED_ON_SOFTWARE: usize = 8192;
/// A workgroup is a square of SIDE by SIDE threads.
const SIDE: usize = 16;
/// Columns per worker.
const COLUMNS: usize = 256;
/// Limit on the number of sweeps; about ten suffice.
const SWEEPS: usize = 60;

/// The cooperation of the threads of a workgroup.
const TOGETHER: &str = "const SIDE: u32 = 16u;
const GROUP: u32 = 256u;
var<workgroup> parts: array<T, 256>;
fn sync() { storageBarrier(); }
fn sum(v: T, from_thread: u32, stride: u32) -> T {
    parts[thread] = v;
    workgroupBarrier();
    var all = T(0);
    for (var i = 0u; i < SIDE; i++) { all += parts[from_thread + i * stride]; }
    workgroupBarrier();
    return all;
}
fn largest_of(v: T, from_thread: u32, stride: u32) -> T {
    parts[thread] = v;
    workgroupBarrier();
    var all = v;
    for (var i = 0u; i < SIDE; i++) { all = m_maximum(all, parts[from_thread + i * stride]); }
    workgroupBarrier();
    return all;
}
";
const ALONE: &str = "const SIDE: u32 = 1u;
const GROUP: u32 = 64u;
fn sync() {}
fn sum(v: T, from_thread: u32, stride: u32) -> T { return v; }
fn largest_of(v: T, from_thread: u32, stride: u32) -> T { return v; }
";

/// Whether a thread or a workgroup factors a matrix, and whether in a single launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct How {
    pub walk: Walk,
    pub whole: bool,
}

impl How {
    fn usual(gpu: &Gpu, what: Factor, n: usize) -> How {
        let (longest, loops) = match what {
            Factor::Qr { m, q, .. } => (m.max(n), m * n * (n + 2 * q)),
            Factor::Solve { k, .. } | Factor::Triangular { k, .. } => (n, n * n * (n + 2 * k)),
            _ => (n, n * n * n),
        };
        let grouped = longest >= if gpu.caps.is_cpu { GROUPED_ON_SOFTWARE } else { GROUPED };
        let walk = if grouped { Walk::Together } else { Walk::Alone };
        How { walk, whole: loops / threads(walk) <= LOOPS }
    }
}

/// Launches the rotations of `n` rows or columns, each with loops of `loops` iterations: passes the number of
/// rotations per launch and the first pair. Launches after convergence do nothing.
pub(super) fn rotations(
    n: usize,
    loops: usize,
    launch: &mut dyn FnMut([usize; 3]) -> Result<()>,
) -> Result<()> {
    let sweep = n * n.saturating_sub(1) / 2;
    let turns = (2 * LOOPS / (loops + 2)).max(1);
    for begin in (0..SWEEPS * sweep).step_by(turns) {
        let (mut p, mut after) = (0, begin % sweep);
        while after >= n - 1 - p {
            after -= n - 1 - p;
            p += 1;
        }
        launch([turns.min(SWEEPS * sweep - begin), p, p + 1 + after])?;
    }
    Ok(())
}

/// Threads per matrix.
fn threads(walk: Walk) -> usize {
    if walk == Walk::Together { SIDE * SIDE } else { 1 }
}

/// See [`crate::backend::factor::factor`]; computes in the dtype of `a`, which is overwritten.
pub fn factor(op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
    factor_by(How::usual(of(out)?, what, n), op, what, n, a, out)
}

/// As [`factor`], with explicit choice of the method.
pub fn factor_by(how: How, op: &'static str, what: Factor, n: usize, a: View, out: View) -> Result<()> {
    let gpu = of(out)?;
    gpu.expect(op, out.dtype)?;
    let each = what.each(n);
    let count = out.layout.numel() / each.max(1);
    if count == 0 {
        return Ok(());
    }
    let (kernels, size, keeps) = match what {
        Factor::Qr { m, .. } => (ORTHOGONAL, m * n, m.min(n).max(1)),
        Factor::Eigh => (ORTHOGONAL, n * n, n * n + 2),
        _ => (ELIMINATION, n * n, 3),
    };
    let sizes = match what {
        Factor::Solve { k, lenient } => Sizes { n, k, upper: true, lenient, ..Sizes::default() },
        Factor::Triangular { k, upper, unit } => Sizes { n, k, upper, unit, ..Sizes::default() },
        Factor::Qr { m, q, r } => Sizes { n, m, left: q, right: r, ..Sizes::default() },
        _ => Sizes { n, ..Sizes::default() },
    };
    let run = |count: usize, a: View, out: View| {
        let kept = Workspace::new(gpu, count * keeps, out.dtype)?;
        Work { op, kernels, walk: how.walk, count, size, each, keeps, sizes, a, out, kept }
            .factor(what, n, how.whole)
    };
    if a.layout.numel() == 0 {
        // Empty buffers cannot be bound.
        return run(count, Workspace::new(gpu, 1, a.dtype)?.view(), out);
    }
    by_rows(gpu, op, count, &[out, a], &mut |count, v| run(count, v[1], v[0]))
}

/// The parameters of the same names in `shaders/factor.wgsl`.
#[derive(Clone, Copy, Default)]
pub(super) struct Sizes {
    pub n: usize,
    pub m: usize,
    pub k: usize,
    pub upper: bool,
    pub unit: bool,
    pub lenient: bool,
    pub left: usize,
    pub right: usize,
}

/// A batch of matrices and the state of its launches.
pub(super) struct Work<'a> {
    pub op: &'static str,
    /// The WGSL source of the kernels.
    pub kernels: &'static str,
    pub walk: Walk,
    pub count: usize,
    /// Elements per matrix, per result, and per matrix of state kept between launches.
    pub size: usize,
    pub each: usize,
    pub keeps: usize,
    pub sizes: Sizes,
    pub a: View<'a>,
    pub out: View<'a>,
    pub kept: Workspace,
}

impl Work<'_> {
    fn factor(&self, what: Factor, n: usize, in_one: bool) -> Result<()> {
        // Columns are divided among workers.
        let across = |columns: usize| columns.div_ceil(COLUMNS);
        let (whole, end) = match what {
            Factor::Solve { k, .. } => ("solve", ("solve_end", n, k)),
            Factor::Triangular { k, .. } => ("triangular", ("triangular_end", n, k)),
            Factor::Determinant => ("determinant", ("determinant_end", 1, 1)),
            Factor::Lu { .. } => {
                bail!(Error::DeviceNotImplemented {
                    op: None,
                    device: self.out.device(),
                    what: String::new()
                })
            }
            Factor::Cholesky => ("cholesky", ("cholesky_end", n, n)),
            // The rows within a column are not divided.
            Factor::Qr { q, .. } => ("qr", ("write_r", n.max(q), 1)),
            Factor::Eigh => return self.rotate(n),
        };
        if in_one {
            return self.launch(whole, 0, (1, 1), [0; 3]);
        }
        let step = |kernel, i, shared| self.launch(kernel, i, shared, [0; 3]);
        let reflections = if let Factor::Qr { m, .. } = what { m.min(n) } else { 0 };
        for i in 0..reflections {
            step("make_reflection", i, (1, 1))?;
            step("reflect_rest", i, (n - 1 - i, 1))?;
        }
        if what == Factor::Cholesky {
            (0..n).try_for_each(|i| step("shrink", i, (n - 1 - i, across(n))))?;
        }
        if let Factor::Solve { .. } | Factor::Determinant = what {
            let columns = across(n + if let Factor::Solve { k, .. } = what { k } else { 0 });
            for i in 0..n {
                step("find_pivot", i, (1, 1))?;
                step("swap_rows", i, (1, columns))?;
                step("clear_below", i, (n - 1 - i, columns))?;
            }
        }
        if let Factor::Solve { k, .. } | Factor::Triangular { k, .. } = what {
            (0..n).try_for_each(|i| step("subtract_known", i, (n - 1 - i, across(k))))?;
        }
        step(end.0, 0, (end.1, across(end.2)))?;
        if let Factor::Qr { q, .. } = what {
            (0..reflections).rev().try_for_each(|i| step("reflect_q", i, (q.saturating_sub(i), 1)))?;
        }
        Ok(())
    }

    /// Launches sweeps until convergence.
    fn rotate(&self, n: usize) -> Result<()> {
        let all = (n, n.div_ceil(COLUMNS));
        self.launch("start_eigh", 0, all, [0; 3])?;
        let loops = n.div_ceil(threads(self.walk));
        rotations(n, loops, &mut |turns| self.launch("sweep", 0, (1, 1), turns))?;
        self.launch("end_eigh", 0, all, [0; 3])
    }

    /// Launches the kernel of a step, whose rows and columns are divided among workers.
    pub(super) fn launch(
        &self,
        kernel: &'static str,
        step: usize,
        (down, across): (usize, usize),
        turns: [usize; 3],
    ) -> Result<()> {
        let (gpu, dtype, together) = (of(self.out)?, self.out.dtype, self.walk == Walk::Together);
        let side = if together { SIDE } else { 1 };
        let (down, across) = (down.div_ceil(side).max(1), across.max(1));
        let places = [self.a.layout.offset, self.out.layout.offset, self.size, self.each, self.keeps];
        let Sizes { n, m, k, upper, unit, lenient, left, right } = self.sizes;
        let sizes = [n, m, k, upper as usize, unit as usize, lenient as usize, left, right];
        let mut params = Params::new(self.count as u32);
        for v in places.iter().chain(&[down, across, step]).chain(&sizes).chain(&turns) {
            params.u32(*v as u32);
        }
        params.f32(if dtype == DType::F64 { f64::EPSILON as f32 } else { f32::EPSILON });
        let source = || {
            let bind = |(i, name): (usize, &&str)| binding(i + 1, "read_write", name, stored(dtype));
            let bindings: String = ["result", "w", "kept"].iter().enumerate().map(bind).collect();
            let body = format!("    {kernel}();\n");
            let slots = [
                ("bindings", &*bindings),
                ("together", if together { TOGETHER } else { ALONE }),
                ("kernels", self.kernels),
                ("body", &*body),
            ];
            template::shader(FRAME, dtype, &slots).map_err(|why| no_type(self.op, &why))
        };
        let items = self.count * down * across;
        gpu.launch(Launch {
            op: self.op,
            kernel,
            variant: &[dtype as u8, together as u8],
            source: &source,
            written: &[self.out, self.a, self.kept.view()],
            read: &[],
            params: &params,
            groups: if together { items } else { items.div_ceil(GROUP) },
        })
    }
}
