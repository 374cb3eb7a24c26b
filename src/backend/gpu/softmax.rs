//! Softmax, log-softmax, and negative log likelihood.

use smallvec::SmallVec;

use super::device::of;
use super::params::Params;
use super::pipeline::{LOOPS, Launch};
use super::pointwise::formula;
use super::reduce::fold;
use super::window::by_rows;
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::reduce::ReduceOp;
use crate::backend::softmax::{Kind, ReduceDims, Targets};
use crate::error::{Error, Result};
use crate::formula::template::{self, binding, stored};
use crate::formula::{Num, recorded};
use crate::layout::Layout;

const SOFTMAX: &str = crate::formula::shader_text!("softmax.wgsl");
/// The cooperation of the threads of a lane, for a single thread and for a workgroup.
const ALONE: &str = crate::formula::shader_text!("alone.wgsl");
const TOGETHER: &str = crate::formula::shader_text!("together.wgsl");
const NLL: &str = crate::formula::shader_text!("nll.wgsl");

/// Invocations per workgroup.
pub(super) const GROUP: usize = 64;

/// Minimum length of a contiguous lane that a workgroup processes.
pub(super) const LONG: usize = 2 * GROUP;

/// The number of invocations that process a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// A single invocation.
    Alone,
    /// A workgroup, whose threads read adjacent elements and reduce through workgroup memory.
    Together,
}

impl Walk {
    /// A software adapter gains nothing from workgroup memory. Lanes too long for three loops are not processed in one
    /// launch: see Note [Long loops].
    fn usual(out: View, d: ReduceDims) -> Result<Option<Walk>> {
        let together = !of(out)?.caps.is_cpu && d.inner == 1 && d.n >= LONG;
        let (walk, threads) = if together { (Walk::Together, GROUP) } else { (Walk::Alone, 1) };
        Ok((3 * d.n.div_ceil(threads) <= LOOPS).then_some(walk))
    }

    /// The code for an invocation's lane and its first element, and for the cooperation of threads.
    pub(super) fn slots(self) -> (&'static str, &'static str) {
        match self {
            Walk::Alone => (
                "    let lane = id.x + id.y * groups.x * 64u;
    if lane >= params.count { return; }
    let begin = 0u;
",
                template::content(ALONE, "together"),
            ),
            // Surplus workgroups repeat the last lane, since no thread may return before a barrier.
            Walk::Together => (
                "    let given = group.x + group.y * groups.x;
    let lane = select(params.count - 1u, given, given < params.count);
    thread = local;
    let begin = local;
",
                template::content(TOGETHER, "together"),
            ),
        }
    }
}

pub fn softmax(kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
    match Walk::usual(out, d)? {
        Some(walk) => softmax_by(walk, kind, x, d, out),
        None => softmax_in_passes(kind, x, d, out),
    }
}

/// As [`softmax`], by reductions and pointwise formulas on their results.
fn softmax_in_passes(kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
    let [top, total] = [Lanes::new(out, d)?, Lanes::new(out, d)?];
    let whole = [x, out].map(|v| whole(v, d));
    let [x_all, out_all] = [View { layout: &whole[0], ..x }, View { layout: &whole[1], ..out }];
    fold(ReduceOp::Max, x, d, top.values.view())?;
    let term = recorded!(|a| (a[0] - a[1]).exp());
    formula("softmax", term, &[x_all, top.spread()], out_all)?;
    fold(ReduceOp::Sum, out, d, total.values.view())?;
    if kind == Kind::Softmax {
        let share = recorded!(|a| a[0] / a[1]);
        return formula("softmax", share, &[out_all, total.spread()], out_all);
    }
    let logarithm = recorded!(|a| a[0] - a[1] - a[2].log());
    formula("softmax", logarithm, &[x_all, top.spread(), total.spread()], out_all)
}

/// One value per lane.
struct Lanes {
    values: Workspace,
    layout: Layout,
}

impl Lanes {
    fn new(out: View, d: ReduceDims) -> Result<Lanes> {
        let values = Workspace::new(of(out)?, d.outer * d.inner, out.dtype)?;
        let layout = Layout { strides: [d.inner as isize, 0, 1].into(), ..whole(values.view(), d) };
        Ok(Lanes { values, layout })
    }

    /// The values, broadcast along their lanes.
    fn spread(&self) -> View<'_> {
        View { layout: &self.layout, ..self.values.view() }
    }
}

/// A dense tensor viewed as `[outer, n, inner]`.
fn whole(v: View, d: ReduceDims) -> Layout {
    Layout { offset: v.layout.offset, ..Layout::contiguous([d.outer, d.n, d.inner].into()) }
}

/// As [`softmax`], with explicit choice of who processes a lane.
pub fn softmax_by(walk: Walk, kind: Kind, x: View, d: ReduceDims, out: View) -> Result<()> {
    let body = match kind {
        Kind::Softmax => "    softmax(start, begin);\n",
        Kind::LogSoftmax => "    log_softmax(start, begin);\n",
    };
    run("softmax", walk, kind as u8, body, d, None, x, out)
}

/// The gradient of the input, from the result `y` and its gradient `g`.
pub fn softmax_backward(kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
    match Walk::usual(out, d)? {
        Some(walk) => softmax_backward_by(walk, kind, g, y, d, out),
        None => softmax_backward_in_passes(kind, g, y, d, out),
    }
}

/// As [`softmax_backward`], by reductions and pointwise formulas on their results.
fn softmax_backward_in_passes(kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
    let total = Lanes::new(out, d)?;
    let whole = [g, y, out].map(|v| whole(v, d));
    let [g_all, y_all, out_all] = [(g, 0), (y, 1), (out, 2)].map(|(v, i)| View { layout: &whole[i], ..v });
    if kind == Kind::Softmax {
        let product = recorded!(|a| a[0] * a[1]);
        formula("softmax_backward", product, &[g_all, y_all], out_all)?;
        fold(ReduceOp::Sum, out, d, total.values.view())?;
        let rest = recorded!(|a| (a[0] - a[2]) * a[1]);
        return formula("softmax_backward", rest, &[g_all, y_all, total.spread()], out_all);
    }
    fold(ReduceOp::Sum, g, d, total.values.view())?;
    let rest = recorded!(|a| a[0] - a[1].exp() * a[2]);
    formula("softmax_backward", rest, &[g_all, y_all, total.spread()], out_all)
}

/// As [`softmax_backward`], with explicit choice of who processes a lane.
pub fn softmax_backward_by(walk: Walk, kind: Kind, g: View, y: View, d: ReduceDims, out: View) -> Result<()> {
    let body = match kind {
        Kind::Softmax => "    softmax_backward(start, begin);\n",
        Kind::LogSoftmax => "    log_softmax_backward(start, begin);\n",
    };
    run("softmax_backward", walk, kind as u8, body, d, Some(g), y, out)
}

fn run(
    kernel: &'static str,
    walk: Walk,
    kind: u8,
    body: &str,
    d: ReduceDims,
    g: Option<View>,
    x: View,
    out: View,
) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    gpu.expect(kernel, out.dtype)?;
    let views: SmallVec<[View; 3]> = [out, x].into_iter().chain(g).collect();
    by_rows(gpu, kernel, d.outer, &views, &mut |outer, views| {
        let (d, out, x, g) = (ReduceDims { outer, ..d }, views[0], views[1], views.get(2).copied());
        let lanes = d.outer * d.inner;
        let mut params = Params::new(lanes as u32);
        params.u32(d.n as u32).u32(d.inner as u32).u32(x.layout.offset as u32);
        params.u32(out.layout.offset as u32).u32(g.map_or(0, |g| g.layout.offset) as u32);
        let source = || {
            let kind = stored(out.dtype);
            let mut bindings = binding(1, "read_write", "result", kind) + &binding(2, "read", "x", kind);
            if g.is_some() {
                bindings += &binding(3, "read", "g", kind);
            }
            let (place, together) = walk.slots();
            let slots = [("bindings", &*bindings), ("together", together), ("place", place), ("body", body)];
            template::shader(SOFTMAX, out.dtype, &slots).map_err(|why| no_type(kernel, &why))
        };
        let read = [x, g.unwrap_or(x)];
        let launch = Launch {
            op: kernel,
            kernel,
            variant: &[kind, walk as u8, out.dtype as u8],
            source: &source,
            written: &[out],
            read: &read[..1 + g.is_some() as usize],
            params: &params,
            groups: if walk == Walk::Together { lanes } else { lanes.div_ceil(GROUP) },
        };
        gpu.launch(launch)
    })
}

pub(super) fn no_type(op: &str, why: &str) -> Error {
    Error::NotImplemented(format!("'{op}' is not implemented on the GPU: {why}"))
}

/// The parameters common to all kernels of the likelihood.
fn nll_params(count: usize, d: ReduceDims, t: &Targets, x: View, out: View, g: Option<View>) -> Params {
    let ignored = t.ignore_index as u64;
    let mut p = Params::new(count as u32);
    p.u32(d.n as u32).u32(d.inner as u32).u32(ignored as u32).u32((ignored >> 32) as u32);
    p.u32(x.layout.offset as u32).u32(t.class.layout.offset as u32);
    p.u32(t.weight.map_or(0, |w| w.layout.offset) as u32).u32(out.layout.offset as u32);
    p.u32(g.map_or(0, |g| g.layout.offset) as u32);
    p.u32(g.is_some_and(|g| g.layout.numel() > 1) as u32);
    p
}

/// The losses (0 where ignored) and the weight of each position.
pub fn nll(logp: View, d: ReduceDims, t: Targets, losses: View, weights: View) -> Result<()> {
    let gpu = of(losses)?;
    by_rows(gpu, "nll_loss", d.outer, &[losses, weights, logp, t.class], &mut |_, v| {
        let t = Targets { class: v[3], ..t };
        let count = v[0].layout.numel();
        let mut params = nll_params(count, d, &t, v[2], v[0], None);
        params.u32(v[1].layout.offset as u32);
        run_nll("nll", 0, "    loss(at);\n", &t, v[2], None, v[0], Some(v[1]), count, &params)
    })
}

/// The gradient of the log-probabilities or logits.
pub fn nll_backward(g: View, logp: View, d: ReduceDims, t: Targets, logits: bool, out: View) -> Result<()> {
    let body = format!("    slope(at, {logits});\n");
    // A single gradient may be used for all positions.
    let own = (g.layout.numel() > 1).then_some(g);
    let views: SmallVec<[View; 4]> = [out, logp, t.class].into_iter().chain(own).collect();
    by_rows(of(out)?, "nll_loss", d.outer, &views, &mut |_, v| {
        let (g, t) = (v.get(3).copied().unwrap_or(g), Targets { class: v[2], ..t });
        let count = v[0].layout.numel();
        let mut params = nll_params(count, d, &t, v[1], v[0], Some(g));
        params.u32(0);
        run_nll("nll_backward", logits as u8, &body, &t, v[1], Some(g), v[0], None, count, &params)
    })
}

fn run_nll(
    kernel: &'static str,
    kind: u8,
    body: &str,
    t: &Targets,
    x: View,
    g: Option<View>,
    out: View,
    weights: Option<View>,
    count: usize,
    params: &Params,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let gpu = of(out)?;
    gpu.expect(kernel, out.dtype)?;
    let faults = gpu.faults()?;
    let source = || {
        let kind = stored(out.dtype);
        let mut n = 1;
        let mut bindings = String::new();
        let mut bind = |access: &str, name: &str, element: &str| {
            bindings += &binding(n, access, name, element);
            n += 1;
        };
        bind("read_write", "result", kind);
        bind("read_write", "faults", "atomic<u32>");
        if weights.is_some() {
            bind("read_write", "weights", kind);
        }
        bind("read", "chosen", "vec2<u32>");
        bind("read", "x", kind);
        if g.is_some() {
            bind("read", "g", kind);
        }
        let weight = if t.weight.is_some() {
            bind("read", "class_weight", kind);
            "class_weight[params.first_weight + c]"
        } else {
            "T(1)"
        };
        let weight = format!("fn weight_of(c: u32) -> T {{ return {weight}; }}\n");
        let slots = [("bindings", &*bindings), ("weight", &*weight), ("body", body)];
        template::shader(NLL, out.dtype, &slots).map_err(|why| no_type(kernel, &why))
    };
    let mut written = vec![out, faults.view()];
    written.extend(weights);
    let mut read = vec![t.class, x];
    read.extend(g);
    read.extend(t.weight);
    gpu.launch(Launch {
        op: kernel,
        kernel,
        variant: &[kind, out.dtype as u8, t.weight.is_some() as u8],
        source: &source,
        written: &written,
        read: &read,
        params,
        groups: count.div_ceil(GROUP),
    })
}
