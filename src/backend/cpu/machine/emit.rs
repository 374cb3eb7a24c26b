//! Instructions to bytes: the frame and the loops of a kernel.

use std::collections::BTreeSet;

use iced_x86::{Code as Op, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::code::{Ahead, Code, Index, Inst, Shift};
use super::opcodes::{STORE, STORE_SOME, Target, shift_codes};
use super::recipe::{Recipe, type_of};
use super::registers::{Body, Place};
use crate::dtype::DType;

/// The words of a call before its pointers: rows, bytes of whole vectors in a row, bytes after them, the mask of the lanes
/// that these fill, as bits and as the address of a vector, and where AVX2 leaves the last elements of halves, one vector per result.
pub const HEAD: usize = 6;
/// The halves of a vector of AVX2.
pub const HALVES: usize = 8;
/// The most bytes of the stack that a kernel reserves. A frame of a page or more could step over the guard page below the stack of
/// a thread, as nothing probes it.
const FRAME: usize = 3840;
/// Registers that accumulators leave to other values.
const FOR_VALUES: usize = 6;
/// The vectors that a loop computes side by side.
///
/// Note [Vectors side by side] The instructions of a chain wait for each other, and a processor looks only so far ahead for
/// others. So the main loop has the instructions of two vectors in turn: on an AMD processor of family 23, model 1, chains with
/// an exponential take 0.74 to 0.86 of the time. A few values that leave their registers for that cost less than the wait.
const SIDE_BY_SIDE: u8 = 2;
/// The most values that leave their registers for that.
const SPILLED: usize = 16;
/// The most instructions of a loop that computes several vectors.
const LONGEST: usize = 512;
/// Bytes of a cache line.
const LINE: usize = 64;
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
/// The current element, for what has narrower ones.
pub(super) const ELEMENT: Register = Register::R14;

/// The bytes of a kernel and its literals. The words of a call are its head, the pointers to arguments, results, sums, columns and prefetched
/// memory, in this order, and the steps between rows of strided arguments and spread results. In the pool literals follow numbers.
/// None if the kernel needs too many masks, or too much of the stack.
pub fn emit(code: &Code, target: Target, recipe: &Recipe) -> Option<(Vec<u8>, Vec<u64>)> {
    let literal = |inst: &Inst| if let Inst::Literal(v) = *inst { Some(v) } else { None };
    let mut literals: Vec<u64> = code.insts.iter().filter_map(literal).collect();
    literals.push(u64::MAX);
    let vectors = (recipe.lanes() * target.size() / target.width()).max(1);
    let accumulators = vectors * code.sums.len();
    let unrolls = accumulators > 0
        && accumulators + FOR_VALUES <= target.vectors()
        && vectors * code.insts.len() <= LONGEST;
    let lanes = code.sums.len() * recipe.lanes() * target.size();
    let rows =
        (!recipe.columns.is_empty()).then(|| code.eight_rows(|k| recipe.columns.stride(k.into()) == 0));
    let stores = !(recipe.results.is_empty() && recipe.sums.is_empty());
    if rows.as_ref().is_some_and(|rows| stores || rows.insts.len() > LONGEST) {
        return None;
    }
    let wide = rows.is_none().then(|| code.side_by_side(SIDE_BY_SIDE));
    let code = rows.as_ref().unwrap_or(code);
    let is_short = accumulators > 0 && recipe.has_short_rows;
    let wide = wide.as_ref().filter(|wide| wide.insts.len() <= LONGEST && !is_short);
    let made = |main, accumulators, resident: &[Inst]| {
        let emitter = Emitter::new(code, main, target, recipe, &literals, accumulators, resident);
        settled(&emitter).map(|made| (main, accumulators, made))
    };
    let both = || [wide, Some(code)].into_iter().flatten();
    // Accumulators are in registers only if no value has to leave its own for them.
    let mut in_registers = both().filter(|_| unrolls).filter_map(|main| made(main, accumulators, &[]));
    let mut in_memory = both().filter(|_| !is_short).filter_map(|main| made(main, 0, &[]));
    let (main, accumulators, kernel) = in_registers
        .find(|(.., made)| made.stack == 0)
        .or_else(|| in_memory.find(|(.., made)| made.stack <= lanes + SPILLED * target.width()))
        .or_else(|| if is_short { None } else { made(code, 0, &[]) })?;
    let constants = constants(main);
    let most = constants.len().min(target.vectors() - accumulators);
    let mut resident = RESIDENT.iter().filter_map(|(of, all)| {
        let (_, _, with) = made(main, accumulators, &constants[..most * of / all])?;
        (with.stack <= kernel.stack && with.moved <= kernel.moved).then_some(with)
    });
    let kernel = resident.next().unwrap_or(kernel);
    Some((kernel.bytes, literals))
}

/// The parts of the constants of a kernel for which registers are sought.
///
/// Note [Resident constants] A number that is an operand in memory is a load of a whole vector for each instruction that uses it. So
/// numbers, literals and values of a row stay in registers as far as no other value has to leave its own for them, those that are used
/// most first. On a processor with Zen 4 a polynomial of degree 5 of 2 million numbers takes 0.8 of the time.
const RESIDENT: [(usize, usize); 4] = [(1, 1), (3, 4), (1, 2), (1, 4)];

/// The numbers, literals and values of a row that a loop uses, those that it uses most often first.
fn constants(main: &Code) -> Vec<Inst> {
    let mut uses = vec![0; main.insts.len()];
    for o in main.insts.iter().flat_map(|inst| inst.operands()) {
        uses[usize::from(o)] += 1;
    }
    let is_constant =
        |i: &usize| matches!(main.insts[*i], Inst::Number(_) | Inst::Literal(_) | Inst::Spread(..));
    let mut all: Vec<usize> = (0..main.insts.len()).filter(is_constant).filter(|&i| uses[i] > 0).collect();
    all.sort_by_key(|&i| std::cmp::Reverse(uses[i]));
    let mut constants: Vec<Inst> = Vec::with_capacity(all.len());
    for i in all {
        if !constants.contains(&main.insts[i]) {
            constants.push(main.insts[i]);
        }
    }
    constants
}

/// A kernel, the bytes of its stack, and how often a value leaves its register.
struct Made {
    bytes: Vec<u8>,
    stack: usize,
    moved: usize,
}

fn settled(emitter: &Emitter) -> Option<Made> {
    let (mut places, mut stack) = ([0; 6], 0);
    // Until labels and the size of the stack are those that were assumed.
    for _ in 0..4 {
        let mut out = Emitter { encoder: Encoder::new(64), at: 0, places, stack, moved: 0, ..*emitter };
        let needed = out.kernel()?;
        if needed > FRAME {
            return None;
        }
        if out.places == places && needed == stack {
            return Some(Made { bytes: out.encoder.take_buffer(), stack, moved: out.moved });
        }
        (places, stack) = (out.places, needed);
    }
    None
}

#[derive(Clone, Copy)]
enum Label {
    Row,
    Main,
    Few,
    Single,
    Rest,
    Next,
}

pub(super) struct Emitter<'c> {
    /// The instructions of the current loop: `main` or `one`.
    pub(super) code: &'c Code,
    /// The instructions of one vector, for those that the main loop leaves.
    one: &'c Code,
    /// The instructions of the main loop.
    pub(super) main: &'c Code,
    pub(super) target: Target,
    pub(super) recipe: &'c Recipe<'c>,
    /// The last of them has all bits set.
    pub(super) literals: &'c [u64],
    pub(super) encoder: Encoder,
    pub(super) at: u64,
    /// Where labels are; before they are emitted, where they are assumed.
    pub(super) places: [u64; 6],
    /// Bytes of the stack that the code reserves.
    pub(super) stack: usize,
    /// The registers of accumulators, which are the last ones; 0 where they are in memory.
    pub(super) accumulators: usize,
    /// The constants in the registers before those: Note [Resident constants].
    resident: &'c [Inst],
    /// How often a value has left its register for another.
    pub(super) moved: usize,
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
        one: &'c Code,
        main: &'c Code,
        target: Target,
        recipe: &'c Recipe,
        literals: &'c [u64],
        accumulators: usize,
        resident: &'c [Inst],
    ) -> Self {
        Emitter {
            code: one,
            one,
            main,
            target,
            recipe,
            literals,
            encoder: Encoder::new(64),
            at: 0,
            places: [0; 6],
            stack: 0,
            accumulators,
            resident,
            moved: 0,
        }
    }

    /// The registers before those of accumulators and, with AVX2, of the mask.
    fn before_accumulators(&self) -> usize {
        let masks = usize::from(!self.target.is_512);
        self.target.vectors() - self.accumulators.max(masks)
    }

    /// Those that no constant may have: three for an instruction, and those in which the sums of a row end.
    fn least_registers(&self) -> usize {
        (self.lanes_on_stack() / self.recipe.sums.len().max(1) / self.target.width() / 2).max(3)
    }

    /// The register of a resident constant.
    fn resident_register(&self, inst: Inst) -> Option<u8> {
        let at = self.resident.iter().position(|constant| *constant == inst)?;
        Some((self.before_accumulators() - 1 - at) as u8)
    }

    /// Loads the resident constants, those of a row or the others.
    fn load_resident(&mut self, of_row: bool) -> Option<()> {
        for inst in self.resident.iter().filter(|inst| matches!(inst, Inst::Spread(..)) == of_row) {
            let register = self.register(self.resident_register(*inst)?);
            self.load_constant(*inst, register)?;
        }
        Some(())
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
        if self.before_accumulators() < self.resident.len() + self.least_registers() {
            return None;
        }
        for r in SAVED {
            self.put(Instruction::with1(Op::Push_r64, r))?;
        }
        if self.stack > 0 {
            // At a cache line, with the old pointer above.
            self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, Register::RSP))?;
            self.put(Instruction::with2(Op::Sub_rm64_imm32, Register::RSP, self.stack as i32 + 8))?;
            self.put(Instruction::with2(Op::And_rm64_imm8, Register::RSP, -64i32))?;
            self.put(Instruction::with2(Op::Mov_rm64_r64, self.old_stack(), SCRATCH))?;
        }
        let pointers = self.first_prefetch() + self.recipe.prefetches;
        for (k, r) in POINTERS.into_iter().enumerate().take(pointers) {
            self.put(Instruction::with2(Op::Mov_r64_rm64, r, word(HEAD + k)))?;
        }
        self.put(Instruction::with2(Op::Xor_r32_rm32, Register::EAX, Register::EAX))?;
        self.put(Instruction::with2(Op::Xor_r32_rm32, Register::EDX, Register::EDX))?;
        if self.target.is_512 {
            self.put(Instruction::with2(Op::VEX_Kmovq_kr_km64, Register::K1, word(3)))?;
        }
        self.load_resident(false)?;
        self.label(Label::Row);
        self.load_resident(true)?;
        self.clear_sums()?;
        self.put(Instruction::with2(Op::Mov_r64_rm64, END, word(1)))?;
        self.put(Instruction::with2(Op::Add_r64_rm64, END, AT))?;
        // Rows with sums, or whose columns are summed, are whole multiples of a main loop.
        let has_sums = !(self.recipe.sums.is_empty() && self.recipe.columns.is_empty());
        let vectors = match self.accumulators {
            0 => self.main.vectors,
            all => all / self.recipe.sums.len(),
        };
        let width = self.target.width();
        let left = if has_sums { 0 } else { (vectors - 1) * width } as i32;
        if left > 0 {
            self.put(Instruction::with2(Op::Sub_rm64_imm32, END, left))?;
        }
        self.put(Instruction::with2(Op::Cmp_r64_rm64, AT, END))?;
        self.jump(Op::Jge_rel32_64, Label::Few)?;
        self.label(Label::Main);
        let mut values = 0;
        for vector in (0..vectors).step_by(self.main.vectors) {
            values = values.max(self.body(self.main, false, vector)?);
        }
        self.put(Instruction::with2(Op::Add_rm64_imm32, AT, (vectors * width) as i32))?;
        self.put(Instruction::with2(Op::Cmp_r64_rm64, AT, END))?;
        self.jump(Op::Jl_rel32_64, Label::Main)?;
        self.label(Label::Few);
        if left > 0 {
            self.put(Instruction::with2(Op::Add_rm64_imm32, END, left))?;
            self.label(Label::Single);
            self.put(Instruction::with2(Op::Cmp_r64_rm64, AT, END))?;
            self.jump(Op::Jae_rel32_64, Label::Rest)?;
            values = values.max(self.body(self.one, false, 0)?);
            self.put(Instruction::with2(Op::Add_rm64_imm32, AT, width as i32))?;
            self.jump(Op::Jmp_rel32_64, Label::Single)?;
        }
        self.label(Label::Rest);
        if !has_sums {
            self.put(Instruction::with2(Op::Cmp_rm64_imm8, word(2), 0))?;
            self.jump(Op::Je_rel32_64, Label::Next)?;
            values = values.max(self.body(self.one, true, 0)?);
            self.put(Instruction::with2(Op::Add_r64_rm64, AT, word(2)))?;
        }
        self.label(Label::Next);
        self.store_sums()?;
        self.put(Instruction::with2(Op::Add_rm64_imm32, ROW, (self.main.rows * self.target.size()) as i32))?;
        self.pass_rows()?;
        let is = |bits: u64, k: usize| bits >> k & 1 == 1;
        let strided = (0..self.recipe.args).filter(|k| is(self.recipe.strided, *k));
        let spread = (0..self.recipe.results.len()).filter(|r| is(self.recipe.spread, *r));
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
        self.put(Instruction::with2(Op::Sub_rm64_imm8, word(0), 1))?;
        self.jump(Op::Jne_rel32_64, Label::Row)?;
        if self.stack > 0 {
            self.put(Instruction::with2(Op::Mov_r64_rm64, Register::RSP, self.old_stack()))?;
        }
        for r in SAVED.into_iter().rev() {
            self.put(Instruction::with1(Op::Pop_r64, r))?;
        }
        self.put(Ok(Instruction::with(Op::VEX_Vzeroupper)))?;
        self.put(Ok(Instruction::with(Op::Retnq)))?;
        Some(values * width + self.lanes_on_stack())
    }

    /// The position of the first pointer to prefetched memory.
    pub(super) fn first_prefetch(&self) -> usize {
        self.first_columns() + self.recipe.columns.steps.len()
    }

    /// The position of the first pointer to the accumulators of columns.
    pub(super) fn first_columns(&self) -> usize {
        self.recipe.args + self.recipe.results.len() + self.recipe.sums.len()
    }

    /// Prefetches the cache lines of these vectors after the current element, in each row.
    fn prefetch(&mut self, vectors: std::ops::Range<usize>) -> Option<()> {
        let (width, rows) = (self.target.width(), self.code.rows);
        for k in 0..self.recipe.prefetches {
            let base = self.pointer(self.first_prefetch() + k)?;
            let row = self.recipe.columns.n * self.target.size();
            for at in (0..rows).flat_map(|r| vectors.clone().map(move |v| r * row + v * width)) {
                if at.is_multiple_of(LINE) {
                    self.put(Instruction::with1(Op::Prefetcht1_m8, memory(base, AT, at)))?;
                }
            }
        }
        Some(())
    }

    /// Where the pointer to the stack of the caller is kept.
    fn old_stack(&self) -> MemoryOperand {
        memory(Register::RSP, Register::None, self.stack)
    }

    /// All instructions of a code, for elements `vector` vectors after the current ones; returns the number of values on the stack.
    fn body(&mut self, code: &'c Code, is_masked: bool, vector: usize) -> Option<usize> {
        self.code = code;
        let count = self.code.insts.len();
        let mut uses = vec![Vec::new(); count];
        if self.recipe.replaces {
            // The value of an argument would be loaded again after it was replaced.
            let is_argument = |r: &Index| matches!(self.code.insts[usize::from(*r)], Inst::Load(..));
            if self.code.results.iter().any(is_argument) {
                return None;
            }
            self.code.results.iter().for_each(|r| uses[usize::from(*r)].push(count));
        }
        for (i, inst) in self.code.insts.iter().enumerate().rev() {
            inst.operands().for_each(|o| uses[o as usize].push(i));
        }
        let vectors = self.before_accumulators().checked_sub(self.resident.len())?;
        let place = |inst: &Inst| Place { register: self.resident_register(*inst), slot: None };
        let mut b = Body {
            places: self.code.insts.iter().map(place).collect(),
            uses,
            vectors: vec![None; vectors],
            masks: vec![None; 6],
            slots: 0,
            is_masked,
            vector,
            held: Vec::new(),
        };
        if is_masked && !self.target.is_512 {
            self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, word(4)))?;
            let at = memory(SCRATCH, Register::None, 0);
            self.put(Instruction::with2(Op::VEX_Vmovups_ymm_ymmm256, Register::YMM15, at))?;
        }
        if !(self.recipe.narrow.is_empty() && self.recipe.halves.is_empty()) && vector == 0 {
            let shift = self.target.size().trailing_zeros();
            self.put(Instruction::with2(Op::Mov_r64_rm64, ELEMENT, AT))?;
            self.put(Instruction::with2(Op::Shr_rm64_imm8, ELEMENT, shift))?;
        }
        if !is_masked {
            self.prefetch(vector..vector + code.vectors)?;
        }
        self.find_lane()?;
        for i in 0..count {
            let inst = self.code.insts[i];
            if !inst.is_in_memory() {
                self.compute(&mut b, i, inst)?;
            }
            self.add_to_sums(&mut b, i)?;
            self.add_to_columns(&mut b, i)?;
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
                match type_of(&self.recipe.halves, k % self.recipe.results.len()) {
                    None => self.store(b, k, register)?,
                    Some(half) => self.store_halves(b, k, register, half)?,
                }
                b.held.clear();
            }
        }
        Some(())
    }

    /// A register without a value.
    pub(super) fn spare(&mut self, b: &mut Body) -> Option<Register> {
        let r = match b.vectors.iter().position(Option::is_none) {
            Some(r) => r,
            None => self.evict(b)?,
        };
        b.vectors[r] = None;
        Some(self.register(r as u8))
    }

    /// Stores a result as the half type to which it is rounded.
    fn store_halves(&mut self, b: &mut Body, result: usize, from: u8, half: DType) -> Option<()> {
        let (from, is_512) = (self.register(from), self.target.is_512);
        let count = self.recipe.results.len();
        let at = if b.is_masked && !is_512 {
            let place = self.recipe.halves.iter().position(|(r, _)| *r == result)?;
            self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, word(5)))?;
            memory(SCRATCH, Register::None, place * 2 * HALVES)
        } else {
            self.narrow(b, self.recipe.args + result % count, Ahead::by(result / count), 2)?
        };
        let is_partial = b.is_masked && is_512;
        let masked = |mut i: Instruction| {
            if is_partial {
                i.set_op_mask(Register::K1);
            }
            i
        };
        if half == DType::F16 {
            let op = match is_512 {
                true => Op::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae,
                false => Op::VEX_Vcvtps2ph_xmmm128_ymm_imm8,
            };
            return self.put(Instruction::with3(op, at, from, 0u32).map(masked));
        }
        let spare = self.spare(b)?;
        self.put(Instruction::with3(self.target.pick(shift_codes(Shift::Right)), spare, from, 16u32))?;
        if is_512 {
            return self.put(Instruction::with2(Op::EVEX_Vpmovdw_ymmm256_k1z_zmm, at, spare).map(masked));
        }
        // The lower halves of both lanes of 16 bytes, side by side.
        self.put(Instruction::with3(Op::VEX_Vpackusdw_ymm_ymm_ymmm256, spare, spare, spare))?;
        self.put(Instruction::with3(Op::VEX_Vpermq_ymm_ymmm256_imm8, spare, spare, 0b1000u32))?;
        let low = Register::XMM0 + (spare as u32 - Register::YMM0 as u32);
        self.put(Instruction::with2(Op::VEX_Vmovdqu_xmmm128_xmm, at, low))
    }

    fn store(&mut self, b: &Body, result: usize, from: u8) -> Option<()> {
        let count = self.recipe.results.len();
        let at = self.element(b, self.recipe.args + result % count, Ahead::by(result / count))?;
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
