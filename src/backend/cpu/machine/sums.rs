//! Sums of rows: their accumulators, and the end of a row.
//!
//! Note [Sums of a kernel] A sum of a row has the accumulators of the compiled reduction, 64, of which each vector of the row
//! takes the next; at the end of the row they are added in halves, as there, so the bits are the same. Rows are whole
//! multiples of 64 elements, so the loop computes as many vectors as there are vectors of accumulators, and these stay in
//! registers. Where that leaves too few registers for the rest, a loop over one vector has them on the stack: the processor
//! forwards a store to the load that follows it four vectors later (eight with AVX2) in about ten cycles. Rows of 16, 32 and 48 elements have
//! eight accumulators, as there, which are always in registers: of a vector of 16 first the lower half is added, then the upper one.
//!
//! Note [Column sums of a kernel] Columns are summed eight rows at a time, as by the compiled reduction: a vector of each of the eight is
//! computed, they are added in pairs, and the sum to an accumulator in memory. So the elements need no buffer, and accumulators are read once
//! for eight rows. The code of a row is repeated for that, with offsets that are parts of its instructions: the length of rows and
//! the strides of arguments identify such a kernel. If the code would be too long, or elements are stored too, the reduction reads a buffer or
//! the result: lines of eight rows that are a page apart are of one set of the cache, and with a result stored such a kernel took 1.8 times as long as a
//! kernel and the reduction.

use iced_x86::{Code as Op, Instruction, MemoryOperand, Register};

use super::code::{Ahead, Two};
use super::emit::{AT, Emitter, HEAD, POINTERS, ROW, memory, word};
use super::opcodes::{LOAD, STORE, Target, two_codes};
use super::registers::Body;

/// Bytes of the current accumulators in those of a row.
const LANE: Register = Register::R15;

/// The opcodes that end a sum: of 32 bytes and 16, and of the last two numbers.
struct Ends {
    add_256: Op,
    add_128: Op,
    add_last: Op,
    store: Op,
}

fn ends(target: Target) -> Ends {
    if target.is_double {
        return Ends {
            add_256: Op::VEX_Vaddpd_ymm_ymm_ymmm256,
            add_128: Op::VEX_Vaddpd_xmm_xmm_xmmm128,
            add_last: Op::VEX_Vaddsd_xmm_xmm_xmmm64,
            store: Op::VEX_Vmovsd_m64_xmm,
        };
    }
    Ends {
        add_256: Op::VEX_Vaddps_ymm_ymm_ymmm256,
        add_128: Op::VEX_Vaddps_xmm_xmm_xmmm128,
        add_last: Op::VEX_Vaddss_xmm_xmm_xmmm32,
        store: Op::VEX_Vmovss_m32_xmm,
    }
}

impl Emitter<'_> {
    /// Adds value `v` to the accumulators of the columns whose sum it is.
    pub(super) fn add_to_columns(&mut self, b: &mut Body, v: usize) -> Option<()> {
        let add = self.target.pick(two_codes(Two::Add));
        for c in 0..self.code.columns.len() {
            if usize::from(self.code.columns[c]) != v {
                continue;
            }
            let value = self.vector(b, v)?;
            let sum = self.spare(b)?;
            b.held.clear();
            let at = self.element(b, self.first_columns() + c, Ahead::default())?;
            self.put(Instruction::with2(self.target.pick(LOAD), sum, at))?;
            self.put(Instruction::with3(add, sum, sum, self.register(value)))?;
            self.put(Instruction::with2(self.target.pick(STORE), at, sum))?;
        }
        Some(())
    }

    /// Passes the rows that were computed with the one that has ended. The accumulators of columns stay.
    pub(super) fn pass_rows(&mut self) -> Option<()> {
        let row = self.recipe.columns.n * self.target.size();
        if row == 0 {
            return Some(());
        }
        let others = i32::try_from((self.main.rows - 1) * row).ok()?;
        self.put(Instruction::with2(Op::Add_rm64_imm32, AT, others))?;
        let all = i32::try_from(self.main.rows * row).ok()?;
        for k in self.first_columns()..self.first_prefetch() {
            match POINTERS.get(k) {
                Some(r) => self.put(Instruction::with2(Op::Sub_rm64_imm32, *r, all))?,
                None => self.put(Instruction::with2(Op::Sub_rm64_imm32, word(HEAD + k), all))?,
            }
        }
        Some(())
    }

    /// The bytes of the accumulators of a sum.
    fn lanes(&self) -> usize {
        self.recipe.lanes() * self.target.size()
    }

    /// The vectors that these fill, of which one may be half full.
    fn vectors_of_sum(&self) -> usize {
        (self.lanes() / self.target.width()).max(1)
    }

    /// Whether the accumulators are half a vector.
    fn adds_halves(&self) -> bool {
        self.lanes() < self.target.width()
    }

    /// The bytes of the stack that have accumulators, before the values that leave their registers.
    pub(super) fn lanes_on_stack(&self) -> usize {
        if self.accumulators > 0 { 0 } else { self.recipe.sums.len() * self.lanes() }
    }

    /// A vector of the accumulators of a sum on the stack.
    fn lane(&self, sum: usize, vector: usize) -> MemoryOperand {
        memory(Register::RSP, Register::None, sum * self.lanes() + vector * self.target.width())
    }

    /// The register of a vector of the accumulators of a sum.
    fn accumulator(&self, sum: usize, vector: usize) -> Register {
        let each = self.accumulators / self.recipe.sums.len();
        self.register((self.target.vectors() - self.accumulators + sum * each + vector) as u8)
    }

    fn clear(&mut self, r: Register) -> Option<()> {
        let op = match self.target.is_512 {
            true => Op::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            false => Op::VEX_Vxorps_ymm_ymm_ymmm256,
        };
        self.put(Instruction::with3(op, r, r, r))
    }

    /// Clears the accumulators for a row.
    pub(super) fn clear_sums(&mut self) -> Option<()> {
        let each = self.vectors_of_sum();
        let zero = self.register(0);
        if self.lanes_on_stack() > 0 {
            self.clear(zero)?;
        }
        for (sum, vector) in (0..self.recipe.sums.len()).flat_map(|s| (0..each).map(move |v| (s, v))) {
            if self.accumulators > 0 {
                self.clear(self.accumulator(sum, vector))?;
            } else {
                let at = self.lane(sum, vector);
                self.put(Instruction::with2(self.target.pick(STORE), at, zero))?;
            }
        }
        Some(())
    }

    /// Finds the current accumulators on the stack.
    pub(super) fn find_lane(&mut self) -> Option<()> {
        if self.lanes_on_stack() == 0 {
            return Some(());
        }
        self.put(Instruction::with2(Op::Mov_r64_rm64, LANE, AT))?;
        self.put(Instruction::with2(Op::And_rm64_imm32, LANE, self.lanes() as i32 - 1))
    }

    /// Adds value `v` to the sums that it is an element of.
    pub(super) fn add_to_sums(&mut self, b: &mut Body, v: usize) -> Option<()> {
        let count = self.recipe.sums.len();
        for s in 0..self.code.sums.len() {
            if usize::from(self.code.sums[s]) != v {
                continue;
            }
            let value = self.vector(b, v)?;
            let add = self.target.pick(two_codes(Two::Add));
            if self.accumulators > 0 {
                let sum = self.accumulator(s % count, b.vector + s / count);
                let value = self.register(value);
                self.put(Instruction::with3(add, sum, sum, value))?;
                if self.adds_halves() {
                    let upper = self.spare(b)?;
                    let half = Register::YMM0 + (upper as u32 - Register::ZMM0 as u32);
                    let extract = Op::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
                    self.put(Instruction::with3(extract, half, value, 1u32))?;
                    self.put(Instruction::with3(add, sum, sum, upper))?;
                }
                b.held.clear();
                continue;
            }
            let sum = self.spare(b)?;
            b.held.clear();
            let value = self.register(value);
            let at = memory(Register::RSP, LANE, s % count * self.lanes() + s / count * self.target.width());
            self.put(Instruction::with2(self.target.pick(LOAD), sum, at))?;
            self.put(Instruction::with3(add, sum, sum, value))?;
            self.put(Instruction::with2(self.target.pick(STORE), at, sum))?;
        }
        Some(())
    }

    /// Stores the sums of a row.
    pub(super) fn store_sums(&mut self) -> Option<()> {
        for sum in 0..self.recipe.sums.len() {
            let total = if self.accumulators > 0 { self.add_registers(sum) } else { self.add_lanes(sum) }?;
            self.end_sum(sum, total)?;
        }
        Some(())
    }

    /// Adds the accumulators in registers, in halves; returns the register of the last vector.
    fn add_registers(&mut self, sum: usize) -> Option<Register> {
        let add = self.target.pick(two_codes(Two::Add));
        let mut half = self.vectors_of_sum() / 2;
        while half > 0 {
            for v in 0..half {
                let (x, y) = (self.accumulator(sum, v), self.accumulator(sum, v + half));
                self.put(Instruction::with3(add, x, x, y))?;
            }
            half /= 2;
        }
        Some(self.accumulator(sum, 0))
    }

    /// As `add_registers`, for accumulators on the stack.
    fn add_lanes(&mut self, sum: usize) -> Option<Register> {
        let (add, load) = (self.target.pick(two_codes(Two::Add)), self.target.pick(LOAD));
        let mut half = self.lanes() / self.target.width() / 2;
        for v in 0..half {
            let (x, low, high) = (self.register(v as u8), self.lane(sum, v), self.lane(sum, v + half));
            self.put(Instruction::with2(load, x, low))?;
            self.put(Instruction::with3(add, x, x, high))?;
        }
        while half > 1 {
            half /= 2;
            for v in 0..half {
                let (x, y) = (self.register(v as u8), self.register((v + half) as u8));
                self.put(Instruction::with3(add, x, x, y))?;
            }
        }
        Some(self.register(0))
    }

    /// Adds the numbers of a vector in halves, and stores the sum.
    fn end_sum(&mut self, sum: usize, total: Register) -> Option<()> {
        let Ends { add_256, add_128, add_last, store } = ends(self.target);
        let [y, x, other_y, other] = [Register::YMM0, Register::XMM0, Register::YMM1, Register::XMM1];
        if total != self.register(0) {
            self.put(Instruction::with2(self.target.pick(LOAD), self.register(0), total))?;
        }
        if self.target.is_512 && !self.adds_halves() {
            let upper = Op::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
            self.put(Instruction::with3(upper, other_y, Register::ZMM0, 1u32))?;
            self.put(Instruction::with3(add_256, y, y, other_y))?;
        }
        self.put(Instruction::with3(Op::VEX_Vextractf128_xmmm128_ymm_imm8, other, y, 1u32))?;
        self.put(Instruction::with3(add_128, x, x, other))?;
        if !self.target.is_double {
            self.put(Instruction::with3(Op::VEX_Vmovhlps_xmm_xmm_xmm, other, x, x))?;
            self.put(Instruction::with3(add_128, x, x, other))?;
            self.put(Instruction::with2(Op::VEX_Vmovshdup_xmm_xmmm128, other, x))?;
        } else {
            self.put(Instruction::with3(Op::VEX_Vunpckhpd_xmm_xmm_xmmm128, other, x, x))?;
        }
        self.put(Instruction::with3(add_last, x, x, other))?;
        let base = self.pointer(self.recipe.args + self.recipe.results.len() + sum)?;
        self.put(Instruction::with2(store, memory(base, ROW, 0), x))
    }
}
