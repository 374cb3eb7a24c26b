"""`torch.special`. Written by docs/generate.py from the operation table: do not edit."""

from rgrad import _C

__all__ = [
    "digamma",
    "digamma_",
    "erf",
    "erf_",
    "erfc",
    "erfc_",
    "erfinv",
    "erfinv_",
    "exp2",
    "exp2_",
    "expit",
    "expit_",
    "expm1",
    "expm1_",
    "gammaln",
    "gammaln_",
    "log1p",
    "log1p_",
    "log_softmax",
    "logit",
    "logit_",
    "logsumexp",
    "psi",
    "psi_",
    "round",
    "round_",
    "sinc",
    "sinc_",
    "softmax",
    "xlogy",
    "xlogy_",
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
xlogy = _C.special_xlogy
xlogy_ = _C.special_xlogy_
