//! The shader of the direct product kernel: one tile per invocation, loaded from the operands.

use super::{Load, Shape};
use crate::error::Result;
use crate::formula::template::line;

const KERNEL: &str = crate::formula::shader_text!("matmul_direct.wgsl");

/// Invocations per workgroup.
pub const GROUP: usize = 32;
/// Adjacent tiles per strip, which is processed row by row.
pub const STRIP: usize = 8;

/// Unpacks a load of eight elements: the first elements of each pair, and the second ones.
const HALVES: &str = "fn first(v: vec4<u64>) -> vec4<T> { return bitcast<vec4<T>>(vec4<u32>(v)); }
fn second(v: vec4<u64>) -> vec4<T> { return bitcast<vec4<T>>(vec4<u32>(v >> vec4<u32>(32u))); }

";
const HALF_NAMES: [&str; 2] = ["first", "second"];

/// The shader for tiles of `rows` rows and `quads` quads of columns; `whole`: the depth is a multiple of the load
/// length.
pub fn source(s: &Shape, bias: bool, rows: usize, quads: usize, whole: bool) -> Result<String> {
    // Adjacent rows can be loaded together only if the tile's rows are a multiple of the load length.
    let a = if s.a == Load::Side && !rows.is_multiple_of(s.by) { Load::Single } else { s.a };
    let s = &Shape { a, ..*s };
    let (bindings, bias_of) = super::declarations(s, bias);
    let step = if whole { s.by } else { 1 };
    let tile = Tile { s, rows, quads, step }.render();
    let slots = [("bindings", &*bindings), ("bias", bias_of), ("write", super::write(s))];
    super::rendered(KERNEL, s.dtype, &[("tile", &*tile)], &slots)
}

struct Tile<'a> {
    s: &'a Shape,
    rows: usize,
    quads: usize,
    /// Depth per loop iteration.
    step: usize,
}

/// An operand: its name, the name of its stride along the depth, the name of its side index, and the side's length.
struct Operand {
    name: &'static str,
    depth: &'static str,
    side: &'static str,
    position: &'static str,
    limit: &'static str,
}

const A: Operand = Operand { name: "a", depth: "a_column", side: "a_row", position: "row", limit: "m" };
const B: Operand = Operand { name: "b", depth: "b_row", side: "b_column", position: "column", limit: "n" };

impl Tile<'_> {
    fn render(&self) -> String {
        let (rows, columns) = (self.rows, 4 * self.quads);
        let mut t = format!("const ROWS: u32 = {rows}u;\nconst COLUMNS: u32 = {columns}u;\n\n");
        if self.s.by == 8 {
            t += HALVES;
        }
        line(
            &mut t,
            "fn multiply(at: u32, segment: u32, row: u32, column: u32, a_start: u32, b_start: u32, k_start: u32, \
             k_end: u32) {",
        );
        self.pointers(&mut t, &A, self.s.a, rows);
        self.pointers(&mut t, &B, self.s.b, columns);
        self.each(|r, q| line(&mut t, format!("    var c{r}_{q} = vec4<T>();")));
        line(&mut t, format!("    for (var k = k_start; k < k_end; k += {}u) {{", self.step));
        self.loads(&mut t, &A, self.s.a, rows);
        self.loads(&mut t, &B, self.s.b, columns);
        for d in 0..self.step {
            for q in 0..self.quads {
                let beside = self.beside(q, d);
                line(&mut t, format!("        let right{q}_{d} = {beside};"));
            }
            self.each(|r, q| {
                let left = self.element("a", self.s.a, r, d);
                line(&mut t, format!("        c{r}_{q} += {left} * right{q}_{d};"));
            });
        }
        line(&mut t, "    }");
        for q in 0..self.quads {
            line(&mut t, format!("    let bias{q} = biases_of(column + {}u, segment);", 4 * q));
        }
        self.each(|r, q| {
            let at = format!("at, row + {r}u, column + {}u", 4 * q);
            line(&mut t, format!("    write({at}, {} + bias{q});", self.result(r, q)));
        });
        t + "}\n"
    }

    fn each(&self, mut f: impl FnMut(usize, usize)) {
        (0..self.rows).for_each(|r| (0..self.quads).for_each(|q| f(r, q)));
    }

    /// The offsets of the tile's rows of A or columns of B, in the binding's elements.
    fn pointers(&self, t: &mut String, o: &Operand, load: Load, n: usize) {
        let (name, by) = (o.name, if load == Load::Side { self.s.by } else { 1 });
        let shift = if load == Load::Single { 0 } else { self.s.by.ilog2() };
        for i in (0..n).step_by(by) {
            let place = format!("inside({} + {i}u, params.{})", o.position, o.limit);
            let start = format!("({name}_start + {place} * params.{}) >> {shift}u", o.side);
            line(t, format!("    let p{name}{i} = {start};"));
        }
        line(t, format!("    let s{name} = params.{} >> {shift}u;", o.depth));
    }

    /// The loads of A or of B in one loop iteration.
    fn loads(&self, t: &mut String, o: &Operand, load: Load, n: usize) {
        let name = o.name;
        match load {
            Load::Depth => {
                let shift = self.s.by.ilog2();
                (0..n).for_each(|i| {
                    self.load(t, &format!("{name}{i}"), &format!("{name}[p{name}{i} + (k >> {shift}u)]"));
                });
            }
            Load::Side => {
                for d in 0..self.step {
                    for i in (0..n).step_by(self.s.by) {
                        let place = format!("p{name}{i} + (k + {d}u) * s{name}");
                        self.load(t, &format!("{name}{i}_{d}"), &format!("{name}[{place}]"));
                    }
                }
            }
            Load::Single => {
                for d in 0..self.step {
                    for i in 0..n {
                        let place = format!("p{name}{i} + (k + {d}u) * s{name}");
                        line(t, format!("        let {name}{i}_{d} = {name}[{place}];"));
                    }
                }
            }
        }
    }

    /// Stores a load of adjacent elements in `name` if it is four elements, else in `name_first` and `name_second`.
    fn load(&self, t: &mut String, name: &str, value: &str) {
        line(t, format!("        let {name} = {value};"));
        if self.s.by == 8 {
            HALF_NAMES
                .iter()
                .for_each(|half| line(t, format!("        let {name}_{half} = {half}({name});")));
        }
    }

    /// Element `i` of a load.
    fn neighbour(&self, name: &str, i: usize) -> String {
        let part = |p: usize| ["x", "y", "z", "w"][p];
        if self.s.by == 8 {
            format!("{name}_{}.{}", HALF_NAMES[i % 2], part(i / 2))
        } else {
            format!("{name}.{}", part(i))
        }
    }

    /// Element `i` along the side, at depth `d` of the iteration.
    fn element(&self, name: &str, load: Load, i: usize, d: usize) -> String {
        let by = self.s.by;
        match load {
            Load::Single => format!("{name}{i}_{d}"),
            Load::Depth => self.neighbour(&format!("{name}{i}"), d),
            Load::Side => self.neighbour(&format!("{name}{}_{d}", i / by * by), i % by),
        }
    }

    /// The elements of B at depth `d` of the iteration that contribute to accumulator `q` of a row: four adjacent
    /// columns; or for eight columns, the first elements of each pair, followed by the second ones.
    fn beside(&self, q: usize, d: usize) -> String {
        if self.s.b == Load::Side {
            return if self.s.by == 8 {
                format!("b{}_{d}_{}", 4 * (q - q % 2), HALF_NAMES[q % 2])
            } else {
                format!("b{}_{d}", 4 * q)
            };
        }
        let column = |i: usize| if self.s.by == 8 { 4 * (q - q % 2) + q % 2 + 2 * i } else { 4 * q + i };
        let [x, y, z, w] = [0, 1, 2, 3].map(|i| self.element("b", self.s.b, column(i), d));
        format!("vec4<T>({x}, {y}, {z}, {w})")
    }

    /// The results of four adjacent columns.
    fn result(&self, r: usize, q: usize) -> String {
        if self.s.by == 4 {
            return format!("c{r}_{q}");
        }
        let (first, second) = (format!("c{r}_{}", q - q % 2), format!("c{r}_{}", q - q % 2 + 1));
        let [x, y] = [["x", "y"], ["z", "w"]][q % 2];
        format!("vec4<T>({first}.{x}, {second}.{x}, {first}.{y}, {second}.{y})")
    }
}
