//! The instructions of a kernel before registers are chosen, and the symbols that record them.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Sub};

use rustc_hash::FxHashMap;

use crate::backend::cpu::math::lanes::{Lanes, Lanes32};
use crate::dtype::DType;

/// The index of an instruction, which stands for its value.
pub type Index = u16;

/// Operations of two vectors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Two {
    Add,
    Sub,
    Mul,
    Div,
    And,
    Or,
    Xor,
    AddBits,
    SubBits,
    /// The product of integers, which wraps; of 8 bytes with AVX-512 alone.
    MulBits,
    /// The product of the lower halves of integers of 8 bytes, without signs.
    MulHalves,
    /// The lesser integer, and the greater; of 8 bytes with AVX-512 alone.
    MinBits,
    MaxBits,
    /// The first shifted by the second, without sign; 0 if that is not less than the number of bits.
    ShiftLeft,
    ShiftRight,
    /// To the right, filled with the sign; of 8 bytes with AVX-512 alone.
    ShiftSigned,
    /// The first if it is less, as `Max` the first if it is greater, else the second.
    Min,
    Max,
    /// The first times two to the second, an integer, rounded once; AVX-512 alone.
    Scale,
}

impl Two {
    pub const fn commutes(self) -> bool {
        use Two::{Add, AddBits, And, MaxBits, MinBits, Mul, MulBits, MulHalves, Or, Xor};
        matches!(self, Add | Mul | And | Or | Xor | AddBits | MulBits | MulHalves | MinBits | MaxBits)
    }
}

/// Operations of one vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum One {
    Sqrt,
    Floor,
    Ceil,
    Trunc,
    RoundEven,
    /// A signed integer as a number.
    OfInteger,
    /// The nearest number of float16.
    RoundHalf,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shift {
    Left,
    Right,
    /// To the right, filled with the sign.
    Signed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    Less,
    LessOrEqual,
    Equal,
    /// Of integers.
    LessBits,
    EqualBits,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Logic {
    And,
    Or,
}

/// The type of elements in memory that become numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Narrow {
    U8,
    I8,
    I16,
    /// As wide as float32.
    I32,
    F16,
    BF16,
}

impl Narrow {
    /// That of a dtype; booleans are bytes.
    pub const fn of(dtype: DType) -> Option<Narrow> {
        Some(match dtype {
            DType::U8 | DType::Bool => Narrow::U8,
            DType::I8 => Narrow::I8,
            DType::I16 => Narrow::I16,
            DType::I32 => Narrow::I32,
            DType::F16 => Narrow::F16,
            DType::BF16 => Narrow::BF16,
            _ => return None,
        })
    }

    pub const fn size(self) -> usize {
        match self {
            Narrow::U8 | Narrow::I8 => 1,
            Narrow::I16 | Narrow::F16 | Narrow::BF16 => 2,
            Narrow::I32 => 4,
        }
    }
}

/// Elements so many vectors, and rows, after the current ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Ahead {
    pub vectors: u8,
    pub rows: u8,
}

impl Ahead {
    pub fn by(vectors: usize) -> Ahead {
        Ahead { vectors: vectors as u8, rows: 0 }
    }
}

/// An instruction; operands are earlier instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inst {
    /// The elements of an argument.
    Load(Index, Ahead),
    /// As `Load`, of an argument of a narrower type, as numbers.
    LoadNarrow(Narrow, Index, Ahead),
    /// The value of an argument for the row, or so many rows later, in each lane.
    Spread(Index, u8),
    /// A number that is given when the kernel is run.
    Number(Index),
    /// A number by its bits.
    Literal(u64),
    One(One, Index),
    Two(Two, Index, Index),
    Shift(Shift, Index, u8),
    /// A boolean per lane, as do `Logic` and `Not`.
    Compare(Compare, Index, Index),
    Logic(Logic, Index, Index),
    Not(Index),
    Select(Index, Index, Index),
}

impl Inst {
    /// Whether its value is a boolean.
    pub const fn is_truth(self) -> bool {
        matches!(self, Inst::Compare(..) | Inst::Logic(..) | Inst::Not(_))
    }

    /// Whether its value is in memory anyway, so that it is loaded where it is needed.
    pub const fn is_in_memory(self) -> bool {
        use Inst::{Literal, Load, LoadNarrow, Number, Spread};
        matches!(self, Load(..) | LoadNarrow(..) | Spread(..) | Number(_) | Literal(_))
    }

    pub fn operands(self) -> impl Iterator<Item = Index> {
        let (of, count) = match self {
            Inst::One(_, a) | Inst::Shift(_, a, _) | Inst::Not(a) => ([a, 0, 0], 1),
            Inst::Two(_, a, b) | Inst::Compare(_, a, b) | Inst::Logic(_, a, b) => ([a, b, 0], 2),
            Inst::Select(a, b, c) => ([a, b, c], 3),
            _ => ([0; 3], 0),
        };
        of.into_iter().take(count)
    }
}

impl Inst {
    /// With other operands.
    fn renumbered(self, new: impl Fn(Index) -> Index) -> Inst {
        match self {
            Inst::One(one, a) => Inst::One(one, new(a)),
            Inst::Two(two, a, b) => Inst::Two(two, new(a), new(b)),
            Inst::Shift(shift, a, by) => Inst::Shift(shift, new(a), by),
            Inst::Compare(compare, a, b) => Inst::Compare(compare, new(a), new(b)),
            Inst::Logic(logic, a, b) => Inst::Logic(logic, new(a), new(b)),
            Inst::Not(a) => Inst::Not(new(a)),
            Inst::Select(a, b, c) => Inst::Select(new(a), new(b), new(c)),
            _ => self,
        }
    }

    /// Of elements so much later.
    fn moved(self, by: Ahead) -> Inst {
        let moved = |at: Ahead| Ahead { vectors: at.vectors + by.vectors, rows: at.rows + by.rows };
        match self {
            Inst::Load(k, at) => Inst::Load(k, moved(at)),
            Inst::LoadNarrow(narrow, k, at) => Inst::LoadNarrow(narrow, k, moved(at)),
            Inst::Spread(k, rows) => Inst::Spread(k, rows + by.rows),
            _ => self,
        }
    }

    /// Whether its value is the same for all elements of a row.
    const fn is_per_row(self) -> bool {
        matches!(self, Inst::Spread(..) | Inst::Number(_) | Inst::Literal(_))
    }
}

/// The rows whose columns a kernel sums at a time.
pub const EIGHT: u8 = 8;

/// The instructions of a kernel in order of evaluation, without duplicates.
#[derive(Default, Debug)]
pub struct Code {
    pub insts: Vec<Inst>,
    /// The vectors of elements that they compute, in each of so many rows.
    pub vectors: usize,
    pub rows: usize,
    /// By vector, the results.
    pub results: Vec<Index>,
    /// By vector, values that are summed per row.
    pub sums: Vec<Index>,
    /// Values that are added to the accumulators of columns.
    pub columns: Vec<Index>,
}

impl Code {
    /// The code of several vectors, one instruction of each in turn. See Note [Vectors side by side].
    pub fn side_by_side(&self, vectors: u8) -> Code {
        let mut new = vec![Vec::with_capacity(self.insts.len()); usize::from(vectors)];
        let mut insts: Vec<Inst> = Vec::with_capacity(self.insts.len() * usize::from(vectors));
        for inst in &self.insts {
            for (vector, new) in (0..vectors).zip(&mut new) {
                if vector == 0 || !inst.is_per_row() {
                    let by = Ahead::by(vector.into());
                    insts.push(inst.moved(by).renumbered(|o| new[usize::from(o)]));
                }
                new.push((insts.len() - 1) as Index);
            }
        }
        let of = |values: &[Index]| {
            new.iter().flat_map(|new| values.iter().map(|v| new[usize::from(*v)])).collect()
        };
        Code {
            vectors: self.vectors * usize::from(vectors),
            rows: self.rows,
            results: of(&self.results),
            sums: of(&self.sums),
            columns: of(&self.columns),
            insts,
        }
    }

    /// The code of eight rows, one after the other, without results but for the sums of their columns. See Note [Column sums of a kernel].
    /// `repeats` says which arguments have one row for all.
    pub fn eight_rows(&self, repeats: impl Fn(Index) -> bool) -> Code {
        let mut tape = Tape::default();
        let mut push = |inst: Inst| tape.push(inst);
        let mut sums = vec![Vec::new(); self.columns.len()];
        for rows in 0..EIGHT {
            let mut new: Vec<Index> = Vec::with_capacity(self.insts.len());
            for inst in &self.insts {
                let rows = if matches!(inst, Inst::Load(k, _) if repeats(*k)) { 0 } else { rows };
                let by = Ahead { vectors: 0, rows };
                new.push(push(inst.moved(by).renumbered(|o| new[usize::from(o)])));
            }
            for (sums, value) in sums.iter_mut().zip(&self.columns) {
                let mut sum = new[usize::from(*value)];
                // As many sums of pairs end with a row as the number of the next is divisible by two.
                for _ in 0..(rows + 1).trailing_zeros() {
                    let before = sums.pop().unwrap_or(sum);
                    sum = push(Inst::Two(Two::Add, before, sum));
                }
                sums.push(sum);
            }
        }
        Code {
            insts: tape.insts,
            vectors: self.vectors,
            rows: EIGHT.into(),
            results: Vec::new(),
            sums: Vec::new(),
            columns: sums.into_iter().flatten().collect(),
        }
    }

    /// Without the instructions that nothing uses.
    pub fn pruned(self) -> Code {
        let mut is_used = vec![false; self.insts.len()];
        let wanted = self.results.iter().chain(&self.sums).chain(&self.columns);
        wanted.for_each(|r| is_used[usize::from(*r)] = true);
        for (i, inst) in self.insts.iter().enumerate().rev() {
            if is_used[i] {
                inst.operands().for_each(|o| is_used[usize::from(o)] = true);
            }
        }
        let mut new: Vec<Index> = Vec::with_capacity(self.insts.len());
        let mut insts = Vec::with_capacity(self.insts.len());
        for (inst, used) in self.insts.iter().zip(is_used) {
            new.push(insts.len() as Index);
            if used {
                insts.push(inst.renumbered(|o| new[usize::from(o)]));
            }
        }
        let of = |values: Vec<Index>| values.into_iter().map(|v| new[usize::from(v)]).collect();
        let [results, sums, columns] = [self.results, self.sums, self.columns].map(of);
        Code { insts, results, sums, columns, ..self }
    }
}

/// Instructions while they are recorded.
#[derive(Default)]
struct Tape {
    insts: Vec<Inst>,
    known: FxHashMap<Inst, Index>,
    is_512: bool,
}

impl Tape {
    /// Records an instruction, or finds it.
    fn push(&mut self, inst: Inst) -> Index {
        *self.known.entry(inst).or_insert_with(|| {
            self.insts.push(inst);
            // A kernel is far shorter: `compile` refuses long formulas.
            (self.insts.len() - 1) as Index
        })
    }
}

thread_local!(static TAPE: RefCell<Tape> = RefCell::default());

/// Records an instruction, or finds it.
pub(super) fn push(inst: Inst) -> Index {
    TAPE.with_borrow_mut(|tape| tape.push(inst))
}

/// A recorded instruction.
fn recorded(index: Index) -> Option<Inst> {
    TAPE.with_borrow(|tape| tape.insts.get(usize::from(index)).copied())
}

/// The instructions that `f` records, for AVX-512 or AVX2.
pub(super) fn record<R>(is_512: bool, f: impl FnOnce() -> R) -> (R, Vec<Inst>) {
    TAPE.with_borrow_mut(|tape| {
        tape.is_512 = is_512;
        tape.insts.clear();
        tape.known.clear();
    });
    let result = f();
    (result, TAPE.with_borrow_mut(|tape| std::mem::take(&mut tape.insts)))
}

/// Whether instructions are recorded for AVX-512.
pub(super) fn is_512() -> bool {
    TAPE.with_borrow(|tape| tape.is_512)
}

/// A vector of numbers of type `T`.
pub struct Sym<T>(pub(super) Index, PhantomData<T>);

impl<T> Clone for Sym<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Sym<T> {}

/// A vector of booleans.
#[derive(Clone, Copy)]
pub struct Truth(pub(super) Index);

impl<T> Sym<T> {
    pub(super) fn new(inst: Inst) -> Self {
        Sym(push(inst), PhantomData)
    }

    pub(super) fn at(index: Index) -> Self {
        Sym(index, PhantomData)
    }

    pub(super) fn one(self, op: One) -> Self {
        Sym::new(Inst::One(op, self.0))
    }

    pub(super) fn two(self, op: Two, o: Self) -> Self {
        Sym::new(Inst::Two(op, self.0, o.0))
    }
}

macro_rules! sym {
    ($($t:ident $bits:ident;)*) => { $(
        sym! { @operators $t Add add Sub sub Mul mul Div div }
        impl Neg for Sym<$t> {
            type Output = Self;
            fn neg(self) -> Self {
                self.two(Two::Xor, Sym::of(-0.0))
            }
        }
        impl Lanes for Sym<$t> {
            type Number = $t;
            type Bool = Truth;
            fn of(v: $t) -> Self {
                Sym::new(Inst::Literal(u64::from(v.to_bits())))
            }
            fn less(self, o: Self) -> Truth {
                Truth(push(Inst::Compare(Compare::Less, self.0, o.0)))
            }
            fn less_or_equal(self, o: Self) -> Truth {
                Truth(push(Inst::Compare(Compare::LessOrEqual, self.0, o.0)))
            }
            fn equal(self, o: Self) -> Truth {
                Truth(push(Inst::Compare(Compare::Equal, self.0, o.0)))
            }
            fn select(c: Truth, yes: Self, no: Self) -> Self {
                match recorded(c.0) {
                    Some(Inst::Compare(Compare::Less, a, b)) if (yes.0, no.0) == (a, b) => yes.two(Two::Min, no),
                    Some(Inst::Compare(Compare::Less, a, b)) if (yes.0, no.0) == (b, a) => yes.two(Two::Max, no),
                    _ => Sym::new(Inst::Select(c.0, yes.0, no.0)),
                }
            }
            fn scaled(self, n: Self) -> Option<Self> {
                is_512().then(|| self.two(Two::Scale, n))
            }
            fn abs(self) -> Self {
                self.two(Two::And, Sym::of($t::from_bits($bits::MAX >> 1)))
            }
            fn copysign(self, sign: Self) -> Self {
                self.abs().or_bits(sign.two(Two::And, Sym::of(-0.0)))
            }
            fn add_bits(self, o: Self) -> Self {
                self.two(Two::AddBits, o)
            }
            fn sub_bits(self, o: Self) -> Self {
                self.two(Two::SubBits, o)
            }
            fn or_bits(self, o: Self) -> Self {
                self.two(Two::Or, o)
            }
            fn shl_bits(self, by: u32) -> Self {
                Sym::new(Inst::Shift(Shift::Left, self.0, by as u8))
            }
            fn shr_bits(self, by: u32) -> Self {
                Sym::new(Inst::Shift(Shift::Right, self.0, by as u8))
            }
        }
    )* };
    (@operators $t:ident $($tr:ident $f:ident)*) => { $(impl $tr for Sym<$t> {
        type Output = Self;
        fn $f(self, o: Self) -> Self {
            self.two(Two::$tr, o)
        }
    })* };
}
sym! { f32 u32; f64 u64; }

impl Lanes32 for Sym<f32> {
    fn sar_bits(self, by: u32) -> Self {
        Sym::new(Inst::Shift(Shift::Signed, self.0, by as u8))
    }
    fn of_integer_bits(self) -> Self {
        self.one(One::OfInteger)
    }
}
