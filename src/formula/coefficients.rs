//! Coefficients of the elementary functions, shared by the CPU kernels and the shaders.
//!
//! Rust uses them as constants. Shaders get the ones they use as text, one constant per number; see `template.rs`.
//! Names with `MID` are for float32 functions that the CPU computes in float64, names with `GPU` for float32 shaders,
//! which have no wider type and therefore other polynomials. Coefficients are in ascending order unless stated
//! otherwise.

use super::template::line;

/// The name of a constant or array, its values, and whether it is an array.
type Entry<T> = (&'static str, &'static [T], bool);

macro_rules! table {
    ($module:ident $t:ident: $($(#[doc = $doc:literal])* $name:ident $kind:ident $values:tt;)*) => {
        pub mod $module {
            #![allow(clippy::approx_constant, reason = "what a polynomial has near a constant is not the constant")]
            use super::Entry;
            $(table!(@one $t $(#[doc = $doc])* $name $kind $values);)*
            pub(super) const TABLE: &[Entry<$t>] =
                &[$((stringify!($name), table!(@slice $name $kind), table!(@list $kind))),*];
        }
    };
    (@one $t:ident $(#[doc = $doc:literal])* $name:ident is [$v:expr]) => { $(#[doc = $doc])* pub const $name: $t = $v; };
    (@one $t:ident $(#[doc = $doc:literal])* $name:ident of [$($v:expr),+ $(,)?]) => {
        $(#[doc = $doc])* pub const $name: [$t; <[$t]>::len(&[$($v),+])] = [$($v),+];
    };
    (@slice $name:ident is) => { &[$name] };
    (@slice $name:ident of) => { &$name };
    (@list is) => { false };
    (@list of) => { true };
}
/// The constants available to shaders that compute in float32 or float64: `NAME`, or `NAME_0`, `NAME_1`, … for an
/// array.
pub(super) fn wgsl(is_double: bool) -> String {
    fn text<T: std::fmt::Debug>(table: &[Entry<T>], kind: &str, suffix: &str) -> String {
        let mut s = String::new();
        for (name, values, is_array) in table {
            for (i, v) in values.iter().enumerate() {
                let number = if *is_array { format!("_{i}") } else { String::new() };
                line(&mut s, format!("const {name}{number}: {kind} = {v:?}{suffix};"));
            }
        }
        s
    }
    if is_double { text(double::TABLE, "f64", "lf") } else { text(single::TABLE, "f32", "") }
}

table! { single f32:
    /// (e^r - 1 - r) / r² for |r| <= ln 2 / 2.
    EXP of [0.5, 0.16666518, 0.041666206, 0.008368889, 0.0013950504];
    /// (log(1 + f) - f + f²/2) / f³ from the root of 1/2 to the root of 2.
    LOG of [0.3333331, -0.24999987, 0.20002227, -0.16669251, 0.1421866, -0.12384348, 0.11872961, -0.1178981, 0.06915405];
    /// (erf x - x) / x from x², for |x| <= 0.65.
    ERF_NEAR of [0.12837915, -0.37612414, 0.11279462, -0.026573736, 0.0044049034];
    LN2 is [std::f32::consts::LN_2];
    /// ln 2 in two parts; the first has 16 significant bits, so that its product with an exponent is exact.
    LN2_HI is [0.69314575];
    LN2_LO is [1.4286068e-6];
    LOG2_E is [std::f32::consts::LOG2_E];
    PI is [std::f32::consts::PI];
    HALF_PI is [std::f32::consts::FRAC_PI_2];
    /// π/2 minus its rounded value.
    HALF_PI_LO is [-4.371139e-8];
    /// (tanh x - x) / x³ from x², for |x| < 0.625.
    TANH of [-0.33333284, 0.13331491, -0.053743497, 0.020650584, -0.0057170414];
    /// log₂ erfc a / a, for a up to 4.
    ERFC_EXPONENT of [-1.6281148, -0.91711646, -0.15188287, 0.033022836, -0.0046327054, 0.00030728895];
    /// (2^r - 1) / r without its first coefficient, for |r| <= 1/2.
    EXP2 of [0.24022648, 0.055503324, 0.009618437, 0.0013398875, 0.00015353362];
    /// log₂ of the probability that a normal variable is below -a, without its first coefficient.
    NORMAL_EXPONENT of [-1.1511061, -0.45919725, -0.052540127, 0.0071431943, -0.00021110322, -0.00014977953, 3.0460167e-05, -1.9807012e-06];
    /// As `EXP2`, less accurate.
    NORMAL_EXP2 of [0.24022242, 0.055507336, 0.009671513, 0.0013264727];
    /// Above this argument the result is infinite.
    EXP_OVERFLOW is [88.72284];
    /// Above this argument the result is infinite.
    SINH_OVERFLOW is [89.415985];
    /// For log10: the upper bits of log10 2, its remainder, and log10 e.
    GPU_LOG10 of [0.3010254, 4.605039e-6, 0.4342945];
    /// 2/3 and the rest of the series of atanh, and the rounding error of 2/3.
    GPU_LOG_PAIR of [0.6666667, 0.2857143, 0.22222222, 0.18181819, -1.9868215e-8];
    /// 2/π, and π/2 in four parts.
    GPU_ANGLE_NEAR of [0.63661975, 1.5703125, 0.0004837513, 7.5495336e-8, 2.563344e-12];
    /// (sin r - r) / r³ from r², in descending order.
    SIN_NEAR of [-0.00019516978, 0.008332176, -0.16666655];
    /// (cos r - 1 + r²/2) / r⁴ from r², in descending order.
    COS_NEAR of [2.4438088e-5, -0.0013887364, 0.041666646];
    /// (asin s - s) / s³ from s², in descending order.
    GPU_ASIN_NEAR of [0.04227853, 0.024114482, 0.045483336, 0.07495196, 0.16666755];
    /// tan 3π/8 and tan π/8, then (atan t - t) / t³ from t², in descending order.
    GPU_ATAN_POSITIVE of [2.4142137, 0.41421357, 0.08055444, -0.13878453, 0.19977808, -0.33332953];
    /// (erf x - x) / x from x², then log erfc x from x, both in descending order.
    GPU_ERF of [7.889115e-5, -0.00080208405, 0.005189535, -0.026854444, 0.112836, -0.37612626, 0.12837917, 0.00019242159, -0.0030084958, 0.022087486, -0.10364002, -0.63751733, -1.1274748, -0.00024475664];
    /// As `MID_ERFC_NEAR` and `MID_ERFC_FAR`, in descending order.
    GPU_ERFC of [0.004717988, -0.026757183, 0.112828225, -0.37612608, 1.1283791, 0.0052751023, -0.016571816, 0.036992963, -0.0662626, 0.09376768, -0.10104432, 0.06809456, 0.015379813, -0.13962106, 1.2329952];
    /// As `MID_ERFINV_NEAR`, then in powers of the square root minus 3, in descending order; then √π / 2.
    GPU_ERFINV of [-8.791015e-9, 2.2103046e-7, -1.9764607e-6, 3.983235e-6, 4.4565226e-5, -0.00012748168, -0.0023342962, 0.011548654, 0.23201382, 0.8862269, 0.00012972722, -0.00031911978, -7.7766425e-5, 0.001496297, -0.0035863952, 0.0056830286, -0.007639526, 0.009445698, 1.0016751, 2.8329768];
    /// As the float64 table of this function, in descending order.
    GPU_LGAMMA_NEAR_TWO of [0.00012271047, -0.0002536583, 0.0005013332, -0.0011859423, 0.002891765, -0.007386161, 0.020580733, -0.06735228, 0.32246703, 0.42278433];
    /// Stirling's series, and log √(2π).
    GPU_LGAMMA_POSITIVE of [0.083333336, 0.0027777778, 0.0007936508, 0.4189385];
    /// As the float64 table of this function.
    GPU_DIGAMMA_POSITIVE of [0.008333334, 0.003968254, 0.004166667];
}

table! { double f64:
    /// (e^r - 1 - r) / r², to 2^-39.
    MID_EXP of [0.4999999999951943, 0.16666666786646753, 0.04166666705395977, 0.008333281265743476, 0.0013888796475366092, 0.00019909247059349706, 2.4887584962871003e-05];
    /// (log((1 + s)/(1 - s)) - 2s) / s³ from s², to 2^-44.
    MID_LOG of [0.6666666667580432, 0.3999999562080168, 0.28572109257567413, 0.2217618490636352, 0.19584201848338892];
    /// 2^s/π modulo 2, of either sign, over 2^s, for s = 0, 27, 53 and 79: the upper 29 bits,
    TURNS_HIGH of [0.3183098854497075, -2.0598845545949374e-09, -7.518982784152626e-17, -2.7170920508541586e-25];
    /// the next 29,
    TURNS_MIDDLE of [7.340831623126043e-10, -5.800888867077463e-18, -6.491405213975194e-26, -3.0177164987488473e-34];
    /// and 53 more.
    TURNS_LOW of [1.138005036539198e-18, -2.9056689322530833e-28, -1.0917865609568239e-34, -6.595212469671656e-43];
    /// sin πt / t from t², for |t| <= 1/2.
    MID_SIN_PI of [3.1415926535895964, -5.167712779977139, 2.550164035410411, -0.5992644255695357, 0.08214473072585159, -0.007363779708267617, 0.0004471926988400635];
    /// log Γ(t) / ((t - 1)(t - 2)) from t - 7/4, for t from 1 to 5/2, to 2^-43.
    MID_LGAMMA_NEAR of [0.4501393121092563, -0.11948158662578094, 0.044520447198804526, -0.019053957773001774, 0.008776370393889283, -0.004226195904922803, 0.0020955348548874074, -0.001060541064111115, 0.0005448832795772582, -0.0002833798998328127, 0.0001486205845215449, -7.762813752646195e-05, 4.1247625456739684e-05, -2.446602440886077e-05, 1.3152908298996057e-05, -3.137926149574127e-06, 1.6728563383668448e-06, -4.41451393138517e-06, 2.4088053524658644e-06];
    /// t times what follows the logarithm and the constant in Stirling's series, from 1/t², for t >= 5/2, to 2^-39.
    MID_LGAMMA_FAR of [0.08333333333319239, -0.002777777664357704, 0.0007936354605354852, -0.0005944254988312451, 0.0008196822566927878, -0.001566877711180605, 0.002825830321774403, -0.0028705513280526907];
    /// ψ(t) / (t - its zero) from t - 3/2, for t from 1 to 2, to 2^-45.
    MID_DIGAMMA_NEAR of [0.951055876031848, -0.4236274212814706, 0.24054248423098154, -0.14840492304738048, 0.09498872549518131, -0.06192213396655074, 0.04076079142017064, -0.026975768494932717, 0.017908113729267646, -0.011908792188745274, 0.00791718589473085, -0.0052734591080944235, 0.003583141540709669, -0.0023880239265417044, 0.0013173558947715282, -0.0008781219829897608, 0.0011706834952207525, -0.0007804332517989885];
    /// (log t - 1/2t - ψ(t))·t² from 1/t², for t >= 2, to 2^-38.
    MID_DIGAMMA_FAR of [0.08333333333314044, -0.008333333145340788, 0.003968222849931996, -0.0041645954615939776, 0.007502171772050578, -0.019475064743357105, 0.05895271626840822, -0.1655499637201044, 0.3551307545591474, -0.48348702817483086, 0.30412988349508835];
    /// (atan q - q) / q³ in powers of q², for |q| <= tan π/8.
    MID_ATAN of [-0.3333333251415804, 0.19999905143953695, -0.14282040771071441, 0.11045076497811775, -0.0847830617047084, 0.04748058852847011];
    /// (asin s - s) / s³ in powers of s², for |s| <= 1/2.
    MID_ASIN of [0.16666667191513962, 0.07499948010715175, 0.04466020496826828, 0.03010971484680508, 0.024621869168847375, 0.007457947947560722, 0.03470683201603164];
    /// erf x / x from x².
    MID_ERFC_NEAR of [1.1283791670826107, -0.3761263852963319, 0.11283774140522708, -0.026863157288488235, 0.005200478867975891, -0.000769557615215449];
    /// e^(x²) (1 + 2x) erfc x from (x - 4)/(x + 4).
    MID_ERFC_FAR of [1.2329951188405555, -0.13962111759249066, 0.015379607901792255, 0.06809708365764314, -0.10103758075981599, 0.0937332830305197, -0.06634811806219722, 0.03715031493933643, -0.016113067529785332, 0.005165774379513412, -0.0008668513952097844, -0.0005149435433429086];
    /// erfinv x / x from -log(1 - x²).
    MID_ERFINV_NEAR of [0.8862269274514648, 0.23201355602958998, 0.011550335399423855, -0.002338540345789589, -0.00012200285340648895, 4.0486889634077856e-05, 5.83561225602367e-06, -2.4978847860217115e-06, 3.0979875565963217e-07, -1.716160331145573e-08, 3.355530275020257e-10];
    /// The same in powers of √(-log(1 - x²)), from √5 to its value at the float32 below 1.
    MID_ERFINV_FAR of [-4.172622599354237, 16.834129169244317, -24.40944881080907, 20.817727164930478, -11.204178918166296, 4.033511305860424, -0.9913578417958001, 0.1650314373191186, -0.01786184298034245, 0.0011372955575964744, -3.2394462722587076e-05];
    /// (e^r - 1 - r) / r² for |r| <= ln 2 / 2.
    EXP of [0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316739, 0.0013888888888858428, 0.00019841269897059863, 2.4801587373702355e-05, 2.7557234236107333e-06, 2.7557233416056126e-07, 2.5112240020425072e-08, 2.092692288803174e-09];
    /// (log((1 + s)/(1 - s)) - 2s) / s³ from s².
    LOG of [0.6666666666666734, 0.399999999994143, 0.2857142874247897, 0.22222198563131837, 0.18183564883178302, 0.1531403543691255, 0.14796109336156382];
    /// The coefficients after 2/3 of the same series, for evaluation in double-double.
    LOG_PAIR of [0.40000000000002256, 0.28571428570099316, 0.22222222519966092, 0.18181784363551284, 0.15386757488375064, 0.13256814218961563, 0.13196360515563998];
    /// (sin r - r) / r³ from r², for |r| <= π/4.
    SIN of [-0.16666666666666632, 0.008333333333322413, -0.00019841269829807778, 2.755731369191555e-06, -2.5050758115698192e-08, 1.5896795713489568e-10];
    /// (cos r - 1 + r²/2) / r⁴ from r².
    COS of [0.0416666666666666, -0.0013888888888874125, 2.480158728948234e-05, -2.7557314352372173e-07, 2.0875723278132235e-09, -1.13596480422716e-11];
    /// (atan q - q) / q³ from q², for |q| <= tan π/8.
    ATAN of [-0.33333333333333326, 0.19999999999997692, -0.14285714285390708, 0.11111111088346269, -0.09090908150616346, 0.07692282896535368, -0.06666228796848431, 0.0587704180534775, -0.0521853342226193, 0.04504075124928611, -0.0334867201604519, 0.015207633488838641];
    /// (asin s - s) / s³ from s², for |s| <= 1/2.
    ASIN of [0.16666666666666763, 0.074999999999701, 0.0446428571752842, 0.03038194267536432, 0.02237221590355906, 0.017351595542757704, 0.013981018009907982, 0.011397297476858578, 0.010789295728802686, 0.0036722827165789475, 0.021790407291922515, -0.0211163785293054, 0.032701949027685466];
    /// (erf x - x) / x from x², for |x| <= 1/2.
    ERF_NEAR of [0.1283791670955126, -0.37612638903183754, 0.11283791670955123, -0.02686617064513004, 0.0052239776254033605, -0.0008548327016184278, 0.00012055332133458677, -1.4925586688507622e-05, 1.6459038692484508e-06, -1.6273220918473915e-07, 1.3215035394554606e-08];
    /// e^(x²) (1 + 2x) erfc x, minus its first coefficient, divided by t = (x - 4)/(x + 4).
    ERFC_FAR of [-0.1396211168405625, 0.015379652102619743, 0.06809705425468857, -0.10103906603630315, 0.0937328349985285, -0.06633036581227535, 0.03716751553391755, -0.01619773405672781, 0.005031970017176362, -0.0007577732990131736, -0.00019925695629064558, 0.00015062173708792765, -2.439809534783307e-05, -1.1222261572717078e-05, 5.7065920452585614e-06, 2.943753819155672e-07, -8.196595157354299e-07, 7.378621138670587e-08, 1.033864943742347e-07, -1.72172778800151e-08, -9.699634960062647e-09, 1.5945541349218626e-09];
    /// log Γ(2 + d) / d for |d| <= 1/2.
    LGAMMA_NEAR_TWO of [0.42278433509846713, 0.3224670334241132, -0.06735230105319814, 0.020580808427784925, -0.007385551028668399, 0.002890510330713682, -0.0011927539119909515, 0.0005096695256872947, -0.00022315475095214732, 9.945749519460973e-05, -4.4926348714669414e-05, 2.050740901482789e-05, -9.438474921215471e-06, 4.3735033900604345e-06, -2.0448560806479785e-06, 9.61054116352912e-07, -4.3049247423737734e-07, 1.966716359550894e-07, -1.3400683564656892e-07, 6.916075746069743e-08];
    /// Stirling's series for log Γ(x), in powers of 1/x².
    STIRLING of [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360360.0, 1.0 / 156.0, -3617.0 / 122400.0];
    /// The series for the derivative of log Γ(x), in powers of 1/x².
    DIGAMMA of [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0];
    /// The zero of the derivative of log Γ.
    DIGAMMA_ZERO is [1.4616321449683622];
    LN2 is [std::f64::consts::LN_2];
    /// ln 2 in two parts; the first has 40 significant bits, so that its product with an exponent is exact.
    LN2_HI is [0.6931471805592082];
    LN2_LO is [7.371002565167799e-13];
    /// ln 2 minus its rounded value; likewise the other `_REST` constants.
    LN2_REST is [2.3190468138462996e-17];
    LOG2_E is [std::f64::consts::LOG2_E];
    LOG2_E_REST is [2.0355273740931033e-17];
    LOG10_E is [std::f64::consts::LOG10_E];
    LOG10_E_REST is [1.098319650216765e-17];
    LOG10_2 is [std::f64::consts::LOG10_2];
    LOG10_2_REST is [-2.8037281277851704e-18];
    PI is [std::f64::consts::PI];
    PI_REST is [1.2246467991473532e-16];
    HALF_PI is [std::f64::consts::FRAC_PI_2];
    HALF_PI_REST is [6.123233995736766e-17];
    QUARTER_PI_REST is [3.061616997868383e-17];
    FRAC_2_PI is [std::f64::consts::FRAC_2_PI];
    TWO_THIRDS is [0.6666666666666666];
    TWO_THIRDS_REST is [3.700743415417188e-17];
    ROOT_HALF is [std::f64::consts::FRAC_1_SQRT_2];
    TAN_PI_8 is [0.41421356237309503];
    TAN_3_PI_8 is [2.414213562373095];
    HALF_ROOT_PI is [0.886226925452758];
    /// log √(2π) - 1/2.
    HALF_LOG_TAU is [0.4189385332046727];
    /// The constant coefficient that `ERFC_FAR` omits.
    ERFC_FAR_FIRST is [1.2329951186255526];
    LEAST_NORMAL is [2.2250738585072014e-308];
    BELOW_ONE is [0.9999999999999999];
    /// π/2 in parts of 33 bits each.
    ANGLE_NEAR of [1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32];
    /// Winitzki's approximation.
    ERFINV of [4.330746750799873, 6.802721088435375];
}
