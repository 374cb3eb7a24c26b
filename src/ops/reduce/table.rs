//! The operation table of reductions.

use super::{
    extremum, mean, mean_whole, moments, nanmean, nansum, norms, order, products, sum, sum_to_size, sum_whole,
};
use crate::ops::autocast::CastPolicy;
use crate::ops::schema::{Call, Exposure, Op, Overload};

const REDUCTION: &str = "input: Tensor, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None";
const WHOLE_AS: &str = "input: Tensor, *, dtype: dtype? = None";
const SOME_AS: &str = "input: Tensor, dim: int[]?, keepdim: bool = False, *, dtype: dtype? = None";
const TRUTH: &str = "input: Tensor, dim: int[]? = None, keepdim: bool = False";
const ALONG: &str = "input: Tensor, dim: int, keepdim: bool = False -> tuple[Tensor, Tensor]";
const LAST: &str = "input: Tensor, dim: int = -1, keepdim: bool = False -> tuple[Tensor, Tensor]";
const WHOLE: &str = "input: Tensor, unbiased: bool";
const UNBIASED: &str = "input: Tensor, dim: int[]?, unbiased: bool, keepdim: bool = False";
const CORRECTED: &str =
    "input: Tensor, dim: int[]? = None, *, correction: Number? = None, keepdim: bool = False";
const UNBIASED_LATER: &str =
    "input: Tensor, dim: int[]? = None, unbiased: bool = True, keepdim: bool = False";
const QUANTILE: &str =
    "input: Tensor, q: Operand, dim: int? = None, keepdim: bool = False, *, interpolation: str = 'linear'";

pub static OPS: &[Op] = &[
    Op {
        name: "sum",
        doc: "Sum of all elements, or over the dimensions `dim`.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[
            Overload { sig: WHOLE_AS, call: Call::Fn(sum_whole) },
            Overload { sig: SOME_AS, call: Call::Fn(sum) },
        ],
        ..Op::NEW
    },
    Op {
        name: "nansum",
        doc: "Sum of all elements, or over the dimensions `dim`, with NaN as 0.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: REDUCTION, call: Call::Fn(nansum) }],
        ..Op::NEW
    },
    Op {
        name: "mean",
        doc: "Mean of all elements, or over the dimensions `dim`.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: WHOLE_AS, call: Call::Fn(mean_whole) },
            Overload { sig: SOME_AS, call: Call::Fn(mean) },
        ],
        ..Op::NEW
    },
    Op {
        name: "nanmean",
        doc: "Mean of the elements that are not NaN.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: REDUCTION, call: Call::Fn(nanmean) }],
        ..Op::NEW
    },
    Op {
        name: "prod",
        doc: "Product of all elements, or along `dim`.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        autocast: CastPolicy::FULL,
        overloads: &[
            Overload { sig: "input: Tensor, *, dtype: dtype? = None", call: Call::Fn(products::prod_all) },
            Overload {
                sig: "input: Tensor, dim: int, keepdim: bool = False, *, dtype: dtype? = None",
                call: Call::Fn(products::prod_dim),
            },
        ],
        ..Op::NEW
    },
    Op {
        name: "all",
        doc: "Whether all elements differ from zero.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: TRUTH, call: Call::Fn(products::all_op) }],
        ..Op::NEW
    },
    Op {
        name: "any",
        doc: "Whether some element differs from zero.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: TRUTH, call: Call::Fn(products::any_op) }],
        ..Op::NEW
    },
    Op {
        name: "max",
        doc: "The largest element; along `dim` with where it stands; or the larger of two tensors.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: "input: Tensor", call: Call::Fn(extremum::max_all) },
            Overload { sig: "input: Tensor, other: Tensor", call: Call::Fn(extremum::max_other) },
            Overload { sig: ALONG, call: Call::Fn(extremum::max_dim) },
        ],
        ..Op::NEW
    },
    Op {
        name: "min",
        doc: "The smallest element; along `dim` with where it stands; or the smaller of two tensors.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: "input: Tensor", call: Call::Fn(extremum::min_all) },
            Overload { sig: "input: Tensor, other: Tensor", call: Call::Fn(extremum::min_other) },
            Overload { sig: ALONG, call: Call::Fn(extremum::min_dim) },
        ],
        ..Op::NEW
    },
    Op {
        name: "amax",
        doc: "The largest element over the dimensions `dim`; equal elements share the gradient.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: TRUTH, call: Call::Fn(extremum::amax_op) }],
        ..Op::NEW
    },
    Op {
        name: "amin",
        doc: "The smallest element over the dimensions `dim`; equal elements share the gradient.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: TRUTH, call: Call::Fn(extremum::amin_op) }],
        ..Op::NEW
    },
    Op {
        name: "aminmax",
        doc: "The smallest and the largest element.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload {
            sig: "input: Tensor, *, dim: int? = None, keepdim: bool = False -> tuple[Tensor, Tensor]",
            call: Call::Fn(extremum::aminmax),
        }],
        ..Op::NEW
    },
    Op {
        name: "var",
        doc: "Variance of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: WHOLE, call: Call::Fn(moments::var_whole) },
            Overload { sig: UNBIASED, call: Call::Fn(moments::var_unbiased) },
            Overload { sig: CORRECTED, call: Call::Fn(moments::var_corrected) },
            Overload { sig: UNBIASED_LATER, call: Call::Fn(moments::var_unbiased) },
        ],
        ..Op::NEW
    },
    Op {
        name: "std",
        doc: "Standard deviation of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: WHOLE, call: Call::Fn(moments::std_whole) },
            Overload { sig: UNBIASED, call: Call::Fn(moments::std_unbiased) },
            Overload { sig: CORRECTED, call: Call::Fn(moments::std_corrected) },
            Overload { sig: UNBIASED_LATER, call: Call::Fn(moments::std_unbiased) },
        ],
        ..Op::NEW
    },
    Op {
        name: "var_mean",
        doc: "Variance and mean of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.",
        exposure: Exposure::FUNCTION,
        overloads: &[
            Overload { sig: WHOLE, call: Call::Fn(moments::var_mean_whole) },
            Overload { sig: UNBIASED, call: Call::Fn(moments::var_mean_unbiased) },
            Overload { sig: CORRECTED, call: Call::Fn(moments::var_mean_corrected) },
            Overload { sig: UNBIASED_LATER, call: Call::Fn(moments::var_mean_unbiased) },
        ],
        ..Op::NEW
    },
    Op {
        name: "std_mean",
        doc: "Standard deviation and mean of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.",
        exposure: Exposure::FUNCTION,
        overloads: &[
            Overload { sig: WHOLE, call: Call::Fn(moments::std_mean_whole) },
            Overload { sig: UNBIASED, call: Call::Fn(moments::std_mean_unbiased) },
            Overload { sig: CORRECTED, call: Call::Fn(moments::std_mean_corrected) },
            Overload { sig: UNBIASED_LATER, call: Call::Fn(moments::std_mean_unbiased) },
        ],
        ..Op::NEW
    },
    Op {
        name: "norm",
        doc: "Norm of order `p` of all elements, or over the dimensions `dim`.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[
            Overload {
                sig: "input: Tensor, p: Number? = 2, dim: int[]? = None, keepdim: bool = False, dtype: dtype? = None",
                call: Call::Fn(norms::norm),
            },
            Overload {
                sig: "input: Tensor, p: str, dim: int[]? = None, keepdim: bool = False, dtype: dtype? = None",
                call: Call::Composite(norms::norm),
            },
        ],
        ..Op::NEW
    },
    norms::NORM_EXCEPT_DIM,
    Op {
        name: "logsumexp",
        doc: "Logarithm of the sum of exponentials over the dimensions `dim`, without overflow.",
        exposure: Exposure::BOTH.and(Exposure::OUT).and(Exposure::SPECIAL),
        autocast: CastPolicy::FULL_ON_GPU,
        overloads: &[Overload {
            sig: "input: Tensor, dim: int[], keepdim: bool = False",
            call: Call::Fn(norms::logsumexp_op),
        }],
        ..Op::NEW
    },
    Op {
        name: "median",
        doc: "The median, the lower of two in the middle.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: "input: Tensor", call: Call::Fn(order::median_all) },
            Overload { sig: ALONG, call: Call::Fn(order::median_dim) },
        ],
        ..Op::NEW
    },
    Op {
        name: "nanmedian",
        doc: "The median of the elements that are not NaN.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[
            Overload { sig: "input: Tensor", call: Call::Fn(order::nanmedian_all) },
            Overload { sig: ALONG, call: Call::Fn(order::nanmedian_dim) },
        ],
        ..Op::NEW
    },
    Op {
        name: "mode",
        doc: "The most frequent element along `dim`, and where it stands.",
        exposure: Exposure::BOTH.and(Exposure::OUT),
        overloads: &[Overload { sig: LAST, call: Call::Fn(order::mode) }],
        ..Op::NEW
    },
    Op {
        name: "quantile",
        doc: "The quantiles `q`, of all elements or along `dim`.",
        exposure: Exposure::BOTH.and(Exposure::OUT).and(Exposure::COMPOSITE),
        autocast: CastPolicy::FULL_ON_CPU,
        overloads: &[Overload { sig: QUANTILE, call: Call::Fn(order::quantile) }],
        ..Op::NEW
    },
    Op {
        name: "nanquantile",
        doc: "The quantiles `q` of the elements that are not NaN.",
        exposure: Exposure::BOTH.and(Exposure::OUT).and(Exposure::COMPOSITE),
        autocast: CastPolicy::FULL_ON_CPU,
        overloads: &[Overload { sig: QUANTILE, call: Call::Fn(order::nanquantile) }],
        ..Op::NEW
    },
    Op {
        name: "sum_to_size",
        doc: "The sum over the dimensions that `size` has not or has once.",
        exposure: Exposure::METHOD,
        overloads: &[Overload { sig: "input: Tensor, size: size", call: Call::Fn(sum_to_size) }],
        ..Op::NEW
    },
    Op {
        name: "renorm",
        doc: "Each part along `dim`, scaled down to `maxnorm` where its norm of order `p` is larger.",
        exposure: Exposure::ALL,
        overloads: &[Overload {
            sig: "input: Tensor, p: Number, dim: int, maxnorm: Number",
            call: Call::Fn(norms::renorm),
        }],
        ..Op::NEW
    },
];
