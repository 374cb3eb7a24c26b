//! Bitonic sort of positions, and operations on sorted rows.

use super::device::{Gpu, of};
use super::index::gather_along;
use super::packed_kernel::{PackedKernel, loader, render};
use super::params::Params;
use super::pipeline::Launch;
use super::window::{by_rows, expect_words, rows_at_once, rows_of};
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::index::{BoundsPolicy, Pick};
use crate::backend::pointwise::compute_type;
use crate::dtype::DType;
use crate::error::Result;
use crate::formula::template::{binding, stored};
use crate::layout::Layout;

const SORT: &str = crate::formula::shader_text!("sort.wgsl");
const SORTED: &str = crate::formula::shader_text!("sorted.wgsl");

/// Elements that a workgroup sorts in its own memory.
const CHUNK: usize = 256;

/// The passes of the sorting network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Sorts each chunk.
    Chunks,
    /// Compares elements in different chunks.
    Apart,
    /// The rest of a merge, within chunks.
    Merge,
}

/// Whether `a` precedes `b`; NaN is largest.
fn less(compute: DType, descending: bool) -> String {
    let (a, b) = if descending { ("b", "a") } else { ("a", "b") };
    let less = if compute.is_float() {
        format!("{a} < {b} || (is_nan({b}) && !is_nan({a}))")
    } else {
        format!("{a} < {b}")
    };
    format!("fn less(a: T, b: T) -> bool {{ return {less}; }}\n")
}

/// A row length rounded up to a power of two, at least one chunk.
fn padded(n: usize) -> usize {
    n.next_power_of_two().max(CHUNK)
}

/// The sorted positions of the elements of each row of `x`; rows are padded.
fn order(gpu: &'static Gpu, x: View, n: usize, descending: bool) -> Result<Workspace> {
    let (rows, padded, compute) = (x.layout.numel() / n, padded(n), compute_type(x.dtype));
    gpu.expect("sort", x.dtype)?;
    let order = Workspace::new(gpu, rows * padded, DType::I32)?;
    let run = |pass: Pass, block: usize, distance: usize| {
        let groups = rows * padded / CHUNK;
        let mut params = Params::new(groups as u32);
        for v in [x.layout.offset, n, padded, block, distance] {
            params.u32(v as u32);
        }
        let source = || {
            let (bindings, load) = (binding(2, "read", "x", stored(x.dtype)), loader("x", x.dtype));
            let body = match pass {
                Pass::Chunks => "    sort_chunk(row, base, i);\n",
                Pass::Apart => "    compare_apart(row, base, i);\n",
                Pass::Merge => "    merge_chunk(row, base, i);\n",
            };
            let less = less(compute, descending);
            let slots = [("bindings", &*bindings), ("load", &*load), ("less", &*less), ("pass", body)];
            render("sort", SORT, compute, &slots)
        };
        gpu.launch(Launch {
            op: "sort",
            kernel: "sort",
            variant: &[pass as u8, x.dtype as u8, descending as u8],
            source: &source,
            written: &[order.view()],
            read: &[x],
            params: &params,
            groups,
        })
    };
    run(Pass::Chunks, 0, 0)?;
    let mut block = 2 * CHUNK;
    while block <= padded {
        let mut distance = block / 2;
        while distance >= CHUNK {
            run(Pass::Apart, block, distance)?;
            distance /= 2;
        }
        run(Pass::Merge, block, 0)?;
        block *= 2;
    }
    Ok(order)
}

/// The `k` elements from position `start` of each sorted row, and their original positions.
pub fn select(
    x: View,
    n: usize,
    descending: bool,
    start: usize,
    k: usize,
    values: View,
    indices: View,
) -> Result<()> {
    if values.layout.numel() == 0 {
        return Ok(());
    }
    let (gpu, rows) = (of(x)?, x.layout.numel() / n);
    // The padded positions of these rows must fit in a binding too.
    let most = rows_at_once(gpu, padded(n) * DType::I32.size());
    let most = if most < rows && most > 4 { most / 4 * 4 } else { most };
    let all = [values, indices, x];
    for first in (0..rows).step_by(most) {
        let length = most.min(rows - first);
        let layouts = all.map(|v| rows_of(&v, rows, (first, length)));
        let [values, indices, x] = std::array::from_fn(|i| View { layout: &layouts[i], ..all[i] });
        expect_words(gpu, "sort", &[values])?;
        by_rows(gpu, "sort", length, &[values, indices, x], &mut |_, v| {
            select_rows(v[2], n, descending, start, k, v[0], v[1])
        })?;
    }
    Ok(())
}

/// As `select`, for rows that fit in bindings.
fn select_rows(
    x: View,
    n: usize,
    descending: bool,
    start: usize,
    k: usize,
    values: View,
    indices: View,
) -> Result<()> {
    let order = order(of(x)?, x, n, descending)?;
    for (part, out, body) in [(0, values, "value_of(i)"), (1, indices, "T(place_of(i))")] {
        PackedKernel {
            op: "sort",
            kernel: "sorted",
            frame: SORTED,
            compute: compute_type(out.dtype),
            variant: &[part],
            out,
            read: &[("x", x), ("order", order.view())],
            slots: &|| vec![("element", format!("fn element(i: u32) -> T {{ return {body}; }}\n"))],
            params: &|p| {
                p.u32(0).u32(n as u32).u32(padded(n) as u32).u32(k as u32).u32(start as u32);
            },
        }
        .run()?;
    }
    Ok(())
}

/// Insertion points of `values` (`[rows, m]`) in the rows of `sorted` (`[rows, n]`, or one row for all). `sorter`
/// holds the sort order of unsorted rows.
pub fn search(
    sorted: View,
    n: usize,
    sorter: Option<View>,
    values: View,
    m: usize,
    right: bool,
    out: View,
) -> Result<()> {
    if let Some(sorter) = sorter {
        let count = sorted.layout.numel();
        let rows = |offset| Layout { offset, ..Layout::contiguous([count / n, n].into()) };
        let (from, index, dense) = (rows(sorted.layout.offset), rows(sorter.layout.offset), rows(0));
        let held = Workspace::new(of(sorted)?, count, sorted.dtype)?;
        let found = View { layout: &dense, ..held.view() };
        let index = View { layout: &index, ..sorter };
        let pick = Pick { index, size: n, stride: 1, rule: BoundsPolicy::Along(1) };
        gather_along(View { layout: &from, ..sorted }, 1, pick, found)?;
        return search(found, n, None, values, m, right, out);
    }
    let compute = compute_type(sorted.dtype);
    // The row stride in rows: 0 for a shared row, else 1.
    let rows = (sorted.layout.numel() > n) as u32;
    PackedKernel {
        op: "searchsorted",
        kernel: "searchsorted",
        frame: SORTED,
        compute,
        variant: &[],
        out,
        read: &[("x", sorted), ("order", sorted), ("values", values)],
        slots: &|| {
            let element = "fn element(i: u32) -> i64 { return i64(search(i)); }\n".to_owned();
            vec![("less", less(compute, false)), ("element", element)]
        },
        params: &|p| {
            p.u32(n as u32).u32(rows).u32(m as u32).u32(right as u32);
        },
    }
    .run()
}
