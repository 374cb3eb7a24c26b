"""`torch.onnx` without export: other packages call `is_in_onnx_export`, which is always False."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

__all__ = [
    "OperatorExportTypes",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

_WHY = "models are exported to no other format"

OperatorExportTypes = absent_class("torch.onnx.OperatorExportTypes", _WHY)
export = absent_function("torch.onnx.export", _WHY)
unregister_custom_op_symbolic = absent_function("torch.onnx.unregister_custom_op_symbolic", _WHY)
register_custom_op_symbolic = absent_function("torch.onnx.register_custom_op_symbolic", _WHY)


def is_in_onnx_export() -> bool:
    """Always False."""
    return False
