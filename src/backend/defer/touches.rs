//! Which arguments of a kernel deferred operations are about to read or write.

use crate::backend::View;
use crate::backend::attention::Attention;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::ctc::Sequences;
use crate::backend::factor::Factor;
use crate::backend::group::Group as Fused;
use crate::backend::index::{Combine, Found, IndexGrid, Pick};
use crate::backend::inspect::Question;
use crate::backend::norm::{Kind as Norm, Stats};
use crate::backend::optim::Group;
use crate::backend::plane::{PoolShape, ResizeShape, SpatialLinearMap};
use crate::backend::pointwise::{Operand, Primitives};
use crate::backend::random::Philox;
use crate::backend::recurrent::{GruGradients, GruSteps, Recurrence, Steps, Weights};
use crate::backend::reduce::ReduceDims;
use crate::backend::sampling::Sampling;
use crate::backend::scan::Running;
use crate::backend::softmax::Targets;
use crate::backend::sort::{Interpolation, QuantileRanks, Statistic};
use crate::backend::svd::Matrices;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::formula::Formula;
use crate::storage::Access;

/// An argument of a kernel.
pub trait Argument {
    /// Whether a kernel that reads or writes it has to wait for what is deferred.
    fn waits(&self, access: Access) -> bool;
}

impl Argument for View<'_> {
    #[inline]
    fn waits(&self, access: Access) -> bool {
        self.storage.waits(access)
    }
}

impl Argument for Operand<'_> {
    #[inline]
    fn waits(&self, access: Access) -> bool {
        if let Operand::View(v) = self { v.waits(access) } else { false }
    }
}

impl<T: Argument> Argument for Option<T> {
    fn waits(&self, access: Access) -> bool {
        self.as_ref().is_some_and(|a| a.waits(access))
    }
}

impl<T: Argument> Argument for &[T] {
    fn waits(&self, access: Access) -> bool {
        self.iter().any(|a| a.waits(access))
    }
}

impl<T: Argument, const N: usize> Argument for [T; N] {
    fn waits(&self, access: Access) -> bool {
        self.iter().any(|a| a.waits(access))
    }
}

impl Argument for Pick<'_> {
    fn waits(&self, access: Access) -> bool {
        self.index.waits(access)
    }
}

impl Argument for &IndexGrid<'_> {
    fn waits(&self, access: Access) -> bool {
        self.picks.waits(access)
    }
}

impl Argument for &Attention<'_> {
    fn waits(&self, access: Access) -> bool {
        self.views().any(|v| v.waits(access))
    }
}

impl Argument for Weights<'_> {
    fn waits(&self, access: Access) -> bool {
        self.views().any(|view| view.waits(access))
    }
}

impl Argument for Steps<'_> {
    fn waits(&self, access: Access) -> bool {
        [self.gates, self.cell, self.out].waits(access)
    }
}

impl Argument for GruSteps<'_> {
    fn waits(&self, access: Access) -> bool {
        [self.gates, self.out].waits(access)
    }
}

impl Argument for GruGradients<'_> {
    fn waits(&self, access: Access) -> bool {
        [self.slopes, self.state].waits(access)
    }
}

impl Argument for Targets<'_> {
    fn waits(&self, access: Access) -> bool {
        self.class.waits(access) || self.weight.waits(access)
    }
}

impl Argument for Stats<'_> {
    fn waits(&self, access: Access) -> bool {
        self.mean.waits(access) || self.var.waits(access) || self.rstd.waits(access)
    }
}

impl Argument for QuantileRanks<'_> {
    fn waits(&self, access: Access) -> bool {
        [self.lower, self.upper, self.weight, self.scale].waits(access)
    }
}

/// Arguments that surely are, as they are whole steps, or that need all results.
macro_rules! always {
    ($($t:ty)*) => { $(impl Argument for $t { fn waits(&self, _: Access) -> bool { true } })* };
}
always! { Device &Fused<'_> Group<'_, '_> &Found }

/// Arguments without memory.
macro_rules! plain {
    ($($t:ty)*) => { $(impl Argument for $t { fn waits(&self, _: Access) -> bool { false } })* };
}
plain! {
    usize bool i64 f64 &str DType Scalar ReduceDims Question Running Statistic Interpolation Combine Philox Product Factor Norm Recurrence
    &Formula Primitives<'_> &ConvShape &PoolShape &ResizeShape &SpatialLinearMap<'_> Sampling &Sequences &Matrices
}
