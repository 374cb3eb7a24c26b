//! Scans: in one pass, or in three if lanes are long and too few to occupy the device.

use smallvec::SmallVec;

use super::copy;
use super::device::{Gpu, of};
use super::packed_kernel::{GROUP, loader, render};
use super::params::Params;
use super::pipeline::Launch;
use super::window::by_rows;
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::scan::{ReduceDims, Running};
use crate::dtype::DType;
use crate::error::Result;
use crate::formula::template::{binding, stored};

const SCAN: &str = crate::formula::shader_text!("scan.wgsl");

/// Minimum length of a lane that is split, and the number of lanes from which on none is split.
const LONG: usize = 512;
const MANY: usize = 1 << 13;

/// The kind of a scan.
#[derive(Clone, Copy)]
enum Kind {
    Of(Running),
    Extremum { largest: bool },
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Of(what) => what as u8,
            Kind::Extremum { largest } => 8 + largest as u8,
        }
    }

    /// The WGSL functions for the initial state and the update.
    fn functions(self, compute: DType) -> String {
        let (start, joined) = match self {
            Kind::Of(Running::Sum) => ("T(0)", "a.value + b.value"),
            Kind::Of(Running::Product) => ("T(1)", "a.value * b.value"),
            Kind::Of(Running::LogSumExp) => ("-m_inf()", "log_sum_exp(a.value, b.value)"),
            Kind::Extremum { largest } => return extremum_functions(largest, compute),
        };
        format!(
            "fn start() -> State {{ return State({start}, 0u); }}
fn join(a: State, b: State) -> State {{ return State({joined}, b.place); }}
"
        )
    }
}

/// Of equal extrema the later one is kept; NaN always wins.
fn extremum_functions(largest: bool, compute: DType) -> String {
    let least = match compute {
        DType::I32 => "T(-2147483648)",
        DType::I64 => "(T(-9223372036854775807) - T(1))",
        _ => "-m_inf()",
    };
    let start = match (largest, compute.is_float()) {
        (true, _) => least.into(),
        (false, true) => "m_inf()".into(),
        (false, false) => format!("(T(-1) - {least})"),
    };
    let later = if largest { "b.value >= a.value" } else { "b.value <= a.value" };
    let later = if compute.is_float() { format!("is_nan(b.value) || {later}") } else { later.into() };
    format!(
        "fn start() -> State {{ return State({start}, 0u); }}
fn join(a: State, b: State) -> State {{
    if {later} {{ return b; }}
    return a;
}}
"
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Reduces each segment.
    Totals,
    /// Scans the segment totals, exclusively.
    Carry,
    /// Scans each segment, starting from the total of the preceding ones.
    Cut,
    /// Scans lanes that are not split.
    Whole,
}

struct Job<'a> {
    op: &'static str,
    kind: Kind,
    compute: DType,
    x: View<'a>,
    d: ReduceDims,
    reverse: bool,
    out: View<'a>,
    indices: Option<View<'a>>,
}

impl Job<'_> {
    fn run(&self) -> Result<()> {
        let d = self.d;
        if d.outer * d.n * d.inner == 0 {
            return Ok(());
        }
        let views: SmallVec<[View; 3]> = [self.x, self.out].into_iter().chain(self.indices).collect();
        by_rows(of(self.out)?, self.op, d.outer, &views, &mut |outer, v| {
            let (d, indices) = (ReduceDims { outer, ..d }, v.get(2).copied());
            Job { d, x: v[0], out: v[1], indices, ..*self }.whole()
        })
    }

    fn whole(&self) -> Result<()> {
        let ReduceDims { outer, n, inner } = self.d;
        let lanes = outer * inner;
        let gpu = of(self.out)?;
        for dtype in [self.compute, self.x.dtype, self.out.dtype] {
            gpu.expect(self.op, dtype)?;
        }
        let length = if n < LONG || lanes >= MANY { n } else { n.isqrt() };
        let segments = n.div_ceil(length);
        if segments == 1 {
            return self.pass(gpu, Pass::Whole, length, None);
        }
        let totals = Workspace::new(gpu, lanes * segments, self.compute)?;
        let places = Workspace::new(gpu, lanes * segments, DType::I32)?;
        for pass in [Pass::Totals, Pass::Carry, Pass::Cut] {
            self.pass(gpu, pass, length, Some([totals.view(), places.view()]))?;
        }
        Ok(())
    }

    fn pass(&self, gpu: &'static Gpu, pass: Pass, length: usize, held: Option<[View; 2]>) -> Result<()> {
        let ReduceDims { outer, n, inner } = self.d;
        let segments = n.div_ceil(length);
        let count = outer * inner * if pass == Pass::Carry { 1 } else { segments };
        let mut params = Params::new(count as u32);
        for v in
            [n, inner, segments, length, self.reverse as usize, self.x.layout.offset, self.out.layout.offset]
        {
            params.u32(v as u32);
        }
        params.u32(self.indices.map_or(0, |i| i.layout.offset) as u32);
        let writes = matches!(pass, Pass::Cut | Pass::Whole);
        // In the order of bindings, with element types.
        let mut written: Vec<(&str, &str, View)> = Vec::new();
        if let Some([totals, places]) = held {
            written.push(("totals", stored(self.compute), totals));
            written.push(("places", "u32", places));
        }
        if writes {
            written.push(("result", stored(self.out.dtype), self.out));
            written.extend(self.indices.map(|i| ("indices", "vec2<u32>", i)));
        }
        let source = || {
            let mut bindings: String = written
                .iter()
                .enumerate()
                .map(|(k, (name, kind, _))| binding(k + 1, "read_write", name, kind))
                .collect();
            bindings += &binding(written.len() + 1, "read", "x", stored(self.x.dtype));
            let body = match pass {
                Pass::Totals => "    total(at, lane, segment);\n",
                Pass::Carry => "    carry(at, row);\n",
                Pass::Cut => "    results(lane, segment, State(totals[at], places[at]));\n",
                Pass::Whole => "    results(lane, segment, start());\n",
            };
            let index = match self.indices {
                Some(_) => "\n    indices[params.first_places + i] = vec2<u32>(state.place, 0u);",
                None => "",
            };
            let store = format!(
                "fn store(i: u32, state: State) {{\n    result[params.first_result + i] = {}(state.value);{index}\n}}\n",
                stored(self.out.dtype)
            );
            let (joined, load) = (self.kind.functions(self.compute), loader("x", self.x.dtype));
            let slots = [
                ("bindings", &*bindings),
                ("join", &*joined),
                ("load", &*load),
                ("store", if writes { &*store } else { "" }),
                ("pass", body),
            ];
            render(self.op, SCAN, self.compute, &slots)
        };
        gpu.launch(Launch {
            op: self.op,
            kernel: "scan",
            variant: &[
                self.kind.number(),
                pass as u8,
                self.compute as u8,
                self.x.dtype as u8,
                self.out.dtype as u8,
            ],
            source: &source,
            written: &written.iter().map(|w| w.2).collect::<Vec<_>>(),
            read: &[self.x],
            params: &params,
            groups: count.div_ceil(GROUP),
        })
    }
}

pub fn scan(what: Running, x: View, d: ReduceDims, reverse: bool, out: View) -> Result<()> {
    let (kind, compute) = (Kind::Of(what), out.dtype);
    Job { op: "cumsum", kind, compute, x, d, reverse, out, indices: None }.run()
}

pub fn extremum(x: View, d: ReduceDims, largest: bool, values: View, indices: View) -> Result<()> {
    let (op, kind) = ("cummax", Kind::Extremum { largest });
    let job = |compute, out| Job { op, kind, compute, x, d, reverse: false, out, indices: Some(indices) };
    if values.dtype != DType::Bool {
        return job(values.dtype, values).run();
    }
    // Several invocations would write to one word of bools.
    let wide = Workspace::new(of(values)?, values.layout.numel(), DType::I32)?;
    let wide =
        View { layout: &crate::layout::Layout::contiguous(values.layout.shape.clone()), ..wide.view() };
    job(DType::I32, wide).run()?;
    copy::copy(wide, values)
}
