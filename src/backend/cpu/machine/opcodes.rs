//! The opcodes of operations, by target.

use iced_x86::Code as Op;

use super::code::{One, Shift, Two};

/// By vector and element: AVX2 of 4 and 8 bytes, AVX-512 of 4 and 8.
pub type Codes = [Op; 4];

/// What instructions are emitted for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Whether elements have 8 bytes.
    pub is_double: bool,
    pub is_integer: bool,
    pub is_512: bool,
}

impl Target {
    pub const fn size(self) -> usize {
        if self.is_double { 8 } else { 4 }
    }

    /// Bytes of a vector.
    pub const fn width(self) -> usize {
        if self.is_512 { 64 } else { 32 }
    }

    /// Registers of vectors.
    pub const fn vectors(self) -> usize {
        if self.is_512 { 32 } else { 16 }
    }

    pub fn pick(self, codes: Codes) -> Op {
        codes[2 * usize::from(self.is_512) + usize::from(self.is_double)]
    }
}

pub const LOAD: Codes = [
    Op::VEX_Vmovups_ymm_ymmm256,
    Op::VEX_Vmovupd_ymm_ymmm256,
    Op::EVEX_Vmovups_zmm_k1z_zmmm512,
    Op::EVEX_Vmovupd_zmm_k1z_zmmm512,
];
pub const STORE: Codes = [
    Op::VEX_Vmovups_ymmm256_ymm,
    Op::VEX_Vmovupd_ymmm256_ymm,
    Op::EVEX_Vmovups_zmmm512_k1z_zmm,
    Op::EVEX_Vmovupd_zmmm512_k1z_zmm,
];
/// Under a mask; with AVX-512 `LOAD` and `STORE` take one.
pub const LOAD_SOME: Codes = [
    Op::VEX_Vmaskmovps_ymm_ymm_m256,
    Op::VEX_Vmaskmovpd_ymm_ymm_m256,
    Op::EVEX_Vmovups_zmm_k1z_zmmm512,
    Op::EVEX_Vmovupd_zmm_k1z_zmmm512,
];
pub const STORE_SOME: Codes = [
    Op::VEX_Vmaskmovps_m256_ymm_ymm,
    Op::VEX_Vmaskmovpd_m256_ymm_ymm,
    Op::EVEX_Vmovups_zmmm512_k1z_zmm,
    Op::EVEX_Vmovupd_zmmm512_k1z_zmm,
];
/// One number to all lanes.
pub const SPREAD: Codes = [
    Op::VEX_Vbroadcastss_ymm_m32,
    Op::VEX_Vbroadcastsd_ymm_m64,
    Op::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    Op::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
];
pub const COMPARE: Codes = [
    Op::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
    Op::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
    Op::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
    Op::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae,
];
/// The first greater than the second with AVX2; with AVX-512 by a predicate.
pub const GREATER_BITS: Codes = [
    Op::VEX_Vpcmpgtd_ymm_ymm_ymmm256,
    Op::VEX_Vpcmpgtq_ymm_ymm_ymmm256,
    Op::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
    Op::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
];
pub const EQUAL_BITS: Codes = [
    Op::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
    Op::VEX_Vpcmpeqq_ymm_ymm_ymmm256,
    Op::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
    Op::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
];
pub const BLEND: Codes = [
    Op::VEX_Vblendvps_ymm_ymm_ymmm256_ymm,
    Op::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm,
    Op::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32,
    Op::EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64,
];

pub fn two_codes(two: Two) -> Codes {
    macro_rules! codes {
        ($($avx:ident $avx512:ident),*) => { [$(Op::$avx,)* $(Op::$avx512),*] };
    }
    match two {
        Two::Add => codes!(
            VEX_Vaddps_ymm_ymm_ymmm256 EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
            VEX_Vaddpd_ymm_ymm_ymmm256 EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Two::Sub => codes!(
            VEX_Vsubps_ymm_ymm_ymmm256 EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
            VEX_Vsubpd_ymm_ymm_ymmm256 EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Two::Mul => codes!(
            VEX_Vmulps_ymm_ymm_ymmm256 EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
            VEX_Vmulpd_ymm_ymm_ymmm256 EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Two::Div => codes!(
            VEX_Vdivps_ymm_ymm_ymmm256 EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
            VEX_Vdivpd_ymm_ymm_ymmm256 EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er
        ),
        Two::And => codes!(
            VEX_Vandps_ymm_ymm_ymmm256 EVEX_Vandps_zmm_k1z_zmm_zmmm512b32,
            VEX_Vandpd_ymm_ymm_ymmm256 EVEX_Vandpd_zmm_k1z_zmm_zmmm512b64
        ),
        Two::Or => codes!(
            VEX_Vorps_ymm_ymm_ymmm256 EVEX_Vorps_zmm_k1z_zmm_zmmm512b32,
            VEX_Vorpd_ymm_ymm_ymmm256 EVEX_Vorpd_zmm_k1z_zmm_zmmm512b64
        ),
        Two::Xor => codes!(
            VEX_Vxorps_ymm_ymm_ymmm256 EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32,
            VEX_Vxorpd_ymm_ymm_ymmm256 EVEX_Vxorpd_zmm_k1z_zmm_zmmm512b64
        ),
        Two::AddBits => codes!(
            VEX_Vpaddd_ymm_ymm_ymmm256 EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            VEX_Vpaddq_ymm_ymm_ymmm256 EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::SubBits => codes!(
            VEX_Vpsubd_ymm_ymm_ymmm256 EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
            VEX_Vpsubq_ymm_ymm_ymmm256 EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64
        ),
        // Of integers of 8 bytes, recorded for AVX-512 alone.
        Two::MulBits => codes!(
            VEX_Vpmulld_ymm_ymm_ymmm256 EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
            INVALID EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::MinBits => codes!(
            VEX_Vpminsd_ymm_ymm_ymmm256 EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
            INVALID EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::MaxBits => codes!(
            VEX_Vpmaxsd_ymm_ymm_ymmm256 EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            INVALID EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::ShiftSigned => codes!(
            VEX_Vpsravd_ymm_ymm_ymmm256 EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
            INVALID EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64
        ),
        // Recorded for 8 bytes alone.
        Two::MulHalves => codes!(
            INVALID INVALID,
            VEX_Vpmuludq_ymm_ymm_ymmm256 EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::ShiftLeft => codes!(
            VEX_Vpsllvd_ymm_ymm_ymmm256 EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
            VEX_Vpsllvq_ymm_ymm_ymmm256 EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::ShiftRight => codes!(
            VEX_Vpsrlvd_ymm_ymm_ymmm256 EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
            VEX_Vpsrlvq_ymm_ymm_ymmm256 EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64
        ),
        Two::Min => codes!(
            VEX_Vminps_ymm_ymm_ymmm256 EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
            VEX_Vminpd_ymm_ymm_ymmm256 EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae
        ),
        Two::Max => codes!(
            VEX_Vmaxps_ymm_ymm_ymmm256 EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
            VEX_Vmaxpd_ymm_ymm_ymmm256 EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae
        ),
        // Recorded for AVX-512 alone.
        Two::Scale => codes!(
            INVALID EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er,
            INVALID EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er
        ),
    }
}

pub fn one_codes(one: One) -> (Codes, Option<u32>) {
    let round = [
        Op::VEX_Vroundps_ymm_ymmm256_imm8,
        Op::VEX_Vroundpd_ymm_ymmm256_imm8,
        Op::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
        Op::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae,
    ];
    match one {
        One::Sqrt => (
            [
                Op::VEX_Vsqrtps_ymm_ymmm256,
                Op::VEX_Vsqrtpd_ymm_ymmm256,
                Op::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
                Op::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er,
            ],
            None,
        ),
        One::RoundEven => (round, Some(8)),
        One::Floor => (round, Some(9)),
        One::Ceil => (round, Some(10)),
        One::Trunc => (round, Some(11)),
        // Recorded for float32 alone; `round_half` has the instructions of `RoundHalf`.
        One::OfInteger | One::RoundHalf => (
            [
                Op::VEX_Vcvtdq2ps_ymm_ymmm256,
                Op::VEX_Vcvtdq2ps_ymm_ymmm256,
                Op::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
                Op::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
            ],
            None,
        ),
    }
}

pub fn shift_codes(shift: Shift) -> Codes {
    match shift {
        Shift::Left => [
            Op::VEX_Vpslld_ymm_ymm_imm8,
            Op::VEX_Vpsllq_ymm_ymm_imm8,
            Op::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
            Op::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
        ],
        Shift::Right => [
            Op::VEX_Vpsrld_ymm_ymm_imm8,
            Op::VEX_Vpsrlq_ymm_ymm_imm8,
            Op::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
            Op::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
        ],
        // Recorded for float32 alone.
        Shift::Signed => [
            Op::VEX_Vpsrad_ymm_ymm_imm8,
            Op::VEX_Vpsrad_ymm_ymm_imm8,
            Op::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
            Op::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8,
        ],
    }
}
