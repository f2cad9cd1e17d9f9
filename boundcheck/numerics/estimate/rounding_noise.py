"""What rounding does to Φ, to a linear system and to a hypergradient at one point, by arithmetic with random errors.

Every operation's result is multiplied by 1 + εξ, entry by entry, with ξ uniform on [−1, 1], twice the unit of rounding
(Monte Carlo arithmetic, Parker 1997), where it lies for an operation in place. So are the arguments of operations that
combine entries, such as sums, products of matrices and transforms, as numbers may be large and cancel inside of one;
the arguments of factorisations and solutions by ε times their largest entry, which is what those algorithms promise.
What the results then scatter by shows numbers that were large on the way and cancelled, which the result itself does
not. It is an estimate: `SAFETY` times the largest of `RUNS` differences. `running_error.proved` is the proof, where
there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.rounding_rules.moves import MOVES
from boundcheck.numerics.solvers.hypergradient import hypergradient

RUNS, SAFETY = 6, 4.0
EXACT = frozenset((*MOVES, "copy", "fill", "zero", "_to_copy"))  # operations that round nothing, or once at the end
PRODUCTS = frozenset(("mm", "mv", "bmm", "dot", "vdot", "addmm", "addmv", "baddbmm", "convolution"))  # of two factors
SOLVERS = ("linalg", "_linalg", "cholesky", "lu_", "triangular", "ormqr", "geqrf")  # how their names begin


@dataclass(frozen=True)
class Rounding:
    """In the norms of w − Φ(w), of v − ∂₁Φᵀv − ∇₁E, and of ∇₂E + ∂₂Φᵀv; infinite where a run broke down."""

    w: float
    v: float
    g: float


class _RandomRounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Random errors in every operation that makes new numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(device="cpu").manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        aliases = [x.alias_info for x in func._schema.returns if x.alias_info is not None]
        looks = any(not info.is_write for info in aliases) or torch.Tag.inplace_view in func.tags
        if looks or name in EXACT:
            return func(*args, **kwargs)
        into = [x.alias_info is not None and x.alias_info.is_write for x in func._schema.arguments]
        written = [i for i, write in enumerate(into) if write]
        if torch.Tag.pointwise not in func.tags:
            shake = self._shaken_as_a_whole if name.startswith(SOLVERS) else self._shaken
            still = [_largest(args)] if name in PRODUCTS else []
            args = tuple(x if i in (*written, *still) else tree_map(shake, x) for i, x in enumerate(args))
        result = func(*args, **kwargs)
        if not written:
            return tree_map(self._shaken, result)
        targets = [args[i] if i < len(args) else kwargs[func._schema.arguments[i].name] for i in written]
        tree_map(lambda x: x.copy_(self._shaken(x)) if isinstance(x, Tensor) else x, targets)
        return result

    def _noise(self, x: Tensor) -> Tensor:
        """εξ, with a ξ for each of the two parts of a complex number."""
        parts = (*x.shape, 2) if x.is_complex() else x.shape
        xi = 2 * torch.rand(parts, generator=self.generator, dtype=torch.float64) - 1
        noise: Tensor = (torch.finfo(x.dtype).eps * xi).to(x.device)
        return torch.view_as_complex(noise).to(x.dtype) if x.is_complex() else noise

    def _shaken(self, x: Any) -> Any:
        return x * (1 + self._noise(x)).to(x) if _has_numbers(x) else x

    def _shaken_as_a_whole(self, x: Any) -> Any:
        return x + x.abs().max() * self._noise(x).to(x) if _has_numbers(x) and x.numel() else x


def _largest(args: tuple[Any, ...]) -> int:
    """Which argument has most entries: errors in the other factor of a product show all that cancels."""
    return max(range(len(args)), key=lambda i: args[i].numel() if isinstance(args[i], Tensor) else -1)


def _has_numbers(x: Any) -> bool:
    """Not autograd's zeros without memory: there is nothing to shake, and a product with one crashes."""
    if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
        return False
    return x.layout is torch.strided and not x._is_zerotensor()


def measured(problem: Problem, w: Tensor, v: Tensor, seed: int = 0) -> Rounding:
    """Estimate what rounding does at w and v, λ being that of the problem.

    Parameters
    ----------
    problem
        Φ and E at λ = `problem.lam`.
    w, v
        A point and a solution of the adjoint system.
    seed
        Of the random errors.

    Returns
    -------
    Rounding
        Of what size the errors of the two residuals and of the hypergradient are; infinite where the program breaks
        down, as a factorisation may.
    """
    exact = _parts(problem, w, v)
    worst = [0.0, 0.0, 0.0]
    for run in range(RUNS):
        try:
            with _RandomRounding(seed + run):
                computed = _parts(problem, w, v)
        except Exception:  # what works without these errors broke down with them
            return Rounding(math.inf, math.inf, math.inf)
        worst = [max(old, float((x - y).norm())) for old, x, y in zip(worst, computed, exact, strict=True)]
    return Rounding(*(SAFETY * x for x in worst))


def of_run(problem: Problem, method: str, t: int, seed: int = 0) -> float:
    """Estimate what rounding does to a hypergradient in a whole run of t steps; infinite where the run breaks down."""
    try:
        exact = hypergradient(problem, method, t).value
        worst = 0.0
        for run in range(RUNS):
            with _RandomRounding(seed + run):
                worst = max(worst, float((hypergradient(problem, method, t).value - exact).norm()))
    except Exception:  # what works without these errors broke down with them
        return math.inf
    return SAFETY * worst


def _parts(problem: Problem, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """w − Φ, v − ∇₁(E + vᵀΦ) and ∇₂(E + vᵀΦ)."""
    with torch.enable_grad():
        w, lam = w.detach().clone().requires_grad_(True), problem.lam.detach().clone().requires_grad_(True)
        ready = problem.prepare(lam)
        phi = problem.phi_at(w, ready)
        total = problem.outer_at(w, ready) + phi @ v
        of_w, of_lam = torch.autograd.grad(total, (w, lam), allow_unused=True, materialize_grads=True)
    return (w - phi).detach(), v - of_w, of_lam
