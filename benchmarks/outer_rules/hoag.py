"""HOAG: Pedregosa, Hyperparameter optimization with approximate gradient, ICML 2016.

From the paper: at step i both levels are solved to a tolerance ε_i of a summable sequence, and λ goes along −g/L. From
its published code: ε is relative to the norm of the first gradient of the lower level, starts at 1e-3 and is multiplied
by 0.9 at every step; L starts at ‖g‖/√n; it is multiplied by 0.95 after a sufficient decrease (with C = 0.25), and if
f has grown by 20 % the step is taken back, L doubled and ε halved.

Chosen here: both levels are solved by the solvers of `minimise`; the gradient of the lower level is (w − Φ(w))/α, and α
is taken as constant; λ is not projected, as these problems have no domain.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import torch

import boundcheck as bc
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.solvers import lower_level
from boundcheck.trust.outer_value import Start
from outer_rules.judge import Arrived, Judge, Run
from outer_rules.solved import solved

FIRST, FACTOR = 1e-3, 0.9
C = 0.25


def run(judge: Judge) -> Run:
    """Down to tol, from the problem's own λ."""
    with suppress(Arrived, bc.BoundcheckError):
        _descend(judge)
    return judge.run("HOAG")


def _descend(judge: Judge) -> None:
    problem = quick(judge.problem)
    lam, lam_before = problem.lam, problem.lam
    start = Start(problem.w0, torch.zeros_like(problem.w0))
    first = float(lower_level.residual(problem, problem.prepare(lam), problem.w0))
    eps, L, f_before, moved = FIRST, 0.0, float("inf"), 0.0
    while True:
        at = solved(quick(replace(judge.problem, lam=lam)), start, eps * first, eps)
        judge.spend(at.products)
        start = Start(at.w, at.v)
        if at.f >= 1.2 * f_before:
            lam, L, eps = lam_before, 2 * L, eps / 2
            continue
        judge.see(at)
        L = L or float(at.g.norm()) / problem.n**0.5
        if at.f <= f_before + C * eps + eps * (C + 1) * moved - L * moved**2:
            L *= 0.95
        eps, f_before, lam_before = eps * FACTOR, at.f, lam
        lam, moved = lam - at.g / L, float(at.g.norm()) / L
