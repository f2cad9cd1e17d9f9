"""What a user may say wrongly of a right problem: false claims, declarations, names; and functions that ignore."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from .case import Case
from .exact import Vector, mp, norm, spectral_norm

AT_W_STAR = ("r_0", "D", "W", "g_star", "q_star", "L_Phi_star", "q", "kappa", "mu_inv")
MISSPELT = ("nu2", "eta1", "lPhi", "Q", "kapa", "foo", "L_phi", "mu_lam")


def spoil(rng: Random, case: Case) -> Case:
    """The case as it is, three times of four; else with one thing wrong about it."""
    chance = rng.random()
    if chance < 0.06 and case.momentum is None and not case.undefined:
        return _false_claim(rng, case)
    if chance < 0.08:
        wrong = {rng.choice(MISSPELT): (0.5, "upper")}
        return replace(case, kinds=(*case.kinds, "misspelt"), claims=wrong, misspelt=True, legal=False)
    if chance < 0.11 and case.lopsided and case.alpha is None:
        return replace(case, kinds=(*case.kinds, "declared symmetric"), symmetric=True, legal=False)
    if chance < 0.14:
        return _ignores(rng, case)
    return case


def _false_claim(rng: Random, case: Case) -> Case:
    """A claim on the wrong side of what the library can compute at w* alone, by a factor of 3 to a million."""
    exact = case.exact
    if exact.w_star is None:
        return case
    name = rng.choice(AT_W_STAR)
    Y = exact.d1phi(exact.w_star)
    q_star = spectral_norm(Y)
    gap = 1 - q_star
    if gap <= 1e-6 and name in ("kappa", "mu_inv"):
        return case
    truth = {
        "r_0": lambda: float(norm([a - b for a, b in zip(exact.w0, exact.w_star, strict=True)])),
        "D": lambda: float(norm(exact.w_star)),
        "W": lambda: spectral_norm(exact.w_prime),
        "g_star": lambda: float(norm(exact.d1outer(exact.w_star))),
        "q_star": lambda: q_star,
        "q": lambda: q_star,
        "L_Phi_star": lambda: spectral_norm(exact.d2phi(exact.w_star)),
        "kappa": lambda: _condition(exact._identity_minus(Y)),
        "mu_inv": lambda: 1 / spectral_norm(_inverse(exact._identity_minus(Y))),
    }[name]()
    factor = rng.choice([3.0, 30.0, 1e6])
    value = truth * factor if name == "mu_inv" else truth / factor
    if not 0 < value < 1e300 or (name == "kappa" and value < 1):
        return case
    side = "lower" if name == "mu_inv" else rng.choice(["upper", "exact"])
    words = f"{case.words}; claimed {name} {side} {value:.3g}, is {truth:.3g}"
    return replace(
        case, kinds=(*case.kinds, "false claim"), words=words,
        claims={name: (value, side)}, false_claims=frozenset({name}), legal=False,
    )  # fmt: skip


def _inverse(A: Any) -> Any:
    return (mp.matrix(A) ** -1).tolist()


def _condition(A: Any) -> float:
    return spectral_norm(A) * spectral_norm(_inverse(A))


def _ignores(rng: Random, case: Case) -> Case:
    """Functions that do not depend on what they are given: E constant, or λ without influence."""
    if case.alpha is not None or case.undefined:
        return case
    if rng.random() < 0.5:

        def outer(w: Tensor, lam: Tensor) -> Tensor:
            return torch.ones((), dtype=w.dtype) * 2.5

        return replace(
            case, kinds=("ignores",), words="E = 2.5; " + case.words, outer=outer,
            exact_outer=lambda w, lam: mp.mpf(2.5), vacuous=True, legal=False, claims={},
        )  # fmt: skip
    phi, E, exact_phi, exact_E = case.function, case.outer, case.exact_phi, case.exact_outer
    fixed, exact_fixed = case.hparams.clone(), [mp.mpf(x) for x in case.lam]

    def exact(w: Vector, lam: Vector) -> Any:
        return exact_E(w, exact_fixed)

    return replace(
        case, kinds=("ignores",), words="λ unused; " + case.words, function=lambda w, lam: phi(w, fixed),
        outer=lambda w, lam: E(w, fixed), exact_phi=lambda w, lam: exact_phi(w, exact_fixed), exact_outer=exact,
        vacuous=True, legal=False, claims={},
    )  # fmt: skip
