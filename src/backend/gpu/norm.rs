//! Normalisation: what is left to do element by element once statistics are known.

use smallvec::SmallVec;

use super::pointwise;
use crate::backend::View;
use crate::backend::cpu::pointwise::Kernel;
use crate::backend::pointwise::{Operand, Program, compute_type};
use crate::error::Result;
use crate::formula::ARGS;
use crate::formula::record::{Prim, Step, Steps};

fn run(name: &'static str, part: u8, steps: &dyn Fn() -> Steps, operands: &[View], out: View) -> Result<()> {
    let kernel = Kernel::Same { f32: None, f64: None, i32: None, i64: None };
    let operands: SmallVec<[Operand; ARGS]> = operands.iter().map(|v| Operand::View(*v)).collect();
    pointwise::run(&Program { name, part, kernel, steps }, compute_type(out.dtype), &operands, &[], out)
}

pub fn normalize(x: View, mean: View, rstd: View, affine: [Option<View>; 2], out: View) -> Result<()> {
    let operands: SmallVec<[View; ARGS]> =
        [x, mean, rstd].into_iter().chain(affine.into_iter().flatten()).collect();
    let [scales, shifts] = affine.map(|v| v.is_some());
    let steps = || {
        let mut steps = vec![Step::Arg(0), Step::Arg(1), Step::Do(Prim::Sub, [0, 1, 0])];
        let then = [(true, Prim::Mul), (scales, Prim::Mul), (shifts, Prim::Add)];
        for (arg, (_, prim)) in then.into_iter().filter(|t| t.0).enumerate() {
            let before = steps.len() - 1;
            steps.push(Step::Arg(2 + arg));
            steps.push(Step::Do(prim, [before, before + 1, 0]));
        }
        steps
    };
    run("normalize", scales as u8 | (shifts as u8) << 1, &steps, &operands, out)
}

pub fn centre(operands: [View; 5], out: View) -> Result<()> {
    let steps = || {
        let mut steps: Steps = (0..5).map(Step::Arg).collect();
        steps.extend([
            Step::Do(Prim::Mul, [2, 3, 0]),
            Step::Do(Prim::Sub, [0, 1, 0]),
            Step::Do(Prim::Sub, [6, 5, 0]),
            Step::Do(Prim::Mul, [7, 4, 0]),
        ]);
        steps
    };
    run("centre", 0, &steps, &operands, out)
}
