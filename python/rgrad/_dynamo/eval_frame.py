"""The class of compiled modules. No module has it: `torch.compile` returns the original module."""

from rgrad._absent import absent_class

OptimizedModule = absent_class("torch._dynamo.eval_frame.OptimizedModule", "no Python is compiled")
