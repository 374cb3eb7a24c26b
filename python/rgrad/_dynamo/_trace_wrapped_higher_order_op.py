"""A name that packages import beside `vmap`, which rgrad does not have."""

from rgrad._absent import absent_class

TransformGetItemToIndex = absent_class(
    "torch._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex", "it changes indexing under vmap"
)
