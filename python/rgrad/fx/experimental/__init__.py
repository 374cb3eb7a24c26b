"""Parts of `torch.fx` that packages ask whether they are in use: they are not."""
