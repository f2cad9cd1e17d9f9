"""Is a problem with formulas the same as the one that it was made of? Compared at points; it proves nothing.

It would show a function that changed since it was recorded, a derivative that is not that of the operations, and a
mistake in a formula. What is compared is Φ, ∂₁Φᵀv, ∂₂Φᵀv, ∇₁E and ∇₂E.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import (
    Linearisation,
    gradient,
    linearise,
    outer_gradients,
    rows,
    rows_outer,
)
from boundcheck.numerics.bilevel.formulas import for_columns
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem

NEAR = 2**12  # roundings: two orders of summation differ by a few for each term
SEED = 21
BY_FORMULA = " for rows"


@dataclass(frozen=True, eq=False)
class Answer:
    """A value by name, and the size of the numbers that rounding may have lost in it, beside its own."""

    of: str
    value: Tensor
    scale: float = 0.0


def differs(problem: Problem, quick: Problem, *, at_first: bool = False) -> str:
    """What differs, in words; empty if nothing does. `at_first` looks at more points, and at rows and columns."""
    generator = torch.Generator().manual_seed(SEED)

    def random(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)

    w = problem.w0 + 0.1 * (1 + problem.w0.abs().mean()) * random(problem.w0)
    v = random(problem.w0)
    if reason := _at(problem, quick, w, v, problem.lam, whole=at_first):
        return reason
    if not at_first:
        return ""
    lam = problem.lam * (1 + 0.01 * random(problem.lam).abs())
    return _at(problem, quick, w + random(w), v, lam, whole=True, beside=True) or _in_rows(
        quick, torch.stack((w, v)), v
    )


def _at(
    problem: Problem, quick: Problem, w: Tensor, v: Tensor, lam: Tensor, *, whole: bool, beside: bool = False
) -> str:
    theirs, ours = ({answer.of: answer for answer in _answers(each, w, v, lam, whole)} for each in (problem, quick))
    for name, found in ours.items():
        right = theirs[name.removesuffix(BY_FORMULA)]
        if not bool(right.value.isfinite().all()):
            if beside:  # λ may have left its domain
                continue
            return f"{name} is not finite"
        if not _near(found.value, right.value, right.scale):
            return f"the formula has another {name} than the function"
    return ""


def _near(found: Tensor, right: Tensor, scale: float) -> bool:
    eps = torch.finfo(right.dtype).eps
    return float((found - right).norm()) <= NEAR * eps * (float(right.norm()) + scale)


def _answers(problem: Problem, w: Tensor, v: Tensor, lam: Tensor, whole: bool) -> Iterator[Answer]:
    """What is compared; unless it is the `whole`, the two derivatives by λ together, in one pass."""
    prepared = Prepared(problem, lam)
    at = linearise(problem, w, prepared)
    outer = outer_gradients(problem, w, prepared.leaves)
    by_lam = at.d2_T(v)
    yield Answer("Φ", at.y.detach(), float(w.norm()))
    yield Answer("∂₁Φᵀv", at.d1_T(v), float(v.norm()))
    yield Answer("∇₁E", outer.w)
    if not whole:
        yield Answer("∇₂", prepared.pull_back(tuple(x + y for x, y in zip(outer.lam, by_lam, strict=True))))
        return
    yield Answer("∂₂Φᵀv", prepared.pull_back(by_lam))
    yield Answer("∇₂E", prepared.pull_back(outer.lam))
    if problem.d2phi_T_at is not None:
        yield Answer("∂₂Φᵀv" + BY_FORMULA, problem.d2phi_T_at(w[None], prepared.ready)(v[None, None])[0, 0])
    if problem.d2outer_at is not None:
        yield Answer("∇₂E" + BY_FORMULA, problem.d2outer_at(w[None], prepared.ready)[0])


def _in_rows(quick: Problem, w: Tensor, v: Tensor) -> str:
    """The same answers for several points and λ at once, as curves ask for them."""
    prepared = Prepared(quick, torch.stack((quick.lam, quick.lam)))
    ready = prepared.each[0]
    points = w.expand(2, *w.shape)
    value = rows(quick.phi_at)(points, prepared.ready)
    if not _near(value[1, 1], quick.phi_at(w[1], ready), float(w[1].norm())):
        return "the formula has another Φ for rows"
    at = Linearisation(rows(quick.phi_at), points, prepared.ready)
    right = Linearisation(quick.phi_at, w[1], ready).d1_T(v)
    if not _near(at.d1_T(v.expand_as(points))[1, 1], right, float(v.norm())):
        return "the formula has another ∂₁Φᵀv for rows"
    if not _near(rows_outer(quick, points, prepared.leaves).w[1, 1], gradient(quick.outer_at)(w[1], ready), 0.0):
        return "the formula has another ∇₁E for rows"
    if (formula := for_columns(quick.d1phi_T_at)) is not None:
        columns = formula(points.movedim(-1, 0), prepared.leaves.for_columns())
        product = columns(v.expand_as(points).movedim(-1, 0))
        if not _near(product[:, 1, 1], right, float(v.norm())):
            return "the formula has another ∂₁Φᵀv for columns"
    return ""
