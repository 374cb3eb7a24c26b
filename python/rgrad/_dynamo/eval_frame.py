"""The class of modules that were compiled: none is, `torch.compile` returns the module itself."""

from rgrad._absent import absent_class

OptimizedModule = absent_class("torch._dynamo.eval_frame.OptimizedModule", "no Python is compiled")
