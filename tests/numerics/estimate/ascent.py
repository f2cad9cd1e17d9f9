"""What random starts and ascent find of a constant of a problem, over a ball: a value from below.

Each constant is a supremum of ‖F(w)‖ or of ‖F(w) − F(w*)‖/‖w − w*‖. Where F is a Jacobian, the vector is F(w)ᵀa with a
unit a to be found as well; derivatives with respect to w and a come from a second backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.reference import reference

Field = Callable[[Tensor, Tensor], Tensor]  # (w, a) ↦ F(w), or F(w)ᵀa


def _grad(value: Tensor, of: Tensor) -> Tensor:
    """The gradient, itself differentiable; zeros where nothing depends."""
    if not value.requires_grad:
        return torch.zeros_like(of)
    found = torch.autograd.grad(value, of, create_graph=True, allow_unused=True)[0]
    return torch.zeros_like(of) if found is None else found


@dataclass(frozen=True, eq=False)
class Ascent:
    """The constants of `problem` at its λ, whose fixed point is `w_star`."""

    problem: Problem
    w_star: Tensor
    fields: dict[str, Field]

    @classmethod
    def of(cls, problem: Problem) -> Ascent:
        lam = problem.lam.clone().requires_grad_()
        ready = problem.prepare(lam)  # once: the graph from λ to it is kept

        def slope(w: Tensor) -> Tensor:
            return _grad(problem.inner_at(w, ready), w)

        fields: dict[str, Field] = {
            "q": lambda w, a: _grad(problem.phi_at(w, ready) @ a, w),
            "L_Phi": lambda w, a: _grad(problem.phi_at(w, ready) @ a, lam),
            "L_E": lambda w, a: _grad(problem.outer_at(w, ready), w),
            "L": lambda w, a: _grad(slope(w) @ a, w),
            "grad_2E": lambda w, a: _grad(problem.outer_at(w, ready), lam),
            "hess_21": lambda w, a: _grad(slope(w) @ a, lam),
        }
        w_star = reference(problem, problem.lam[None]).w[0].detach()
        return cls(problem, w_star, fields)

    def objective(self, name: str) -> Callable[[Tensor, Tensor], Tensor]:
        """(w, a) ↦ the quantity of which the constant `name` is the supremum."""
        if name in ("q", "L_Phi", "L_E", "L"):
            return lambda w, a: self.fields[name](w, a).norm()
        of = {
            "nu_1": "q",
            "nu_2": "L_Phi",
            "eta_1": "L_E",
            "eta_2": "grad_2E",
            "hat_rho_1": "L",
            "hat_rho_2": "hess_21",
        }
        field = self.fields[of[name]]

        def secant(w: Tensor, a: Tensor) -> Tensor:
            w_star = self.w_star.clone().requires_grad_()
            return (field(w, a) - field(w_star, a)).norm() / (w - w_star).norm()

        return secant

    def starts(self, region: Region, seed: int) -> list[Tensor]:
        """Far and near points of the ball, and those where something special happens."""
        generator = torch.Generator().manual_seed(seed)
        c, r, w = region.point, region.radius, self.w_star

        def direction() -> Tensor:
            u = torch.randn(len(c), generator=generator, dtype=torch.float64).to(c)
            return u / u.norm()

        return [c + r * direction(), w + 0.01 * r * direction(), c + (c - w) + 0.3 * r * direction(), 1.01 * w - c]

    def best(self, name: str, region: Region, *, steps: int = 40, seed: int = 0) -> float:
        """The largest value found: a power step in a and a projected gradient step in w, as long as they improve."""
        value = self.objective(name)
        found = 0.0
        for number, start in enumerate(self.starts(region, seed)):
            w, reach = project(start, region), 2.0
            generator = torch.Generator().manual_seed(100 * seed + number)
            a = torch.randn(len(w), generator=generator, dtype=torch.float64).to(w)
            a = a / a.norm()
            for _ in range(6):  # the largest direction at the start, before w moves
                here, along_w, along_a = climb(value, w, a)
                a = along_a / along_a.norm() if along_a.norm() > 0 else a
            here, along_w, along_a = climb(value, w, a)
            found = max(found, here)
            for _ in range(steps):
                a_next = along_a / along_a.norm() if along_a.norm() > 0 else a
                push = along_w / along_w.norm() if along_w.norm() > 0 else along_w
                w_next = project(w + reach * region.radius * push, region)
                there, *slopes = climb(value, w_next, a_next)
                found = max(found, there)
                if there > here:
                    stalled = there < here * (1 + 1e-5)
                    w, a, here, (along_w, along_a), reach = w_next, a_next, there, slopes, min(2 * reach, 2.0)
                else:
                    reach, stalled = reach / 4, reach < 1e-3
                if stalled:
                    break
        return found


def project(w: Tensor, region: Region) -> Tensor:
    """The point of the ball nearest to w."""
    away = w - region.point
    return region.point + away * min(1.0, region.radius / max(float(away.norm()), 1e-300))


def climb(value: Callable[[Tensor, Tensor], Tensor], w: Tensor, a: Tensor) -> tuple[float, Tensor, Tensor]:
    """The value and its gradients in w and a."""
    w, a = w.detach().requires_grad_(), a.detach().requires_grad_()
    here = value(w, a)
    slopes: tuple[Tensor | None, ...] = (None, None)
    if here.requires_grad:  # the graph is kept, as a part of it leads from λ to what was prepared
        slopes = torch.autograd.grad(here, (w, a), retain_graph=True, allow_unused=True)
    along_w, along_a = (  # ‖·‖ has no slope at 0
        torch.zeros_like(x) if slope is None else slope.nan_to_num() for x, slope in zip((w, a), slopes, strict=True)
    )
    return float(here.detach()), along_w, along_a


def regions(w_star: Tensor, D: float) -> dict[str, Region]:
    """The ball of the paper, the ball in which gradient descent from 0 stays, and a small one."""
    return {
        "‖w‖ ≤ 2D": Region("0", torch.zeros_like(w_star), 2 * D),
        "‖w − w*‖ ≤ r₀": Region("w_star", w_star, float(w_star.norm())),
        "‖w − w*‖ ≤ r₀/20": Region("w_star", w_star, float(w_star.norm()) / 20),
    }
