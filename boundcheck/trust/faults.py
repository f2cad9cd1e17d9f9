"""The faults of a hypergradient, one function for each: the hypergradient with this fault alone.

A new fault needs one function, its place in `FAULTS`, and one test. `FAULTS` is ordered by simplicity: of two faults
that explain an error equally well, the audit names the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from boundcheck.errors import BoundcheckError
from boundcheck.number_text import percent
from boundcheck.numerics.solvers.reference import reference
from boundcheck.trust import early_stop, factors
from boundcheck.trust.diagnosis import Suspect, double
from boundcheck.trust.evidence import Evidence
from boundcheck.trust.pieces import Pieces

SIGN_CHANCE = 0.01  # a wrong sign is so common that this probability of a fit by chance is small enough


def sign(e: Evidence) -> Iterator[Suspect]:
    """g or one of its parts with the other sign."""
    direct, implicit = e.base.direct, e.base.implicit
    yield Suspect("sign", e.off(-e.base.value), "its sign is wrong", "Return −g.", chance=SIGN_CHANCE)
    if e.two_parts:
        yield Suspect(
            "sign", e.off(direct - implicit), "the sign of its implicit part ∂₂Φᵀv is wrong",
            "Change it: g = ∇₂E + ∂₂Φᵀv, which for a loss is ∇₂E − ∂₂₁ℓ v with ∂₁₁ℓ v = ∇₁E.",
        )  # fmt: skip
        yield Suspect(
            "sign", e.off(implicit - direct), "the sign of its direct term ∇₂E is wrong", "Add ∇₂E, do not subtract it."
        )


def direct_term(e: Evidence) -> Iterator[Suspect]:
    """∇₂E is missing, or is counted twice."""
    if not e.two_parts:
        return
    yield Suspect(
        "direct-term",
        e.off(e.base.implicit),
        "the direct term ∇₂E is missing",
        "Add ∇₂E(w, λ), the part of E that sees λ.",
    )
    yield Suspect(
        "direct-term", e.off(2 * e.base.direct + e.base.implicit), "the direct term ∇₂E is in it twice",
        "Subtract ∇₂E(w, λ) once.",
    )  # fmt: skip


def transpose(e: Evidence) -> Iterator[Suspect]:
    """∂₁Φ instead of its transpose in the linear system; ∂₂Φ instead of its transpose, if it is square."""
    base = e.base
    if e.problem.symmetric is not True:
        yield Suspect(
            "transpose", e.off(base.direct + base.pulled(base.solve(base.b))),
            "∂₁Φ is not transposed in the linear system: it has (I − ∂₁Φ)v = ∇₁E",
            "Solve (I − ∂₁Φᵀ)v = ∇₁E: products vᵀ∂₁Φ (vjp), not ∂₁Φv (jvp).",
        )  # fmt: skip
    if e.problem.d == e.problem.n > 1:
        yield Suspect(
            "transpose", e.off(base.direct + base.d2phi(base.v)),
            "∂₂Φ is not transposed: it has ∂₂Φv instead of ∂₂Φᵀv", "Use vᵀ∂₂Φ, the gradient of vᵀΦ(w, λ) by λ.",
        )  # fmt: skip


def given_solution(e: Evidence) -> Iterator[Suspect]:
    """The given w and v explain the error of g; the fault is the one that explains more of it."""
    if not (e.w_given or e.v_given):
        return
    at_w = e.exact.value if not e.w_given else Pieces(e.problem, e.base.w).value if e.v_given else e.base.value
    of_w = float((double(at_w) - double(e.exact.value)).norm())
    of_v = float((double(e.base.value) - double(at_w)).norm())
    if of_w >= of_v:
        away = float((e.base.w - e.exact.w).norm() / e.exact.w.norm())
        yield Suspect(
            "inner", e.off_base, f"the inner solution w is {percent(away)} off",
            "Solve the lower level more accurately: more steps, or a better solver.",
        )  # fmt: skip
    else:
        left = e.base.residual(e.base.v) / float(e.base.b.norm())
        yield Suspect(
            "linear-solve", e.off_base,
            f"the linear solve is not accurate: v leaves a residual of {percent(left)} of ∇₁E",
            "Solve (I − ∂₁Φᵀ)v = ∇₁E more accurately: more steps k, or another solver.",
        )  # fmt: skip


def linear_solve(e: Evidence) -> Iterator[Suspect]:
    """The linear system with few steps of a solver, at the w of g."""
    if not e.v_given:
        yield from early_stop.linear(e)


def inner(e: Evidence) -> Iterator[Suspect]:
    """The hypergradient at an early iterate of the problem's own dynamics."""
    yield from early_stop.inner(e)


def other_lam(e: Evidence) -> Iterator[Suspect]:
    """The hypergradient at another λ, or the derivative by another parameter than λ."""
    lam = e.problem.lam
    by_exp = "Give the derivative by λ itself, at which the problem is."
    for factor, cause in (
        ((-lam).exp(), "it is the derivative by exp(λ), not by λ"),
        (lam.exp(), "it is exp(λ) times the derivative by λ"),
        (lam, "it is the derivative by log(λ), not by λ"),
        (1 / lam, "it is 1/λ times the derivative by λ"),
    ):
        if bool(torch.isfinite(factor).all()):
            yield Suspect("lambda", e.off(factor * e.base.value), cause, by_exp)
    for other, name in _other_lams(e):
        try:
            g_there = reference(e.problem, e.problem.checked(other, "lam")[None]).value[0]
        except BoundcheckError:
            continue
        yield Suspect("lambda", e.off(g_there), f"it is the hypergradient at {name}", f"Compute it at {_WHERE}.")


_WHERE = "the λ of the problem, or audit it with lam= where it was computed"


def _other_lams(e: Evidence) -> Iterator[tuple[Tensor, str]]:
    lam = e.problem.lam
    if e.previous is not None:
        yield e.previous, "the previous λ, not at this one"
    if not torch.equal(e.own_lam, lam):
        yield e.own_lam, "the λ that the problem was made with, not at lam="
    if bool((lam.exp() < 1e6).all()):
        yield lam.exp(), "exp(λ), not at λ"
    if bool((lam > 0).all()):
        yield lam.log(), "log(λ), not at λ"


FAULTS: tuple[Callable[[Evidence], Iterator[Suspect]], ...] = (
    given_solution,
    sign,
    direct_term,
    factors.named,
    transpose,
    linear_solve,
    inner,
    other_lam,
    factors.fitted,
)


def explanations(e: Evidence) -> Iterator[Suspect]:
    """All faults, with their distances from g. A fault that cannot be computed for this problem is left out."""
    for fault in FAULTS:
        try:
            yield from fault(e)
        except BoundcheckError:
            continue
