"""What distributions that are given by tensors share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

# Note [Parameters of a distribution]
# Most distributions are their parameters: tensors that broadcast to the batch shape, each followed by the event
# dimensions that `arg_constraints` gives it. Such a class names them in `_parameters`, and from the names follow how
# they are set (`_set`), `expand`, and, as for every distribution, validation and the repr. A class that is made of
# another distribution (a transformed one) has an `expand` of its own.


class Parametric(Distribution):
    """A distribution that is given by tensors: see Note [Parameters of a distribution]."""

    _parameters: tuple[str, ...] = ()

    def _set(self, validate_args: bool | None, **values: Any) -> None:
        """Sets parameters of single numbers, which are broadcast together, and with them the batch shape."""
        tensors = broadcast_all(*values.values())
        vars(self).update(zip(values, tensors, strict=True))
        Distribution.__init__(self, tensors[0].shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution over a larger batch: see `Distribution.expand`."""
        owner = next(cls for cls in type(self).__mro__ if "_parameters" in vars(cls))
        new = self._get_checked_instance(owner, _instance)
        shape = rgrad.Size(batch_shape)
        for name in self._parameters:
            if name in vars(self):
                event = self._event_sizes(name)
                vars(new)[name] = vars(self)[name].expand((*shape, *event))
        self._expand_rest(new, shape)
        Distribution.__init__(new, shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _event_sizes(self, name: str) -> Sequence[int]:
        """The last sizes of a parameter, those that are no batch."""
        value = vars(self)[name]
        constraint = self.arg_constraints.get(name)
        dims = 0 if constraint is None or constraints.is_dependent(constraint) else constraint.event_dim
        return value.shape[value.dim() - dims :]

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        """Gives an expanded copy what it has besides its parameters."""


class Odds(Parametric):
    """What distributions given by `probs` or by `logits` share."""

    probs: Any
    logits: Any
    # Which of them was given: the other one is an attribute too once it has been asked for.
    _given_odds: str
    # Whether they are of one event, not of the categories along the last dimension.
    _is_binary = True

    @property
    def _param(self) -> Tensor:
        """That of the two which was given."""
        return vars(self)[self._given_odds]

    def _expect_one(self, probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given_odds = "probs" if logits is None else "logits"

    def _set_odds(self, probs: Any, logits: Any, validate_args: bool | None, **others: Any) -> None:
        """Sets the one that is given, broadcast with other parameters."""
        self._expect_one(probs, logits)
        self._set(validate_args, **others, **{self._given_odds: probs if logits is None else logits})

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        new._given_odds = self._given_odds

    @property
    def param_shape(self) -> rgrad.Size:
        """The shape of `probs` and `logits`."""
        return self._param.size()


def _probs(self: Odds) -> Tensor:
    """Probabilities, of the logits if those were given."""
    return logits_to_probs(self.logits, is_binary=self._is_binary)


def _logits(self: Odds) -> Tensor:
    """Log-odds, of the probabilities if those were given; categories' logits are normalised to log-probabilities."""
    return probs_to_logits(self.probs, is_binary=self._is_binary)


for _function, _name in ((_probs, "probs"), (_logits, "logits")):
    _function.__name__ = _name
    setattr(Odds, _name, lazy_property(_function))


class Composite(Distribution):
    """A distribution that is made of another one; `expand` makes it anew, of expanded parameters.

    `_parameters` names the constructor's arguments, `_kept` those that are no batches. Of `probs` and `logits` the one
    is passed that was given.
    """

    _parameters: tuple[str, ...] = ()
    _kept: tuple[str, ...] = ()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution over a larger batch: see `Distribution.expand`."""
        owner: Any = next(cls for cls in type(self).__mro__ if "_parameters" in vars(cls))
        new = self._get_checked_instance(owner, _instance)
        arguments = {name: getattr(self, name) for name in self._kept}
        for name in self._parameters:
            if name in ("probs", "logits") and name != self._given_odds:
                continue
            value = getattr(self, name)
            event = value.shape[value.dim() - self.arg_constraints[name].event_dim :]
            arguments[name] = value.expand((*batch_shape, *event))
        owner.__init__(new, **arguments, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def _given_odds(self) -> str:
        """Which of `probs` and `logits` was given."""
        return "probs"
