//! The choice of registers.
//!
//! Note [Registers of a kernel] Instructions are emitted in order. A value that is in memory anyway (an element, a number) is
//! loaded where it is needed, often as an operand. If no register is free, the value whose next use is farthest leaves
//! its register: to the stack if it was computed, else to be loaded again. Booleans are vectors with AVX2, and mask
//! registers with AVX-512, which are never spilled: a kernel that needs more of them is not compiled.

use iced_x86::{Code as Op, Instruction, MemoryOperand, Register};

use super::code::{Ahead, Index, Inst, Narrow, Shift};
use super::emit::{AT, ELEMENT, Emitter, HEAD, POINTERS, POOL, ROW, SCRATCH, SLOT, memory, word};
use super::opcodes::{LOAD, LOAD_SOME, SPREAD, STORE, Target, shift_codes};

/// Where a value is.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) register: Option<u8>,
    pub(super) slot: Option<usize>,
}

/// The choice of registers while a body is emitted.
pub(super) struct Body {
    pub(super) places: Vec<Place>,
    /// By value, the instructions that use it, last first.
    pub(super) uses: Vec<Vec<usize>>,
    pub(super) vectors: Vec<Option<Index>>,
    pub(super) masks: Vec<Option<Index>>,
    pub(super) slots: usize,
    /// Whether lanes after the end of a row are left alone.
    pub(super) is_masked: bool,
    /// The vectors between the current elements and those of this body.
    pub(super) vector: usize,
    /// The vectors that the current instruction reads.
    pub(super) held: Vec<u8>,
}
impl Emitter<'_> {
    pub(super) fn register(&self, v: u8) -> Register {
        (if self.target.is_512 { Register::ZMM0 } else { Register::YMM0 }) + u32::from(v)
    }

    /// Frees the registers of values that nothing uses after instruction `i`.
    pub(super) fn drop_dead(&mut self, b: &mut Body, i: usize) {
        let inst = self.code.insts[i];
        for o in inst.operands().chain(std::iter::once(i as Index)) {
            let o = usize::from(o);
            while b.uses[o].last().is_some_and(|&u| u <= i) {
                b.uses[o].pop();
            }
            if b.uses[o].is_empty()
                && let Some(r) = b.places[o].register.take()
            {
                self.free(b, o, r);
            }
        }
    }

    /// Ends the use of a register by value `v`; those of resident constants are never free.
    fn free(&self, b: &mut Body, v: usize, register: u8) {
        let file = if self.is_mask(v) { &mut b.masks } else { &mut b.vectors };
        if let Some(r) = file.get_mut(usize::from(register)) {
            *r = None;
        }
    }

    /// Whether a value is in a mask register.
    pub(super) fn is_mask(&self, v: usize) -> bool {
        self.target.is_512 && self.code.insts[v].is_truth()
    }

    /// A register for value `v`.
    pub(super) fn allocate(&mut self, b: &mut Body, v: usize) -> Option<u8> {
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
    pub(super) fn evict(&mut self, b: &mut Body) -> Option<usize> {
        let next = |v: Index| b.uses[usize::from(v)].last().copied().unwrap_or(usize::MAX);
        let candidates = b.vectors.iter().enumerate().filter(|(r, _)| !b.held.contains(&(*r as u8)));
        let (r, v) = candidates.filter_map(|(r, v)| Some((r, (*v)?))).max_by_key(|(_, v)| next(*v))?;
        let v = usize::from(v);
        b.places[v].register = None;
        self.moved += 1;
        if !self.code.insts[v].is_in_memory() && b.places[v].slot.is_none() {
            b.places[v].slot = Some(b.slots);
            let to = self.slot(b.slots);
            b.slots += 1;
            let from = self.register(r as u8);
            self.put(Instruction::with2(self.target.pick(STORE), to, from))?;
        }
        Some(r)
    }

    /// The memory of a value that has left its register.
    fn slot(&self, slot: usize) -> MemoryOperand {
        memory(Register::RSP, Register::None, self.lanes_on_stack() + slot * self.target.width())
    }

    /// The memory of a number or literal.
    fn number(&self, inst: Inst) -> MemoryOperand {
        let slot = match inst {
            Inst::Literal(v) => {
                self.recipe.numbers + self.literals.iter().position(|l| *l == v).unwrap_or_default()
            }
            Inst::Number(k) => k.into(),
            _ => 0,
        };
        memory(POOL, Register::None, slot * SLOT)
    }

    /// The base of a pointer.
    pub(super) fn pointer(&mut self, k: usize) -> Option<Register> {
        if let Some(r) = POINTERS.get(k) {
            return Some(*r);
        }
        self.put(Instruction::with2(Op::Mov_r64_rm64, SCRATCH, word(HEAD + k)))?;
        Some(SCRATCH)
    }

    /// The memory of a value, if a whole vector may be read from it.
    pub(super) fn operand(&mut self, b: &Body, v: usize) -> Option<MemoryOperand> {
        match self.code.insts[v] {
            inst @ (Inst::Number(_) | Inst::Literal(_)) => Some(self.number(inst)),
            Inst::Load(k, at) if !b.is_masked && b.uses[v].len() <= 1 => self.element(b, k.into(), at),
            _ => {
                let slot = b.places[v].slot?;
                Some(self.slot(slot))
            }
        }
    }

    /// The register of value `v`, loaded if need be. It stays until the end of the instruction.
    pub(super) fn vector(&mut self, b: &mut Body, v: usize) -> Option<u8> {
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
            Inst::Load(k, at) => {
                let at = self.element(b, k.into(), at)?;
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
            Inst::LoadNarrow(narrow, k, at) => {
                let at = self.narrow(b, k.into(), at, narrow.size())?;
                match narrow {
                    Narrow::F16 | Narrow::BF16 => self.load_halves(b, r, at, narrow)?,
                    _ => self.load_integers(b, r, at, narrow)?,
                }
            }
            Inst::Spread(..) | Inst::Number(_) | Inst::Literal(_) => self.load_constant(inst, register)?,
            _ => {
                let at = self.slot(slot?);
                self.put(Instruction::with2(load, register, at))?;
            }
        }
        Some(r)
    }

    /// Loads a number, a literal, or the value of the row in each lane.
    pub(super) fn load_constant(&mut self, inst: Inst, to: Register) -> Option<()> {
        if let Inst::Spread(k, rows) = inst {
            let base = self.pointer(k.into())?;
            let at = memory(base, ROW, usize::from(rows) * self.target.size());
            return self.put(Instruction::with2(self.target.pick(SPREAD), to, at));
        }
        let at = self.number(inst);
        self.put(Instruction::with2(self.target.pick(LOAD), to, at))
    }

    /// How many elements after the current ones those of argument or result `k` are. No result is some rows after them.
    fn elements(&self, b: &Body, k: usize, ahead: Ahead) -> usize {
        (b.vector + usize::from(ahead.vectors)) * self.lanes_of_vector()
            + usize::from(ahead.rows) * self.recipe.columns.stride(k)
    }

    /// The memory of elements of an argument or result.
    pub(super) fn element(&mut self, b: &Body, k: usize, ahead: Ahead) -> Option<MemoryOperand> {
        let base = self.pointer(k)?;
        Some(memory(base, AT, self.elements(b, k, ahead) * self.target.size()))
    }

    /// As `element`, of a narrower type.
    pub(super) fn narrow(&mut self, b: &Body, k: usize, ahead: Ahead, size: usize) -> Option<MemoryOperand> {
        let base = self.pointer(k)?;
        let offset = (self.elements(b, k, ahead) * size) as i64;
        let displacement = u32::from(offset != 0);
        Some(MemoryOperand::with_base_index_scale_displ_size(
            base,
            ELEMENT,
            size as u32,
            offset,
            displacement,
        ))
    }

    pub(super) fn lanes_of_vector(&self) -> usize {
        self.target.width() / self.target.size()
    }

    /// Loads numbers of a half type as float32. With AVX2 those after the end are read too: the caller has them.
    fn load_halves(&mut self, b: &Body, r: u8, at: MemoryOperand, narrow: Narrow) -> Option<()> {
        let register = self.register(r);
        let is_512 = self.target.is_512;
        if self.target.is_double || self.target.is_integer {
            return None;
        }
        let load = match (narrow, is_512) {
            (Narrow::F16, false) => Op::VEX_Vcvtph2ps_ymm_xmmm128,
            (Narrow::F16, true) => Op::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae,
            (Narrow::BF16, false) => Op::VEX_Vpmovzxwd_ymm_xmmm128,
            (Narrow::BF16, true) => Op::EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
            _ => return None,
        };
        self.put(Instruction::with2(load, register, at).map(|mut i| {
            if b.is_masked && is_512 {
                i.set_op_mask(Register::K1);
                i.set_zeroing_masking(true);
            }
            i
        }))?;
        if narrow == Narrow::F16 {
            return Some(());
        }
        // The upper half of a float32 number.
        let shift = self.target.pick(shift_codes(Shift::Left));
        self.put(Instruction::with3(shift, register, register, 16u32))
    }

    /// Loads integers and converts them to numbers. With AVX2 those after the end are read too: the caller has them.
    fn load_integers(&mut self, b: &Body, r: u8, at: MemoryOperand, narrow: Narrow) -> Option<()> {
        let Target { is_512, is_double, is_integer } = self.target;
        let full = self.register(r);
        let is_masked = b.is_masked && is_512;
        let masked = |mut i: Instruction| {
            if is_masked {
                i.set_op_mask(Register::K1);
                i.set_zeroing_masking(true);
            }
            i
        };
        let widen = widening(narrow, is_512, is_double, is_integer);
        if is_integer {
            return self.put(Instruction::with2(widen?, full, at).map(masked));
        }
        let convert = match (is_512, is_double) {
            (true, false) => Op::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
            (true, true) => Op::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er,
            (false, false) => Op::VEX_Vcvtdq2ps_ymm_ymmm256,
            (false, true) => Op::VEX_Vcvtdq2pd_ymm_xmmm128,
        };
        let Some(widen) = widen else { return self.put(Instruction::with2(convert, full, at).map(masked)) };
        let whole = match (is_512, is_double) {
            (_, false) => full,
            (true, true) => Register::YMM0 + u32::from(r),
            (false, true) => Register::XMM0 + u32::from(r),
        };
        self.put(Instruction::with2(widen, whole, at).map(masked))?;
        self.put(Instruction::with2(convert, full, whole))
    }

    /// Ends the hold on operands, and frees those that nothing uses after instruction `i`: its result may replace them.
    pub(super) fn release(&mut self, b: &mut Body, i: usize) {
        b.held.clear();
        self.drop_dead_operands(b, i);
    }

    fn drop_dead_operands(&mut self, b: &mut Body, i: usize) {
        let last = |uses: &Vec<usize>| uses.iter().all(|&u| u <= i);
        for o in self.code.insts[i].operands().map(usize::from) {
            if last(&b.uses[o])
                && let Some(r) = b.places[o].register.take()
            {
                self.free(b, o, r);
            }
        }
    }
}

/// The opcode that loads integers as those from which a target makes numbers: of 64 bits for int64, else of 32. None if they are those.
fn widening(narrow: Narrow, is_512: bool, is_double: bool, is_integer: bool) -> Option<Op> {
    Some(match (narrow, is_512, is_double, is_integer) {
        (Narrow::U8, true, true, true) => Op::EVEX_Vpmovzxbq_zmm_k1z_xmmm64,
        (Narrow::U8, false, true, true) => Op::VEX_Vpmovzxbq_ymm_xmmm32,
        (Narrow::U8, true, false, _) => Op::EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
        (Narrow::U8, true, true, false) => Op::EVEX_Vpmovzxbd_ymm_k1z_xmmm64,
        (Narrow::U8, false, false, _) => Op::VEX_Vpmovzxbd_ymm_xmmm64,
        (Narrow::U8, false, true, false) => Op::VEX_Vpmovzxbd_xmm_xmmm32,
        (Narrow::I8, true, true, true) => Op::EVEX_Vpmovsxbq_zmm_k1z_xmmm64,
        (Narrow::I8, false, true, true) => Op::VEX_Vpmovsxbq_ymm_xmmm32,
        (Narrow::I8, true, false, _) => Op::EVEX_Vpmovsxbd_zmm_k1z_xmmm128,
        (Narrow::I8, true, true, false) => Op::EVEX_Vpmovsxbd_ymm_k1z_xmmm64,
        (Narrow::I8, false, false, _) => Op::VEX_Vpmovsxbd_ymm_xmmm64,
        (Narrow::I8, false, true, false) => Op::VEX_Vpmovsxbd_xmm_xmmm32,
        (Narrow::I16, true, true, true) => Op::EVEX_Vpmovsxwq_zmm_k1z_xmmm128,
        (Narrow::I16, false, true, true) => Op::VEX_Vpmovsxwq_ymm_xmmm64,
        (Narrow::I16, true, false, _) => Op::EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
        (Narrow::I16, true, true, false) => Op::EVEX_Vpmovsxwd_ymm_k1z_xmmm128,
        (Narrow::I16, false, false, _) => Op::VEX_Vpmovsxwd_ymm_xmmm128,
        (Narrow::I16, false, true, false) => Op::VEX_Vpmovsxwd_xmm_xmmm64,
        (Narrow::I32, true, true, true) => Op::EVEX_Vpmovsxdq_zmm_k1z_ymmm256,
        (Narrow::I32, false, true, true) => Op::VEX_Vpmovsxdq_ymm_xmmm128,
        (Narrow::I32 | Narrow::F16 | Narrow::BF16, ..) => return None,
    })
}
