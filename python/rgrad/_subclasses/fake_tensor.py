"""Tensors that stand for others without their values: nothing is one. See `device("meta")`."""

from rgrad._absent import absent_class

_WHY = "shapes without values are those of tensors on the meta device"

FakeTensor = absent_class("torch._subclasses.fake_tensor.FakeTensor", _WHY)
FakeTensorMode = absent_class("torch._subclasses.fake_tensor.FakeTensorMode", _WHY)


def is_fake(x: object) -> bool:
    """False."""
    return False
