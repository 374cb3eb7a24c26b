"""Names that `functorch` had before they were `torch.func`'s."""

from __future__ import annotations

from rgrad._vmap import chunk_vmap
from rgrad.func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
