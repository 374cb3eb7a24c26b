"""Functions of modules: a call with other parameters than a module's own."""

from rgrad.nn.utils.stateless import functional_call

__all__ = ["functional_call"]
