//! The shader of a product whose invocations compute a tile each from where the operands lie.

use super::{Load, Shape};
use crate::error::Result;
use crate::formula::template::line;

const FRAME: &str = crate::formula::shader_text!("matmul.wgsl");

/// Invocations in a workgroup.
pub const GROUP: usize = 32;
/// Tiles beside one another that are gone through row by row.
pub const STRIP: usize = 8;

/// The shader for tiles of `rows` rows and `quads` fours of columns; `fours`: the depth is a multiple of four.
pub fn source(s: &Shape, bias: bool, rows: usize, quads: usize, fours: bool) -> Result<String> {
    // Fours of rows need tiles of whole fours.
    let a = if s.a == Load::Side && !rows.is_multiple_of(4) { Load::Single } else { s.a };
    let s = &Shape { a, ..*s };
    let (bindings, bias_of) = super::declarations(s, bias);
    let step = if fours { 4 } else { 1 };
    let tile = Tile { s, rows, quads, step }.render();
    let slots = [("bindings", &*bindings), ("bias", bias_of), ("write", super::write(s)), ("tile", &*tile)];
    super::rendered(FRAME, s, &slots)
}

struct Tile<'a> {
    s: &'a Shape,
    rows: usize,
    quads: usize,
    /// Depth of a turn of the loop.
    step: usize,
}

/// An operand: its name, the name of its stride along the depth, what the side counts, and its length.
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
                let left = element("a", self.s.a, r, d);
                line(&mut t, format!("        c{r}_{q} += {left} * right{q}_{d};"));
            });
        }
        line(&mut t, "    }");
        for q in 0..self.quads {
            line(
                &mut t,
                format!("    let bias{q} = biases(inside(column + {}u, params.n), segment);", 4 * q),
            );
        }
        self.each(|r, q| {
            let at = format!("at, row + {r}u, column + {}u", 4 * q);
            line(&mut t, format!("    write({at}, c{r}_{q} + bias{q});"));
        });
        t + "}\n"
    }

    fn each(&self, mut f: impl FnMut(usize, usize)) {
        (0..self.rows).for_each(|r| (0..self.quads).for_each(|q| f(r, q)));
    }

    /// Where the rows of A or the columns of B begin, in what the binding holds.
    fn pointers(&self, t: &mut String, o: &Operand, load: Load, n: usize) {
        let (name, by) = (o.name, if load == Load::Side { 4 } else { 1 });
        let shift = if load == Load::Single { 0 } else { 2 };
        for i in (0..n).step_by(by) {
            let place = format!("inside({} + {i}u, params.{})", o.position, o.limit);
            let start = format!("({name}_start + {place} * params.{}) >> {shift}u", o.side);
            line(t, format!("    let p{name}{i} = {start};"));
        }
        line(t, format!("    let s{name} = params.{} >> {shift}u;", o.depth));
    }

    /// What a turn of the loop reads of A or of B.
    fn loads(&self, t: &mut String, o: &Operand, load: Load, n: usize) {
        let name = o.name;
        match load {
            Load::Depth => {
                (0..n).for_each(|i| {
                    line(t, format!("        let {name}{i} = {name}[p{name}{i} + (k >> 2u)];"));
                });
            }
            Load::Side | Load::Single => {
                let by = if load == Load::Side { 4 } else { 1 };
                for d in 0..self.step {
                    for i in (0..n).step_by(by) {
                        let place = format!("p{name}{i} + (k + {d}u) * s{name}");
                        line(t, format!("        let {name}{i}_{d} = {name}[{place}];"));
                    }
                }
            }
        }
    }

    /// Four elements of B beside one another at depth `d` of a turn.
    fn beside(&self, q: usize, d: usize) -> String {
        if self.s.b == Load::Side {
            return format!("b{}_{d}", 4 * q);
        }
        let [x, y, z, w] = [0, 1, 2, 3].map(|i| element("b", self.s.b, 4 * q + i, d));
        format!("vec4<T>({x}, {y}, {z}, {w})")
    }
}

/// Element `i` along the side at depth `d` of a turn.
fn element(name: &str, load: Load, i: usize, d: usize) -> String {
    let part = |p: usize| ["x", "y", "z", "w"][p];
    match load {
        Load::Single => format!("{name}{i}_{d}"),
        Load::Depth => format!("{name}{i}.{}", part(d)),
        Load::Side => format!("{name}{}_{d}.{}", i / 4 * 4, part(i % 4)),
    }
}
