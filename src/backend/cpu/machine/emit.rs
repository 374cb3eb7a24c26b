//! Instructions to bytes: the frame and the loops of a kernel.
//!
//! Note [Sums of a kernel] A sum of a row has the accumulators of the compiled reduction, 64, of which each vector of the row
//! takes the next, so the caller finishes it with the same bits. Rows are whole multiples of 64 elements, so the loop computes
//! as many vectors as there are vectors of accumulators, and these stay in registers. Where that leaves too few registers for
//! the rest, a loop over one vector has them in memory: the processor forwards a store to the load that follows it four
//! vectors later (eight with AVX2) in about ten cycles.

use std::collections::BTreeSet;

use iced_x86::{Code as Op, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::code::{Code, Index, Inst, Two};
use super::opcodes::{LOAD, STORE, STORE_SOME, Target, two_codes};
use super::recipe::{LANES, Recipe};
use super::registers::{Body, Place};

/// The words of a call before its pointers: rows, bytes of whole vectors in a row, bytes after them, the mask of the lanes
/// that these fill, as bits and as the address of a vector.
pub const HEAD: usize = 5;
/// The most bytes of the stack that a kernel reserves. A frame of a page or more could step over the guard page below the stack of
/// a thread, as nothing probes it.
const FRAME: usize = 3072;
/// Registers that accumulators leave to other values.
const FOR_VALUES: usize = 6;
/// The most instructions of a loop that computes several vectors.
const LONGEST: usize = 512;
/// Bytes per number in the pool.
pub const SLOT: usize = 64;

/// Pointers in these registers; further ones are loaded from the call each time.
pub(super) const POINTERS: [Register; 7] =
    [Register::R8, Register::R9, Register::R10, Register::RBX, Register::RBP, Register::R12, Register::R13];
const SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
const CALL: Register = Register::RDI;
pub(super) const POOL: Register = Register::RSI;
/// Bytes before the current elements, and before the current row's values.
pub(super) const AT: Register = Register::RAX;
pub(super) const ROW: Register = Register::RDX;
const END: Register = Register::RCX;
pub(super) const SCRATCH: Register = Register::R11;
/// Bytes of the current accumulators in those of a row.
const LANE: Register = Register::R15;
/// The current element, which is the current byte of arguments of bytes.
pub(super) const BYTE: Register = Register::R14;

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
    let vectors = LANES * target.size() / target.width();
    let accumulators = vectors * code.sums.len();
    let unrolls = accumulators > 0
        && accumulators + FOR_VALUES <= target.vectors()
        && vectors * code.insts.len() <= LONGEST;
    let made = |accumulators| settled(&Emitter::new(code, target, recipe, &pool, ones, accumulators));
    let kernel = match unrolls.then(|| made(accumulators)).flatten() {
        // No value had to leave its register.
        Some((bytes, 0)) => bytes,
        _ => made(0)?.0,
    };
    Some((kernel, literals))
}

/// The bytes of a kernel and of its stack.
fn settled(emitter: &Emitter) -> Option<(Vec<u8>, usize)> {
    let (mut places, mut stack) = ([0; 4], 0);
    // Until labels and the size of the stack are those that were assumed.
    for _ in 0..4 {
        let mut out = Emitter { encoder: Encoder::new(64), at: 0, places, stack, ..*emitter };
        let needed = out.kernel()?;
        if needed > FRAME {
            return None;
        }
        if out.places == places && needed == stack {
            return Some((out.encoder.take_buffer(), stack));
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

pub(super) struct Emitter<'c> {
    pub(super) code: &'c Code,
    pub(super) target: Target,
    pub(super) recipe: &'c Recipe<'c>,
    pub(super) pool: &'c [usize],
    /// The number in the pool with all bits set.
    pub(super) ones: usize,
    pub(super) encoder: Encoder,
    pub(super) at: u64,
    /// Where labels are; before they are emitted, where they are assumed.
    pub(super) places: [u64; 4],
    /// Bytes of the stack that the code reserves.
    pub(super) stack: usize,
    /// The registers of accumulators, which are the last ones; 0 where they are in memory.
    pub(super) accumulators: usize,
}

pub(super) fn memory(base: Register, index: Register, offset: usize) -> MemoryOperand {
    let size = u32::from(offset != 0);
    MemoryOperand::with_base_index_scale_displ_size(base, index, 1, offset as i64, size)
}

pub(super) fn word(k: usize) -> MemoryOperand {
    memory(CALL, Register::None, 8 * k)
}

impl<'c> Emitter<'c> {
    fn new(
        code: &'c Code,
        target: Target,
        recipe: &'c Recipe,
        pool: &'c [usize],
        ones: usize,
        accumulators: usize,
    ) -> Self {
        let encoder = Encoder::new(64);
        Emitter { code, target, recipe, pool, ones, encoder, at: 0, places: [0; 4], stack: 0, accumulators }
    }

    pub(super) fn put(&mut self, i: Result<Instruction, IcedError>) -> Option<()> {
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
        self.move_accumulators(Self::load_accumulator)?;
        self.label(Label::Main);
        let copies = if self.accumulators > 0 { self.accumulators / self.code.sums.len() } else { 1 };
        let mut main = 0;
        for copy in 0..copies {
            main = main.max(self.body(false, copy)?);
        }
        self.put(Instruction::with2(Op::Add_rm64_imm32, AT, (copies * self.target.width()) as i32))?;
        self.put(Instruction::with2(Op::Cmp_r64_rm64, AT, END))?;
        self.jump(Op::Jb_rel32_64, Label::Main)?;
        self.move_accumulators(Self::store_accumulator)?;
        self.label(Label::Rest);
        let mut rest = 0;
        // Rows with sums are whole multiples of a vector.
        if self.code.sums.is_empty() {
            self.put(Instruction::with2(Op::Cmp_rm64_imm8, word(2), 0))?;
            self.jump(Op::Je_rel32_64, Label::Next)?;
            rest = self.body(true, 0)?;
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

    /// All instructions for one vector, `copy` vectors after the current one; returns the number of values on the stack.
    fn body(&mut self, is_masked: bool, copy: usize) -> Option<usize> {
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
        let masks = usize::from(!self.target.is_512);
        let vectors = self.target.vectors() - self.accumulators.max(masks);
        let mut b = Body {
            places: vec![Place::default(); count],
            uses,
            vectors: vec![None; vectors],
            masks: vec![None; 6],
            slots: 0,
            is_masked,
            copy,
            held: Vec::new(),
        };
        if is_masked && !self.target.is_512 {
            self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, word(4)))?;
            let at = memory(SCRATCH, Register::None, 0);
            self.put(Instruction::with2(Op::VEX_Vmovups_ymm_ymmm256, Register::YMM15, at))?;
        }
        if self.recipe.bytes != 0 && copy == 0 {
            let shift = self.target.size().trailing_zeros();
            self.put(Instruction::with2(Op::Mov_r64_rm64, BYTE, AT))?;
            self.put(Instruction::with2(Op::Shr_rm64_imm8, BYTE, shift))?;
        }
        if !self.code.sums.is_empty() && self.accumulators == 0 {
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
            let add = self.target.pick(two_codes(Two::Add));
            if self.accumulators > 0 {
                b.held.clear();
                let (value, sum) = (self.register(value), self.accumulator(s, b.copy));
                self.put(Instruction::with3(add, sum, sum, value))?;
                continue;
            }
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
            self.put(Instruction::with3(add, sum, sum, value))?;
            self.put(Instruction::with2(self.target.pick(STORE), at, sum))?;
        }
        Some(())
    }

    /// The register of a vector of the accumulators of a sum.
    fn accumulator(&self, sum: usize, vector: usize) -> Register {
        let each = self.accumulators / self.code.sums.len();
        self.register((self.target.vectors() - self.accumulators + sum * each + vector) as u8)
    }

    /// Loads or stores the accumulators of the current row that are in registers.
    fn move_accumulators(
        &mut self,
        one: impl Fn(&mut Self, Register, MemoryOperand) -> Option<()>,
    ) -> Option<()> {
        let each = self.accumulators / self.code.sums.len().max(1);
        for sum in 0..self.code.sums.len() {
            for vector in 0..each {
                let base = self.pointer(self.recipe.args + self.code.results.len() + sum)?;
                let register = self.accumulator(sum, vector);
                one(self, register, memory(base, Register::None, vector * self.target.width()))?;
            }
        }
        Some(())
    }

    fn load_accumulator(&mut self, register: Register, at: MemoryOperand) -> Option<()> {
        self.put(Instruction::with2(self.target.pick(LOAD), register, at))
    }

    fn store_accumulator(&mut self, register: Register, at: MemoryOperand) -> Option<()> {
        self.put(Instruction::with2(self.target.pick(STORE), at, register))
    }

    fn store(&mut self, b: &Body, result: usize, from: u8) -> Option<()> {
        let base = self.pointer(self.recipe.args + result)?;
        let at = memory(base, AT, b.copy * self.target.width());
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
}
