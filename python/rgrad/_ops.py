"""The classes of the objects in `torch.ops`, which programs tell operations by."""

from __future__ import annotations

from typing import Any

from rgrad._absent import absent_class

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "OperatorBase"]


class OperatorBase:
    """Whatever can be called as an operation."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the operation."""
        raise NotImplementedError

    # A copy is the object itself, as programs compare operations by identity.
    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class OpOverload(OperatorBase):
    """One form of an operation, as `__torch_dispatch__` gets it: `torch.ops.aten.add.Tensor`."""

    namespace: str

    @property
    def overloadpacket(self) -> Any:
        """The operation of which it is a form."""
        raise NotImplementedError

    def name(self) -> str:
        """The full name, such as `aten::add.Tensor`."""
        raise NotImplementedError


class OpOverloadPacket(OperatorBase):
    """An operation with all its forms: `torch.ops.aten.add`."""


HigherOrderOperator = absent_class(
    "torch._ops.HigherOrderOperator",
    "functions that call functions are ordinary ones, of which the transforms see the steps",
    OperatorBase,
)
