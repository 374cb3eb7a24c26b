//! The operation table of reductions.

use super::{
    dims_of, extremum, mean, mean_whole, moments, nanmean, nansum, norms, order, products, sum, sum_to_size,
    sum_whole,
};
use crate::dtype::DType;
use crate::ops;
use crate::tensor::Tensor;

ops! {
    /// Sum of all elements, or over the dimensions `dim`.
    "sum" BOTH | OUT, autocast FULL_ON_GPU, out ANY, batch REDUCTION {
        (input: Tensor, *, dtype: dtype? = None) => sum_whole;
        /// The sum of all elements.
        pub fn sum_all(t: &Tensor, dtype: Option<DType>) -> Tensor as (t, dtype) = super::sum_all_impl;
        (input: Tensor, dim: int[]?, keepdim: bool = False, *, dtype: dtype? = None) => sum;
        /// As `sum`, over the dimensions of a mask that has some.
        pub(super) fn sum_over_some(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Tensor
            as (t, dims_of(t, mask), keepdim, dtype) = super::sum_mask_impl;
    }
    /// Sum of all elements, or over the dimensions `dim`, with NaN as 0.
    "nansum" BOTH | OUT, out ANY, batch REDUCTION {
        (input: Tensor, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None) => nansum;
    }
    /// Mean of all elements, or over the dimensions `dim`.
    "mean" BOTH | OUT, batch REDUCTION {
        (input: Tensor, *, dtype: dtype? = None) => mean_whole;
        /// The mean of all elements.
        pub fn mean_all(t: &Tensor) -> Tensor as (t, None::<DType>) = super::mean_all_impl;
        (input: Tensor, dim: int[]?, keepdim: bool = False, *, dtype: dtype? = None) => mean;
        /// The mean over the dimensions of a mask.
        pub fn mean_mask(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Tensor
            as (t, dims_of(t, mask), keepdim, dtype) = super::mean_mask_impl;
    }
    /// Mean of the elements that are not NaN.
    "nanmean" BOTH | OUT, batch REDUCTION {
        (input: Tensor, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None) => nanmean;
    }
    /// Product of all elements, or along `dim`.
    "prod" BOTH | OUT, autocast FULL, out ANY, batch REDUCTION {
        (input: Tensor, *, dtype: dtype? = None) => products::prod_all;
        /// The product of all elements.
        pub fn prod_all(t: &Tensor, dtype: Option<DType>) -> Tensor as (t, dtype) = products::prod_of_all;
        (input: Tensor, dim: int, keepdim: bool = False, *, dtype: dtype? = None) => products::prod_dim;
        /// The product along a dimension.
        pub fn prod(t: &Tensor, dim: i64, keepdim: bool, dtype: Option<DType>) -> Tensor as (t, dim, keepdim, dtype) =
            products::prod_along;
    }
    /// Whether all elements differ from zero.
    "all" BOTH | OUT, out TRUTH, batch REDUCTION {
        pub fn all(input: Tensor, dim: int[]? = None, keepdim: bool = False) -> Tensor = products::all_impl;
    }
    /// Whether some element differs from zero.
    "any" BOTH | OUT, out TRUTH, batch REDUCTION {
        pub fn any(input: Tensor, dim: int[]? = None, keepdim: bool = False) -> Tensor = products::any_impl;
    }
    /// The largest element; along `dim` with where it stands; or the larger of two tensors.
    "max" BOTH | OUT, out EXTREMUM, batch REDUCTION {
        (input: Tensor) => extremum::max_all;
        (input: Tensor, other: Tensor) => extremum::max_other;
        (input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor] => extremum::max_dim;
        /// As `max`, along a dimension: values and indices.
        pub fn max_along(t: &Tensor, dim: i64, keepdim: bool) -> Vec<Tensor> as (t, dim, keepdim) = extremum::max_along_impl;
    }
    /// The smallest element; along `dim` with where it stands; or the smaller of two tensors.
    "min" BOTH | OUT, out EXTREMUM, batch REDUCTION {
        (input: Tensor) => extremum::min_all;
        (input: Tensor, other: Tensor) => extremum::min_other;
        (input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor] => extremum::min_dim;
        /// As `min`, along a dimension: values and indices.
        pub fn min_along(t: &Tensor, dim: i64, keepdim: bool) -> Vec<Tensor> as (t, dim, keepdim) = extremum::min_along_impl;
    }
    /// The largest element over the dimensions `dim`; equal elements share the gradient.
    "amax" BOTH | OUT, out EXTREMA, batch REDUCTION {
        pub fn amax(input: Tensor, dim: int[]? = None, keepdim: bool = False) -> Tensor = extremum::amax_impl;
    }
    /// The smallest element over the dimensions `dim`; equal elements share the gradient.
    "amin" BOTH | OUT, out EXTREMA, batch REDUCTION {
        pub fn amin(input: Tensor, dim: int[]? = None, keepdim: bool = False) -> Tensor = extremum::amin_impl;
    }
    /// The smallest and the largest element.
    "aminmax" BOTH | OUT, out SAME, batch DIMS {
        (input: Tensor, *, dim: int? = None, keepdim: bool = False) -> tuple[Tensor, Tensor] => extremum::aminmax;
    }
    /// Variance of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.
    "var" BOTH | OUT, batch REDUCTION {
        (input: Tensor, unbiased: bool) => moments::var_whole;
        (input: Tensor, dim: int[]?, unbiased: bool, keepdim: bool = False) => moments::var_unbiased;
        (input: Tensor, dim: int[]? = None, *, correction: Number? = None, keepdim: bool = False) =>
            moments::var_corrected;
        (input: Tensor, dim: int[]? = None, unbiased: bool = True, keepdim: bool = False) => moments::var_unbiased;
    }
    /// Standard deviation of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.
    "std" BOTH | OUT, batch REDUCTION {
        (input: Tensor, unbiased: bool) => moments::std_whole;
        (input: Tensor, dim: int[]?, unbiased: bool, keepdim: bool = False) => moments::std_unbiased;
        (input: Tensor, dim: int[]? = None, *, correction: Number? = None, keepdim: bool = False) =>
            moments::std_corrected;
        (input: Tensor, dim: int[]? = None, unbiased: bool = True, keepdim: bool = False) => moments::std_unbiased;
    }
    /// Variance and mean of all elements, or over the dimensions `dim`; `correction` is taken from the divisor.
    "var_mean" FUNCTION, batch REDUCTION {
        (input: Tensor, unbiased: bool) => moments::var_mean_whole;
        (input: Tensor, dim: int[]?, unbiased: bool, keepdim: bool = False) => moments::var_mean_unbiased;
        (input: Tensor, dim: int[]? = None, *, correction: Number? = None, keepdim: bool = False) =>
            moments::var_mean_corrected;
        (input: Tensor, dim: int[]? = None, unbiased: bool = True, keepdim: bool = False) =>
            moments::var_mean_unbiased;
    }
    /// Standard deviation and mean of all elements, or over the dimensions `dim`; `correction` is taken from the
    /// divisor.
    "std_mean" FUNCTION, batch REDUCTION {
        (input: Tensor, unbiased: bool) => moments::std_mean_whole;
        (input: Tensor, dim: int[]?, unbiased: bool, keepdim: bool = False) => moments::std_mean_unbiased;
        (input: Tensor, dim: int[]? = None, *, correction: Number? = None, keepdim: bool = False) =>
            moments::std_mean_corrected;
        (input: Tensor, dim: int[]? = None, unbiased: bool = True, keepdim: bool = False) =>
            moments::std_mean_unbiased;
    }
    /// Norm of order `p` of all elements, or over the dimensions `dim`.
    "norm" BOTH | OUT, autocast FULL_ON_GPU, out SAME, batch REDUCTION {
        (input: Tensor, p: Number? = 2, dim: int[]? = None, keepdim: bool = False, dtype: dtype? = None) =>
            norms::norm;
        (input: Tensor, p: str, dim: int[]? = None, keepdim: bool = False, dtype: dtype? = None) =>
            composite norms::norm;
    }
    ///  Norm of order `pow` over all dimensions but `dim`, which is kept; over all of them if `dim` is -1.
    "norm_except_dim" FUNCTION, samples ["data(5, 7)", "data(2, 3, 4), 3, 1", "data(5, 7), 2, -1"] {
        pub fn norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor = norms::norm_but_one;
    }
    /// Logarithm of the sum of exponentials over the dimensions `dim`, without overflow.
    "logsumexp" BOTH | SPECIAL | OUT, autocast FULL_ON_GPU, batch DIMS {
        pub fn logsumexp(input: Tensor, dim: int[], keepdim: bool = False) -> Tensor = norms::logsumexp_impl;
    }
    /// The median, the lower of two in the middle.
    "median" BOTH | OUT, batch REDUCTION {
        (input: Tensor) => order::median_all;
        (input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor] => order::median_dim;
    }
    /// The median of the elements that are not NaN.
    "nanmedian" BOTH | OUT, batch REDUCTION {
        (input: Tensor) => order::nanmedian_all;
        (input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor] => order::nanmedian_dim;
    }
    /// The most frequent element along `dim`, and where it stands.
    "mode" BOTH | OUT, out MODE, batch DIMS {
        (input: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor] => order::mode;
    }
    /// The quantiles `q`, of all elements or along `dim`.
    "quantile" BOTH | OUT | COMPOSITE, autocast FULL_ON_CPU, out QUANTILE {
        (input: Tensor, q: Operand, dim: int? = None, keepdim: bool = False, *, interpolation: str = "linear") =>
            order::quantile;
    }
    /// The quantiles `q` of the elements that are not NaN.
    "nanquantile" BOTH | OUT | COMPOSITE, autocast FULL_ON_CPU, out QUANTILE {
        (input: Tensor, q: Operand, dim: int? = None, keepdim: bool = False, *, interpolation: str = "linear") =>
            order::nanquantile;
    }
    /// The sum over the dimensions that `size` has not or has once.
    "sum_to_size" METHOD {
        (input: Tensor, size: size) => sum_to_size;
    }
    /// Each part along `dim`, scaled down to `maxnorm` where its norm of order `p` is larger.
    "renorm" ALL, batch SLICES {
        (input: Tensor, p: Number, dim: int, maxnorm: Number) => norms::renorm;
    }
}
