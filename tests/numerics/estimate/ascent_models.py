"""The largest values of the constants of a small problem that sampling and ascent find: estimates from below.

Jacobians are dense, and all points of a batch are moved at once: a projected step of a given length along the gradient,
shortened where it does not improve. As a program, prints the table of docs/constants_models.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from small import small
from torch import Tensor
from torch.func import grad, jacrev, vmap

from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.reference import reference

CASES: dict[str, Callable[[int], Problem]] = {  # from a seed, for the data and for λ
    "eqm": lambda seed: _drawn("eqm", seed),
    "eqm, ‖A‖ = .95": lambda seed: _drawn("eqm", seed, norm=0.95),
    "conv-eqm": lambda seed: _drawn("conv-eqm", seed, size=1),
    "conv-eqm, zeros": lambda seed: _drawn("conv-eqm", seed, size=1, padding="zeros"),
    "newsgroups": lambda seed: _drawn("newsgroups", seed, spread=0.5),
    "fashion-mnist": lambda seed: _drawn("fashion-mnist", seed),
    "fashion-mnist, large X": lambda seed: _drawn("fashion-mnist", seed, spread=0.3),
    "scalar, linear": lambda seed: small("scalar", q=0.9 - 0.2 * seed),
    "scalar, curved": lambda seed: small("scalar", kind="curved", nu=0.1 + 0.2 * seed),
}
SUPREMA = ("q", "L", "L_E", "L_Phi", "nu_1", "nu_2", "eta_1", "eta_2")  # hat_rho are nu over α, when α is frozen
SAMPLES, KEPT, STEPS = 120, 10, 40


def _drawn(name: str, seed: int, **options: Any) -> Problem:
    problem = small(name, seed=seed, **options)
    return problem.at(problem.sample(1, seed=seed + 10)[0])


def norm(J: Tensor) -> Tensor:
    """Of a vector, or the spectral norm of a matrix; both have gradients."""
    return J.norm() if J.dim() == 1 else torch.linalg.matrix_norm(J, ord=2)


@dataclass(frozen=True, eq=False)
class Sampled:
    """A problem at its λ."""

    problem: Problem

    @cached_property
    def w_star(self) -> Tensor:
        return reference(self.problem, self.problem.lam[None]).w[0].detach()

    @property
    def constants(self) -> dict[str, float]:
        """What the problem knows for all w."""
        return {constant.name: constant.value for constant in self.problem.known.everywhere(self.problem.lam)}

    def on(self, region: Region) -> dict[str, float]:
        return {constant.name: constant.value for constant in self.problem.known.on(self.problem.lam, region)}

    def regions(self) -> dict[str, Region]:
        """The ball of the paper, the one that iterates from 0 stay in, and a small one."""
        r = float(self.w_star.norm())
        return {
            "‖w‖ ≤ 2D": Region("0", torch.zeros_like(self.w_star), 2 * self.constants["D"]),
            "‖w−w*‖ ≤ r₀": Region("w_star", self.w_star, r),
            "‖w−w*‖ ≤ r₀/20": Region("w_star", self.w_star, r / 20),
        }

    def value(self, name: str) -> Callable[[Tensor], Tensor]:
        """w ↦ what the constant is the supremum of."""
        problem, lam = self.problem, self.problem.lam
        ready = problem.prepare(lam)
        fields: dict[str, Callable[[Tensor], Tensor]] = {
            "d1phi": jacrev(lambda w: problem.phi_at(w, ready)),
            "d2phi": lambda w: jacrev(lambda lam: problem.phi(w, lam))(lam),
            "d1E": grad(lambda w: problem.outer_at(w, ready)),
            "d2E": lambda w: grad(lambda lam: problem.outer(w, lam))(lam),
            "hess": jacrev(grad(lambda w: problem.inner_at(w, ready))),
        }
        of = {"q": "d1phi", "L_Phi": "d2phi", "L_E": "d1E", "L": "hess"}.get(name)
        if of is not None:
            return lambda w: norm(fields[of](w))
        secants = {"nu_1": "d1phi", "nu_2": "d2phi", "eta_1": "d1E", "eta_2": "d2E"}
        field, w_star = fields[secants[name]], self.w_star
        there = field(w_star).detach()
        return lambda w: norm(field(w) - there) / (w - w_star).norm()

    def best(self, name: str, region: Region, seed: int = 0, *, climb: bool = True) -> float:
        """The largest value found."""
        value = vmap(self.value(name), chunk_size=40)
        W = torch.cat((self.samples(region, seed), self.rows_of_one(region, seed)))
        values = value(W)
        found = float(values.max())
        if not climb:
            return found
        W = W[values.topk(KEPT).indices]
        reach = torch.full((KEPT, 1), 0.5 * region.radius, dtype=W.dtype)
        here, slope = _climb(value, W)
        for _ in range(STEPS):
            tried = project(W + reach * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300), region)
            there, slope_there = _climb(value, tried)
            better = (there > here)[:, None]
            W, slope = torch.where(better, tried, W), torch.where(better, slope_there, slope)
            here = torch.maximum(there, here)
            reach = torch.where(better, 1.5 * reach, reach / 3)
        return max(found, float(here.max()))

    def samples(self, region: Region, seed: int) -> Tensor:
        """Points near w*, on the sphere and between."""
        u = torch.randn(SAMPLES, len(self.w_star), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        u = (u / u.norm(dim=1, keepdim=True)).to(self.w_star)
        lengths = region.radius * torch.logspace(-3, 0, SAMPLES // 2, dtype=u.dtype)[:, None]
        near = self.w_star + lengths * u[: SAMPLES // 2]
        return project(torch.cat((near, region.point + lengths * u[SAMPLES // 2 :])), region)

    def rows_of_one(self, region: Region, seed: int) -> Tensor:
        """Points that differ from w* in a few entries next to each other, as one example or one word does."""
        generator = torch.Generator().manual_seed(seed + 1000)
        d = len(self.w_star)
        steps = torch.zeros(SAMPLES, d, dtype=self.w_star.dtype)
        for i in range(SAMPLES):
            size = int(torch.randint(1, 4, (1,), generator=generator))
            at = int(torch.randint(0, max(1, d // size), (1,), generator=generator)) * size
            steps[i, at : at + size] = torch.randn(len(steps[i, at : at + size]), generator=generator).to(steps)
        lengths = region.radius * torch.logspace(-2, 0, SAMPLES, dtype=steps.dtype)[:, None]
        return project(self.w_star + lengths * steps / steps.norm(dim=1, keepdim=True), region)


def project(W: Tensor, region: Region) -> Tensor:
    """Each row to the nearest point of the ball."""
    away = W - region.point
    return region.point + away * (region.radius / away.norm(dim=1, keepdim=True).clamp(min=1e-300)).clamp(max=1)


def _climb(value: Callable[[Tensor], Tensor], W: Tensor) -> tuple[Tensor, Tensor]:
    W = W.detach().requires_grad_()
    here = value(W)
    slope = torch.autograd.grad(here.sum(), W, allow_unused=True)[0] if here.requires_grad else None
    return here.detach(), torch.zeros_like(W) if slope is None else slope.nan_to_num()


@dataclass(frozen=True)
class Found:
    """A constant on a ball: its closed form and the largest value found."""

    ball: str
    name: str
    closed: float
    best: float

    @property
    def ratio(self) -> float:
        return 1.0 if self.closed == self.best == 0 else self.closed / max(self.best, 1e-300)


def compared(problem: Problem, *, climb: bool = True) -> Iterator[Found]:
    """Each constant of each ball; those for all w with the first."""
    sampled = Sampled(problem)
    everywhere = sampled.constants
    for ball, region in sampled.regions().items():
        known = sampled.on(region)
        if region.centre == "0":
            known = {**{name: everywhere[name] for name in ("q", "L") if name in everywhere}, **known}
            yield Found(ball, "D", everywhere["D"], float(sampled.w_star.norm()))
        for name in SUPREMA:
            if name in known:
                yield Found(ball, name, known[name], sampled.best(name, region, climb=climb and known[name] > 0))


def table() -> Iterator[str]:
    """Rows of the table: for each ball the ratios closed form / best found."""
    names = ("D", *SUPREMA)
    yield "| problem | ball | " + " | ".join(f"`{name}`" for name in names) + " |"
    yield "|---|---|" + "---|" * len(names)
    for case, make in CASES.items():
        rows: dict[str, dict[str, str]] = {}
        for found in compared(make(0)):
            shown = "0" if found.closed == 0 else f"{found.ratio:.2f}"
            rows.setdefault(found.ball, {})[found.name] = shown
        for ball, row in rows.items():
            yield f"| {case} | {ball} | " + " | ".join(row.get(name, "") for name in names) + " |"


if __name__ == "__main__":
    print("\n".join(table()))
