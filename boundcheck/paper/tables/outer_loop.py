"""Gradient descent on λ with approximate hypergradients, for a batch of step sizes at once, with a row for each.

    λ_i = λ_{i−1} − ζ g(λ_{i−1}),   g = ∇f_t by ITD, or AID with k steps of FP or CG            (appendix C.2)

Rows share only the data of the problem: except for rounding, the result of a step size does not depend on the other
step sizes of the batch. A step size is dropped if it gives numbers that are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck import methods
from boundcheck.errors import UnknownNameError
from boundcheck.numerics.bilevel.derivatives import Linearisation, rows
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.aid_stepwise import ConjugateGradient
from boundcheck.numerics.solvers import fixed_point, lower_level, unrolling
from boundcheck.paper.fig1.problem_variants import on_state

MOMENTUM = "fp-momentum"  # FP on the map that produces the iterates, as in the authors' code
METHODS = ("itd", "aid-fp", "aid-cg", MOMENTUM)


@dataclass(frozen=True, eq=False)
class HypergradientBatch:
    """Hypergradients and the w_t at which they were computed, a row for each λ."""

    value: Tensor
    w: Tensor
    definite: bool = True  # for CG: whether pᵀ(I − ∂₁Φᵀ)p > 0 in all steps


def hypergradients(problem: Problem, method: str, lams: Tensor, w0: Tensor, t: int) -> HypergradientBatch:
    """Return g at every row of `lams` from its row of `w0`, with exactly t and k steps; not finite if it diverges."""
    name, _, k = method.partition(":")
    if name not in METHODS:
        raise UnknownNameError.among("method", name, METHODS)
    steps = methods.count(int(k), "k") if k else t
    z0 = problem.dynamics.start(w0)
    prepared = Prepared(problem, lams)
    if name == "itd":
        state = on_state(problem)
        together = replace(state, phi_at=vmap(state.phi_at), outer_at=vmap(state.outer_at))
        unrolled = unrolling.reverse(together, prepared, z0, t, t, checkpoint=_checkpoint(z0, t))
        return HypergradientBatch(unrolled.value, problem.dynamics.iterate(unrolled.w))
    z = w_t(problem, prepared, z0, t)
    w = problem.dynamics.iterate(z)
    if name == MOMENTUM:
        problem = on_state(problem)
        return replace(_implicit(problem, prepared, z, "aid-fp", steps), w=w)
    return _implicit(problem, prepared, w, name, steps)


def w_t(problem: Problem, prepared: Prepared, z: Tensor, t: int) -> Tensor:
    """Return the states after t steps from the rows z."""
    for state in lower_level.many(problem, prepared, z, t):
        z = state
    return z


def _checkpoint(z0: Tensor, t: int) -> bool:
    from boundcheck.numerics.solvers.hypergradient import GRAPH_BUDGET, GRAPH_COPIES

    return GRAPH_COPIES * t * z0.numel() * z0.element_size() > GRAPH_BUDGET


def _implicit(problem: Problem, prepared: Prepared, w: Tensor, name: str, k: int) -> HypergradientBatch:
    """Return ∇₂E + ∂₂Φᵀv_k at the rows w."""
    points = w[:, None]
    linearised = Linearisation(rows(problem.phi_at), points, prepared.ready, prepared.leaves)
    E = Linearisation(rows(problem.outer_at), points, prepared.ready, prepared.leaves)
    b, direct = E.transposed(torch.ones_like(E.y))
    definite = True
    if name == "aid-fp":
        v = fixed_point.solve(linearised.d1_T, b, k, None, None).v
    else:
        system = ConjugateGradient.start(b)
        for _ in range(k):
            system.step(linearised)
        v, definite = system.v, bool(system.least > 0)
    total = tuple(x + y for x, y in zip(direct, linearised.d2_T(v), strict=True))
    return HypergradientBatch(prepared.pull_back(total), w, definite)


@dataclass(frozen=True, eq=False)
class OuterDescent:
    """The state of gradient descent: the remaining step sizes with their λ_i and last w_t."""

    done: int
    alive: Tensor  # the indices of the remaining step sizes, in increasing order
    lam: Tensor
    w: Tensor
    definite: bool = True

    @classmethod
    def start(cls, problem: Problem, count: int) -> OuterDescent:
        alive = torch.arange(count, device=problem.device)
        return cls(0, alive, problem.lam.expand(count, -1).clone(), problem.w0.expand(count, -1).clone())

    def step(
        self, problem: Problem, method: str, zeta: Tensor, t: int, warm: bool, within: tuple[float, float]
    ) -> OuterDescent:
        """Take one step. A step size is dropped if numbers are not finite, or some λ_j is not in the range `within`."""
        if not len(self.alive):
            return replace(self, done=self.done + 1)
        step = hypergradients(problem, method, self.lam, self.first(problem, warm), t)
        lam = self.lam - zeta[self.alive, None] * step.value
        least, most = lam.aminmax(dim=-1)  # NaN if λ has one, and then both comparisons are false
        keep = (least >= within[0]) & (most <= within[1]) & torch.isfinite(step.w).all(-1)
        definite = self.definite and step.definite
        return OuterDescent(self.done + 1, self.alive[keep], lam[keep], step.w[keep], definite)

    def first(self, problem: Problem, warm: bool) -> Tensor:
        """Return w_0 for each row: the last w_t with warm starts, else the w_0 of the problem."""
        return self.w if warm else problem.w0.expand(len(self.alive), -1)

    def last(self, problem: Problem, t: int, warm: bool) -> Tensor:
        """Return w_t(λ_i) for each row."""
        z = problem.dynamics.start(self.first(problem, warm))
        return problem.dynamics.iterate(w_t(problem, Prepared(problem, self.lam), z, t))
