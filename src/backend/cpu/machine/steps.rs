//! One instruction at a time.

use iced_x86::{Code as Op, Instruction, Register};

use super::code::{Compare, Inst, Logic, One};
use super::emit::{Emitter, POOL, SLOT, memory};
use super::opcodes::{BLEND, COMPARE, EQUAL_BITS, GREATER_BITS, one_codes, shift_codes, two_codes};
use super::registers::Body;

impl Emitter<'_> {
    /// An instruction of two operands, the second of which may be in memory.
    fn binary(&mut self, b: &mut Body, op: Op, i: usize, x: usize, y: usize, imm: Option<u32>) -> Option<()> {
        let x = self.vector(b, x)?;
        let in_register = b.places[y].register.is_some();
        let from = if in_register { None } else { self.operand(b, y) };
        let y = if from.is_some() { None } else { Some(self.vector(b, y)?) };
        self.release(b, i);
        let out = self.allocate(b, i)?;
        let out = if self.is_mask(i) { Register::K2 + u32::from(out) } else { self.register(out) };
        let x = self.register(x);
        let made = match (from, y, imm) {
            (Some(m), _, None) => Instruction::with3(op, out, x, m),
            (Some(m), _, Some(n)) => Instruction::with4(op, out, x, m, n),
            (None, Some(y), None) => Instruction::with3(op, out, x, self.register(y)),
            (None, Some(y), Some(n)) => Instruction::with4(op, out, x, self.register(y), n),
            (None, None, _) => return None,
        };
        self.put(made)
    }

    pub(super) fn compute(&mut self, b: &mut Body, i: usize, inst: Inst) -> Option<()> {
        let target = self.target;
        match inst {
            Inst::Two(two, x, y) => {
                let (mut x, mut y) = (usize::from(x), usize::from(y));
                // The second operand may be in memory.
                if two.commutes() && self.code.insts[x].is_in_memory() && b.places[x].register.is_none() {
                    (x, y) = (y, x);
                }
                self.binary(b, target.pick(two_codes(two)), i, x, y, None)
            }
            Inst::One(one, x) => {
                let x = self.vector(b, x.into())?;
                self.release(b, i);
                let out = self.allocate(b, i)?;
                let (out, x) = (self.register(out), self.register(x));
                if one == One::RoundHalf {
                    return self.round_half(out, x);
                }
                let (op, imm) = one_codes(one);
                self.put(match imm {
                    None => Instruction::with2(target.pick(op), out, x),
                    Some(n) => Instruction::with3(target.pick(op), out, x, n),
                })
            }
            Inst::Shift(shift, x, by) => {
                let x = self.vector(b, x.into())?;
                self.release(b, i);
                let out = self.allocate(b, i)?;
                let (out, x) = (self.register(out), self.register(x));
                self.put(Instruction::with3(target.pick(shift_codes(shift)), out, x, u32::from(by)))
            }
            Inst::Compare(compare, x, y) => {
                let (x, y) = (x.into(), y.into());
                let (op, predicate) = match compare {
                    Compare::Less => (COMPARE, Some(0x11)),
                    Compare::LessOrEqual => (COMPARE, Some(0x12)),
                    Compare::Equal => (COMPARE, Some(0x00)),
                    Compare::LessBits if target.is_512 => (GREATER_BITS, Some(1)),
                    Compare::EqualBits => (EQUAL_BITS, target.is_512.then_some(0)),
                    Compare::LessBits => return self.binary(b, target.pick(GREATER_BITS), i, y, x, None),
                };
                self.binary(b, target.pick(op), i, x, y, predicate)
            }
            Inst::Logic(logic, x, y) => self.logic(b, i, logic, x.into(), y.into()),
            Inst::Not(x) => {
                let x = self.vector(b, x.into())?;
                self.release(b, i);
                let out = self.allocate(b, i)?;
                if target.is_512 {
                    let (out, x) = (Register::K2 + u32::from(out), Register::K2 + u32::from(x));
                    return self.put(Instruction::with2(Op::VEX_Knotw_kr_kr, out, x));
                }
                let ones =
                    memory(POOL, Register::None, (self.recipe.numbers + self.literals.len() - 1) * SLOT);
                let (out, x) = (self.register(out), self.register(x));
                self.put(Instruction::with3(Op::VEX_Vxorps_ymm_ymm_ymmm256, out, x, ones))
            }
            Inst::Select(c, yes, no) => self.select(b, i, c.into(), yes.into(), no.into()),
            // Loaded where they are needed.
            Inst::Load(..) | Inst::LoadNarrow(..) | Inst::Spread(..) | Inst::Number(_) | Inst::Literal(_) => {
                Some(())
            }
        }
    }

    /// To float16, in half of the result's register, and back.
    fn round_half(&mut self, out: Register, x: Register) -> Option<()> {
        let number = out as u32 - self.register(0) as u32;
        if self.target.is_512 {
            let half = Register::YMM0 + number;
            self.put(Instruction::with3(Op::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, half, x, 0))?;
            return self.put(Instruction::with2(Op::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, out, half));
        }
        let half = Register::XMM0 + number;
        self.put(Instruction::with3(Op::VEX_Vcvtps2ph_xmmm128_ymm_imm8, half, x, 0))?;
        self.put(Instruction::with2(Op::VEX_Vcvtph2ps_ymm_xmmm128, out, half))
    }

    fn logic(&mut self, b: &mut Body, i: usize, logic: Logic, x: usize, y: usize) -> Option<()> {
        let (x, y) = (self.vector(b, x)?, self.vector(b, y)?);
        self.release(b, i);
        let out = self.allocate(b, i)?;
        if self.target.is_512 {
            let op = match logic {
                Logic::And => Op::VEX_Kandw_kr_kr_kr,
                Logic::Or => Op::VEX_Korw_kr_kr_kr,
            };
            let [out, x, y] = [out, x, y].map(|r| Register::K2 + u32::from(r));
            return self.put(Instruction::with3(op, out, x, y));
        }
        let op = match logic {
            Logic::And => Op::VEX_Vandps_ymm_ymm_ymmm256,
            Logic::Or => Op::VEX_Vorps_ymm_ymm_ymmm256,
        };
        let [out, x, y] = [out, x, y].map(|r| self.register(r));
        self.put(Instruction::with3(op, out, x, y))
    }

    fn select(&mut self, b: &mut Body, i: usize, c: usize, yes: usize, no: usize) -> Option<()> {
        let (c, no) = (self.vector(b, c)?, self.vector(b, no)?);
        let from = if b.places[yes].register.is_some() { None } else { self.operand(b, yes) };
        let yes = if from.is_some() { None } else { Some(self.vector(b, yes)?) };
        self.release(b, i);
        let out = self.allocate(b, i)?;
        let (out, no) = (self.register(out), self.register(no));
        let op = self.target.pick(BLEND);
        if self.target.is_512 {
            let made = match (from, yes) {
                (Some(m), _) => Instruction::with3(op, out, no, m),
                (None, Some(yes)) => Instruction::with3(op, out, no, self.register(yes)),
                (None, None) => return None,
            };
            return self.put(made.map(|mut i| {
                i.set_op_mask(Register::K2 + u32::from(c));
                i
            }));
        }
        let c = self.register(c);
        self.put(match (from, yes) {
            (Some(m), _) => Instruction::with4(op, out, no, m, c),
            (None, Some(yes)) => Instruction::with4(op, out, no, self.register(yes), c),
            (None, None) => return None,
        })
    }
}
