"""Lower estimates of the bounds of single examples, computed at some points, for use when nothing is proved."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import jacrev, jvp, vmap

from boundcheck.constants import Constant, Provenance
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.symmetry import by_construction
from boundcheck.numerics.estimate.example_bounds import ExampleBounds
from boundcheck.numerics.estimate.second_moments import spread_of_rows
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.side import Side

NUMBERS = 10_000_000  # the most entries in the matrices of all examples that are computed
DIRECTIONS = 8  # number of directions in which larger matrices are measured
AT_RANDOM = 2  # number of random points on the sphere around w*, in addition to w* and the start
WHAT = "at w*, at the start and at random points of the ball"


@torch.no_grad()
def measured(setting: Setting, radius: float, doubt: str) -> ExampleBounds:
    """Return lower estimates of the bounds of the examples, from some points of a ball around the computed w*.

    Parameters
    ----------
    setting : Setting
        The setting of a problem with a finite sum.
    radius : float
        The radius of the ball; 0 for w* alone.
    doubt : str
        Why nothing is proved.

    Returns
    -------
    ExampleBounds
        The estimates, with `doubt`.
    """
    problem, w = setting.problem, setting.w_star
    finite_sum = _sum_of(problem)
    moves = _moves(problem, finite_sum, w)
    variance, _ = spread_of_rows(moves, torch.zeros(len(moves), dtype=torch.float64))
    is_symmetric = by_construction(problem)
    at_points = (_at_point(problem, finite_sum, x, setting.spend.seed, is_symmetric) for x in _points(setting, radius))
    parts = [part for part in at_points if part is not None]
    if not parts:
        raise InputError(f"{problem.name}: a derivative of an example is not finite at w*; look at its values there")
    low = torch.stack([part.low for part in parts]).amin(0)
    high = torch.stack([part.high for part in parts]).amax(0)
    return ExampleBounds(
        moves.norm(dim=1), low, high, is_symmetric, torch.stack([part.by_lam for part in parts]).amax(0), variance,
        variance, max(part.m_1 for part in parts), max(part.m_2 for part in parts),
        f"λmax of the mean of (Y_i − Y)ᵀ(Y_i − Y), {WHAT}", f"λmax of the mean of (Z_i − Z)(Z_i − Z)ᵀ, {WHAT}", doubt,
    )  # fmt: skip


def evidence(setting: Setting, finite_sum: FiniteSum) -> list[Constant]:
    """Return lower bounds on V_star, m_1, m_2 and L_Phi_hat, computed at w*."""
    f, bounds = finite_sum.variance_factor, measured(setting, 0.0, "")
    values = {
        "V_star": f * bounds.variance,
        "m_1": f * bounds.m_1,
        "m_2": f * bounds.m_2,
        "L_Phi_hat": bounds.slope_of_batch(finite_sum) if f else 0.0,
    }
    how = Provenance("as computed at w*")
    return [Constant(name, value, Side.LOWER, how) for name, value in values.items()]


def _sum_of(problem: Problem) -> FiniteSum:
    if problem.finite_sum is None:
        raise TypeError("the problem has no finite sum")
    return problem.finite_sum


def _points(setting: Setting, radius: float) -> list[Tensor]:
    w = setting.w_star
    if not radius:
        return [w]
    generator = torch.Generator().manual_seed(setting.spend.seed)
    directions = torch.randn(AT_RANDOM, len(w), generator=generator, dtype=torch.float64)
    directions = radius * directions / directions.norm(dim=1, keepdim=True)
    return [w, setting.problem.w0, *(w + directions.to(w))]


def _moves(problem: Problem, finite_sum: FiniteSum, w: Tensor) -> Tensor:
    """Return Φ_i(w) − w for every example."""
    ready = problem.prepare(problem.lam)
    indices = torch.arange(finite_sum.examples, device=w.device)[:, None]
    values = vmap(lambda index: finite_sum.phi_on(w, ready, index), chunk_size=256)(indices)
    return values.detach().cpu().double() - w.detach().cpu().double()


def _at_point(
    problem: Problem, finite_sum: FiniteSum, w: Tensor, seed: int, is_symmetric: bool
) -> ExampleBounds | None:
    """Return estimates from the derivatives at one point, of all examples or a random sample; None if not finite."""
    d, n, N = problem.d, problem.n, finite_sum.examples
    generator = torch.Generator().manual_seed(seed)
    sample = torch.randperm(N, generator=generator)[: max(2, NUMBERS // (d * max(d, n)))]
    indices = sample.sort().values.to(w.device)[:, None]

    def phi(x: Tensor, lam: Tensor, index: Tensor) -> Tensor:
        return finite_sum.phi_on(x, problem.prepare(lam), index)

    by_w = _derivatives(lambda index: lambda x: phi(x, problem.lam, index), w, indices, generator)
    by_lam = _derivatives(lambda index: lambda lam: phi(w, lam, index), problem.lam, indices, generator)
    if not bool(by_w.isfinite().all() and by_lam.isfinite().all()):
        return None
    norms = torch.linalg.matrix_norm(by_lam, 2)
    if is_symmetric and by_w.shape[1] == by_w.shape[2]:
        values = torch.linalg.eigvalsh((by_w + by_w.mT) / 2)
        low, high = values[:, 0], values[:, -1]
    else:
        high = torch.linalg.matrix_norm(by_w, 2)
        low = -high
    none = torch.zeros(0, dtype=torch.float64)
    # the variance of a sample around its own mean is on average smaller than the variance of all examples
    return ExampleBounds(
        none, _spread_out(low, N, lowest=True), _spread_out(high, N), is_symmetric, _spread_out(norms, N), 0.0, 0.0,
        max(_spread(by_w), _spread(by_w.mT)), _spread(by_lam), "", "",
    )  # fmt: skip


def _spread_out(values: Tensor, N: int, *, lowest: bool = False) -> Tensor:
    """Extend `values` to N examples. Examples that were not measured get the least extreme of the values."""
    fill = values.max() if lowest else values.min()
    return torch.cat((values, fill.expand(N - len(values))))


def _spread(matrices: Tensor) -> float:
    """Return λmax of the mean of (J_i − J)(J_i − J)ᵀ."""
    centred = matrices - matrices.mean(0)
    flat = centred.transpose(0, 1).flatten(1)  # the matrices side by side
    return float(torch.linalg.matrix_norm(flat, 2)) ** 2 / len(matrices)


def _derivatives(
    function: Callable[[Tensor], Callable[[Tensor], Tensor]], point: Tensor, indices: Tensor, generator: torch.Generator
) -> Tensor:  # fmt: skip
    """Return the derivative for every example; if it is large, its products with some orthonormal vectors."""
    if len(indices) * point.numel() ** 2 <= 4 * NUMBERS:
        whole: Tensor = vmap(lambda index: jacrev(function(index))(point), chunk_size=64)(indices)
        return whole.detach().cpu().double()
    directions = torch.randn(point.numel(), DIRECTIONS, generator=generator, dtype=torch.float64)
    frame = torch.linalg.qr(directions).Q.to(point)

    def along(index: Tensor) -> Tensor:
        products: Tensor = vmap(lambda u: jvp(function(index), (point,), (u,))[1], in_dims=1, out_dims=1)(frame)
        return products

    products: Tensor = vmap(along, chunk_size=64)(indices)
    return products.detach().cpu().double()
