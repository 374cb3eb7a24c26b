"""Tensors of PyTorch's compiler, of which there are none."""
