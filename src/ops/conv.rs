//! Convolutions and their transposes in one, two and three spatial dimensions.

mod product;
mod shared_weight;

use smallvec::SmallVec;

use super::schema::{Args, Out, Value};
use super::{nn, view};
use crate::backend::conv::ConvShape;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};
use product::Product;
pub(super) use shared_weight::with_shared_weight;

/// The parameters of a convolution, one number per spatial dimension.
#[derive(Clone, Debug)]
pub struct Options {
    pub stride: SmallVec<[i64; 3]>,
    pub padding: SmallVec<[i64; 3]>,
    pub dilation: SmallVec<[i64; 3]>,
    /// For a transposed convolution: elements added at the end of the result.
    pub output_padding: SmallVec<[i64; 3]>,
    pub groups: i64,
    pub transposed: bool,
}

/// Formats sizes as `4 x 5` for messages.
fn by(values: impl IntoIterator<Item = i64>) -> String {
    let items: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    items.join(" x ")
}

/// An upper bound of all extents, small enough that arithmetic with positions cannot overflow.
const FARTHEST: i64 = 1 << 40;

/// The extent of a dilated kernel.
fn reach(dilation: i64, kernel: i64) -> i128 {
    dilation as i128 * (kernel as i128 - 1) + 1
}

/// A size, saturated if it does not fit in an i64.
fn bounded(size: i128) -> i64 {
    size.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}

/// The C++ name of a dtype, for one message.
fn c_name(dtype: DType) -> String {
    match dtype {
        DType::F16 | DType::BF16 => format!("c10::{}", dtype.scalar_name()),
        DType::I64 => "long int".into(),
        DType::I16 => "short int".into(),
        DType::I8 => "signed char".into(),
        DType::U8 => "unsigned char".into(),
        _ => dtype.scalar_name().to_lowercase(),
    }
}

impl Options {
    /// The parameters among the arguments of the operation `op` in `n` dimensions; None where `padding` is a word.
    pub(super) fn of(op: &str, values: &[Value], n: usize) -> Result<Option<Options>> {
        let transposed = op.starts_with("conv_transpose");
        let (stride, padding, output_padding, groups, dilation) = match values {
            [_, _, _, Value::Ints(s), Value::Ints(p), Value::Ints(o), Value::Number(g), Value::Ints(d)]
                if transposed =>
            {
                (s, p, Some(o), g, d)
            }
            [_, _, _, Value::Ints(s), Value::Ints(p), Value::Ints(d), Value::Number(g)] if !transposed => {
                (s, p, None, g, d)
            }
            _ => return Ok(None),
        };
        Ok(Some(Options {
            stride: per_dimension("stride", stride, n)?,
            padding: per_dimension("padding", padding, n)?,
            dilation: per_dimension("dilation", dilation, n)?,
            output_padding: match output_padding {
                Some(added) => per_dimension("output_padding", added, n)?,
                None => SmallVec::from_elem(0, n),
            },
            groups: groups.to_i64(),
            transposed,
        }))
    }

    /// Checks signs and ranks of the parameters.
    fn check(&self) -> Result<()> {
        ensure!(self.padding.iter().all(|&p| p >= 0), Runtime, "negative padding is not supported");
        ensure!(self.stride.iter().all(|&s| s > 0), Runtime, "non-positive stride is not supported");
        ensure!(
            self.dilation.iter().all(|&d| d > 0),
            Runtime,
            "dilation should be greater than zero, but got {:?}",
            &self.dilation[..]
        );
        ensure!(
            self.output_padding.iter().all(|&p| p >= 0),
            Runtime,
            "negative output_padding is not supported"
        );
        ensure!(self.groups > 0, Runtime, "non-positive groups is not supported");
        let distances = [&self.stride, &self.padding, &self.dilation, &self.output_padding];
        let largest = distances.into_iter().flatten().max().copied().unwrap_or(0);
        ensure!(
            largest <= FARTHEST,
            Runtime,
            "a convolution over distances of {largest} elements is not supported"
        );
        Ok(())
    }

    /// Checks the operands, which have a batch dimension.
    fn check_operands(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<()> {
        let groups = self.groups as usize;
        ensure!(
            w.rank() == x.rank(),
            Runtime,
            "Expected {}-dimensional input for {}-dimensional weight {}, but got {}-dimensional input of size {} instead",
            w.rank(),
            w.rank(),
            w.shape(),
            x.rank(),
            x.shape()
        );
        ensure!(
            w.shape()[0] >= groups,
            Runtime,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {} \
             instead",
            w.shape()
        );
        ensure!(
            w.shape()[0].is_multiple_of(groups),
            Runtime,
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size \
             [{}] instead",
            w.shape()
        );
        let (channels, given, results) = if self.transposed {
            (w.shape()[0], x.shape()[1], w.shape()[1].saturating_mul(groups))
        } else {
            (w.shape()[1].saturating_mul(groups), x.shape()[1], w.shape()[0])
        };
        ensure!(
            channels == given,
            Runtime,
            "Given {}={}, weight of size {}, expected input{} to have {channels} channels, but got {given} channels \
             instead",
            if self.transposed { "transposed" } else { "groups" },
            if self.transposed { 1 } else { groups },
            w.shape(),
            x.shape()
        );
        ensure!(
            bias.is_none_or(|b| b.rank() == 1 && b.numel() == results),
            Runtime,
            "Given {}weight of size {}, expected bias to be 1-dimensional with {results} elements, but got bias of size \
             {} instead",
            if self.transposed { "transposed=1, " } else { "" },
            w.shape(),
            bias.map(|b| b.shape().to_string()).unwrap_or_default()
        );
        let (x, w, bias) = (x.dtype(), w.dtype(), bias.map(Tensor::dtype));
        if let Some(bias) = bias.filter(|&b| b != x) {
            bail!(Runtime, "Input type ({}) and bias type ({}) should be the same", c_name(x), c_name(bias));
        }
        ensure!(x == w, Runtime, "expected scalar type {} but found {}", x.scalar_name(), w.scalar_name());
        Ok(())
    }

    /// The size of the result along spatial dimension `a`.
    fn result(&self, x: &Tensor, w: &Tensor, a: usize) -> i64 {
        let (input, kernel) = (x.shape()[a + 2] as i64, w.shape()[a + 2] as i64);
        let [stride, padding, added] =
            [self.stride[a], self.padding[a], self.output_padding[a]].map(i128::from);
        let reach = reach(self.dilation[a], kernel);
        bounded(if self.transposed {
            (input as i128 - 1) * stride - 2 * padding + reach + added
        } else {
            (input as i128 + 2 * padding - reach).div_euclid(stride) + 1
        })
    }

    /// The sizes of the convolution (or of the one whose transpose this is), and the shape of the result.
    fn shape(&self, x: &Tensor, w: &Tensor) -> Result<(ConvShape, Dims)> {
        let n = self.stride.len();
        let spatial =
            |t: &Tensor| -> SmallVec<[i64; 3]> { t.shape()[2..].iter().map(|&s| s as i64).collect() };
        let (from, kernel) = (spatial(x), spatial(w));
        if self.transposed {
            let small = |a: usize| {
                self.output_padding[a] < self.stride[a] || self.output_padding[a] < self.dilation[a]
            };
            ensure!((0..n).all(small), Runtime, "{}", self.output_padding_error());
        } else {
            let reach = |a: usize| reach(self.dilation[a], kernel[a]);
            let padded = |a: usize| from[a] as i128 + 2 * self.padding[a] as i128;
            ensure!(
                (0..n).all(|a| padded(a) >= reach(a)),
                Runtime,
                "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than \
                 actual input size",
                by((0..n).map(|a| bounded(padded(a)))),
                by((0..n).map(|a| bounded(reach(a))))
            );
        }
        let to: SmallVec<[i64; 3]> = (0..n).map(|a| self.result(x, w, a)).collect();
        ensure!(
            to.iter().all(|&s| s > 0),
            Runtime,
            "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
            by(from.iter().copied()),
            by(to.iter().copied())
        );
        let axes = |v: &[i64], fill: usize| -> [usize; 3] {
            let mut out = [fill; 3];
            v.iter().enumerate().for_each(|(a, &v)| out[3 - n + a] = v as usize);
            out
        };
        let (batch, groups) = (x.shape()[0], self.groups as usize);
        let results = if self.transposed { w.shape()[1] * groups } else { w.shape()[0] };
        let (c_in, c_out) = if self.transposed { (results, x.shape()[1]) } else { (x.shape()[1], results) };
        let (input, output) = if self.transposed { (&to, &from) } else { (&from, &to) };
        let s = ConvShape {
            n: batch,
            c_in,
            c_out,
            groups,
            input: axes(input, 1),
            kernel: axes(&kernel, 1),
            stride: axes(&self.stride, 1),
            padding: axes(&self.padding, 0),
            dilation: axes(&self.dilation, 1),
            output: axes(output, 1),
            winograd: true,
        };
        let shape = [batch, results].into_iter().chain(to.iter().map(|&s| s as usize)).collect();
        Ok((s, shape))
    }

    fn output_padding_error(&self) -> String {
        let names = ["depth", "height", "width"];
        let part = |what: &str, values: &[i64]| {
            let named = values.iter().zip(&names[3 - values.len()..]);
            named.map(|(v, n)| format!("{what}_{n}: {v} ")).collect::<String>()
        };
        let all = part("output_padding", &self.output_padding)
            + &part("stride", &self.stride)
            + &part("dilation", &self.dilation);
        format!("output padding must be smaller than either stride or dilation, but got {}", all.trim_end())
    }
}

/// The convolution of `x` with `w`, or its transpose, plus `bias` per output channel. `x` may lack the batch
/// dimension; `op` is the name for messages.
pub fn convolution(op: &str, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, o: &Options) -> Result<Tensor> {
    let n = o.stride.len();
    ensure!(
        x.rank() == n + 1 || x.rank() == n + 2,
        Runtime,
        "Expected {}D (unbatched) or {}D (batched) input to {op}, but got input of size: {}",
        n + 1,
        n + 2,
        x.shape()
    );
    if x.rank() == n + 1 {
        let y = convolution(op, &view::unsqueeze(x, 0)?, w, bias, o)?;
        return view::squeeze(&y, &[0]);
    }
    o.check()?;
    o.check_operands(x, w, bias)?;
    let (s, shape) = o.shape(x, w)?;
    let product = if o.transposed { Product::Input } else { Product::Output };
    product::product(product, s, x, w, bias, &shape)
}

/// Expands a parameter to `n` spatial dimensions, from one value for all or one for each.
fn per_dimension(name: &str, values: &[i64], n: usize) -> Result<SmallVec<[i64; 3]>> {
    match values.len() {
        1 => Ok(SmallVec::from_elem(values[0], n)),
        k if k == n => Ok(SmallVec::from_slice(values)),
        _ => bail!(
            Runtime,
            "expected {name} to be a single integer value or a list of {n} values to match the convolution dimensions, \
             but got {name}={values:?}"
        ),
    }
}

fn conv(a: &Args, op: &str, n: usize) -> Result<Out> {
    let (x, w) = (a.tensor(0)?, a.tensor(1)?);
    let mut options = Options {
        stride: per_dimension("stride", a.ints(3)?, n)?,
        padding: SmallVec::from_elem(0, n),
        dilation: per_dimension("dilation", a.ints(5)?, n)?,
        output_padding: SmallVec::from_elem(0, n),
        groups: a.int(6)?,
        transposed: false,
    };
    if let Ok(padding) = a.ints(4) {
        options.padding = per_dimension("padding", padding, n)?;
        return Ok(convolution(op, x, w, a.opt_tensor(2)?, &options)?.into());
    }
    match a.str(4)? {
        "valid" => Ok(convolution(op, x, w, a.opt_tensor(2)?, &options)?.into()),
        "same" => {
            ensure!(
                options.stride.iter().all(|&s| s == 1),
                Runtime,
                "padding='same' is not supported for strided convolutions"
            );
            ensure!(
                w.rank() == n + 2,
                Runtime,
                "Expected {}-dimensional weight, but got {}",
                n + 2,
                w.shape()
            );
            // If the padding is odd, the additional element is at the end.
            let mut odd: SmallVec<[i64; 6]> = SmallVec::new();
            for d in 0..n {
                let total = options.dilation[d].saturating_mul(w.shape()[d + 2] as i64 - 1);
                options.padding[d] = total / 2;
                odd.insert_many(0, [0, total % 2]);
            }
            let padded = if odd.iter().any(|&p| p > 0) {
                nn::pad_constant(x, &odd, Scalar::Int(0))?
            } else {
                x.clone()
            };
            Ok(convolution(op, &padded, w, a.opt_tensor(2)?, &options)?.into())
        }
        other => bail!(Runtime, "Invalid padding string: '{other}'"),
    }
}

fn conv_transpose(a: &Args, op: &str, n: usize) -> Result<Out> {
    let options = Options {
        stride: per_dimension("stride", a.ints(3)?, n)?,
        padding: per_dimension("padding", a.ints(4)?, n)?,
        output_padding: per_dimension("output_padding", a.ints(5)?, n)?,
        groups: a.int(6)?,
        dilation: per_dimension("dilation", a.ints(7)?, n)?,
        transposed: true,
    };
    Ok(convolution(op, a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, &options)?.into())
}

ops! {
    /// Convolution over one spatial dimensions.
    "conv1d" FUNCTION | NN | NATIVE, autocast LOWER, batch CONVOLUTION {
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0,
         dilation: int[] = 1, groups: int = 1) =>
            |a| conv(a, "conv1d", 1);
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: str = "valid",
         dilation: int[] = 1, groups: int = 1) =>
            |a| conv(a, "conv1d", 1);
    }
    /// The transpose of a convolution over one spatial dimensions.
    "conv_transpose1d" FUNCTION | NN | NATIVE, autocast LOWER, batch CONVOLUTION {
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0,
         output_padding: int[] = 0, groups: int = 1, dilation: int[] = 1) =>
            |a| conv_transpose(a, "conv_transpose1d", 1);
    }
    /// Convolution over two spatial dimensions.
    "conv2d" FUNCTION | NN | NATIVE, autocast LOWER, batch CONVOLUTION {
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0,
         dilation: int[] = 1, groups: int = 1) =>
            |a| conv(a, "conv2d", 2);
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: str = "valid",
         dilation: int[] = 1, groups: int = 1) =>
            |a| conv(a, "conv2d", 2);
    }
    /// The transpose of a convolution over two spatial dimensions.
    "conv_transpose2d" FUNCTION | NN | NATIVE, autocast LOWER, batch CONVOLUTION {
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0,
         output_padding: int[] = 0, groups: int = 1, dilation: int[] = 1) =>
            |a| conv_transpose(a, "conv_transpose2d", 2);
    }
    /// Convolution over three spatial dimensions.
    "conv3d" FUNCTION | NN | NATIVE, autocast LOWER, batch CONVOLUTION {
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0,
         dilation: int[] = 1, groups: int = 1) =>
            |a| conv(a, "conv3d", 3);
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: str = "valid",
         dilation: int[] = 1, groups: int = 1) =>
            |a| conv(a, "conv3d", 3);
    }
    /// The transpose of a convolution over three spatial dimensions.
    "conv_transpose3d" FUNCTION | NN | NATIVE, autocast LOWER, batch CONVOLUTION {
        (input: Tensor, weight: Tensor, bias: Tensor? = None, stride: int[] = 1, padding: int[] = 0,
         output_padding: int[] = 0, groups: int = 1, dilation: int[] = 1) =>
            |a| conv_transpose(a, "conv_transpose3d", 3);
    }
}
