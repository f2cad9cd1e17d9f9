"""Where ∂₁Φ is one symmetric matrix for each λ: in its eigenvectors no two coordinates mix.

There w_t = w* + Σ_g ρ_g(t)e_g, with e_g the part of w_0 − w* in the g-th eigenspace, and ∂₂Φ is affine in w. So the sum
over p in Σ_p ∂₂Φ(w_p)ᵀa_p, with a_p the adjoint of horizon t at w_p, need not be taken for each t anew: it is
Σ_g ∂₂Φ(w* + e_g)ᵀV_g, where V_g has N_t[g, k]·b in the k-th eigenspace and N_t[g, k] = Σ_p ρ_g(p)s_k(t − 1 − p) is the
response of coordinate k to the forcing ρ_g. N_t follows from N_{t−1} by one step of the dynamics.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.compare import to_lam
from boundcheck.compare.batch import Batch, Spectrum, pieces
from boundcheck.prepared import Cotangents, Leaves
from boundcheck.problem import Problem, Ready
from boundcheck.products import CACHE, LamLinearisation, mixed, rows, used

LAMS, TIMES = 4, 64  # at once in products with large matrices that each λ has its own of


def frozen(problem: Problem, leaves: Leaves, z: Tensor) -> bool:
    """Does a step from z, of shape (λ, 1, state), depend on λ through Φ only, its coefficients being held fixed?"""

    def coefficients(z: Tensor, ready: Ready) -> Tensor:
        return problem.dynamics.step(lambda w: w, z, ready)

    return not used(leaves, rows(coefficients), z).active


class Modes:
    """The points w* and w* + e_g for each λ of a batch, and the cotangents V of Φ at them."""

    def __init__(self, batch: Batch, spectrum: Spectrum, leaves: Leaves) -> None:
        problem, ready = batch.problem, batch.prepared.ready
        self.batch, self._spectrum, self.leaves = batch, spectrum, leaves
        j = spectrum.spread(spectrum.values[:, None])
        constant = vmap(problem.phi_at)(torch.zeros_like(j[:, 0]), ready)
        w_star = constant[:, None] @ spectrum.U / (1 - j)
        self._mixed = mixed(problem.phi_at, w_star, leaves)  # else ∂₂Φ is the same everywhere, and one point will do
        points = w_star
        if self._mixed:
            e = (problem.w0 @ spectrum.U)[:, None] - w_star
            groups = torch.arange(spectrum.values.shape[-1], device=e.device)[:, None]
            points = torch.cat((w_star, w_star + torch.where(spectrum.which[:, None] == groups, e, 0)), dim=1)
        self.points = points @ spectrum.U.mT
        self._step, self._omega = _step(problem, spectrum, ready)
        self._states = _run(self._step, torch.ones_like(spectrum.values), batch.T)

    @property
    def numbers(self) -> Tensor:
        """P_t at each distinct eigenvalue for t = 0 … T, as a state has it: (λ, T + 1, copies · distinct)."""
        return self._states

    def weights(self) -> Tensor:
        """The coefficients of the points in w_t for t = 1 … T, of shape (λ, T, points)."""
        return self._weights(self.batch.problem.dynamics.iterate(self._states[:, 1:]))

    def _weights(self, rho: Tensor) -> Tensor:
        return (
            torch.cat((1 - rho.sum(dim=-1, keepdim=True), rho), dim=-1)
            if self._mixed
            else torch.ones_like(rho[..., :1])
        )

    def adjoints(self, b: Tensor, lams: slice = slice(None)) -> Iterator[tuple[slice, Tensor]]:
        """V for some of the λ and t = 1 … T, a few t at a time: of shape (λ, t, points, d)."""
        batch, spectrum = self.batch, self._spectrum[lams]
        points = rows(batch.problem.dynamics.point)(
            self._states[:, :-1], batch.prepared.ready
        )  # where steps evaluate Φ
        forcing = self._weights(points[lams])[..., None]
        forces = self._omega[lams] * b[lams]
        step = [[entry[lams, None] for entry in row] for row in self._step]
        shape = self.points[lams].shape
        response = [b.new_zeros(*shape[:2], spectrum.values.shape[-1])] * len(step)
        for part in pieces(0, batch.T, max(1, CACHE // shape.numel())):
            V = b.new_empty(shape[0], part.stop - part.start, *shape[1:])
            along = spectrum.parts(forces[:, part]) if self._mixed else (forces[:, part] @ spectrum.U)[:, :, None]
            apply = torch.matmul if self._mixed else lambda x, y: spectrum.spread(x) * y
            for t in range(part.start, part.stop):
                response = _product(step, response)
                response[0] += forcing[:, t]
                V[:, t - part.start] = apply(response[0], along[:, t - part.start])
            if not self._mixed:  # at one point it is cheaper to leave the eigenvectors last
                V = (V.flatten(1, 2) @ spectrum.U.mT).view_as(V)
            yield part, V

    def itd(self, b: Tensor, block: int) -> Iterator[Cotangents]:
        """(dw_t/dλ)ᵀ∇₁E(w_t) for t = 1 … T, `block` of them at a time, as cotangents of shape (λ, block, …)."""
        at = LamLinearisation(self.batch.problem.phi_at, self.points, self.leaves)
        found: list[Cotangents] = []
        for part, V in self.adjoints(b):
            for i in range(V.shape[1]):
                found.append(at.d2_T(V[:, i]))
                if len(found) == block or part.start + i + 1 == self.batch.T:
                    yield tuple(torch.stack(leaf, dim=1) for leaf in zip(*found, strict=True))
                    found = []


class Formed:
    """The same with ∂₂Φ formed at the points, for short λ: all that is left are products of matrices."""

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._d2 = to_lam.d2phi(modes.batch, modes.leaves, modes.points)

    def itd(self, b: Tensor) -> Tensor:
        """(dw_t/dλ)ᵀ∇₁E(w_t), of shape (λ, T, n)."""
        found = b.new_empty(*b.shape[:2], self._d2.shape[-1])
        for lams in pieces(0, len(b), LAMS):
            for part, V in self._modes.adjoints(b, lams):
                found[lams, part] = V.flatten(2) @ self._d2[lams].flatten(1, 2)
        return found

    def read(self, v: Tensor) -> Tensor:
        """∂₂Φ(w_t)ᵀv for v of shape (λ, T, vectors, d): (λ, T, vectors, n)."""
        weights = self._modes.weights()
        found = v.new_empty(*v.shape[:3], self._d2.shape[-1])
        for i, d2 in enumerate(self._d2):
            for part in pieces(0, v.shape[1], TIMES):
                at_w = (weights[i, part] @ d2.flatten(1)).unflatten(-1, d2.shape[1:])
                found[i, part] = v[i, part] @ at_w
        return found


def _product(matrix: list[list[Tensor]], vector: list[Tensor]) -> list[Tensor]:
    """Of a small matrix and a vector whose entries are tensors."""
    found = []
    for row in matrix:
        total = row[0] * vector[0]
        for entry, x in zip(row[1:], vector[1:], strict=True):
            total.addcmul_(entry, x)
        found.append(total)
    return found


def _run(step: list[list[Tensor]], ones: Tensor, T: int) -> Tensor:
    """(ρ(t), ρ(t − 1), …) for t = 0 … T, of shape (λ, T + 1, copies · distinct), as the dynamics hold a state."""
    state = [ones] * len(step)
    states = [torch.cat(state, dim=-1)]
    for _ in range(T):
        state = _product(step, state)
        states.append(torch.cat(state, dim=-1))
    return torch.stack(states, dim=1)


def _step(problem: Problem, spectrum: Spectrum, ready: Ready) -> tuple[list[list[Tensor]], Tensor]:
    """A step in each coordinate as a matrix of tensors (λ, distinct), and ω, by which it takes Φ; (λ, 1, 1)."""
    dynamics, values = problem.dynamics, spectrum.values
    step = vmap(lambda j, z, ready: dynamics.step(lambda w: w * j, z, ready))
    ones = torch.ones_like(values)
    columns = []
    for i in range(dynamics.copies):
        unit = torch.cat([ones if i == c else 0 * ones for c in range(dynamics.copies)], dim=-1)
        columns.append(step(values, unit, ready).chunk(dynamics.copies, dim=-1))
    constant = vmap(lambda value, z, ready: dynamics.step(lambda w: value, z, ready))
    nowhere = dynamics.start(0 * ones)
    omega = dynamics.iterate(constant(ones, nowhere, ready) - constant(0 * ones, nowhere, ready))
    return [list(row) for row in zip(*columns, strict=True)], omega[:, None, :1]
