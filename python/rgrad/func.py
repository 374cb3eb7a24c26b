"""Functional calls of modules, with parameters other than the module's own."""

from rgrad.nn.utils.stateless import functional_call

__all__ = ["functional_call"]
