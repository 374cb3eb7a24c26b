//! Groups of calls on the CPU: see Note [Groups].
//!
//! A group becomes a list of instructions on blocks, which one thread runs for block after block. A block is a number
//! of whole rows that stays in the cache. Values are registers: a buffer of the block's elements, or of one element per row.
//! A value per row that elements need is repeated along its row first.

pub mod alone;
mod apart;
mod build;
mod cache;
mod compile;
mod kernels;
mod parts;
mod prefetch;
mod producer;
mod program;
mod rowwise;
mod tiles;
mod types;
mod worker;

use std::ops::Range;
use std::sync::OnceLock;

use smallvec::SmallVec;

use super::copy::GRAIN;
use super::output::{Cells, Output, write_one};
use super::parallel::{for_chunks_mut, num_threads, parallel_for};
use super::pointwise::OperandAccess;
use super::reduce::ColumnBlocks;
use crate::backend::View;
use crate::backend::group::{Call, Group, GroupOperand, Producer, Work};
use crate::backend::pointwise::Operand;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::formula::Int;
use crate::layout::collapse;
use crate::storage::expect_room;
use parts::Sunk;
pub use producer::has_pieces;
use program::{Place, Program};
use rowwise::{Gathered, Rowwise};
use tiles::Tiles;
use types::Grouped;
use worker::{Share, Worker};

/// The most chunks for each thread: each takes time beside its elements. No result depends on the number of chunks.
const CHUNKS: usize = 8;

/// Computes a group; false if a call is not defined for its type, or computes with a total.
pub fn run(group: &Group) -> Result<bool> {
    let is_last = |c: &Call| !c.level.is_of_group() || matches!(c.work, Work::Reduce(_));
    if !group.calls.iter().all(is_last) {
        return Ok(false);
    }
    match group.compute {
        DType::F32 => run_as::<f32>(group),
        DType::F64 => run_as::<f64>(group),
        DType::I32 => run_as::<Int<i32>>(group),
        DType::I64 => run_as::<Int<i64>>(group),
        _ => Ok(false),
    }
}

/// Whether a group was computed.
enum Done {
    Yes,
    No,
    /// Not yet: its buffers leave room for tiles of so many columns.
    Narrower(usize),
}

fn run_as<T: Grouped>(group: &Group) -> Result<bool> {
    let mut tile = group.tile;
    loop {
        let tiles = match tile {
            0 => None,
            _ => match Tiles::of(&Group { tile, ..*group }) {
                None => return Ok(false),
                tiles => tiles,
            },
        };
        let done = match &tiles {
            None => run_in_order::<T>(group)?,
            Some(tiles) => {
                let (operands, results) = (tiles.operands(group), tiles.results(group));
                run_in_order::<T>(&Group { n: tile, tile, operands: &operands, results: &results, ..*group })?
            }
        };
        match done {
            Done::Yes => return Ok(true),
            Done::No => return Ok(false),
            Done::Narrower(narrower) => tile = narrower,
        }
    }
}

/// Computes a group whose elements are in the order of its rows.
fn run_in_order<T: Grouped>(group: &Group) -> Result<Done> {
    let sunk = Sunk::of(group);
    let operands = sunk.as_ref().map(|sunk| sunk.operands(group));
    let group = &match (&sunk, &operands) {
        (Some(sunk), Some(operands)) => {
            Group { calls: &sunk.calls, results: &sunk.results, operands, ..*group }
        }
        _ => Group { ..*group },
    };
    let rowwise = Rowwise::of::<T>(group);
    let operands: Vec<GroupOperand> = rowwise.operands(group);
    let group = &Group { n: rowwise.n, operands: &operands, ..*group };
    let gathered = Gathered::of::<T>(group)?;
    let operands = gathered.as_ref().map(|gathered| gathered.operands::<T>(group));
    let group = &Group { operands: operands.as_deref().unwrap_or(group.operands), ..*group };
    let access: Vec<OperandAccess> = group.operands.iter().map(|o| access_of::<T>(o, group)).collect();
    let Some(program) = cache::program::<T>(group, &access) else { return Ok(Done::No) };
    let program = &*program;
    if let Some(tile) = program.narrower {
        return Ok(Done::Narrower(tile));
    }
    let stores = Stores::of(program, group)?;
    if let Some(producer) = &group.producer {
        let is_done = compute_pieces(program, producer, |share| {
            let rows = share.rows.clone();
            Worker::new(program, group, &access, &stores, share)?.run(rows, &mut [])
        })?;
        return Ok(if is_done { Done::Yes } else { Done::No });
    }
    let least = OperandAccess::grain(&access, GRAIN);
    let start = |rows| Worker::new(program, group, &access, &stores, Share::of_rows(rows, group.numel));
    let chunks = group.numel.div_ceil(least).min(CHUNKS * num_threads());
    let mut reduced = match program.column_blocks {
        Some(blocks) => reduce_columns(program, blocks, chunks, start)?,
        None => compute_blocks(program, group, chunks, start)?,
    };
    drop(stores);
    store_columns(program, group, &mut reduced)?;
    store_totals(program, group, &reduced)?;
    Ok(Done::Yes)
}

/// Computes a group with a producer, one piece of its results after the other: Note [Epilogues]. False, and nothing done, if the producer has no
/// pieces.
fn compute_pieces<T: Grouped>(
    program: &Program<T>,
    producer: &Producer,
    compute: impl Fn(Share<T>) -> Result<()> + Sync,
) -> Result<bool> {
    let failed = OnceLock::new();
    let is_done = T::produce(producer, &|first, piece| {
        let share = Share::of_piece(first, piece, program);
        compute(share).unwrap_or_else(|e| drop(failed.set(e)));
    });
    failed.into_inner().map_or(Ok(is_done), Err)
}

/// Computes a group that reduces columns in about so many chunks: for each block of their rows, the results of all such calls.
fn reduce_columns<'p, 'a: 'p, T: Grouped>(
    program: &'p Program<T>,
    of: ColumnBlocks,
    chunks: usize,
    start: impl Fn(Range<usize>) -> Result<Worker<'p, 'a, T>> + Sync,
) -> Result<Vec<T>> {
    let (width, failed) = (program.columns.len() * program.n, OnceLock::new());
    expect_room::<T>(of.blocks().saturating_mul(width))?;
    let mut partial = vec![T::zeroed(); of.blocks() * width];
    let grain = of.blocks().div_ceil(chunks.max(1)).max(1);
    for_chunks_mut(&mut partial, grain * width, |chunk, partial| {
        let first = chunk * grain;
        let last = first + (partial.len() / width).max(1) - 1;
        let done = start(of.rows(first).start..of.rows(last).end).and_then(|mut worker| {
            let mut blocks = partial.chunks_mut(width).enumerate();
            blocks.try_for_each(|(k, acc)| {
                for (results, (_, reduction)) in acc.chunks_mut(program.n).zip(&program.columns) {
                    results.fill(reduction.identity);
                }
                worker.run(of.rows(first + k), acc)
            })
        });
        done.unwrap_or_else(|e| drop(failed.set(e)));
    });
    failed.into_inner().map_or(Ok(partial), Err)
}

/// Computes a group without column sums in about so many chunks, which are equally long: for each block, the run of each total.
fn compute_blocks<'p, 'a: 'p, T: Grouped>(
    program: &'p Program<T>,
    group: &Group,
    chunks: usize,
    start: impl Fn(Range<usize>) -> Result<Worker<'p, 'a, T>> + Sync,
) -> Result<Vec<T>> {
    let rows = group.numel.div_ceil(program.n);
    let (blocks, failed) = (program.blocks.count(rows), OnceLock::new());
    let grain = blocks.div_ceil(chunks.max(1)).max(1);
    let work = |range: Range<usize>, runs: &mut [T]| {
        let rows = program.blocks.first(range.start)..program.blocks.first(range.end).min(rows);
        let done = start(rows.clone()).and_then(|mut worker| worker.run(rows, runs));
        done.unwrap_or_else(|e| drop(failed.set(e)));
    };
    let count = program.totals.len();
    let mut runs = vec![T::zeroed(); blocks * count];
    if count == 0 {
        parallel_for(blocks, grain, |range| work(range, &mut []));
    } else {
        for_chunks_mut(&mut runs, grain * count, |chunk, runs| {
            let first = chunk * grain;
            work(first..first + runs.len() / count, runs);
        });
    }
    failed.into_inner().map_or(Ok(runs), Err)
}

fn store_columns<T: Grouped>(program: &Program<T>, group: &Group, partial: &mut [T]) -> Result<()> {
    let Some(blocks) = program.column_blocks else { return Ok(()) };
    let mut apart = Vec::new();
    for (k, (at, reduction)) in program.columns.iter().enumerate() {
        let Some((_, view)) = group.results.iter().find(|(call, _)| call == at) else { continue };
        let mut out = Output::<T::Stored>::part(*view, 0..view.layout.numel())?;
        let out = bytemuck::cast_slice_mut(&mut out);
        if program.columns.len() == 1 {
            reduction.merge(blocks, partial, out);
            continue;
        }
        apart.clear();
        for block in partial.chunks(program.columns.len() * program.n) {
            apart.extend_from_slice(&block[k * program.n..][..program.n]);
        }
        reduction.merge(blocks, &mut apart, out);
    }
    Ok(())
}

fn store_totals<T: Grouped>(program: &Program<T>, group: &Group, runs: &[T]) -> Result<()> {
    for (k, (at, reduction)) in program.totals.iter().enumerate() {
        let Some((_, view)) = group.results.iter().find(|(call, _)| call == at) else { continue };
        let mut of: Vec<T> = runs.iter().skip(k).step_by(program.totals.len()).copied().collect();
        let totals = view.layout.numel();
        if totals == 1 {
            write_one::<T::Stored>(*view, bytemuck::cast(reduction.total(&mut of)))?;
            continue;
        }
        // The rows of several are whole runs.
        let each = of.len() / totals.max(1);
        let mut out = Output::<T::Stored>::part(*view, 0..totals)?;
        for (total, of) in out.iter_mut().zip(of.chunks_mut(each.max(1))) {
            *total = bytemuck::cast(reduction.total(of));
        }
    }
    Ok(())
}

/// How results are stored that are not computed in place: by result. Results in one storage, such as the parts of a
/// concatenation, share its cells.
struct Stores<'a> {
    cells: Vec<Cells<'a>>,
    /// By result, its cells.
    of: Vec<Option<usize>>,
    /// Results whose elements alternate in memory, in their order.
    alternating: SmallVec<[SmallVec<[usize; 4]>; 1]>,
}

impl<'a> Stores<'a> {
    fn of<T: Grouped>(program: &Program<T>, group: &Group<'a>) -> Result<Self> {
        let mut stores = Stores { cells: Vec::new(), of: Vec::new(), alternating: SmallVec::new() };
        let mut seen: Vec<View> = Vec::new();
        for (k, (call, view)) in group.results.iter().enumerate() {
            let scattered = (program.places[*call] != Place::Result(k) || program.spread[k].is_some())
                && !group.calls[*call].level.is_of_group();
            let known = |v: &View| v.storage.same(view.storage) && v.dtype.size() == view.dtype.size();
            stores.of.push(match seen.iter().position(known) {
                _ if !scattered => None,
                Some(cells) => Some(cells),
                None => {
                    let same = |r: &&(usize, View)| known(&r.1);
                    let cells = match group.results.iter().filter(same).count() {
                        1 => Cells::of(*view)?,
                        _ => Cells::whole(*view)?,
                    };
                    stores.cells.push(cells);
                    seen.push(*view);
                    Some(seen.len() - 1)
                }
            });
        }
        let is_scattered = |k: &usize| {
            stores.of[*k].is_some()
                && program.spread[*k].is_none()
                && group.results[*k].1.dtype == T::Stored::DTYPE
        };
        let scattered: SmallVec<[usize; 8]> = (0..group.results.len()).filter(is_scattered).collect();
        stores.alternating = alternating(group, &scattered);
        Ok(stores)
    }
}

/// The sets of two to four of these results that fill memory in turns, as those of `stack([a, b], -1)` do.
fn alternating(group: &Group, results: &[usize]) -> SmallVec<[SmallVec<[usize; 4]>; 1]> {
    const MOST: usize = 4;
    // The shortest runs that are worth a call for each.
    const RUN: usize = 16;
    let step = |k: &usize| {
        let layout = group.results[*k].1.layout;
        let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
        let step = usize::try_from(*strides.last()?).ok()?;
        (shape.last()? >= &RUN && (2..=MOST).contains(&step)).then_some(step)
    };
    let follows = |first: usize, by: usize, k: usize| {
        let ([a, b], [x, y]) =
            ([first, k].map(|k| group.results[k].1), [first, k].map(|k| group.results[k].0));
        let same_place = a.storage.same(b.storage)
            && a.layout.shape == b.layout.shape
            && a.layout.strides == b.layout.strides;
        same_place && b.layout.offset == a.layout.offset + by && group.calls[x].level == group.calls[y].level
    };
    let only = |first: usize, by: usize| {
        let mut found = results.iter().copied().filter(|k| follows(first, by, *k));
        found.next().filter(|_| found.next().is_none())
    };
    let set = |first: &usize| (0..step(first)?).map(|by| only(*first, by)).collect::<Option<_>>();
    results.iter().filter_map(set).collect()
}

/// How an operand is read. Memory that is also written is read block by block, before its block is written.
fn access_of<'a, T: Grouped>(o: &GroupOperand<'a>, group: &Group<'a>) -> OperandAccess<'a> {
    let written = |r: &&(usize, View<'a>)| r.1.storage.overlaps(o.view.storage);
    match group.results.iter().find(written) {
        Some(_) => OperandAccess::Blocks(o.view),
        None => OperandAccess::of::<T>(Some(&Operand::View(o.view)), o.view_apart()),
    }
}

impl<'a> GroupOperand<'a> {
    /// A view without elements, which overlaps nothing.
    fn view_apart(&self) -> View<'a> {
        static NONE: std::sync::LazyLock<crate::layout::Layout> =
            std::sync::LazyLock::new(|| crate::layout::Layout::contiguous([0].into()));
        View { layout: &NONE, ..self.view }
    }
}
