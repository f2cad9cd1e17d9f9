"""ITD at every t if ∂₁Φ is one symmetric matrix for each λ. In its eigenvectors, coordinates do not mix.

Then w_t = w* + Σ_g ρ_g(t)e_g, where e_g is the part of w_0 − w* in the g-th eigenspace, and ∂₂Φ is affine in w. So the
sum Σ_p ∂₂Φ(w_p)ᵀa_p, with the adjoints a_p of horizon t at w_p, need not be computed again for each t. It is equal to
Σ_g ∂₂Φ(w* + e_g)ᵀV_g, where V_g is N_t[g, k]·b in the k-th eigenspace, and N_t[g, k] = Σ_p ρ_g(p)s_k(t − 1 − p) is the
response of coordinate k to the forcing ρ_g. N_t follows from N_{t−1} by one step of the dynamics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.numerics.bilevel.derivatives import CACHE, LamLinearisation, mixed, rows
from boundcheck.numerics.bilevel.formulas import OuterProducts
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.curves.batch import Batch, pieces, within
from boundcheck.numerics.curves.eigenbasis import Spectrum
from boundcheck.numerics.curves.lambda_products import EVERY, PulledCotangents
from boundcheck.numerics.curves.sizes import PASS, D2Formula, Sizes, pull_back
from boundcheck.progress import counted

LAM_PASSES = 3  # passes over a cotangent at a point, in addition to one evaluation of Φ
FULL_EIGENVECTORS = 30  # times d³: arithmetic of an eigendecomposition
DATA_EIGENVECTORS = 10  # times d² for each row of data: arithmetic of a singular value decomposition
COTANGENTS = 2  # number of copies of the cotangents of the leaves in memory for each t
BACKWARD = 64  # number of t in one backward pass
MATRICES = 8  # number of matrices of the size of ∂₁Φ in memory


def arithmetic(sizes: Sizes) -> int:
    """Return the arithmetic of ITD at every t, for one λ."""
    d, rank = sizes.problem.d, sizes.rank
    points = min(d, rank + 1 if rank else d)
    eigenvectors = DATA_EIGENVECTORS * d**2 * rank if rank else FULL_EIGENVECTORS * d**3
    at_each_point = 2 * d + sizes.map.phi + LAM_PASSES * PASS * d
    return sizes.problem.T * (points * at_each_point + pull_back(sizes)) + eigenvectors


def numbers_held(sizes: Sizes, horizons: int) -> int:
    """Return the most numbers in memory, for one λ and this number of t: responses or cotangents, and matrices."""
    d = sizes.problem.d
    for_each_t = d**2 if sizes.lam.d2 is D2Formula.SUMMED else COTANGENTS * sizes.lam.leaves
    return horizons * for_each_t + MATRICES * d**2


class Modes:
    """The points w* and w* + e_g for each λ of a batch, and the cotangents V of Φ at them."""

    def __init__(self, batch: Batch, spectrum: Spectrum, leaves: Leaves) -> None:
        problem, ready = batch.problem, batch.prepared.ready
        self.batch, self.spectrum, self.leaves = batch, spectrum, leaves
        j = spectrum.spread(spectrum.values[:, None])
        constant = vmap(problem.phi_at)(torch.zeros_like(j[:, 0]), ready)
        w_star = constant[:, None] @ spectrum.U / (1 - j)
        self.mixed = mixed(
            problem.phi_at, w_star, leaves
        )  # otherwise ∂₂Φ is the same everywhere, and one point is enough
        points = w_star
        if self.mixed:
            e = (problem.w0 @ spectrum.U)[:, None] - w_star
            groups = torch.arange(spectrum.values.shape[-1], device=e.device)[:, None]
            points = torch.cat((w_star, w_star + torch.where(spectrum.which[:, None] == groups, e, 0)), dim=1)
        self.points = points @ spectrum.U.mT
        self.newest, self.omega = _newest(problem, spectrum, ready)
        self._states = _run(self.newest, torch.ones_like(spectrum.values), batch.T)

    @property
    def numbers(self) -> Tensor:
        """P_t at each distinct eigenvalue for t = 0 … T, in the layout of a state: (λ, T + 1, copies · distinct)."""
        return self._states

    @cached_property
    def iterates(self) -> Tensor:
        """The coefficients of the points in w_t for t = 0 … T, of shape (λ, T + 1, points)."""
        return self._weights(self.batch.problem.dynamics.iterate(self._states))

    @cached_property
    def evaluated(self) -> Tensor:
        """The coefficients of the points at which the steps from t = 0 … T − 1 evaluate Φ."""
        return self._weights(rows(self.batch.problem.dynamics.point)(self._states[:, :-1], self.batch.prepared.ready))

    def _weights(self, rho: Tensor) -> Tensor:
        return (
            torch.cat((1 - rho.sum(dim=-1, keepdim=True), rho), dim=-1) if self.mixed else torch.ones_like(rho[..., :1])
        )

    def responses(self, parts: Iterable[slice]) -> Iterator[tuple[slice, Tensor]]:
        """Yield each of the parts of t = 1 … T with the responses N_t, of shape (λ, t, points, distinct)."""
        forcing = self.evaluated[..., None]
        newest = [entry[:, None] for entry in self.newest]
        shape = (*self.points.shape[:2], self.spectrum.values.shape[-1])
        state = [forcing.new_zeros(shape)] * len(newest)
        for part in parts:
            N = forcing.new_empty(shape[0], part.stop - part.start, *shape[1:])
            for i, new in enumerate(N.unbind(1)):
                torch.mul(newest[0], state[0], out=new)
                for entry, x in zip(newest[1:], state[1:], strict=True):
                    new.addcmul_(entry, x)
                new += forcing[:, part.start + i]
                state = [new, *state[:-1]]
            yield part, N

    def adjoints(self, N: Tensor, b: Tensor, lams: slice = EVERY) -> Tensor:
        """Return V for the responses N and ∇₁E of some t and of `lams`, of shape (λ, t, points, d)."""
        spectrum, forces = self.spectrum[lams], self.omega[lams] * b
        if self.mixed:
            return N @ spectrum.parts(forces)
        V = spectrum.spread(N[:, :, 0]) * (forces @ spectrum.U)
        return (V @ spectrum.U.mT)[:, :, None]  # for one point, it is cheaper to return from the eigenvectors last

    def itd(self, b: Tensor, block: int) -> Iterator[Cotangents]:
        """Yield (dw_t/dλ)ᵀ∇₁E(w_t) for `block` values of t at a time, as cotangents of shape (λ, block, …)."""
        linearisation = LamLinearisation(self.batch.problem.phi_at, self.points, self.leaves)
        size = max(1, min(BACKWARD, CACHE // self.points.numel()))
        blocks = pieces(0, self.batch.T, block)
        parts = [part for whole in blocks for part in pieces(whole.start, whole.stop, size)]
        responses = counted(self.responses(parts), "itd at every t", len(parts))
        for whole in blocks:
            cotangents = []
            for part, N in islice(responses, -(-(whole.stop - whole.start) // size)):
                v = self.adjoints(N, b[:, part]).movedim(1, 0)
                cotangents.append(linearisation.d2_T_of_each(v))
            yield tuple(torch.cat(leaf).movedim(0, 1) for leaf in zip(*cotangents, strict=True))


class EigenbasisItd:
    """ITD by cotangents at the points, for `size` horizons at a time."""

    def __init__(self, modes: Modes, b: Tensor, size: int) -> None:
        self._modes, self._blocks = modes, modes.itd(b, size)
        self._horizons = slice(0, 0)

    def prepare(self, horizons: slice) -> None:
        self._horizons = horizons
        self._pulled = PulledCotangents(self._modes.batch.prepared, self._modes.leaves, next(self._blocks))

    def block(self, ts: slice, lams: slice) -> Tensor:
        return self._pulled.of(within(ts, self._horizons), lams)


class SummedItd:
    """ITD by the problem's formula that sums over points, for `size` horizons and one λ at a time."""

    def __init__(self, modes: Modes, formulas: list[OuterProducts], b: Tensor, size: int) -> None:
        self._modes, self._formulas, self._b = modes, formulas, b
        self._responses = modes.responses(pieces(0, modes.batch.T, size))
        self._horizons, self._N = slice(0, 0), b.new_empty(0)

    def prepare(self, horizons: slice) -> None:
        self._horizons, self._N = next(self._responses)

    def block(self, ts: slice, lams: slice) -> Tensor:
        V = self._modes.adjoints(self._N[lams, within(ts, self._horizons)], self._b[lams, ts], lams)
        return torch.stack([formula.summed(v) for formula, v in zip(self._formulas[lams], V, strict=True)])


def sums_of(modes: Modes) -> list[OuterProducts]:
    """Return the formula that sums over points for each λ; empty if there is none, or if one point is enough."""
    formula, each = modes.batch.problem.d2phi_T_at, modes.batch.prepared.each
    if formula is None or not modes.mixed:
        return []
    products = [formula(points, ready) for points, ready in zip(modes.points, each, strict=True)]
    return [product for product in products if isinstance(product, OuterProducts)]


def _run(newest: list[Tensor], ones: Tensor, T: int) -> Tensor:
    """Return (ρ(t), ρ(t − 1), …) for t = 0 … T in the layout of a state: (λ, T + 1, copies · distinct)."""
    past = [ones] * len(newest)  # the newest last
    for _ in range(T):
        past.append(sum((entry * x for entry, x in zip(newest, reversed(past), strict=False)), torch.zeros_like(ones)))
    rho = torch.stack(past, dim=1)
    ages = range(len(newest) - 1, -1, -1)
    return torch.cat([rho[:, i : i + T + 1] for i in ages], dim=-1)


def _newest(problem: Problem, spectrum: Spectrum, ready: Ready) -> tuple[list[Tensor], Tensor]:
    """Return the factors of each iterate of a state in a step, of shape (λ, distinct), and ω, the factor of Φ."""
    dynamics, values = problem.dynamics, spectrum.values
    step = vmap(lambda j, z, ready: dynamics.iterate(dynamics.step(lambda w: w * j, z, ready)))
    ones = torch.ones_like(values)
    newest = []
    for i in range(dynamics.copies):
        unit = torch.cat([ones if i == c else 0 * ones for c in range(dynamics.copies)], dim=-1)
        newest.append(step(values, unit, ready))
    constant = vmap(lambda value, z, ready: dynamics.step(lambda w: value, z, ready))
    nowhere = dynamics.start(0 * ones)
    omega = dynamics.iterate(constant(ones, nowhere, ready) - constant(0 * ones, nowhere, ready))
    return newest, omega[:, None, :1]
