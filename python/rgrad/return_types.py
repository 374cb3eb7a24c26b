"""Named tuples returned by operations with several results: `max`, `sort`, `topk` and others."""

from __future__ import annotations

from typing import Any


def _make(name: str, *fields: str) -> type:
    def new(cls, values: Any) -> Any:
        return tuple.__new__(cls, values)

    def show(self) -> str:
        items = ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{items})"

    def reduce(self):
        return type(self), (tuple(self),)

    body: dict[str, Any] = {
        "__slots__": (),
        "__new__": new,
        "__repr__": show,
        "__reduce__": reduce,
        "__module__": __name__,
        "_fields": fields,
        "__doc__": f"Result of `{name}`: {', '.join(fields)}.",
    }
    for i, f in enumerate(fields):
        body[f] = property(lambda self, i=i: tuple.__getitem__(self, i))
    return type(name, (tuple,), body)


max = _make("max", "values", "indices")
min = _make("min", "values", "indices")
sort = _make("sort", "values", "indices")
topk = _make("topk", "values", "indices")
median = _make("median", "values", "indices")
nanmedian = _make("nanmedian", "values", "indices")
mode = _make("mode", "values", "indices")
svd = _make("svd", "U", "S", "V")
linalg_svd = _make("linalg_svd", "U", "S", "Vh")
qr = _make("qr", "Q", "R")
linalg_qr = _make("linalg_qr", "Q", "R")
linalg_eigh = _make("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex = _make("linalg_inv_ex", "inverse", "info")
linalg_cholesky_ex = _make("linalg_cholesky_ex", "L", "info")
linalg_solve_ex = _make("linalg_solve_ex", "result", "info")
slogdet = _make("slogdet", "sign", "logabsdet")
linalg_slogdet = _make("linalg_slogdet", "sign", "logabsdet")
kthvalue = _make("kthvalue", "values", "indices")
cummax = _make("cummax", "values", "indices")
cummin = _make("cummin", "values", "indices")
aminmax = _make("aminmax", "min", "max")
frexp = _make("frexp", "mantissa", "exponent")
linalg_lu = _make("linalg_lu", "P", "L", "U")
linalg_lu_factor = _make("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _make("linalg_lu_factor_ex", "LU", "pivots", "info")
lu_unpack = _make("lu_unpack", "P", "L", "U")
_lu_with_info = _make("_lu_with_info", "LU", "pivots", "info")
linalg_ldl_factor = _make("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _make("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lstsq = _make("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_polar = _make("linalg_polar", "U", "H")
geqrf = _make("geqrf", "a", "tau")
triangular_solve = _make("triangular_solve", "solution", "cloned_coefficient")
histogram = _make("histogram", "hist", "bin_edges")
histogramdd = _make("histogramdd", "hist", "bin_edges")


def __getattr__(name: str) -> Any:
    """The class of what an operation returns when it is called with `out=`, such as `max_out`."""
    plain = globals().get(name.removesuffix("_out"))
    if not name.endswith("_out") or not isinstance(plain, type):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _make(name, *plain._fields)  # type: ignore[attr-defined]
    return made
