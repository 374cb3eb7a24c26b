//! Double-double arithmetic: about 106 bits, for intermediate steps where 53 are too few.

/// The unevaluated sum `hi + lo`, with `lo` at most half an ulp of `hi`.
#[derive(Clone, Copy)]
pub(super) struct Dd {
    pub hi: f64,
    pub lo: f64,
}

/// `a + b` exactly, for `|a| >= |b|` or `a = 0`.
#[inline(always)]
pub(super) fn fast_two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    Dd { hi, lo: b - (hi - a) }
}

/// `a + b` exactly.
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> Dd {
    let hi = a + b;
    let bb = hi - a;
    Dd { hi, lo: (a - (hi - bb)) + (b - bb) }
}

/// The upper 26 bits of the significand, and the remainder.
#[inline(always)]
pub(super) fn split(a: f64) -> (f64, f64) {
    let hi = f64::from_bits(a.to_bits() & !0x7ff_ffff);
    (hi, a - hi)
}

/// `a * b` with relative error 2^-106, by Dekker's splitting, since fused multiply-add is not always available.
#[inline(always)]
pub(super) fn two_prod(a: f64, b: f64) -> Dd {
    let hi = a * b;
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    Dd { hi, lo: ((ah * bh - hi) + ah * bl + al * bh) + al * bl }
}

impl Dd {
    #[inline(always)]
    pub fn value(self) -> f64 {
        self.hi + self.lo
    }

    #[inline(always)]
    pub fn add(self, o: Dd) -> Dd {
        let s = two_sum(self.hi, o.hi);
        fast_two_sum(s.hi, s.lo + (self.lo + o.lo))
    }

    #[inline(always)]
    pub fn mul(self, o: Dd) -> Dd {
        let p = two_prod(self.hi, o.hi);
        fast_two_sum(p.hi, p.lo + (self.hi * o.lo + self.lo * o.hi))
    }

    #[inline(always)]
    pub fn div(self, o: Dd) -> Dd {
        let q = self.hi / o.hi;
        let p = two_prod(q, o.hi);
        let rest = ((self.hi - p.hi) - p.lo) + (self.lo - q * o.lo);
        fast_two_sum(q, rest / o.hi)
    }

    #[inline(always)]
    pub fn sqrt(self) -> Dd {
        let q = self.hi.sqrt();
        let p = two_prod(q, q);
        let rest = ((self.hi - p.hi) - p.lo) + self.lo;
        // The square root of zero has no correction term, which would be 0/0.
        fast_two_sum(q, if q > 0.0 { rest / (q + q) } else { 0.0 })
    }

    /// Multiplies by a power of two.
    #[inline(always)]
    pub fn scale(self, s: f64) -> Dd {
        Dd { hi: self.hi * s, lo: self.lo * s }
    }
}
