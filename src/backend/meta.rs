//! A backend that computes nothing: the device "meta", whose tensors have a shape, a dtype and a size in bytes, and no memory.
//!
//! Every kernel does nothing, so that an operation gives what its result looks like and, where gradients are recorded, its
//! history. Whatever depends on elements is an error. Dtypes are those of the CPU.

use super::View;
use super::conv::{ConvShape, Product};
use super::cpu::Cpu;
use super::factor::Factor;
use super::index::{Combine, Found, IndexGrid, Pick};
use super::inspect::Question;
use super::interface::Backend;
use super::norm::{Kind as Norm, Made, Stats};
use super::optim::Group;
use super::plane::{PoolShape, ResizeShape, SpatialLinearMap};
use super::pointwise::{Operand, Primitives, Program};
use super::random::{Draw, Philox};
use super::reduce::{ReduceDims, ReduceOp};
use super::scan::Running;
use super::softmax::{Kind, Targets, TotalWeight};
use super::sort::{Interpolation, QuantileRanks, Statistic};
use super::svd::Matrices;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::formula::Formula;
use crate::storage::Storage;

/// The device without memory.
pub struct Meta;

/// The error of what needs elements.
fn no_data() -> Error {
    Error::NotImplemented("Cannot copy out of meta tensor; no data!".into())
}

/// Methods whose kernels write results alone, of which there are none.
macro_rules! nothing {
    ($($result:expr => { $(fn $name:ident($($t:ty),*);)* } -> $out:ty;)*) => { $($(
        fn $name(&self, $(_: $t),*) -> $out {
            $result
        }
    )*)* };
}

/// What follows from a dtype, as on the CPU.
macro_rules! of_the_cpu {
    ($(fn $name:ident($($arg:ident: $t:ty),*) -> $out:ty;)*) => { $(
        fn $name(&self, $($arg: $t),*) -> $out {
            Cpu.$name($($arg),*)
        }
    )* };
}

impl Backend for Meta {
    fn allocate(&self, device: Device, bytes: usize) -> Result<Storage> {
        Storage::on_device(device, bytes, Box::new(()))
    }

    fn download(&self, _: View) -> Result<Storage> {
        Err(no_data())
    }

    of_the_cpu! {
        fn computes(device: Device, dtype: DType) -> bool;
        fn factor_dtype(a: View) -> Result<DType>;
        fn svd_dtype(x: View) -> Result<DType>;
        fn overwrites_factored() -> bool;
        fn sort_dtype(dtype: DType) -> DType;
        fn extremum_dtype(dtype: DType) -> DType;
        fn truth_dtype(dtype: DType) -> DType;
        fn integer_dtype(op: ReduceOp, dtype: DType) -> DType;
        fn accumulate_dtype(dtype: DType) -> DType;
        fn product_dtype(a: View, b: View) -> DType;
    }

    /// Numbers that nobody has are as they should be.
    fn known(&self, question: Question, _: View) -> Result<Option<bool>> {
        use Question::{AllInUnitInterval, AllWeights, EachRowPositive};
        Ok(matches!(question, AllInUnitInterval | AllWeights | EachRowPositive(_)).then_some(true))
    }

    fn first_outside(&self, _: View, _: i64) -> Result<Option<i64>> {
        Ok(None)
    }

    fn nll(&self, _: View, _: ReduceDims, _: Targets, _: View) -> Result<TotalWeight> {
        Ok(TotalWeight::Known(1.0))
    }

    fn norm_backward(
        &self,
        _: Norm,
        _: View,
        _: View,
        _: [View; 2],
        _: Option<View>,
        _: [View; 3],
    ) -> Result<Made> {
        Ok(Made::All)
    }

    fn find(&self, _: View) -> Result<Found> {
        Err(no_data())
    }

    nothing! {
        Ok(()) => {
        fn synchronize(Device);
        fn positions(View, &Found, View);
        fn compress(View, View, &Found, View);
        fn upload(View, View);
        fn copy(View, View);
        fn fill(View, Scalar);
        fn accumulate(View, View);
        fn pointwise_all(&'static str, &Formula, Primitives, DType, &[Operand], &[Scalar], &[View]);
        fn expect_divisors(View);
        fn integer_power(View, View, View);
        fn random(Draw, Philox, View);
        fn cross(View, View, ReduceDims, View);
        fn triangle(View, usize, usize, i64, bool, View);
        fn reduce(ReduceOp, View, ReduceDims, View);
        fn norm_of_all(f64, &[View], View);
        fn extremum(bool, View, ReduceDims, View, View);
        fn moments(View, ReduceDims, View, View);
        fn scan(Running, View, ReduceDims, bool, View);
        fn scan_extremum(View, ReduceDims, bool, View, View);
        fn sort(View, usize, bool, View, View);
        fn topk(View, usize, usize, bool, bool, View, View);
        fn kthvalue(View, usize, usize, View, View);
        fn searchsorted(View, usize, Option<View>, View, usize, bool, View);
        fn softmax(Kind, View, ReduceDims, View);
        fn softmax_backward(Kind, View, View, ReduceDims, View);
        fn nll_backward(View, View, ReduceDims, Targets, bool, View);
        fn gather(View, &IndexGrid, View);
        fn scatter(View, &IndexGrid, View, Combine);
        fn gather_along(View, usize, Pick, View);
        fn scatter_along(View, usize, Pick, View, Combine);
        fn sum_rows(View, View, Option<usize>, bool, View);
        fn expand(View, View, &Found, View);
        fn fill_masked(View, View, Scalar);
        fn unravel(View, usize, usize, View);
        fn matmul(View, View, Option<View>, View);
        fn convolution(Product, &ConvShape, View, View, Option<View>, View);
        fn max_pool(&PoolShape, View, View, View);
        fn adaptive_max_pool(&ResizeShape, View, View, View);
        fn resample(&SpatialLinearMap, View, View);
        fn resample_adjoint(&SpatialLinearMap, View, View);
        fn factor(&'static str, Factor, usize, View, View);
        fn svd(&Matrices, View, View);
        fn follow(View, View, f64, f64, View);
        fn optimizer_step(&[Group]);
        fn scale(&[View], View, Option<View>);
        } -> Result<()>;
        Ok(true) => {
        fn pointwise(&Program, DType, &[Operand], &[Scalar], View);
        fn pick_categories(View, View, bool, View);
        fn row_order(View, usize, View);
        fn order_statistic(Statistic, View, usize, View, View);
        fn quantile_ranks(View, ReduceDims, View, Interpolation, bool, QuantileRanks);
        fn norm_forward(Norm, View, [Option<View>; 2], f64, View, Stats);
        } -> Result<bool>;
    }
}
