//! Accuracy relative to the standard library's float64 functions (whose own error is below 1 ulp) and, for functions
//! that it lacks or computes less accurately, relative to values computed to 400 bits.

use super::*;
use crate::backend::cpu::simd::{Isa, force_isa};
use crate::multiversion;

/// The error in ulp of the reference; infinite if only one of the two is NaN, or if zeros or infinities differ in
/// sign.
fn ulps32(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.to_bits() == rounded.to_bits() || (got.is_nan() && want.is_nan()) {
        0.0
    } else if got.is_finite() && rounded.is_finite() && (got != 0.0 || rounded != 0.0) {
        let exponent = (rounded.abs().to_bits() >> 23).max(1) as i32 - 150;
        (got as f64 - want).abs() / 2f64.powi(exponent)
    } else {
        f64::INFINITY
    }
}

fn ulps64(got: f64, want: f64) -> f64 {
    if got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) {
        0.0
    } else if got.is_finite() && want.is_finite() && (got != 0.0 || want != 0.0) {
        let exponent = (want.abs().to_bits() >> 52).max(1) as i32 - 1075;
        (got - want).abs() / 2f64.powi(exponent.max(-1022)) / 2f64.powi(exponent - exponent.max(-1022))
    } else {
        f64::INFINITY
    }
}

/// Every 40009th float: all signs and exponents, preceded by special values.
fn samples32() -> Vec<f32> {
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, -f32::INFINITY, f32::NAN, f32::MAX, -f32::MAX, 1e-45];
    special.into_iter().chain((0..u32::MAX / 40009).map(|i| f32::from_bits(i * 40009))).collect()
}

/// Angles of both algorithms, and the neighbours of multiples of π/2, whose sines and cosines have few correct digits after a
/// careless reduction.
fn angles32() -> Vec<f32> {
    let spread = (0..400_000).map(|i| (i as f32 * 0.618_034).fract() * 8000.0 - 4000.0);
    let small = (0..100_000).map(|i| i as f32 * 1e-4 - 5.0);
    let near = (-2600..2600i32).flat_map(|k| {
        let multiple = (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32;
        [multiple.next_down(), multiple, multiple.next_up()]
    });
    spread.chain(small).chain(near).collect()
}

/// Doubles of every exponent, and more in regions where the functions change.
fn samples64() -> Vec<f64> {
    let special =
        [0.0, -0.0, 1.0, -1.0, f64::INFINITY, -f64::INFINITY, f64::NAN, f64::MAX, -f64::MAX, 5e-324];
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let dense = (0..60_000u64).map(|i| {
        let bits = i.wrapping_mul(step);
        let u = (bits >> 11) as f64 / 4503599627370496.0 - 1.0;
        match i % 4 {
            0 => f64::from_bits(bits),
            1 => 2.0 * u,
            2 => 40.0 * u,
            _ => 1000.0 * u,
        }
    });
    special.into_iter().chain(dense).collect()
}

/// Evaluates a function on a slice under every instruction set, checks that the bits are equal, and returns them.
macro_rules! under_every_isa {
    ($t:ident, $x:expr, $f:ident) => {{
        multiversion! {
            fn run(x: &[$t], out: &mut [$t]) {
                for (o, &x) in out.iter_mut().zip(x) {
                    *o = x.$f();
                }
            }
        }
        let results = [Isa::Baseline, Isa::Avx2, Isa::Avx512].map(|isa| {
            force_isa(isa);
            let mut out = vec![0.0; $x.len()];
            run($x, &mut out);
            out
        });
        for other in &results[..2] {
            let same = |(a, b): (&$t, &$t)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(
                other.iter().zip(&results[2]).all(same),
                "{} depends on the instruction set",
                stringify!($f)
            );
        }
        results.into_iter().next_back().unwrap_or_default()
    }};
}

/// One test per function and precision: the largest error over all samples is below the bound.
macro_rules! accuracy {
    ($($name:ident: $t:ident $samples:ident $ulps:ident $f:ident, $reference:expr, $bound:expr;)*) => { $(
        #[test]
        fn $name() {
            let x = $samples();
            let reference: fn(f64) -> f64 = $reference;
            for (&x, got) in x.iter().zip(under_every_isa!($t, &x, $f)) {
                #[allow(clippy::unnecessary_cast)]
                let want = reference(x as f64);
                let error = $ulps(got, want);
                assert!(error < $bound, "{x:e}: {got:e} for {want:e}, {error} ulp");
            }
        }
    )* };
}

accuracy! {
    exp_of_floats_is_within_an_ulp: f32 samples32 ulps32 m_exp, f64::exp, 1.1;
    expm1_of_floats_is_within_two_ulps: f32 samples32 ulps32 m_expm1, f64::exp_m1, 1.5;
    exp2_of_floats_is_within_an_ulp: f32 samples32 ulps32 m_exp2, f64::exp2, 1.1;
    log_of_floats_is_within_an_ulp: f32 samples32 ulps32 m_log, f64::ln, 1.0;
    log1p_of_floats_is_within_two_ulps: f32 samples32 ulps32 m_log1p, f64::ln_1p, 1.7;
    log2_of_floats_is_rounded_right: f32 samples32 ulps32 m_log2, f64::log2, 0.501;
    log10_of_floats_is_rounded_right: f32 samples32 ulps32 m_log10, f64::log10, 0.501;
    sin_of_floats_is_within_an_ulp: f32 samples32 ulps32 m_sin, f64::sin, 1.1;
    cos_of_floats_is_within_an_ulp: f32 samples32 ulps32 m_cos, f64::cos, 1.1;
    sin_of_angles_is_within_an_ulp: f32 angles32 ulps32 m_sin, f64::sin, 1.1;
    cos_of_angles_is_within_an_ulp: f32 angles32 ulps32 m_cos, f64::cos, 1.1;
    tan_of_floats_is_rounded_right: f32 samples32 ulps32 m_tan, f64::tan, 0.501;
    sinh_of_floats_is_rounded_right: f32 samples32 ulps32 m_sinh, f64::sinh, 0.501;
    cosh_of_floats_is_rounded_right: f32 samples32 ulps32 m_cosh, f64::cosh, 0.501;
    tanh_of_floats_is_within_two_ulps: f32 samples32 ulps32 m_tanh, f64::tanh, 1.5;
    asin_of_floats_is_rounded_right: f32 samples32 ulps32 m_asin, f64::asin, 0.501;
    acos_of_floats_is_rounded_right: f32 samples32 ulps32 m_acos, f64::acos, 0.501;
    atan_of_floats_is_rounded_right: f32 samples32 ulps32 m_atan, f64::atan, 0.501;
    asinh_of_floats_is_rounded_right: f32 samples32 ulps32 m_asinh, asinh_f64, 0.501;
    acosh_of_floats_is_rounded_right: f32 samples32 ulps32 m_acosh, acosh_f64, 0.501;
    atanh_of_floats_is_rounded_right: f32 samples32 ulps32 m_atanh, atanh_f64, 0.501;
    erf_of_floats_is_within_two_ulps: f32 samples32 ulps32 m_erf, erf_f64, 1.5;
    erfc_of_floats_is_rounded_right: f32 samples32 ulps32 m_erfc, erfc_f64, 0.51;
    erfinv_of_floats_is_rounded_right: f32 samples32 ulps32 m_erfinv, erfinv_f64, 0.55;
    lgamma_of_floats_is_rounded_right: f32 samples32 ulps32 m_lgamma, lgamma_f64, 0.501;
    digamma_of_floats_is_rounded_right: f32 samples32 ulps32 m_digamma, digamma_f64, 0.51;
    exp_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_exp, f64::exp, 1.5;
    expm1_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_expm1, f64::exp_m1, 1.5;
    exp2_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_exp2, f64::exp2, 1.5;
    log_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_log, f64::ln, 1.5;
    log1p_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_log1p, f64::ln_1p, 1.5;
    log2_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_log2, f64::log2, 2.1;
    log10_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_log10, f64::log10, 2.1;
    sin_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_sin, f64::sin, 1.5;
    cos_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_cos, f64::cos, 1.5;
    tan_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_tan, f64::tan, 1.5;
    sinh_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_sinh, f64::sinh, 2.1;
    cosh_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_cosh, f64::cosh, 2.1;
    tanh_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_tanh, f64::tanh, 2.1;
    asin_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_asin, f64::asin, 1.5;
    acos_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_acos, f64::acos, 1.5;
    atan_of_doubles_is_within_two_ulps: f64 samples64 ulps64 m_atan, f64::atan, 1.5;
}

#[test]
fn functions_agree_with_values_computed_to_400_bits() {
    type Row = (&'static str, fn(f64) -> f64, &'static [(f64, f64)]);
    #[rustfmt::skip]
    let table: &[Row] = &[
        ("asinh", asinh_f64, &[
            (0.7374101693382116, 0.6830448706057578),
            (1.450721935564376, 1.1671141283485758),
            (1.7711613933941797, 1.3363491477610048),
            (2.654701702662302, 1.7032019734451327),
            (1.4393914484395847, 1.160666538088686),
            (2.533949979992502, 1.659766574150905),
            (1e-05, 9.999999999833334e-06),
            (-300000000.0, -20.21244021318042),
            (1e+300, 691.4686750787737),
            (0.01, 0.009999833340832888),
        ]),
        ("acosh", acosh_f64, &[
            (1.0580104565672295, 0.3389929366279125),
            (1.9312453087562107, 1.276319951499329),
            (2.8867134339966274, 1.7218171866983334),
            (2.2979491062738484, 1.474054055607486),
            (2.8018009835012454, 1.6899239195237203),
            (1.2264119293062887, 0.6608317282551334),
            (1.0000001, 0.0004472135919037347),
            (10000000000.0, 23.7189981105004),
            (1e+300, 691.4686750787737),
        ]),
        ("atanh", atanh_f64, &[
            (-0.06186190443567252, -0.061940999136340685),
            (-0.5068543347603394, -0.5584874687260913),
            (0.08752171847186085, 0.08774622483184258),
            (0.14788237585620156, 0.1489747688836746),
            (-0.9737716208221956, -2.1604297602063434),
            (-0.5665403990723037, -0.6424131501761443),
            (1e-05, 1.0000000000333334e-05),
            (-0.999999, -7.254328619247669),
        ]),
        ("tanh", tanh_f64, &[
            (-1.323105803933338, -0.8675542214772731),
            (2.498072230851312, 0.9865629368534893),
            (1.5943527097748502, 0.920814045748936),
            (-2.0423747258517704, -0.966902238078814),
            (1.7828819485872271, 0.9450042695510888),
            (-2.167395489606581, -0.9741297931998646),
            (1e-05, 9.999999999666668e-06),
            (-0.1, -0.09966799462495582),
            (15.5, 0.9999999999999312),
        ]),
        ("sinh", sinh_f64, &[
            (0.7047151227967001, 0.7645104323385997),
            (-2.2398046046983815, -4.642508373021648),
            (-2.989350826784792, -9.911228667904942),
            (2.228428468345692, 4.588782488110214),
            (-1.7432617050292927, -2.7705039890392946),
            (-1.7071129846516064, -2.6658167954827006),
            (1e-05, 1.0000000000166668e-05),
            (-0.1, -0.10016675001984403),
            (300.5, 1.6012598573018164e+130),
            (-710.3, -1.507788755590971e+308),
        ]),
        ("erf", erf_f64, &[
            (2.894526652955552, 0.9999575051143732),
            (2.2344465926208112, 0.9984222256288046),
            (-1.264168993518441, -0.9261925157128418),
            (2.768867933700501, 0.999909884089451),
            (0.23534081322486378, 0.26073147772673816),
            (1.0669828635035543, 0.86868630165843),
            (-1.771322912797243, -0.9877558606999873),
            (2.6458560065279944, 0.9998172970634351),
            (1e-05, 1.1283791670579e-05),
            (-0.1, -0.1124629160182849),
            (5.5, 0.9999999999999927),
            (0.4999, 0.5204119951613866),
            (0.5001, 0.5205877516768808),
        ]),
        ("erfc", erfc_f64, &[
            (1.1438516466414494, 0.10573793671123775),
            (2.799385873903173, 7.528646395379271e-05),
            (2.362450065458871, 0.0008347454026004774),
            (-1.2072666128767935, 1.9122397902921677),
            (-0.8328603916656951, 1.76114058281053),
            (-2.0042636572215264, 1.9954096342857421),
            (-2.125788542755905, 1.9973556856151773),
            (-2.6091617197459422, 1.9997756682634409),
            (1e-05, 0.9999887162083294),
            (-0.1, 1.1124629160182848),
            (5.5, 7.357847917974398e-15),
            (12.25, 3.09412674054021e-67),
            (25.3, 2.293036860845902e-280),
            (26.9, 1.1522406e-316),
            (0.4999, 0.4795880048386134),
            (0.5001, 0.4794122483231193),
        ]),
        ("erfinv", erfinv_f64, &[
            (-0.39728179846107503, -0.3680459605207383),
            (0.20621999481530873, 0.18484142826570604),
            (-0.9932337612512865, -1.9149409889139877),
            (0.35586849909538243, 0.3266338538641344),
            (-0.3242062767442697, -0.29571899326673534),
            (-0.3800841367937424, -0.35070346356891596),
            (0.6370361492941417, 0.6432776838261416),
            (-0.03850962673992209, -0.034141529091387846),
            (1e-09, 8.86226925452758e-10),
            (1e-05, 8.862269254759594e-06),
            (0.9999999, 3.7665625816384707),
            (-0.999999999999, -5.042031898572696),
            (0.49999, 0.4769251504153166),
            (0.50001, 0.4769474021116977),
        ]),
        ("lgamma", lgamma_f64, &[
            (0.9473793175393321, 0.032711384181285136),
            (1.4436551587105915, -0.12132906398551441),
            (2.114007402422728, 0.05229540555427131),
            (0.17100278860736984, 1.6896216091840448),
            (2.9252986894327058, 0.6253267680303524),
            (0.06859668975816213, 2.6436623979016285),
            (23.244465601864377, 49.233671935661306),
            (25.8117840134795, 57.39471834441855),
            (3.487823455220313, 1.1875654895182979),
            (24.268934207471723, 52.45725403485584),
            (-2.535262096632558, -0.08919933154980446),
            (-1.6859246837725017, 0.9023513000806563),
            (-3.9636864527218862, 0.1942268046836652),
            (-3.813091525204234, -1.1651908961408488),
            (1e-05, 11.512919692895826),
            (100000.0, 1051287.7089736569),
            (1e+300, 6.897755278982137e+302),
            (1.0001, -5.771334222047127e-05),
            (1.9999, -4.227520877215346e-05),
            (8.4999, 9.549059248843433),
            (8.5001, 9.549475267006944),
        ]),
        ("digamma", digamma_f64, &[
            (0.2351953343363622, -4.497111641497481),
            (1.2417338694685163, -0.2373964375101624),
            (0.2554781716669106, -4.135142938032187),
            (0.982457336186713, -0.6064480603257466),
            (28.009245544609847, 3.3145771964584014),
            (28.35984037280389, 3.3272399089694864),
            (11.446005309400238, 2.393321830316511),
            (11.740647703138915, 2.4198657789558378),
            (-1.90119271722752, -8.910551081858292),
            (-0.8975879412040189, -9.070681298312993),
            (-3.5677885237406683, 0.7262443621549438),
            (-1.0064077740613477, 156.46626119671),
            (1e-05, -100000.57719921567),
            (100000.0, 11.512920464961896),
        ]),
        ("sin", sin_f64, &[
            (1000000.0, -0.34999350217129294),
            (1048577.0, 0.9727535843134413),
            (1000000000000000.0, 0.8582727931702359),
            (1e+22, -0.8522008497671888),
            (-1.7e+100, 0.1705718929787936),
            (1.7976931348623157e+308, 0.004961954789184062),
            (5.319372648326541e+255, 1.0),
        ]),
        ("cos", cos_f64, &[
            (1000000.0, 0.9367521275331447),
            (1048577.0, 0.23184146351624124),
            (1000000000000000.0, -0.5131937377869703),
            (1e+22, 0.523214785395139),
            (-1.7e+100, -0.985345233573305),
            (1.7976931348623157e+308, -0.9999876894265599),
        ]),
        ("tan", tan_f64, &[
            (1000000.0, -0.373624453987599),
            (1048577.0, 4.195770547511648),
            (1000000000000000.0, -1.672414782127583),
            (1e+22, -1.6287782256068988),
            (-1.7e+100, -0.17310876144417242),
            (1.7976931348623157e+308, -0.004962015874444895),
        ]),
    ];
    for (name, f, values) in table {
        for &(x, want) in *values {
            // Near the zeros of lgamma and digamma only the error relative to their terms is small.
            let error = match *name {
                "lgamma" | "digamma" => (f(x) - want).abs() / want.abs().max(0.5) / 1e-15,
                _ => ulps64(f(x), want) / 2.0,
            };
            assert!(
                error <= 4.0 && (error <= 1.0 || name.ends_with("gamma")),
                "{name} {x:e}: {:e} for {want:e}",
                f(x)
            );
        }
    }
}

/// Special arguments of two-argument functions, and some ordinary ones.
const PARTICULAR: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::INFINITY,
    -f64::INFINITY,
    f64::NAN,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    1e300,
    -1e300,
    5e-324,
    -5e-324,
    2.5,
    -2.5,
    4503599627370497.0,
    -9007199254740991.0,
    9007199254740992.0,
    1e-20,
    0.999999,
];

#[test]
fn pow_and_atan2_are_c99s_for_zeros_infinities_nans_and_integers() {
    for x in PARTICULAR {
        for y in PARTICULAR {
            assert!(
                ulps64(pow_f64(x, y), x.powf(y)) <= 1.0,
                "{x:e}^{y:e}: {:e} for {:e}",
                pow_f64(x, y),
                x.powf(y)
            );
            let (got, want) = (atan2_f64(x, y), x.atan2(y));
            assert!(ulps64(got, want) <= 2.0, "atan2({x:e}, {y:e}): {got:e} for {want:e}");
            let (a, b) = (x as f32, y as f32);
            let (got, want) = (pow_f32(a, b), (a as f64).powf(b as f64));
            assert!(ulps32(got, want) < 0.51, "{a:e}^{b:e}: {got:e} for {want:e}");
            let (got, want) = (atan2_f32(a, b), (a as f64).atan2(b as f64));
            assert!(ulps32(got, want) < 0.51, "atan2({a:e}, {b:e}): {got:e} for {want:e}");
        }
    }
}

#[test]
fn atan2_of_floats_of_all_sizes_is_rounded_right() {
    let x = samples32();
    for (i, &y) in x.iter().enumerate() {
        // Coordinates of any size, and of about the same.
        for x in [x[i * 7919 % x.len()], y * x[i * 31 % 10 + 10].clamp(-2.0, 2.0)] {
            let (got, want) = (atan2_f32(y, x), (y as f64).atan2(x as f64));
            assert!(ulps32(got, want) < 0.501, "atan2({y:e}, {x:e}): {got:e} for {want:e}");
        }
    }
}

#[test]
fn the_normal_distribution_of_floats_is_within_three_parts_in_two_to_the_24th() {
    use crate::formula::Num;
    let x: Vec<f32> = (-120_000..=120_000).map(|i| i as f32 * 1e-4).chain(samples32()).collect();
    for &x in x.iter().filter(|x| !x.is_nan()) {
        let want = 0.5 * erfc_f64(-x as f64 * std::f64::consts::FRAC_1_SQRT_2);
        assert!((x.normal_cdf() as f64 - want).abs() < 3.0 / (1 << 24) as f64, "{x:e}");
    }
    assert_eq!([0.0, -0.0, f32::INFINITY, 12.0].map(normal_cdf_f32), [0.5, 0.5, 1.0, 1.0]);
    assert_eq!([-f32::MAX, -f32::INFINITY, f32::NAN].map(normal_cdf_f32), [0.0; 3]);
}

#[test]
fn pow_is_accurate_up_to_overflow_and_underflow() {
    for i in 0..40_000u32 {
        let (u, v) = ((i.wrapping_mul(2654435761) as f64 / 4294967296.0), (i as f64 / 20_000.0 - 1.0));
        for (x, y) in [(10.0 * u, 100.0 * v), (1.0 + 0.01 * u, 70_000.0 * v), (u, v)] {
            let error = ulps64(pow_f64(x, y), x.powf(y));
            assert!(error <= 1.0, "{x:e}^{y:e}: {error} ulp");
            let (x, y) = (x as f32, y as f32);
            let error = ulps32(pow_f32(x, y), (x as f64).powf(y as f64));
            assert!(error < 0.51, "{x:e}^{y:e}: {error} ulp");
        }
    }
}

#[test]
fn exact_cases_of_logarithms_and_powers_are_exact() {
    for k in -1074..1024 {
        assert_eq!(log2_f64(exp2_f64(k as f64)), k as f64);
    }
    for k in 0..23 {
        assert_eq!(log10_f64(10f64.powi(k)), k as f64);
        assert_eq!(pow_f64(10.0, k as f64), 10f64.powi(k));
    }
    for k in -149..128 {
        assert_eq!(log2_f32(exp2_f32(k as f32)), k as f32);
    }
}

#[test]
fn gamma_functions_take_their_values_at_poles_and_infinities() {
    assert_eq!([0.0, -0.0, -1.0, -30.0, f64::INFINITY, -f64::INFINITY].map(lgamma_f64), [f64::INFINITY; 6]);
    assert!(lgamma_f64(f64::NAN).is_nan() && digamma_f64(f64::NAN).is_nan());
    assert_eq!([1.0, 2.0].map(lgamma_f64), [0.0; 2]);
    assert_eq!([0.0, -0.0].map(digamma_f64), [-f64::INFINITY, f64::INFINITY]);
    assert!([-1.0, -2.0, -1e17, -f64::INFINITY].iter().all(|&x| digamma_f64(x).is_nan()));
    assert_eq!(digamma_f64(f64::INFINITY), f64::INFINITY);
}

#[test]
fn gamma_functions_of_floats_take_the_values_of_doubles_at_poles_and_infinities() {
    let same = |a: f32, b: f64| a.to_bits() == (b as f32).to_bits() || a.is_nan() && b.is_nan();
    for x in
        [0.0, -0.0, 1.0, 2.0, 0.5, -1.0, -2.0, -30.0, -8388609.0, -1e20, f32::MAX, -f32::MAX, 1e-45, -1e-45]
    {
        assert!(same(lgamma_f32(x), lgamma_f64(x as f64)), "lgamma {x:e}: {:e}", lgamma_f32(x));
        assert!(same(digamma_f32(x), digamma_f64(x as f64)), "digamma {x:e}: {:e}", digamma_f32(x));
    }
    for x in [f32::INFINITY, -f32::INFINITY, f32::NAN] {
        assert!(
            same(lgamma_f32(x), lgamma_f64(x as f64)) && same(digamma_f32(x), digamma_f64(x as f64)),
            "{x}"
        );
    }
}

#[test]
fn gamma_functions_of_floats_are_accurate_next_to_their_zeros() {
    // Within 500 floats of a zero the error is that of the terms, except where the zero is a factor.
    let around = |zero: f32| (0..1000).map(move |i| f32::from_bits(zero.to_bits() - 500 + i));
    for x in [-2.457_024_7, -2.747_682_6, -3.143_581, -3.955_294_3].into_iter().flat_map(around) {
        let (got, want) = (lgamma_f32(x) as f64, lgamma_f64(x as f64));
        assert!(
            (got - want).abs() < 2f64.powi(-24) * want.abs() + 2f64.powi(-43),
            "{x:e}: {got:e} for {want:e}"
        );
    }
    for x in [-0.504_083, -1.573_498_5, 1.461_632_1].into_iter().flat_map(around) {
        let (got, want) = (digamma_f32(x) as f64, digamma_f64(x as f64));
        assert!(
            (got - want).abs() < 2f64.powi(-24) * want.abs() + 2f64.powi(-43),
            "{x:e}: {got:e} for {want:e}"
        );
    }
    for x in [1.0, 2.0].into_iter().flat_map(around) {
        assert!(ulps32(lgamma_f32(x), lgamma_f64(x as f64)) < 0.501, "{x:e}");
    }
}

#[test]
fn error_functions_take_their_values_at_the_ends() {
    for x in [0.0, 6.0, f64::INFINITY] {
        assert_eq!(erf_f64(x), if x == 0.0 { 0.0 } else { 1.0 });
        assert!(erf_f64(-x).to_bits() == (-erf_f64(x)).to_bits());
    }
    assert_eq!([-f64::INFINITY, 0.0, f64::INFINITY, 40.0].map(erfc_f64), [2.0, 1.0, 0.0, 0.0]);
    assert!(erf_f64(f64::NAN).is_nan() && erfc_f64(f64::NAN).is_nan());
    assert_eq!([-1.0, 1.0].map(erfinv_f64), [-f64::INFINITY, f64::INFINITY]);
    assert!([-1.5, 2.0, f64::INFINITY, f64::NAN].iter().all(|&x| erfinv_f64(x).is_nan()));
}

#[test]
fn rounding_is_to_even_and_fmod_keeps_the_sign_of_the_dividend() {
    assert_eq!([0.5f32, 1.5, 2.5, -0.5, -1.5].map(Math::m_round_even), [0.0, 2.0, 2.0, -0.0, -2.0]);
    assert_eq!([-1.5f64.m_floor(), 1.5f64.m_ceil(), (-1.5f64).m_trunc()], [-1.0, 2.0, -1.0]);
    assert_eq!([(-5.5f64).m_fmod(2.0), 5.5f64.m_fmod(-2.0)], [-1.5, 1.5]);
}

#[test]
fn remainders_of_float32_are_exact() {
    let numbers = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.1,
        3.0,
        7.5,
        -2.5,
        1e-40,
        -1e-45,
        1e-38,
        16777215.0,
        16777216.0,
        268435456.0,
        1e9,
        1e20,
        3e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::EPSILON,
        0.333_333_34,
        1.0 + f32::EPSILON,
    ];
    let mut pairs: Vec<(f32, f32)> =
        numbers.iter().flat_map(|&x| numbers.iter().map(move |&y| (x, y))).collect();
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        f32::from_bits(state ^ state >> 9)
    };
    pairs.extend((0..20_000).map(|_| (next(), next())));
    // Next to multiples, where a rounded quotient would be on the wrong side.
    for n in [1.0f32, 3.0, 1e6, 2e8] {
        for y in [0.1f32, 0.7, 1.1e-39, 12345.678] {
            pairs.extend([(n * y, y), ((n * y).next_down(), y), ((n * y).next_up(), y)]);
        }
    }
    for (x, y) in pairs {
        let (found, expected) = (x.m_fmod(y), x % y);
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{x:e} % {y:e}: {found:e}, not {expected:e}");
    }
}
