//! Instructions to bytes, with a choice of registers.
//!
//! Note [Registers of a kernel] Instructions are emitted in order. A value that is in memory anyway (an element, a number) is
//! loaded where it is needed, often as an operand. If no register is free, the value whose next use is farthest leaves
//! its register: to the stack if it was computed, else to be loaded again. Booleans are vectors with AVX2, and mask
//! registers with AVX-512, which are never spilled: a kernel that needs more of them is not compiled.
//!
//! Note [Sums of a kernel] A sum of a row has the accumulators of the compiled reduction, 64, of which each vector of the row
//! takes the next, so the caller finishes it with the same bits. They are in memory rather than in registers, as a loop
//! over one vector has no register for each: the processor forwards a store to the load that follows it four vectors
//! later (eight with AVX2) in about ten cycles, and what is summed takes longer to load.

use std::collections::BTreeSet;

use iced_x86::{Code as Op, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::code::{Code, Compare, Index, Inst, Logic, One, Two};
use super::opcodes::{
    BLEND, COMPARE, LOAD, LOAD_SOME, SPREAD, STORE, STORE_SOME, Target, one_codes, shift_codes, two_codes,
};
use super::recipe::{LANES, Recipe};

/// The words of a call before its pointers: rows, bytes of whole vectors in a row, bytes after them, the mask of the lanes
/// that these fill, as bits and as the address of a vector.
pub const HEAD: usize = 5;
/// The most bytes of the stack that a kernel reserves. A frame of a page or more could step over the guard page below the stack of
/// a thread, as nothing probes it.
const FRAME: usize = 3072;
/// Bytes per number in the pool.
pub const SLOT: usize = 64;

/// Pointers in these registers; further ones are loaded from the call each time.
const POINTERS: [Register; 8] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
];
const SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
const CALL: Register = Register::RDI;
const POOL: Register = Register::RSI;
/// Bytes before the current elements, and before the current row's values.
const AT: Register = Register::RAX;
const ROW: Register = Register::RDX;
const END: Register = Register::RCX;
const SCRATCH: Register = Register::R11;
/// Bytes of the current accumulators in those of a row.
const LANE: Register = Register::R15;

/// The bytes of a kernel and its literals. In a call the pointers to arguments precede those to results and to sums, and the
/// steps between rows of strided arguments and spread results follow; literals follow the numbers in the pool. None if it needs too many masks, or
/// too much of the stack.
pub fn emit(code: &Code, target: Target, recipe: &Recipe) -> Option<(Vec<u8>, Vec<u64>)> {
    let numbers = recipe.numbers;
    let mut literals: Vec<u64> = Vec::new();
    let mut pool = vec![0; code.insts.len()];
    for (i, inst) in code.insts.iter().enumerate() {
        match *inst {
            Inst::Number(k) => pool[i] = k as usize,
            Inst::Literal(v) => {
                literals.push(v);
                pool[i] = numbers + literals.len() - 1;
            }
            _ => {}
        }
    }
    let ones = numbers + literals.len();
    literals.push(u64::MAX);
    let (mut places, mut stack) = ([0; 4], 0);
    // Until labels and the size of the stack are those that were assumed.
    for _ in 0..4 {
        let mut out = Emitter {
            code,
            target,
            recipe,
            pool: &pool,
            ones,
            encoder: Encoder::new(64),
            at: 0,
            places,
            stack,
        };
        let needed = out.kernel()?;
        if needed > FRAME {
            return None;
        }
        if out.places == places && needed == stack {
            return Some((out.encoder.take_buffer(), literals));
        }
        (places, stack) = (out.places, needed);
    }
    None
}

#[derive(Clone, Copy)]
enum Label {
    Row,
    Main,
    Rest,
    Next,
}

struct Emitter<'c> {
    code: &'c Code,
    target: Target,
    recipe: &'c Recipe<'c>,
    pool: &'c [usize],
    /// The number in the pool with all bits set.
    ones: usize,
    encoder: Encoder,
    at: u64,
    /// Where labels are; before they are emitted, where they are assumed.
    places: [u64; 4],
    /// Bytes of the stack that the code reserves.
    stack: usize,
}

fn memory(base: Register, index: Register, offset: usize) -> MemoryOperand {
    let size = u32::from(offset != 0);
    MemoryOperand::with_base_index_scale_displ_size(base, index, 1, offset as i64, size)
}

fn word(k: usize) -> MemoryOperand {
    memory(CALL, Register::None, 8 * k)
}

/// Where a value is.
#[derive(Clone, Copy, Default)]
struct Place {
    register: Option<u8>,
    slot: Option<usize>,
}

/// The choice of registers while a body is emitted.
struct Body {
    places: Vec<Place>,
    /// By value, the instructions that use it, last first.
    uses: Vec<Vec<usize>>,
    vectors: Vec<Option<Index>>,
    masks: Vec<Option<Index>>,
    slots: usize,
    /// Whether lanes after the end of a row are left alone.
    is_masked: bool,
    /// The vectors that the current instruction reads.
    held: Vec<u8>,
}

impl Emitter<'_> {
    fn put(&mut self, i: Result<Instruction, IcedError>) -> Option<()> {
        self.at += self.encoder.encode(&i.ok()?, self.at).ok()? as u64;
        Some(())
    }

    fn label(&mut self, l: Label) {
        self.places[l as usize] = self.at;
    }

    fn jump(&mut self, op: Op, to: Label) -> Option<()> {
        self.put(Instruction::with_branch(op, self.places[to as usize]))
    }

    /// The whole function; returns the bytes of the stack that it needs.
    fn kernel(&mut self) -> Option<usize> {
        for r in SAVED {
            self.put(Instruction::with1(Op::Push_r64, r))?;
        }
        if self.stack > 0 {
            self.put(Instruction::with2(Op::Sub_rm64_imm32, Register::RSP, self.stack as i32))?;
        }
        let sums = self.recipe.args + self.code.results.len();
        let pointers = sums + self.code.sums.len();
        for (k, r) in POINTERS.into_iter().enumerate().take(pointers) {
            self.put(Instruction::with2(Op::Mov_r64_rm64, r, word(HEAD + k)))?;
        }
        self.put(Instruction::with2(Op::Xor_r32_rm32, Register::EAX, Register::EAX))?;
        self.put(Instruction::with2(Op::Xor_r32_rm32, Register::EDX, Register::EDX))?;
        if self.target.is_512 {
            self.put(Instruction::with2(Op::VEX_Kmovq_kr_km64, Register::K1, word(3)))?;
        }
        self.label(Label::Row);
        self.put(Instruction::with2(Op::Mov_r64_rm64, END, word(1)))?;
        self.put(Instruction::with2(Op::Add_r64_rm64, END, AT))?;
        self.put(Instruction::with2(Op::Cmp_r64_rm64, AT, END))?;
        self.jump(Op::Jae_rel32_64, Label::Rest)?;
        self.label(Label::Main);
        let main = self.body(false)?;
        self.put(Instruction::with2(Op::Add_rm64_imm32, AT, self.target.width() as i32))?;
        self.put(Instruction::with2(Op::Cmp_r64_rm64, AT, END))?;
        self.jump(Op::Jb_rel32_64, Label::Main)?;
        self.label(Label::Rest);
        let mut rest = 0;
        // Rows with sums are whole multiples of a vector.
        if self.code.sums.is_empty() {
            self.put(Instruction::with2(Op::Cmp_rm64_imm8, word(2), 0))?;
            self.jump(Op::Je_rel32_64, Label::Next)?;
            rest = self.body(true)?;
            self.put(Instruction::with2(Op::Add_r64_rm64, AT, word(2)))?;
        }
        self.label(Label::Next);
        self.put(Instruction::with2(Op::Add_rm64_imm32, ROW, self.target.size() as i32))?;
        let is = |bits: u64, k: usize| bits >> k & 1 == 1;
        let strided = (0..self.recipe.args).filter(|k| is(self.recipe.strided, *k));
        let spread = (0..self.code.results.len()).filter(|r| is(self.recipe.spread, *r));
        for (s, k) in strided.chain(spread.map(|r| self.recipe.args + r)).enumerate() {
            let step = word(HEAD + pointers + s);
            match POINTERS.get(k) {
                Some(r) => self.put(Instruction::with2(Op::Add_r64_rm64, *r, step))?,
                None => {
                    self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, step))?;
                    self.put(Instruction::with2(Op::Add_rm64_r64, word(HEAD + k), SCRATCH))?;
                }
            }
        }
        for k in sums..pointers {
            let step = self.lanes() as i32;
            match POINTERS.get(k) {
                Some(r) => self.put(Instruction::with2(Op::Add_rm64_imm32, *r, step))?,
                None => self.put(Instruction::with2(Op::Add_rm64_imm32, word(HEAD + k), step))?,
            }
        }
        self.put(Instruction::with2(Op::Sub_rm64_imm8, word(0), 1))?;
        self.jump(Op::Jne_rel32_64, Label::Row)?;
        if self.stack > 0 {
            self.put(Instruction::with2(Op::Add_rm64_imm32, Register::RSP, self.stack as i32))?;
        }
        for r in SAVED.into_iter().rev() {
            self.put(Instruction::with1(Op::Pop_r64, r))?;
        }
        self.put(Ok(Instruction::with(Op::VEX_Vzeroupper)))?;
        self.put(Ok(Instruction::with(Op::Retnq)))?;
        Some(main.max(rest) * self.target.width())
    }

    /// All instructions for one vector; returns the number of values on the stack.
    fn body(&mut self, is_masked: bool) -> Option<usize> {
        let count = self.code.insts.len();
        let mut uses = vec![Vec::new(); count];
        if self.recipe.replaces {
            // The value of an argument would be loaded again after it was replaced.
            let is_argument = |r: &Index| matches!(self.code.insts[usize::from(*r)], Inst::Load(_));
            if self.code.results.iter().any(is_argument) {
                return None;
            }
            self.code.results.iter().for_each(|r| uses[usize::from(*r)].push(count));
        }
        for (i, inst) in self.code.insts.iter().enumerate().rev() {
            inst.operands().for_each(|o| uses[o as usize].push(i));
        }
        // With AVX2 the last register has the mask.
        let vectors = if self.target.is_512 { 32 } else { 15 };
        let mut b = Body {
            places: vec![Place::default(); count],
            uses,
            vectors: vec![None; vectors],
            masks: vec![None; 6],
            slots: 0,
            is_masked,
            held: Vec::new(),
        };
        if is_masked && !self.target.is_512 {
            self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, word(4)))?;
            let at = memory(SCRATCH, Register::None, 0);
            self.put(Instruction::with2(Op::VEX_Vmovups_ymm_ymmm256, Register::YMM15, at))?;
        }
        if !self.code.sums.is_empty() {
            self.put(Instruction::with2(Op::Mov_r64_rm64, LANE, AT))?;
            self.put(Instruction::with2(Op::And_rm64_imm32, LANE, self.lanes() as i32 - 1))?;
        }
        for i in 0..count {
            let inst = self.code.insts[i];
            if !inst.is_in_memory() {
                self.compute(&mut b, i, inst)?;
            }
            self.add_to_sums(&mut b, i)?;
            if !self.recipe.replaces {
                self.store_results(&mut b, i)?;
            }
            self.drop_dead(&mut b, i);
        }
        if self.recipe.replaces {
            for r in self.code.results.iter().map(|r| usize::from(*r)).collect::<BTreeSet<_>>() {
                self.store_results(&mut b, r)?;
            }
        }
        Some(b.slots)
    }

    /// Stores the results that value `v` is.
    fn store_results(&mut self, b: &mut Body, v: usize) -> Option<()> {
        for k in 0..self.code.results.len() {
            if usize::from(self.code.results[k]) == v {
                let register = self.vector(b, v)?;
                self.store(b, k, register)?;
                b.held.clear();
            }
        }
        Some(())
    }

    /// The bytes of the accumulators of a row.
    fn lanes(&self) -> usize {
        LANES * self.target.size()
    }

    /// Adds value `v` to the sums that it is an element of. See Note [Sums of a kernel].
    fn add_to_sums(&mut self, b: &mut Body, v: usize) -> Option<()> {
        for s in 0..self.code.sums.len() {
            if usize::from(self.code.sums[s]) != v {
                continue;
            }
            let value = self.vector(b, v)?;
            let sum = match b.vectors.iter().position(Option::is_none) {
                Some(r) => r,
                None => self.evict(b)?,
            };
            b.vectors[sum] = None;
            b.held.clear();
            let (value, sum) = (self.register(value), self.register(sum as u8));
            let base = self.pointer(self.recipe.args + self.code.results.len() + s)?;
            let at = memory(base, LANE, 0);
            self.put(Instruction::with2(self.target.pick(LOAD), sum, at))?;
            self.put(Instruction::with3(self.target.pick(two_codes(Two::Add)), sum, sum, value))?;
            self.put(Instruction::with2(self.target.pick(STORE), at, sum))?;
        }
        Some(())
    }

    fn register(&self, v: u8) -> Register {
        (if self.target.is_512 { Register::ZMM0 } else { Register::YMM0 }) + u32::from(v)
    }

    /// Frees the registers of values that nothing uses after instruction `i`.
    fn drop_dead(&mut self, b: &mut Body, i: usize) {
        let inst = self.code.insts[i];
        for o in inst.operands().chain(std::iter::once(i as Index)) {
            let o = usize::from(o);
            while b.uses[o].last().is_some_and(|&u| u <= i) {
                b.uses[o].pop();
            }
            if b.uses[o].is_empty()
                && let Some(r) = b.places[o].register.take()
            {
                let file = if self.is_mask(o) { &mut b.masks } else { &mut b.vectors };
                file[usize::from(r)] = None;
            }
        }
    }

    /// Whether a value is in a mask register.
    fn is_mask(&self, v: usize) -> bool {
        self.target.is_512 && self.code.insts[v].is_truth()
    }

    /// A register for value `v`.
    fn allocate(&mut self, b: &mut Body, v: usize) -> Option<u8> {
        if self.is_mask(v) {
            let r = b.masks.iter().position(Option::is_none)?;
            b.masks[r] = Some(v as Index);
            b.places[v].register = Some(r as u8);
            return Some(r as u8);
        }
        let free = match b.vectors.iter().position(Option::is_none) {
            Some(r) => r,
            None => self.evict(b)?,
        };
        b.vectors[free] = Some(v as Index);
        b.places[v].register = Some(free as u8);
        Some(free as u8)
    }

    /// Empties the register of the value whose next use is farthest.
    fn evict(&mut self, b: &mut Body) -> Option<usize> {
        let next = |v: Index| b.uses[usize::from(v)].last().copied().unwrap_or(usize::MAX);
        let candidates = b.vectors.iter().enumerate().filter(|(r, _)| !b.held.contains(&(*r as u8)));
        let (r, v) = candidates.filter_map(|(r, v)| Some((r, (*v)?))).max_by_key(|(_, v)| next(*v))?;
        let v = usize::from(v);
        b.places[v].register = None;
        if !self.code.insts[v].is_in_memory() && b.places[v].slot.is_none() {
            b.places[v].slot = Some(b.slots);
            let to = memory(Register::RSP, Register::None, b.slots * self.target.width());
            b.slots += 1;
            let from = self.register(r as u8);
            self.put(Instruction::with2(self.target.pick(STORE), to, from))?;
        }
        Some(r)
    }

    /// The base of a pointer.
    fn pointer(&mut self, k: usize) -> Option<Register> {
        if let Some(r) = POINTERS.get(k) {
            return Some(*r);
        }
        self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, word(HEAD + k)))?;
        Some(SCRATCH)
    }

    /// The memory of a value, if a whole vector may be read from it.
    fn operand(&mut self, b: &Body, v: usize) -> Option<MemoryOperand> {
        match self.code.insts[v] {
            Inst::Number(_) | Inst::Literal(_) => Some(memory(POOL, Register::None, self.pool[v] * SLOT)),
            Inst::Load(k) if !b.is_masked && b.uses[v].len() <= 1 => {
                let base = self.pointer(k.into())?;
                Some(memory(base, AT, 0))
            }
            _ => {
                let slot = b.places[v].slot?;
                Some(memory(Register::RSP, Register::None, slot * self.target.width()))
            }
        }
    }

    /// The register of value `v`, loaded if need be. It stays until the end of the instruction.
    fn vector(&mut self, b: &mut Body, v: usize) -> Option<u8> {
        if let Some(r) = b.places[v].register {
            if !self.is_mask(v) {
                b.held.push(r);
            }
            return Some(r);
        }
        let inst = self.code.insts[v];
        let slot = b.places[v].slot;
        let r = self.allocate(b, v)?;
        b.held.push(r);
        let register = self.register(r);
        let wide = self.target.is_512;
        let load = self.target.pick(LOAD);
        match inst {
            Inst::Load(k) => {
                let base = self.pointer(k.into())?;
                let at = memory(base, AT, 0);
                if !b.is_masked {
                    self.put(Instruction::with2(load, register, at))?;
                } else if wide {
                    let masked = Instruction::with2(load, register, at).map(|mut i| {
                        i.set_op_mask(Register::K1);
                        i.set_zeroing_masking(true);
                        i
                    });
                    self.put(masked)?;
                } else {
                    self.put(Instruction::with3(self.target.pick(LOAD_SOME), register, Register::YMM15, at))?;
                }
            }
            Inst::Spread(k) => {
                let base = self.pointer(k.into())?;
                self.put(Instruction::with2(self.target.pick(SPREAD), register, memory(base, ROW, 0)))?;
            }
            Inst::Number(_) | Inst::Literal(_) => {
                let at = memory(POOL, Register::None, self.pool[v] * SLOT);
                self.put(Instruction::with2(load, register, at))?;
            }
            _ => {
                let at = memory(Register::RSP, Register::None, slot? * self.target.width());
                self.put(Instruction::with2(load, register, at))?;
            }
        }
        Some(r)
    }

    fn store(&mut self, b: &Body, result: usize, from: u8) -> Option<()> {
        let base = self.pointer(self.recipe.args + result)?;
        let at = memory(base, AT, 0);
        let from = self.register(from);
        let store = self.target.pick(STORE);
        if self.target.is_512 {
            return self.put(Instruction::with2(store, at, from).map(|mut i| {
                if b.is_masked {
                    i.set_op_mask(Register::K1);
                }
                i
            }));
        }
        if !b.is_masked {
            return self.put(Instruction::with2(store, at, from));
        }
        self.put(Instruction::with3(self.target.pick(STORE_SOME), at, Register::YMM15, from))
    }

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

    /// Ends the hold on operands, and frees those that nothing uses after instruction `i`: its result may replace them.
    fn release(&mut self, b: &mut Body, i: usize) {
        b.held.clear();
        self.drop_dead_operands(b, i);
    }

    fn drop_dead_operands(&mut self, b: &mut Body, i: usize) {
        let last = |uses: &Vec<usize>| uses.iter().all(|&u| u <= i);
        for o in self.code.insts[i].operands().map(usize::from) {
            if last(&b.uses[o])
                && let Some(r) = b.places[o].register.take()
            {
                let file = if self.is_mask(o) { &mut b.masks } else { &mut b.vectors };
                file[usize::from(r)] = None;
            }
        }
    }

    fn compute(&mut self, b: &mut Body, i: usize, inst: Inst) -> Option<()> {
        let target = self.target;
        match inst {
            Inst::Load(_) | Inst::Spread(_) | Inst::Number(_) | Inst::Literal(_) => Some(()),
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
                let predicate = match compare {
                    Compare::Less => 0x11,
                    Compare::LessOrEqual => 0x12,
                    Compare::Equal => 0x00,
                };
                self.binary(b, target.pick(COMPARE), i, x.into(), y.into(), Some(predicate))
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
                let ones = memory(POOL, Register::None, self.ones * SLOT);
                let (out, x) = (self.register(out), self.register(x));
                self.put(Instruction::with3(Op::VEX_Vxorps_ymm_ymm_ymmm256, out, x, ones))
            }
            Inst::Select(c, yes, no) => self.select(b, i, c.into(), yes.into(), no.into()),
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
