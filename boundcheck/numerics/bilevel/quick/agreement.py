"""A comparison of a problem with formulas and the original problem at some points. It proves nothing.

The comparison shows a mistake in a formula, or a derivative that is not that of the operations. When formulas are made,
each of Φ, ∂₁Φᵀv, ∂₂Φᵀv, ∇₁E and ∇₂E is compared, for single points, rows and columns.
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
from boundcheck.numerics.bilevel.same_in_batches import SUMMATION_ROUNDINGS

SEED = 21
FOR_ROWS = " for rows"


@dataclass(frozen=True, eq=False)
class NamedValue:
    """A value with its name. `scale` is the size of further numbers whose rounding affects the value."""

    name: str
    value: Tensor
    scale: float = 0.0


@dataclass(frozen=True, eq=False)
class TrialPoint:
    """A random point (w, λ) and a vector v."""

    w: Tensor
    v: Tensor
    lam: Tensor

    @classmethod
    def near(cls, problem: Problem, generator: torch.Generator) -> TrialPoint:
        """Draw a point near w_0, at the λ of the problem."""
        w, v = (_random(problem.w0, generator) for _ in range(2))
        return cls(problem.w0 + 0.1 * (1 + problem.w0.abs().mean()) * w, v, problem.lam)


def _random(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


def differs_at_first(problem: Problem, quick: Problem) -> str:
    """Compare each derivative at three points. Return a description of the first difference; empty if there is none."""
    generator = torch.Generator().manual_seed(SEED + 1)
    trial = TrialPoint.near(problem, generator)
    for point in (trial, TrialPoint(problem.w0, trial.v, trial.lam)):
        if reason := _compared(_each(problem, point), _each(quick, point), may_be_undefined=point is not trial):
            return reason
    shift = _random(problem.lam, generator).abs()
    lam = problem.lam * (1 + 0.01 * shift) + 0.1 * shift.flip(0)  # changes zeros too, and stays positive if λ is
    beside = TrialPoint(trial.w + _random(trial.w, generator), trial.v, lam)  # λ may have left its domain
    if reason := _compared(_each(problem, beside), _each(quick, beside), may_be_undefined=True):
        return reason
    return _in_rows(quick, torch.stack((problem.w0, trial.w)), trial.v)


def _compared(
    theirs: Iterator[NamedValue], ours: Iterator[NamedValue] | list[NamedValue], may_be_undefined: bool = False
) -> str:
    answers = {answer.name: answer for answer in theirs}
    for answer in ours:
        expected = answers[answer.name.removesuffix(FOR_ROWS)]
        if not bool(expected.value.isfinite().all()):
            if may_be_undefined:
                continue
            return f"{answer.name} is not finite"
        if not _near(answer.value, expected.value, expected.scale):
            return f"the formula has another {answer.name} than the function"
    return ""


def _near(value: Tensor, expected: Tensor, scale: float) -> bool:
    eps = torch.finfo(expected.dtype).eps
    return float((value - expected).norm()) <= SUMMATION_ROUNDINGS * eps * (float(expected.norm()) + scale)


def _each(problem: Problem, trial: TrialPoint) -> Iterator[NamedValue]:
    """Yield every derivative, by the problem's formula if it has one."""
    prepared = Prepared(problem, trial.lam)
    w, v, ready = trial.w, trial.v, prepared.ready
    linearised, outer = linearise(problem, w, prepared), outer_gradients(problem, w, prepared.leaves)
    yield NamedValue("Φ", linearised.y.detach(), float(w.norm()))
    yield NamedValue("∂₁Φᵀv", linearised.d1_T(v), float(v.norm()))
    yield NamedValue("∂₂Φᵀv", prepared.pull_back(linearised.d2_T(v)))
    yield NamedValue("∇₁E", outer.w)
    yield NamedValue("∇₂E", prepared.pull_back(outer.lam))
    if problem.d2phi_T_at is not None:
        yield NamedValue("∂₂Φᵀv" + FOR_ROWS, problem.d2phi_T_at(w[None], ready)(v[None, None])[0, 0])
    if problem.d2outer_at is not None:
        yield NamedValue("∇₂E" + FOR_ROWS, problem.d2outer_at(w[None], ready)[0])


def _in_rows(quick: Problem, w: Tensor, v: Tensor) -> str:
    """Compare results for several points and λ at once, as the curves use them, with results for single points."""
    prepared = Prepared(quick, torch.stack((quick.lam, quick.lam)))
    ready = prepared.each[0]
    points = w.expand(2, *w.shape)
    value = rows(quick.phi_at)(points, prepared.ready)
    if not _near(value[1, 1], quick.phi_at(w[1], ready), float(w[1].norm())):
        return "the formula has another Φ for rows"
    linearised = Linearisation(rows(quick.phi_at), points, prepared.ready)
    expected = Linearisation(quick.phi_at, w[1], ready).d1_T(v)
    if not _near(linearised.d1_T(v.expand_as(points))[1, 1], expected, float(v.norm())):
        return "the formula has another ∂₁Φᵀv for rows"
    if not _near(rows_outer(quick, points, prepared.leaves).w[1, 1], gradient(quick.outer_at)(w[1], ready), 0.0):
        return "the formula has another ∇₁E for rows"
    if (formula := for_columns(quick.d1phi_T_at)) is not None:
        columns = formula(points.movedim(-1, 0), prepared.leaves.for_columns())
        product = columns(v.expand_as(points).movedim(-1, 0))
        if not _near(product[:, 1, 1], expected, float(v.norm())):
            return "the formula has another ∂₁Φᵀv for columns"
    return ""
