//! Block form: pointwise shaders for adapters whose memory cost depends on the number of accesses rather than bytes.
//!
//! Software adapters load and store lane by lane, so each invocation processes many elements, in vectors of four
//! 64-bit words; an input that is broadcast along rows is read once for several rows of the result.

use super::template::{coordinates, encode, lanes, line, load, stored, unpack};
use super::wgsl::{Form, Input, Pointwise};
use crate::dtype::DType;

/// The block of elements that one invocation computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Number of dimensions, at least 2; 0 when all tensors are contiguous.
    pub rank: usize,
    /// Elements along the last dimension.
    pub run: usize,
    /// Elements along the dimension before the last; 1 when all tensors are contiguous.
    pub rows: usize,
    /// Bit mask of inputs that are broadcast along the last dimension.
    pub splat: u8,
    /// Bit mask of inputs that are broadcast along the dimension before the last.
    pub once: u8,
    /// Bit mask of inputs with the same strides and offset as the result, which share its index computation.
    pub level: u8,
}

impl Blocks {
    pub fn is_splat(self, k: usize) -> bool {
        self.splat >> k & 1 == 1
    }

    /// Elements per vector load or store.
    pub fn vector(self, dtype: DType) -> usize {
        self.run.min(32 / dtype.size())
    }
}

const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// Component `i` of a vector of `count`.
fn component(vector: &str, count: usize, i: usize) -> String {
    if count == 1 { vector.into() } else { format!("{vector}.{}", LANES[i]) }
}

/// The vector type and its number of components. Bits of float64 values are not unpacked.
fn vector(b: Blocks, dtype: DType) -> (String, usize) {
    let (kind, count) = match dtype.size() {
        8 => (stored(dtype), b.vector(dtype)),
        size => ("u64", b.vector(dtype) * size / 8),
    };
    (if count == 1 { kind.into() } else { format!("vec{count}<{kind}>") }, count)
}

/// The element type of a binding.
pub fn element(b: Blocks, k: Option<usize>, dtype: DType) -> String {
    match k {
        Some(k) if b.is_splat(k) => stored(dtype).into(),
        _ => vector(b, dtype).0,
    }
}

impl Pointwise<'_> {
    /// The functions used by the statements: to load a single element, and to get the bits of a result.
    pub(super) fn block_functions(&self, b: Blocks) -> String {
        let mut s = String::new();
        for (k, dtype) in self.tensors().filter(|t| b.is_splat(t.0)) {
            let value = load(&format!("x{k}"), dtype);
            line(&mut s, format!("fn load{k}(i: u32) -> T {{ return T({value}); }}"));
        }
        if self.result().size() < 8 {
            line(&mut s, format!("fn bits(value: T) -> u32 {{ return {}; }}", encode(self.result())));
        }
        s
    }

    /// The statements that load, compute and store the block of invocation `word`.
    pub(super) fn block(&self, b: Blocks) -> String {
        let mut s = String::from("    if word < params.count {\n        let i = word;\n");
        s += &coordinates(b.rank);
        for m in 0..b.rows {
            for (k, dtype) in self.tensors() {
                if m == 0 || b.once >> k & 1 == 0 {
                    block_loads(&mut s, b, k, dtype, m);
                }
            }
        }
        for m in 0..b.rows {
            self.block_results(&mut s, b, m);
        }
        s + "    }\n"
    }

    fn block_results(&self, s: &mut String, b: Blocks, m: usize) {
        let (size, (kind, count)) = (self.result().size(), vector(b, self.result()));
        let input = |k: usize, e: usize| {
            let Input::Tensor(dtype) = self.inputs[k] else { return String::new() };
            let row = if b.once >> k & 1 == 1 { 0 } else { m };
            if b.is_splat(k) {
                return format!("x{k}_{row}");
            }
            let (per_word, bits) = lanes(dtype);
            if dtype.size() == 8 {
                let of = b.vector(dtype);
                return format!("T({})", component(&format!("x{k}_{row}_{}", e / of), of, e % of));
            }
            let word = format!("w{k}_{row}_{}", e / per_word);
            format!("T({})", unpack(dtype, &word, &format!("{}u, {bits}u", e % per_word * bits)))
        };
        let values = (0..b.run).map(|e| self.call(|k| input(k, e)));
        let parts: Vec<String> = if size == 8 {
            values.map(|v| format!("{}({v})", stored(self.result()))).collect()
        } else {
            for (e, v) in values.enumerate() {
                line(s, format!("        let b{m}_{e} = bits({v});"));
            }
            // A 64-bit word from its elements, lowest first.
            let half = |e: usize| {
                let terms = (0..4 / size).map(|i| format!("(b{m}_{} << {}u)", e + i, 8 * size * i));
                terms.collect::<Vec<_>>().join(" | ")
            };
            let word = |e: usize| format!("u64({}) | (u64({}) << 32u)", half(e), half(e + 4 / size));
            (0..b.run).step_by(8 / size).map(word).collect()
        };
        let at = place(b, self.result(), m);
        for (v, parts) in parts.chunks(count).enumerate() {
            line(s, format!("        result[{at} + {v}u] = {kind}({});", parts.join(", ")));
        }
    }
}

/// The index of the first vector of row `m` of the block in the result.
fn place(b: Blocks, dtype: DType, m: usize) -> String {
    let vectors = b.run / b.vector(dtype);
    match b.rank {
        0 => format!("params.first + i * {vectors}u"),
        rank => {
            let (d, rows) = (rank - 1, b.rows);
            format!("params.first + ((q{d} * {rows}u + {m}u) * params.n{d} + c{d}) * {vectors}u")
        }
    }
}

/// The index of the first vector of row `m` in an input, or of its single element.
fn place_of(b: Blocks, k: usize, vectors: usize, m: usize) -> String {
    if b.rank == 0 {
        return format!("params.first{k} + i * {vectors}u");
    }
    let (row, rows) = (b.rank - 2, b.rows);
    let outer: String = (0..row).map(|d| format!(" + c{d} * params.s{k}_{d}")).collect();
    let along = if b.is_splat(k) { String::new() } else { format!(" + c{} * {vectors}u", row + 1) };
    format!("params.first{k}{outer} + (c{row} * {rows}u + {m}u) * params.s{k}_{row}{along}")
}

/// Loads row `m` of an input: `x{k}_{m}` if broadcast, else vectors `x{k}_{m}_{v}` and their words `w{k}_{m}_{w}`.
fn block_loads(s: &mut String, b: Blocks, k: usize, dtype: DType, m: usize) {
    let vectors = b.run / b.vector(dtype);
    let at = if b.level >> k & 1 == 1 { place(b, dtype, m) } else { place_of(b, k, vectors, m) };
    if b.is_splat(k) {
        return line(s, format!("        let x{k}_{m} = load{k}({at});"));
    }
    let count = vector(b, dtype).1;
    for v in 0..vectors {
        let name = format!("x{k}_{m}_{v}");
        line(s, format!("        let {name} = x{k}[{at} + {v}u];"));
        for i in 0..if dtype.size() == 8 { 0 } else { count } {
            let (word, part) = (2 * (v * count + i), component(&name, count, i));
            line(s, format!("        let w{k}_{m}_{word} = u32({part});"));
            line(s, format!("        let w{k}_{m}_{} = u32({part} >> 32u);", word + 1));
        }
    }
}

impl Form {
    pub const fn blocks(self) -> Option<Blocks> {
        if let Form::Blocks(b) = self { Some(b) } else { None }
    }
}
