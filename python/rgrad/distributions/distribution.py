"""The class of all distributions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]

_Shape = Sequence[int]


def undefined(doc: str) -> property:
    """A property that subclasses define."""

    def refuse(self: Any) -> Any:
        raise NotImplementedError

    return property(refuse, doc=doc)


class Distribution:
    """A batch of probability distributions.

    Samples have the shape ``sample_shape + batch_shape + event_shape``, and log-probabilities of them ``sample_shape
    + batch_shape``.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one sample of one distribution.
        validate_args: whether parameters are checked here, and values where they are passed. By default that which
            `set_default_validate_args` set, which is true unless Python runs with ``-O``.

    >>> import rgrad as torch
    >>> from rgrad.distributions import Independent, Normal
    >>> d = Independent(Normal(torch.zeros(2, 3), 1.0), 1)
    >>> d.batch_shape, d.event_shape, d.sample((5,)).shape, d.log_prob(torch.zeros(3)).shape
    (torch.Size([2]), torch.Size([3]), torch.Size([5, 2, 3]), torch.Size([2]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _batch_shape: Any
    _event_shape: Any

    def __init__(
        self,
        batch_shape: _Shape = (),
        event_shape: _Shape = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = rgrad.Size(batch_shape), rgrad.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether arguments of distributions are checked where it isn't said otherwise.

        >>> from rgrad.distributions import Distribution, Normal
        >>> Distribution.set_default_validate_args(False)
        >>> Normal(0.0, -1.0)
        Normal(loc: 0.0, scale: -1.0)
        >>> Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def _validate_parameters(self) -> None:
        """Raises if a parameter is outside what `arg_constraints` says of it."""
        try:
            expected: Any = self.arg_constraints
        except NotImplementedError:
            expected = {}
            warnings.warn(
                f"{type(self)} has no `arg_constraints`, by which its parameters would be checked. Define them "
                "(as {} if there are none), or pass `validate_args=False`.",
                stacklevel=4,
            )
        for name, constraint in expected.items():
            derived = name not in vars(self) and isinstance(getattr(type(self), name, None), lazy_property)
            if derived or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> rgrad.Size:
        """The shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> rgrad.Size:
        """The shape of one sample of one distribution."""
        return self._event_shape

    # Classes define these as attributes or as properties.
    arg_constraints: Any = undefined("What each parameter must satisfy, by its name.")
    support: Any = undefined("The constraint that samples satisfy.")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation, the root of the variance."""
        return self.variance.sqrt()

    def expand(self, batch_shape: _Shape, _instance: Any = None) -> Any:
        """The same distribution over a larger batch, without copying parameters.

        Args:
            batch_shape: what the batch shape is broadcast to.
            _instance: an object of a subclass that is to take the parameters.
        """
        raise NotImplementedError

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Draws samples, through which no gradients flow.

        Args:
            sample_shape: how many; it comes first in the shape of the result.
        """
        with rgrad.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """Draws samples that are differentiable functions of the parameters.

        Args:
            sample_shape: how many; it comes first in the shape of the result.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, or of the probability if the distribution is discrete, at values."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a sample that is at most as large as a value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value whose `cdf` is a probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that samples may have, along a first dimension.

        Args:
            expand: whether the batch is broadcast, so that the shape is ``(n,) + batch_shape + event_shape``. If not,
                the batch's dimensions have size 1.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expected value of ``-log_prob``, one for each distribution of the batch."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """``exp(entropy)``."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: _Shape = ()) -> rgrad.Size:
        return rgrad.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raises unless a value is a tensor of a fitting shape and inside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if value.shape[value.dim() - events :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        whole = self._batch_shape + self._event_shape
        for given, own in zip(reversed(value.shape), reversed(whole), strict=False):
            if given != own and given != 1 and own != 1:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {whole}.")
        try:
            support: Any = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} has no `support`, by which values would be checked. Define it, or pass "
                "`validate_args=False`.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        """A value, after it was validated if arguments are."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """The object that `expand` of a class fills: a new one, if that class made this one."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        given = [name for name in self.arg_constraints if name in vars(self)]
        shown = (f"{name}: {v if v.numel() == 1 else v.size()}" for name in given for v in (getattr(self, name),))
        return f"{type(self).__name__}({', '.join(shown)})"
