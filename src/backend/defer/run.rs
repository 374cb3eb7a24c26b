//! Runs the entries of a queue, group by group.

use std::cell::Cell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::plan::{Plan, Planned};
use super::queue::{Entry, Held, In, Work};
use super::rewrite::rewrite;
use super::walks::part_of_rows;
use super::{cache, with_room};
use crate::backend::group::{Call, Group, GroupOperand, Level, Producer, Value, Work as Computed};
use crate::backend::interface::{Backend, of_now};
use crate::backend::pointwise::{Operand, Program, compute_type};
use crate::backend::{View, checked};
use crate::dtype::DType;
use crate::error::Result;
use crate::storage::Storage;

thread_local!(static RUNNING: Cell<usize> = const { Cell::new(0) });

/// Whether this thread runs deferred operations.
pub fn is_running() -> bool {
    RUNNING.get() > 0
}

struct Running;

impl Running {
    fn start() -> Running {
        RUNNING.set(RUNNING.get() + 1);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
    }
}

/// The memory that entries work on: for storages that they write, an alias or new memory, see Note [Deferred storages].
struct Memory<'e> {
    /// The storages that entries write.
    written: FxHashMap<usize, ()>,
    /// All storages.
    uses: FxHashMap<usize, Counted<'e>>,
    made: FxHashMap<usize, Storage>,
}

/// A storage of the entries, and who has it.
struct Counted<'e> {
    storage: &'e Storage,
    /// In order of first use.
    number: usize,
    /// The handles that they have.
    own: usize,
    /// Whether somebody else had it before they ran.
    was_kept: bool,
}

impl<'e> Memory<'e> {
    /// `besides` are handles that the queue has beside those of the entries.
    fn of(entries: &'e [Entry], besides: &FxHashMap<usize, usize>) -> Memory<'e> {
        let mut uses: FxHashMap<usize, Counted> = with_room(2 * entries.len());
        for (s, _) in entries.iter().flat_map(Entry::uses) {
            let number = uses.len();
            uses.entry(s.id()).or_insert(Counted { storage: s, number, own: 0, was_kept: false }).own += 1;
        }
        for (id, used) in &mut uses {
            used.own += besides.get(id).copied().unwrap_or(0);
            used.was_kept = used.storage.handles() > used.own;
        }
        let written = entries.iter().map(|e| (e.out.storage.id(), ())).collect();
        Memory { written, uses, made: with_room(entries.len()) }
    }

    /// Whether somebody outside of the entries has the storage.
    fn is_kept(&self, s: &Storage) -> bool {
        self.uses.get(&s.id()).is_none_or(|used| s.handles() > used.own)
    }

    /// Makes the memory of a view.
    fn prepare(&mut self, v: &Held) -> Result<()> {
        let id = v.storage.id();
        if self.written.contains_key(&id) && !self.made.contains_key(&id) {
            self.made.insert(id, written(&v.storage)?);
        }
        Ok(())
    }

    fn view<'m>(&'m self, v: &'m Held) -> View<'m> {
        let storage = self.made.get(&v.storage.id()).unwrap_or(&v.storage);
        View { storage, ..v.view() }
    }
}

/// What entries that write a storage work on.
fn written(s: &Storage) -> Result<Storage> {
    if s.is_missing() {
        return of_now(s.device())?.allocate(s.device(), s.len());
    }
    let made = s.alias()?;
    if checked::on() {
        // Unwritten memory is tracked by the write counter: Note [Unwritten memory].
        made.share_counter(s);
    }
    Ok(made)
}

/// As [`run`], for one entry.
fn run_one(e: &Entry) -> Result<()> {
    let s = &e.out.storage;
    // What nobody reads is not computed.
    if s.handles() <= e.uses().filter(|(used, _)| used.same(s)).count() {
        return Ok(());
    }
    let made = written(s)?;
    let done = alone(of_now(s.device())?, e, &|v| match v.storage.same(s) {
        true => View { storage: &made, ..v.view() },
        false => v.view(),
    });
    s.adopt(made.clone());
    done
}

/// By storage, the handles that entries have.
fn handles_of(entries: &[Entry]) -> FxHashMap<usize, usize> {
    let mut handles: FxHashMap<usize, usize> = FxHashMap::default();
    for (s, _) in entries.iter().flat_map(Entry::uses) {
        *handles.entry(s.id()).or_default() += 1;
    }
    handles
}

/// Computes all entries, and gives storages the memory of what was stored.
pub fn run(entries: &[Entry], log: &mut Option<Vec<String>>) -> Result<()> {
    let _running = Running::start();
    if let ([e], None) = (entries, &log) {
        return run_one(e);
    }
    let fusion = |device| of_now(device).map(|b| b.fusion()).unwrap_or_default();
    let rewritten = rewrite(entries, |e| fusion(e.out.storage.device()).parts);
    let besides = match rewritten {
        Some(_) => handles_of(entries),
        None => FxHashMap::default(),
    };
    let entries = rewritten.as_deref().unwrap_or(entries);
    let mut memory = Memory::of(entries, &besides);
    let shared =
        |s: &Storage| memory.uses.get(&s.id()).map_or((0, true), |used| (used.number, used.was_kept));
    let mut plan = cache::plan(entries, shared, fusion);
    let mut done = Ok(());
    // The last group that uses a storage.
    let mut last: FxHashMap<usize, usize> = with_room(2 * entries.len());
    for (g, group) in plan.groups.iter().enumerate() {
        for &at in &group.entries {
            last.extend(entries[at].uses().map(|(s, _)| (s.id(), g)));
        }
    }
    if let (Some(log), Some(&first)) = (log.as_mut(), plan.unread.first()) {
        let first = &entries[first];
        let elements = format!("{} {} elements", first.out.layout.numel(), first.compute.name());
        let what = sized(entries, &plan, &plan.unread, &elements);
        log.push(format!("  not computed, nobody reads it: {what}"));
    }
    let planned = plan.clone();
    for (g, group) in planned.groups.iter().enumerate() {
        done = run_group(entries, &mut plan, group, &mut memory, log);
        if done.is_err() {
            break;
        }
        // Memory that only later entries of the batch could have read is free for the next group.
        for &at in &group.entries {
            for (s, _) in entries[at].uses() {
                if last.get(&s.id()) == Some(&g)
                    && let Some(made) = memory.made.remove(&s.id())
                    && memory.is_kept(s)
                {
                    s.adopt(made);
                }
            }
        }
    }
    for (id, made) in memory.made.drain() {
        if let Some(used) = memory.uses.get(&id) {
            used.storage.adopt(made);
        }
    }
    done
}

/// Computes a group together, or if the backend cannot, in two halves.
fn run_group(
    entries: &[Entry],
    plan: &mut Rc<Plan>,
    group: &Planned,
    memory: &mut Memory,
    log: &mut Option<Vec<String>>,
) -> Result<()> {
    let mut tell = |plan: &Plan, how: &str| {
        if let Some(log) = log {
            log.push(described(how, entries, plan, group));
        }
    };
    if !group.entries.iter().any(|&at| plan.stored[at]) {
        tell(plan, "not computed, nobody reads it");
        return Ok(());
    }
    for &at in &group.entries {
        for (v, passed) in entries[at].ins.iter().zip(&plan.passed[at]) {
            if let (In::View(v), None) = (v, passed) {
                memory.prepare(v)?;
            }
        }
        if plan.stored[at] {
            memory.prepare(&entries[at].out)?;
        }
    }
    let device = entries[group.entries[0]].out.storage.device();
    let backend = of_now(device)?;
    if let [at] = group.entries[..] {
        tell(plan, "alone");
        return alone(backend, &entries[at], &|v| memory.view(v));
    }
    if fuse(backend, entries, plan, group, memory)? {
        tell(plan, "fused");
        return Ok(());
    }
    let (first, second) = group.halves();
    let halved = Rc::make_mut(plan);
    for &at in &second.entries {
        for passed in &mut halved.passed[at] {
            if let Some(writer) = passed.take_if(|w| first.entries.contains(w)) {
                halved.stored[writer] = true;
            }
        }
    }
    run_group(entries, plan, &first, memory, log)?;
    run_group(entries, plan, &second, memory, log)
}

/// Has a backend compute a group together; false if it cannot.
fn fuse(
    backend: &dyn Backend,
    entries: &[Entry],
    plan: &Plan,
    group: &Planned,
    memory: &Memory,
) -> Result<bool> {
    let mut position: FxHashMap<usize, usize> = FxHashMap::default();
    let mut operands: Vec<GroupOperand> = Vec::new();
    let mut calls: Vec<Call> = Vec::new();
    let mut results: Vec<(usize, View)> = Vec::new();
    let producer = group.producer.and_then(|at| producer(&entries[at], memory));
    for (&at, &level) in group.entries.iter().zip(&group.levels) {
        let e = &entries[at];
        let takes_rows = level == Level::Rows && !matches!(e.work, Work::Reduce(..));
        let level_of_operands = match level {
            Level::Parts => level,
            Level::Tile if !matches!(e.work, Work::Reduce(..)) => level,
            _ if takes_rows => Level::Rows,
            _ => Level::Elements,
        };
        let reads = if e.work.is_product() { 0 } else { e.ins.len() };
        let passed = e.ins.iter().zip(&plan.passed[at]).take(reads);
        let mut values: SmallVec<[Option<Value>; 4]> = passed
            .map(|(v, passed)| match (v, passed) {
                (In::Unread, _) => None,
                (In::Number(s), _) => Some(Value::Number(*s)),
                (In::View(v), Some(writer)) if level == Level::Parts => {
                    let call = position[writer];
                    Some(match part_of_rows(&v.layout, &entries[*writer].out.layout) {
                        Some(part) if calls[call].level == Level::Elements => Value::Part(call, part.from),
                        _ => Value::Call(call),
                    })
                }
                (_, Some(writer)) => Some(Value::Call(position[writer])),
                (In::View(v), None) => {
                    let operand = GroupOperand { view: memory.view(v), level: level_of_operands };
                    Some(Value::Operand(number_of(operand, &mut operands)))
                }
            })
            .collect();
        if e.work.is_product() {
            values.push(Some(Value::Produced));
        }
        // Loops take all operands; one that is read stands in for those that are not.
        let Some(read) = values.iter().find_map(|v| *v) else { return Ok(false) };
        let args = values.iter().map(|v| v.unwrap_or(read)).collect();
        let work = match &e.work {
            Work::Copy | Work::Matmul | Work::Convolution(_) => Computed::Pass,
            Work::Map { kernel, formula, params } => Computed::Map { kernel: *kernel, formula, params },
            Work::Reduce(op, _) => Computed::Reduce(*op),
            Work::Softmax(kind, _) => Computed::Softmax(*kind),
            Work::SoftmaxBackward(kind, _) => Computed::SoftmaxBackward(*kind),
        };
        position.insert(at, calls.len());
        if plan.stored[at] {
            results.push((calls.len(), memory.view(&e.out)));
        }
        calls.push(Call { name: e.name, work, level, rounded: e.rounded(), args });
    }
    backend.fused(&Group {
        compute: if group.compute == DType::Bool { DType::F32 } else { group.compute },
        numel: group.numel,
        n: group.n,
        part: group.part,
        columns: group.columns,
        tile: group.tile,
        producer,
        calls: &calls,
        operands: &operands,
        results: &results,
    })
}

/// A product as the producer of a group.
fn producer<'m>(e: &'m Entry, memory: &'m Memory) -> Option<Producer<'m>> {
    let mut views = e.ins.iter().filter_map(In::held).map(|v| memory.view(v));
    let (a, b, bias) = (views.next()?, views.next()?, views.next());
    match &e.work {
        Work::Matmul => Some(Producer::Matmul { a, b, bias }),
        Work::Convolution(of) => Some(Producer::Convolution { which: of.0, shape: &of.1, a, b, bias }),
        _ => None,
    }
}

/// The position of an operand in a list, which it joins if it is not there.
fn number_of<'m>(operand: GroupOperand<'m>, all: &mut Vec<GroupOperand<'m>>) -> usize {
    let (v, level) = (operand.view, operand.level);
    let same = |o: &GroupOperand| {
        o.level == level
            && o.view.dtype == v.dtype
            && o.view.storage.same(v.storage)
            && o.view.layout == v.layout
    };
    all.iter().position(same).unwrap_or_else(|| {
        all.push(operand);
        all.len() - 1
    })
}

/// Runs one entry as an eager program would.
fn alone<'m>(backend: &dyn Backend, e: &'m Entry, view: &dyn Fn(&'m Held) -> View<'m>) -> Result<()> {
    let out = view(&e.out);
    let operands: SmallVec<[Operand; 3]> = e
        .ins
        .iter()
        .map(|v| match v {
            In::View(v) => Operand::View(view(v)),
            In::Number(s) => Operand::Number(*s),
            In::Unread => Operand::Unread,
        })
        .collect();
    let views: SmallVec<[View; 3]> =
        operands.iter().filter_map(|o| if let Operand::View(v) = o { Some(*v) } else { None }).collect();
    match (&e.work, &operands[..], &views[..]) {
        (Work::Map { kernel, formula, params }, ..) => {
            let formula = || &**formula;
            let program = Program { name: e.name, kernel: *kernel, formula: &formula };
            let compute = compute_type(e.compute);
            let done = backend.pointwise(&program, compute, &operands, params, out)?;
            crate::ensure!(done, crate::error::Error::DtypeNotImplemented { op: e.name, dtype: compute });
            Ok(())
        }
        (Work::Copy, [Operand::Number(s)], _) => backend.fill(out, *s),
        (Work::Copy, _, [src]) => backend.copy(*src, out),
        (Work::Reduce(op, d), _, [x]) => backend.reduce(*op, *x, *d, out),
        (Work::Softmax(kind, d), _, [x]) => backend.softmax(*kind, *x, *d, out),
        (Work::SoftmaxBackward(kind, d), _, [g, y]) => backend.softmax_backward(*kind, *g, *y, *d, out),
        (Work::Matmul, _, [a, b, bias @ ..]) => backend.matmul(*a, *b, bias.first().copied(), out),
        (Work::Convolution(of), _, [a, b, bias @ ..]) => {
            backend.convolution(of.0, &of.1, *a, *b, bias.first().copied(), out)
        }
        _ => Ok(()),
    }
}

/// One line of what `explain` prints: how a group was computed, names, size, and what is stored.
fn described(how: &str, entries: &[Entry], plan: &Plan, group: &Planned) -> String {
    let rows = match (group.tile, group.n) {
        (0, 0) => String::new(),
        (0, n) => format!(" in rows of {n}"),
        // How wide they are depends on the buffers of the program.
        _ => " in tiles of columns".to_owned(),
    };
    let what = format!("{} {} elements{rows}", group.numel, group.compute.name());
    format!("  {how}: {}", sized(entries, plan, &group.entries, &what))
}

/// Names of entries, their elements, and how much of their results is stored.
fn sized(entries: &[Entry], plan: &Plan, of: &[usize], elements: &str) -> String {
    let names: Vec<&str> = of.iter().map(|&at| entries[at].name).collect();
    // Kernels that are queued as many steps have one name.
    let told =
        |run: &[&str]| if run.len() > 2 { format!("{} ×{}", run[0], run.len()) } else { run.join(" → ") };
    let runs: Vec<String> = names.chunk_by(|a, b| a == b).map(told).collect();
    let stored = of.iter().filter(|&&at| plan.stored[at]).count();
    let unstored = of.iter().filter(|&&at| !plan.stored[at]).map(|&at| &entries[at].out);
    let saved: usize = unstored.map(|v| v.layout.numel() * v.dtype.size()).sum();
    format!(
        "{} | {elements}, {stored} of {} results stored, {saved} bytes without memory",
        runs.join(" → "),
        names.len()
    )
}
