"""Which kinds of devices PyTorch's compiler generates kernels for."""

GPU_TYPES = ["cuda", "mps", "xpu", "mtia"]
