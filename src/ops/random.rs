//! Generators and random operations.

mod integers;
mod multinomial;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use smallvec::{SmallVec, smallvec};

use super::creation::{OPTIONS, OPTIONS_LIKE, device_or, dtype_or, finish, finish_like, like, overwrite};
use super::pointwise::Arg;
use super::schema::{Args, Out};
use super::{arith, default_device, default_dtype, rows};
use crate::backend::copy;
use crate::backend::inspect::{Question, known};
use crate::backend::random::{self as kernel, Draw, Philox, counters_for};
use crate::device::Device;
use crate::dtype::{DType, promote};
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, record};
use crate::layout::{Dims, broadcast};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// A random number generator: a seed and the number of counters used.
#[derive(Debug)]
pub struct Generator(Mutex<State>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub seed: u64,
    pub offset: u64,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator(Mutex::new(State { seed, offset: 0 }))
    }

    pub fn state(&self) -> State {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_state(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Returns the state and advances it by `counters`.
    pub fn take(&self, counters: u64) -> State {
        let mut s = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *s;
        s.offset = s.offset.wrapping_add(counters);
        before
    }
}

/// The default generator.
pub fn default_generator() -> &'static Arc<Generator> {
    static DEFAULT: LazyLock<Arc<Generator>> = LazyLock::new(|| Arc::new(Generator::new(67_280_421_310_721)));
    &DEFAULT
}

/// The stream for a draw of the elements of `t`; advances the generator, unless there are none to be drawn.
fn stream(generator: Option<&Arc<Generator>>, t: &Tensor) -> Philox {
    stream_of(generator, if t.device() == Device::Meta { 0 } else { t.numel() })
}

/// The stream for a draw of `n` elements; advances the generator.
fn stream_of(generator: Option<&Arc<Generator>>, n: usize) -> Philox {
    let State { seed, offset } = generator.unwrap_or(default_generator()).take(counters_for(n));
    Philox { seed, offset }
}

// ---- floating point

use Draw::{Exponential, Normal, Uniform};

/// Fills `t`, of any floating point dtype and layout, with random numbers.
fn draw(d: Draw, t: &Tensor, generator: Option<&Arc<Generator>>) -> Result<()> {
    t.expect_common(match d {
        Uniform(..) => "check_uniform_bounds",
        Exponential(_) => "exponential_cpu",
        _ => "normal_kernel_cpu",
    })?;
    let p = stream(generator, t);
    let compute = if t.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let direct = t.is_contiguous() && t.dtype() == compute;
    let out = if direct { t.clone() } else { Tensor::empty_on(t.shape().clone(), compute, t.device())? };
    match d {
        Uniform(from, to) if t.dtype().is_half() => {
            kernel::fill(Uniform(0.0, 1.0), p, out.raw())?;
            spread(&out, from, to, t.dtype())?;
        }
        _ => kernel::fill(d, p, out.raw())?,
    }
    if !direct {
        copy::copy(out.raw(), t.raw())?;
    }
    Ok(())
}

/// A new tensor of random numbers.
fn sample(
    d: Draw,
    shape: &Dims,
    dtype: DType,
    device: Device,
    generator: Option<&Arc<Generator>>,
) -> Result<Tensor> {
    sample_into(d, Tensor::empty_on(shape.clone(), dtype, device)?, generator)
}

/// Fills a new tensor with random numbers.
fn sample_into(d: Draw, out: Tensor, generator: Option<&Arc<Generator>>) -> Result<Tensor> {
    out.expect_float(if let Uniform(..) = d { "check_uniform_bounds" } else { "normal_kernel_cpu" })?;
    draw(d, &out, generator)?;
    Ok(out)
}

/// Uniform numbers in [from, to) for a half type, derived from multiples of its resolution just below 1, so that none
/// of them rounds up to `to`.
fn spread(t: &Tensor, from: f64, to: f64, dtype: DType) -> Result<()> {
    let resolution = if dtype == DType::F16 { 2048.0 } else { 256.0 };
    rows::mul.call_inplace(&[t.into(), resolution.into()], &[])?;
    rows::floor.call_inplace(&[t.into()], &[])?;
    rows::mul.call_inplace(&[t.into(), ((to - from) / resolution).into()], &[])?;
    rows::add.call_inplace(&[t.into(), from.into()], &[])?;
    Ok(())
}

fn drawn(a: &Args, d: Draw) -> Result<Out> {
    let device = device_or(a, 2, default_device())?;
    let t = sample(d, &a.size(0)?, dtype_or(a, 2, default_dtype())?, device, a.opt_generator(1)?)?;
    finish_like(a, 2, t.clone(), &t)
}

fn drawn_like(a: &Args, d: Draw) -> Result<Out> {
    let drawn = sample_into(d, like(a, 2)?, a.opt_generator(1)?)?;
    finish_like(a, 2, drawn.clone(), &drawn)
}

fn uniform_(a: &Args) -> Result<Out> {
    let (t, from, to) = (a.tensor(0)?, a.float(1)?, a.float(2)?);
    t.expect_float("check_uniform_bounds")?;
    ensure!(
        from <= to,
        Runtime,
        "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
    );
    let most = match t.dtype() {
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    ensure!(
        to - from <= most,
        Runtime,
        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={to} and from={from} which result in \
         to-from to exceed the limit",
        t.dtype().scalar_name()
    );
    Ok(overwrite(t, "UniformBackward0", |t| draw(Uniform(from, to), t, a.opt_generator(3)?))?.into())
}

fn normal_(a: &Args) -> Result<Out> {
    let (t, mean, std) = (a.tensor(0)?, a.float(1)?, a.float(2)?);
    t.expect_float("normal_kernel_cpu")?;
    ensure!(std >= 0.0, Runtime, "normal expects std >= 0.0, but found std {std}");
    Ok(overwrite(t, "NormalBackward0", |t| draw(Normal(mean, std), t, a.opt_generator(3)?))?.into())
}

/// Errors unless `t` can hold samples of a continuous distribution.
fn expect_continuous(t: &Tensor, name: &str) -> Result<()> {
    ensure!(
        t.dtype().is_float(),
        Runtime,
        "{name} distribution is a continuous probability distribution. dtype must be a floating point but you \
         specified {}",
        t.dtype().scalar_name()
    );
    Ok(())
}

fn exponential_(a: &Args) -> Result<Out> {
    let (t, lambda) = (a.tensor(0)?, a.float(1)?);
    expect_continuous(t, "Exponential")?;
    ensure!(lambda > 0.0, Runtime, "exponential_ expects lambda > 0.0, but found lambda={lambda}");
    Ok(overwrite(t, "ExponentialBackward0", |t| draw(Exponential(lambda), t, a.opt_generator(2)?))?.into())
}

/// Fills `t` with a function of samples of `d`.
fn transformed(
    t: &Tensor,
    node: &'static str,
    d: Draw,
    generator: Option<&Arc<Generator>>,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Out> {
    let write = |t: &Tensor| {
        let dtype = if t.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let value = f(&sample(d, t.shape(), dtype, t.device(), generator)?)?;
        copy::copy(value.raw(), t.raw())?;
        Ok(())
    };
    Ok(overwrite(t, node, write)?.into())
}

fn log_normal_(a: &Args) -> Result<Out> {
    let (t, mean, std) = (a.tensor(0)?, a.float(1)?, a.float(2)?);
    expect_continuous(t, "log_normal_")?;
    ensure!(std > 0.0, Runtime, "log_normal_ expects std > 0.0, but found std={std}");
    transformed(t, "LogNormalBackward0", Normal(mean, std), a.opt_generator(3)?, |x| {
        rows::exp.call(&[x.into()], &[])
    })
}

fn cauchy_(a: &Args) -> Result<Out> {
    let (t, median, sigma) = (a.tensor(0)?, a.float(1)?, a.float(2)?);
    expect_continuous(t, "Cauchy")?;
    ensure!(sigma > 0.0, Runtime, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    transformed(t, "CauchyBackward0", Uniform(-0.5, 0.5), a.opt_generator(3)?, |turns| {
        let tan = rows::tan.call(&[(&arith::mul(turns, std::f64::consts::PI)?).into()], &[])?;
        arith::add(&arith::mul(&tan, sigma)?, median)
    })
}

fn geometric_(a: &Args) -> Result<Out> {
    let (t, prob) = (a.tensor(0)?, a.float(1)?);
    ensure!(prob > 0.0 && prob < 1.0, Runtime, "geometric_ expects p to be in (0, 1), but got p={prob}");
    // The number of trials until a success is an exponential waiting time, rounded up.
    transformed(t, "GeometricBackward0", Exponential(-(-prob).ln_1p()), a.opt_generator(2)?, |waited| {
        rows::ceil.call(&[waited.into()], &[])
    })
}

// ---- distributions with parameters per element

/// The node of a random result, whose gradients are zero.
struct Drawn {
    node: &'static str,
}

impl Function for Drawn {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let zeros = match &grads[0] {
            Some(g) => Some(g.new_zeros(g.shape().clone())?),
            None => None,
        };
        Ok(smallvec![zeros.clone(), zeros])
    }
}

/// Normal numbers; at least one of mean and standard deviation is a tensor.
fn normal(mean: Arg, std: Arg, generator: Option<&Arc<Generator>>, node: &'static str) -> Result<Tensor> {
    if let Arg::T(std) = std {
        let negative = rows::lt.call(&[(&std.detach()).into(), 0.0.into()], &[])?;
        let some = super::reduce::any(&negative, None, false)?;
        ensure!(some.item()?.is_zero(), Runtime, "normal expects all elements of std >= 0.0");
    }
    if let Arg::S(std) = std {
        ensure!(std.to_f64() >= 0.0, Runtime, "normal expects std >= 0.0, but found std {}", std.to_f64());
    }
    let (shape, dtype, inputs): (Dims, DType, SmallVec<[&Tensor; 2]>) = match (mean, std) {
        (Arg::T(m), Arg::T(s)) => {
            (broadcast("normal", m.shape(), s.shape())?, promote(m.dtype(), s.dtype())?, smallvec![m, s])
        }
        (Arg::T(t), _) | (_, Arg::T(t)) => (t.shape().clone(), t.dtype(), smallvec![t]),
        _ => (Dims::default(), default_dtype(), smallvec![]),
    };
    let home = inputs.first().map_or(Device::Cpu, |t| t.device());
    let z = sample(Normal(0.0, 1.0), &shape, dtype, home, generator)?;
    let plain = |x: Arg| if let Arg::T(t) = x { Some(t.detach()) } else { None };
    let (mean_data, std_data) = (plain(mean), plain(std));
    let scaled = arith::mul(&z, std_data.as_ref().map_or(std, Arg::T))?;
    let out = arith::add(&scaled, mean_data.as_ref().map_or(mean, Arg::T))?;
    record(out, &inputs, |_| Drawn { node })
}

fn normal_size(a: &Args) -> Result<Out> {
    let (mean, std) = (a.float(0)?, a.float(1)?);
    ensure!(std >= 0.0, Runtime, "normal expects std >= 0.0, but found std {std}");
    finish(
        a,
        4,
        sample(
            Normal(mean, std),
            &a.size(2)?,
            dtype_or(a, 4, default_dtype())?,
            Device::Cpu,
            a.opt_generator(3)?,
        )?,
    )
}

/// Fills `out` with 1 with the probabilities `probs`, of the same shape, else 0.
fn bernoulli_each(out: &Tensor, probs: &Tensor, generator: Option<&Arc<Generator>>) -> Result<()> {
    let compute = if probs.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let probs = probs.dense(compute)?;
    let hits = probs.new_empty(probs.shape().clone())?;
    let p = stream(generator, &hits);
    let valid = match known(Question::AllInUnitInterval, probs.raw())? {
        Some(valid) => valid,
        None => {
            let probs = probs.detach();
            let low = rows::lt.call(&[(&probs).into(), 0.0.into()], &[])?;
            let valid = rows::le.call(&[(&probs).into(), 1.0.into()], &[])?;
            let valid = rows::gt.call(&[(&valid).into(), (&low).into()], &[])?;
            !super::reduce::all(&valid, None, false)?.item()?.is_zero()
        }
    };
    ensure!(valid, Runtime, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    kernel::fill_bernoulli_each(p, probs.raw(), hits.raw())?;
    copy::copy(hits.raw(), out.raw())
}

/// Fills `out` with 1 with probability `prob`, else 0.
fn bernoulli_all(out: &Tensor, prob: f64, generator: Option<&Arc<Generator>>) -> Result<()> {
    out.expect_common("bernoulli_scalar_cpu_")?;
    ensure!((0.0..=1.0).contains(&prob), Runtime, "bernoulli_ expects p to be in [0, 1], but got p={prob}");
    let hits = Tensor::empty_on(out.shape().clone(), DType::U8, out.device())?;
    kernel::fill(Draw::Bernoulli(prob), stream(generator, &hits), hits.raw())?;
    copy::copy(hits.raw(), out.raw())?;
    Ok(())
}

fn bernoulli(a: &Args) -> Result<Out> {
    let probs = a.tensor(0)?;
    probs.expect_float("bernoulli_tensor_cpu_p_")?;
    probs.expect_common("bernoulli_tensor_cpu_p_")?;
    let out = probs.empty_like()?;
    bernoulli_each(&out, probs, a.opt_generator(1)?)?;
    Ok(record(out, &[probs], |_| Drawn { node: "BernoulliBackward0" })?.into())
}

fn bernoulli_p(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let out = t.empty_like()?;
    bernoulli_all(&out, a.float(1)?, a.opt_generator(2)?)?;
    Ok(record(out, &[t], |_| Drawn { node: "BernoulliBackward2" })?.into())
}

fn bernoulli_in_place(a: &Args) -> Result<Out> {
    let (t, prob) = (a.tensor(0)?, a.float(1)?);
    Ok(overwrite(t, "BernoulliBackward2", |t| bernoulli_all(t, prob, a.opt_generator(2)?))?.into())
}

fn bernoulli_in_place_each(a: &Args) -> Result<Out> {
    let (t, probs) = (a.tensor(0)?, a.tensor(1)?);
    let Some(layout) = probs.layout().expand(t.shape()) else {
        bail!(Runtime, "output with shape {} doesn't match the broadcast shape {}", t.shape(), probs.shape());
    };
    let probs = probs.with_layout(layout);
    Ok(overwrite(t, "BernoulliBackward1", |t| bernoulli_each(t, &probs, a.opt_generator(2)?))?.into())
}

ops! {
    /// Uniform random numbers in [0, 1).
    "rand" FUNCTION | OUT {
        (size: size, *, generator: Generator? = None, ..OPTIONS) => |a| drawn(a, Uniform(0.0, 1.0));
    }
    /// Normal random numbers of mean 0 and standard deviation 1.
    "randn" FUNCTION | OUT {
        (size: size, *, generator: Generator? = None, ..OPTIONS) => |a| drawn(a, Normal(0.0, 1.0));
    }
    /// As `rand`, of the shape and dtype of `input`.
    "rand_like" FUNCTION {
        (input: Tensor, *, generator: Generator? = None, ..OPTIONS_LIKE) => |a| drawn_like(a, Uniform(0.0, 1.0));
    }
    /// As `randn`, of the shape and dtype of `input`.
    "randn_like" FUNCTION {
        (input: Tensor, *, generator: Generator? = None, ..OPTIONS_LIKE) => |a| drawn_like(a, Normal(0.0, 1.0));
    }
    /// Random integers from `low` to `high`, which is excluded.
    "randint" FUNCTION | OUT {
        (high: int, size: size, *, generator: Generator? = None, ..OPTIONS) =>
            |a| integers::randint(a, 0, a.int(0)?, 1);
        (low: int, high: int, size: size, *, generator: Generator? = None, ..OPTIONS) =>
            |a| integers::randint(a, a.int(0)?, a.int(1)?, 2);
    }
    /// As `randint`, of the shape and dtype of `input`.
    "randint_like" FUNCTION {
        (input: Tensor, high: int, *, generator: Generator? = None, ..OPTIONS_LIKE) =>
            |a| integers::randint_like(a, 0, a.int(1)?, 2);
        (input: Tensor, low: int, high: int, *, generator: Generator? = None, ..OPTIONS_LIKE) =>
            |a| integers::randint_like(a, a.int(1)?, a.int(2)?, 3);
    }
    /// The integers from 0 to `n`, which is excluded, in random order.
    "randperm" FUNCTION | OUT {
        (n: int, *, generator: Generator? = None, ..OPTIONS) => integers::randperm;
    }
    /// 1 with the probability that `input` holds, else 0.
    "bernoulli" BOTH | OUT, out ANY {
        (input: Tensor, *, generator: Generator? = None) => bernoulli;
        (input: Tensor, p: float, *, generator: Generator? = None) => bernoulli_p;
    }
    /// Sets each element to 1 with the probability `p`, else to 0.
    "bernoulli_" BOTH {
        (input: Tensor, p: Tensor, *, generator: Generator? = None) => bernoulli_in_place_each;
        (input: Tensor, p: float = 0.5, *, generator: Generator? = None) => bernoulli_in_place;
    }
    /// Indices drawn with the weights that the rows of `input` hold.
    "multinomial" BOTH | OUT, out LONG {
        (input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator? = None) =>
            multinomial::multinomial;
    }
    /// Normal random numbers of means `mean` and standard deviations `std`.
    "normal" FUNCTION | OUT {
        (mean: Tensor, std: Tensor, *, generator: Generator? = None) =>
            |a| Ok(normal(a.operand(0)?, a.operand(1)?, a.opt_generator(2)?, "NormalBackward3")?.into());
        (mean: Tensor, std: float = 1, *, generator: Generator? = None) =>
            |a| Ok(normal(a.operand(0)?, a.operand(1)?, a.opt_generator(2)?, "NormalBackward1")?.into());
        (mean: float, std: Tensor, *, generator: Generator? = None) =>
            |a| Ok(normal(a.operand(0)?, a.operand(1)?, a.opt_generator(2)?, "NormalBackward2")?.into());
        (mean: float, std: float, size: size, *, generator: Generator? = None, ..OPTIONS) => normal_size;
    }
    /// Sets each element to a uniform random number in [from, to).
    "uniform_" BOTH {
        (input: Tensor, from: float = 0, to: float = 1, *, generator: Generator? = None) => uniform_;
    }
    /// Sets each element to a normal random number.
    "normal_" BOTH {
        (input: Tensor, mean: float = 0, std: float = 1, *, generator: Generator? = None) => normal_;
    }
    /// Sets each element to an exponential random number of rate `lambd`.
    "exponential_" BOTH {
        (input: Tensor, lambd: float = 1, *, generator: Generator? = None) => exponential_;
    }
    /// Sets each element to a number whose logarithm is normal.
    "log_normal_" BOTH {
        (input: Tensor, mean: float = 1, std: float = 2, *, generator: Generator? = None) => log_normal_;
    }
    /// Sets each element to a random number of the Cauchy distribution.
    "cauchy_" BOTH {
        (input: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator? = None) => cauchy_;
    }
    /// Sets each element to the number of trials up to a success of probability `p`.
    "geometric_" BOTH {
        (input: Tensor, p: float, *, generator: Generator? = None) => geometric_;
    }
    /// Sets each element to a random whole number.
    "random_" BOTH {
        (input: Tensor, *, generator: Generator? = None) => |a| integers::random_(a, 0, None, 1);
        (input: Tensor, to: int, *, generator: Generator? = None) => |a| integers::random_(a, 0, Some(a.int(1)?), 2);
        (input: Tensor, from: int, to: int?, *, generator: Generator? = None) =>
            |a| integers::random_(a, a.int(1)?, a.opt_int(2)?, 3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded() -> Arc<Generator> {
        Arc::new(Generator::new(7))
    }

    #[test]
    fn a_draw_is_repeated_by_its_seed_and_followed_by_another() {
        let (g, h) = (seeded(), seeded());
        let draw = |g| {
            sample(Normal(0.0, 1.0), &[100].into(), DType::F32, Device::Cpu, Some(g)).unwrap().to_vec::<f32>()
        };
        let (a, b) = (draw(&g), draw(&g));
        assert_ne!(a, b);
        assert_eq!(a, draw(&h));
    }

    #[test]
    fn a_strided_target_gets_the_numbers_of_a_dense_one() {
        let dense = Tensor::empty([4, 3], DType::F64).unwrap();
        draw(Uniform(0.0, 2.0), &dense, Some(&seeded())).unwrap();
        let wide = Tensor::zeros([4, 6], DType::F64).unwrap();
        let every_second = wide.with_layout(wide.layout().slice(1, 0, 3, 2));
        draw(Uniform(0.0, 2.0), &every_second, Some(&seeded())).unwrap();
        assert_eq!(dense.to_vec::<f64>(), every_second.to_vec::<f64>());
        assert_eq!(wide.to_vec::<f64>().iter().filter(|v| **v == 0.0).count(), 12);
    }

    #[test]
    fn half_precision_uniform_numbers_never_reach_one() {
        for dtype in [DType::F16, DType::BF16] {
            let t = sample(Uniform(0.0, 1.0), &[20_000].into(), dtype, Device::Cpu, Some(&seeded())).unwrap();
            assert!(t.to_vec::<f32>().iter().all(|&v| (0.0..1.0).contains(&v)));
        }
    }
}
