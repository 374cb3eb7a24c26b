//! Recorded steps → the text of a WGSL function body.

use std::fmt::Write;

use super::record::{Prim, Step};

/// Renders steps as the body of a function whose arguments are `a0, a1, …` and whose parameters are `p0, p1, …`,
/// all of type `T`. Mathematics goes through the prelude's functions (`m_exp`, …); a truth value is a `bool`.
pub fn body(steps: &[Step]) -> String {
    let mut s = String::new();
    let name = |i: usize| match steps[i] {
        Step::Arg(a) => format!("a{a}"),
        Step::Param(p) => format!("p{p}"),
        _ => format!("v{i}"),
    };
    for (i, step) in steps.iter().enumerate() {
        let text = match *step {
            Step::Arg(_) | Step::Param(_) => continue,
            Step::Lit(v) => literal(v),
            Step::Do(p, o) => call(p, o.map(|k| if k < steps.len() { name(k) } else { String::new() })),
        };
        let _ = writeln!(s, "    let v{i} = {text};");
    }
    let _ = writeln!(s, "    return {};", name(steps.len() - 1));
    s
}

/// WGSL has no literal for an infinity or NaN; the prelude makes them from bits.
fn literal(v: f64) -> String {
    match v {
        v if v == f64::INFINITY => "m_inf()".into(),
        v if v == f64::NEG_INFINITY => "-m_inf()".into(),
        v if v.is_nan() => "m_nan()".into(),
        v if v.fract() == 0.0 && v.abs() < 2147483648.0 => format!("T({})", v as i64),
        v => format!("T({v:?})"),
    }
}

fn call(p: Prim, [a, b, c]: [String; 3]) -> String {
    let infix = |op: &str| format!("({a} {op} {b})");
    match p {
        Prim::Add => infix("+"),
        Prim::Sub => infix("-"),
        Prim::Mul => infix("*"),
        Prim::Div => infix("/"),
        Prim::Neg => format!("(-{a})"),
        Prim::Lt => infix("<"),
        Prim::Le => infix("<="),
        // `==` may assume that no NaN occurs; the prelude compares bits.
        Prim::Eq => format!("m_eq({a}, {b})"),
        Prim::Not => format!("(!{a})"),
        Prim::And => infix("&&"),
        Prim::Or => infix("||"),
        Prim::Select => format!("select({c}, {b}, {a})"),
        Prim::BitAnd => infix("&"),
        Prim::BitOr => infix("|"),
        Prim::BitXor => infix("^"),
        _ if p.arity() == 1 => format!("m_{}({a})", p.name()),
        _ => format!("m_{}({a}, {b})", p.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arith, Num, record::record};
    use super::*;

    #[test]
    fn a_formula_reads_as_one_let_per_step() {
        let steps = record(|a, _| Num::exp(a[0]) * Arith::lit(2.0));
        assert_eq!(
            body(&steps),
            "    let v1 = m_exp(a0);\n    let v2 = T(2);\n    let v3 = (v1 * v2);\n    return v3;\n"
        );
    }
}
