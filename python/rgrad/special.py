"""`torch.special`. Written by docs/generate.py from the operation table: do not edit."""

from rgrad import _C
from rgrad._special.bessel import i0, i0e, i1, i1e, modified_bessel_i0, modified_bessel_i1, spherical_bessel_j0
from rgrad._special.bessel_jyk import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
)
from rgrad._special.gamma import entr, gammainc, gammaincc, multigammaln, polygamma, zeta
from rgrad._special.gaussian import erfcx, log_ndtr, ndtr, ndtri
from rgrad._special.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "digamma_",
    "entr",
    "erf",
    "erf_",
    "erfc",
    "erfc_",
    "erfcx",
    "erfinv",
    "erfinv_",
    "exp2",
    "exp2_",
    "expit",
    "expit_",
    "expm1",
    "expm1_",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammaln_",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log1p_",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logit_",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "psi_",
    "round",
    "round_",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "sinc_",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "xlogy_",
    "zeta",
]

digamma = _C.special_digamma
digamma_ = _C.special_digamma_
erf = _C.special_erf
erf_ = _C.special_erf_
erfc = _C.special_erfc
erfc_ = _C.special_erfc_
erfinv = _C.special_erfinv
erfinv_ = _C.special_erfinv_
exp2 = _C.special_exp2
exp2_ = _C.special_exp2_
expit = _C.special_expit
expit_ = _C.special_expit_
expm1 = _C.special_expm1
expm1_ = _C.special_expm1_
gammaln = _C.special_gammaln
gammaln_ = _C.special_gammaln_
log1p = _C.special_log1p
log1p_ = _C.special_log1p_
log_softmax = _C.log_softmax
logit = _C.special_logit
logit_ = _C.special_logit_
logsumexp = _C.logsumexp
psi = _C.special_psi
psi_ = _C.special_psi_
round = _C.special_round
round_ = _C.special_round_
sinc = _C.special_sinc
sinc_ = _C.special_sinc_
softmax = _C.softmax
xlog1py = _C._special.xlog1py
xlogy = _C.special_xlogy
xlogy_ = _C.special_xlogy_
