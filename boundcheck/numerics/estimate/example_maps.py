"""Bounds of the maps of single examples, proved from recorded programs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.example_bounds import ExampleBounds, least_of
from boundcheck.numerics.estimate.example_programs import ExamplePrograms, depends_on_lam
from boundcheck.numerics.estimate.second_moments import Spread, spread_of_rows
from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, spectral_norm
from boundcheck.numerics.program.enclosure.elementwise import Elementwise
from boundcheck.numerics.program.enclosure.interpreter import Enclosures
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.value import LAM, Value, W
from boundcheck.numerics.program.recorded_program import Program

FIRST = "λmax of the mean of (Y_i − Y)ᵀ(Y_i − Y), Y_i = ∂₁Φ_i at the centre, and how far they move"
SECOND = "λmax of the mean of (Z_i − Z)(Z_i − Z)ᵀ, Z_i = ∂₂Φ_i at the centre, and how far they move"


@torch.no_grad()
def of_maps(problem: Problem, programs: ExamplePrograms, centre: Tensor, radius: float) -> ExampleBounds:
    d, stored = problem.d, centre.detach().cpu().double()
    first, second = Spread(), Spread(right=False)
    rows, offs, moves, slopes, by_lam, own_slopes, own_by_lam = [], [], [], [], [], [], []
    for whole, terms in zip(programs.whole, programs.own, strict=True):
        map_value = _enclosed(problem, whole, centre, radius)
        parts = [map_value] if terms == (whole,) else [_enclosed(problem, term, centre, radius) for term in terms]
        gap = map_value.centre.mid.reshape(-1) - stored
        moves.append((norm(gap) + norm(map_value.centre.rad) + gamma(2) * norm(stored)) * UP)
        slopes.append(_norm(map_value, W))
        by_lam.append(_norm(map_value, LAM))
        row, off, Y, off_1, Z, off_2 = torch.zeros(d, dtype=torch.float64), 0.0, None, 0.0, None, 0.0
        for part in parts:
            row = row + part.centre.mid.reshape(-1)
            off += norm(part.centre.rad) + gamma(2) * norm(row)
            Y, off_1 = _plus(Y, off_1, part, W)
            if not programs.lam_apart:
                Z, off_2 = _plus(Z, off_2, part, LAM)
        rows.append(row)
        offs.append(off * UP)
        own_slopes.append(math.fsum(_norm(part, W) for part in parts))
        own_by_lam.append(0.0 if programs.lam_apart else math.fsum(_norm(part, LAM) for part in parts))
        for spread, J, away in ((first, Y, off_1), (second, Z, off_2)):
            spread.add(J, away) if J is not None else setattr(spread, "count", spread.count + 1)
    variance, above = spread_of_rows(torch.stack(rows), torch.tensor(offs, dtype=torch.float64))
    N = len(rows)
    m_1, how_1 = least_of(
        {
            FIRST: first.largest(),
            "the mean of ‖∂₁Φ_i‖²": math.fsum(x * x for x in own_slopes) / N * UP,
        }
    )
    m_2, how_2 = 0.0, "λ and the examples enter the map in separate terms"
    if not programs.lam_apart:
        m_2, how_2 = least_of(
            {
                SECOND: second.largest(),
                "the mean of ‖∂₂Φ_i‖²": math.fsum(x * x for x in own_by_lam) / N * UP,
            }
        )
    high = torch.tensor(slopes, dtype=torch.float64)
    return ExampleBounds(
        torch.tensor(moves, dtype=torch.float64), -high, high, False, torch.tensor(by_lam, dtype=torch.float64),
        variance, above, m_1, m_2, how_1, how_2,
    )  # fmt: skip


def _enclosed(problem: Problem, program: Program, centre: Tensor, radius: float) -> Value:
    return Enclosures(program, centre, problem.lam, radius, with_lam=depends_on_lam(program)).output


def _norm(value: Value, slot: str) -> float:
    """Return an upper bound on the norm of the derivative by one input over the ball.

    The bound is the smallest of those by the rows of the derivative and by the operation that computes the value.
    """
    slope, rule = value.slopes.get(slot), value.rule
    if slope is None:
        return 0.0
    best = min(norm(slope.reach), slope.norm + norm(slope.rows))
    if isinstance(rule, Elementwise):
        size, base = rule.jet[1].size.reshape(-1), rule.base.slopes[slot]
        by_rule = spectral_norm(size[:, None] * base.matrix) + norm(size * base.rows.reshape(-1))
    elif isinstance(rule, Linear):
        inputs = [(i, x) for i, x in enumerate(rule.inputs) if slot in x.slopes]
        by_rule = math.fsum(rule.norm_of(i) * _norm(x, slot) for i, x in inputs)
    else:
        return best * UP
    return (by_rule if by_rule < best else best) * UP


def _plus(J: Tensor | None, off: float, value: Value, slot: str) -> tuple[Tensor | None, float]:
    """Add a derivative at the centre to a sum. Return the sum and a bound on its variation over the ball."""
    slope = value.slopes.get(slot)
    if slope is None:
        return J, off
    new = slope.matrix if J is None else J + slope.matrix
    return new, (off + norm(slope.rows) + gamma(2) * frobenius(new)) * UP
