"""Residuals of a reference by arb balls on the recorded program: rigorous, and as narrow as float64 can say.

The function is that of `rounding_proof`, and the one whose constants are proved: operations on w or λ are exact, with
w, v, λ and data as they are stored, and what is computed from data alone is taken as computed. The step α of w − α∇₁ℓ
is the number that was given; one that is computed from λ is a ball that holds its exact value and the one that was
computed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.recorded_functions import functions
from boundcheck.numerics.estimate.rounding_proof import EnclosedNorms, NoProof
from boundcheck.numerics.estimate.step_constant import step_constant, step_rounding
from boundcheck.numerics.program import arb_numbers
from boundcheck.numerics.program.arb_evaluation import gradient
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.recorded_program import Declined, Program
from boundcheck.numerics.program.replay import differs
from boundcheck.side import Side

HOW = "arb balls"


@torch.no_grad()
def proved(problem: Problem, w: Tensor, v: Tensor, value: Tensor) -> EnclosedNorms | NoProof:
    """The residuals at w and v, and how far `value` is from the exact g; or why there are no balls.

    Parameters
    ----------
    problem
        Φ and E at λ = `problem.lam`.
    w, v
        A point and a solution of the adjoint system, exact as stored.
    value
        A hypergradient that was computed from them.

    Returns
    -------
    EnclosedNorms | NoProof
        Upper bounds that hold, or the reason why there are none.
    """
    if not arb_numbers.is_installed():
        return NoProof("python-flint is not installed")
    if w.device.type != "cpu":
        return NoProof("balls are computed on the CPU only")
    try:
        with arb_numbers.precision():
            return _of_loss(problem, w, v, value) if _has_loss(problem) else _of_map(problem, w, v, value)
    except Declined as why:
        return NoProof(str(why))


def _has_loss(problem: Problem) -> bool:
    return problem.inner_at is not None and problem.step_at is not None


def _recorded(problem: Problem, level: str) -> Program:
    name, function = functions(problem)[level]
    program = capture(function, problem.w0, problem.lam, EXPANSIONS)
    try:
        reason = differs(program, function, problem.w0, problem.lam)
    except Exception as error:  # the user's code may raise anything beside w_0
        reason = " ".join(str(error).split())[:200]
    if reason:
        raise Declined(f"{name}: {reason}")
    return program


def _of_loss(problem: Problem, w: Tensor, v: Tensor, value: Tensor) -> EnclosedNorms:
    alpha = step_constant(problem)
    if alpha is None or alpha.side is not Side.EXACT or not problem.frozen_step:
        raise Declined("the step is not known exactly, or is differentiated")
    a = arb_numbers.number(alpha.value, step_rounding(problem))
    ell = gradient(_recorded(problem, "lower"), w, problem.lam, seed=None, along=v)
    E = gradient(_recorded(problem, "outer"), w, problem.lam, seed=None, along=None)
    d, n = problem.d, problem.n
    of_v = a * arb_numbers.tangent(ell.by_w, d) - arb_numbers.value(E.by_w, d)
    of_g = arb_numbers.balls(value) - arb_numbers.value(E.by_lam, n) + a * arb_numbers.tangent(ell.by_lam, n)
    return EnclosedNorms(
        arb_numbers.norm(a * arb_numbers.value(ell.by_w, d)), arb_numbers.norm(of_v), arb_numbers.norm(of_g)
    )


def _of_map(problem: Problem, w: Tensor, v: Tensor, value: Tensor) -> EnclosedNorms:
    phi = gradient(_recorded(problem, "lower"), w, problem.lam, seed=v, along=None)
    E = gradient(_recorded(problem, "outer"), w, problem.lam, seed=None, along=None)
    d, n = problem.d, problem.n
    of_w = arb_numbers.balls(w) - arb_numbers.value(phi.output, d)
    of_v = arb_numbers.balls(v) - arb_numbers.value(phi.by_w, d) - arb_numbers.value(E.by_w, d)
    of_g = arb_numbers.balls(value) - arb_numbers.value(E.by_lam, n) - arb_numbers.value(phi.by_lam, n)
    return EnclosedNorms(arb_numbers.norm(of_w), arb_numbers.norm(of_v), arb_numbers.norm(of_g))
