"""Tracing below `__torch_function__`, which rgrad does not have."""

from rgrad._absent import absent_function

make_fx = absent_function(
    "torch.fx.experimental.proxy_tensor.make_fx", "programs are traced by torch.fx.symbolic_trace"
)


def get_proxy_mode() -> None:
    """None: no such trace is under way."""
