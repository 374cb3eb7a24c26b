"""A name that packages import together with `vmap`, which rgrad does not implement."""

from rgrad._absent import absent_class

TransformGetItemToIndex = absent_class(
    "torch._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex", "it changes indexing under vmap"
)
