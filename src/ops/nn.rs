//! Operations of `nn.functional` outside the families, and helpers shared by the families.

mod attention;
mod bags;
mod dropout;
mod embedding;
mod interpolate;
mod pad;
mod plane;
mod recurrent;
mod sampling;

use super::schema::Op;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::{bail, ensure};

pub use attention::{Options as AttentionOptions, attention};
pub use dropout::dropout;
pub use embedding::embedding;
pub use pad::pad_constant;
pub(super) use plane::{Asked, Named, SavedLinearMap, Taps, map_planes, record_map};

/// The compute dtype of floating point kernels.
pub(super) fn float_compute(op: &'static str, dtype: DType) -> Result<DType> {
    ensure!(dtype.is_float(), Error::DtypeNotImplemented { op, dtype });
    Ok(number_compute(dtype))
}

/// As [`float_compute`], but accepts integers, which are computed in float64.
pub(super) fn number_compute(dtype: DType) -> DType {
    match dtype {
        d if d.is_half() => DType::F32,
        d if d.is_float() => d,
        _ => DType::F64,
    }
}

/// Converts a computed result to the dtype of the operation's result.
pub(super) fn rounded(out: Tensor, dtype: DType) -> Result<Tensor> {
    if out.dtype() == dtype { Ok(out) } else { out.copied(dtype) }
}

/// Expands a parameter to `n` spatial axes, from one value for all or one for each.
pub(super) fn per_axis(name: &str, op: &str, values: &[i64], n: usize) -> Result<[i64; 3]> {
    // Axes that lower-rank operations lack come first; the caller fills them.
    let mut out = [0; 3];
    let axes = &mut out[3 - n..];
    match values.len() {
        1 => axes.fill(values[0]),
        k if k == n => axes.copy_from_slice(values),
        _ => {
            let count = ["one int", "two ints", "three ints"][n - 1];
            bail!(Runtime, "{op}: {name} must either be a single int, or a tuple of {count}")
        }
    }
    Ok(out)
}

/// The last `n` of three axes; the others are set to `fill`.
pub(super) fn axes(values: [i64; 3], n: usize, fill: usize) -> [usize; 3] {
    std::array::from_fn(|a| if a < 3 - n { fill } else { values[a].max(0) as usize })
}

pub static OPS: &[Op] = &Op::concat::<
    {
        attention::OPS.len()
            + bags::OPS.len()
            + dropout::OPS.len()
            + embedding::OPS.len()
            + interpolate::OPS.len()
            + pad::OPS.len()
            + pad::edges::OPS.len()
            + recurrent::OPS.len()
            + sampling::OPS.len()
    },
>(&[
    attention::OPS,
    bags::OPS,
    dropout::OPS,
    embedding::OPS,
    interpolate::OPS,
    pad::OPS,
    pad::edges::OPS,
    recurrent::OPS,
    sampling::OPS,
]);
