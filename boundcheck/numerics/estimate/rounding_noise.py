"""Estimates of the rounding in Φ, in a linear system and in a hypergradient at one point, from random errors.

This is Monte Carlo arithmetic (Parker 1997). Every entry of the result of an operation is multiplied by 1 + εξ with ξ
uniform on [−1, 1], where ε is twice the unit of rounding; for an operation in place, in the memory that it writes.
Operations that combine entries, such as sums, products of matrices and transforms, get the same errors in their
arguments, because large numbers may cancel inside the operation. Arguments of factorisations and solvers get errors of
ε times their largest entry, which is the accuracy of such algorithms. The scatter of the results shows large
intermediate numbers that cancelled, which the result alone does not show. The estimate is `SAFETY` times the largest of
`RUNS` differences. `rounding_proof.proved` gives a proof, if there is one.
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
EXACT = frozenset((*MOVES, "copy", "fill", "zero", "_to_copy"))  # operations without rounding, or with one at the end
PRODUCTS = frozenset(("mm", "mv", "bmm", "dot", "vdot", "addmm", "addmv", "baddbmm", "convolution"))
SOLVERS = ("linalg", "_linalg", "cholesky", "lu_", "triangular", "ormqr", "geqrf")  # prefixes of names


@dataclass(frozen=True)
class Rounding:
    """The rounding of w − Φ(w), of v − ∂₁Φᵀv − ∇₁E and of ∇₂E + ∂₂Φᵀv, as norms; infinite if a run failed."""

    w: float
    v: float
    g: float


class _RandomRounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds random errors to every operation that computes new numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(device="cpu").manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        aliases = [x.alias_info for x in func._schema.returns if x.alias_info is not None]
        returns_view = any(not info.is_write for info in aliases) or torch.Tag.inplace_view in func.tags
        if returns_view or name in EXACT:
            return func(*args, **kwargs)
        into = [x.alias_info is not None and x.alias_info.is_write for x in func._schema.arguments]
        written = [i for i, write in enumerate(into) if write]
        if torch.Tag.pointwise not in func.tags:
            shake = self._shaken_as_a_whole if name.startswith(SOLVERS) else self._shaken
            unchanged = [_largest(args)] if name in PRODUCTS else []
            args = tuple(x if i in (*written, *unchanged) else tree_map(shake, x) for i, x in enumerate(args))
        result = func(*args, **kwargs)
        if not written:
            return tree_map(self._shaken, result)
        targets = [args[i] if i < len(args) else kwargs[func._schema.arguments[i].name] for i in written]
        tree_map(lambda x: x.copy_(self._shaken(x)) if isinstance(x, Tensor) else x, targets)
        return result

    def _noise(self, x: Tensor) -> Tensor:
        """Return εξ, with a separate ξ for the real and the imaginary part of a complex number."""
        parts = (*x.shape, 2) if x.is_complex() else x.shape
        xi = 2 * torch.rand(parts, generator=self.generator, dtype=torch.float64) - 1
        noise: Tensor = (torch.finfo(x.dtype).eps * xi).to(x.device)
        return torch.view_as_complex(noise).to(x.dtype) if x.is_complex() else noise

    def _shaken(self, x: Any) -> Any:
        return x * (1 + self._noise(x)).to(x) if _has_numbers(x) else x

    def _shaken_as_a_whole(self, x: Any) -> Any:
        return x + x.abs().max() * self._noise(x).to(x) if _has_numbers(x) and x.numel() else x


def _largest(args: tuple[Any, ...]) -> int:
    """Return the index of the argument with most entries. Errors in the other factors suffice to show cancellation."""
    return max(range(len(args)), key=lambda i: args[i].numel() if isinstance(args[i], Tensor) else -1)


def _has_numbers(x: Any) -> bool:
    """Return whether x is a dense tensor of float or complex numbers.

    Autograd's zero tensors without memory are excluded: they have no rounding, and a product with one crashes.
    """
    if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
        return False
    return x.layout is torch.strided and not x._is_zerotensor()


def measured(problem: Problem, w: Tensor, v: Tensor, seed: int = 0) -> Rounding:
    """Estimate the rounding at w, v and the λ of the problem.

    Parameters
    ----------
    problem
        Φ and E at λ = `problem.lam`.
    w, v
        A point and a solution of the adjoint system.
    seed
        The seed of the random errors.

    Returns
    -------
    Rounding
        The size of the errors of the two residuals and of the hypergradient. It is infinite if the program fails with
        random errors, as a factorisation may.
    """
    exact = _parts(problem, w, v)
    worst = [0.0, 0.0, 0.0]
    for run in range(RUNS):
        try:
            with _RandomRounding(seed + run):
                computed = _parts(problem, w, v)
        except Exception:  # the program works without random errors, but fails with them
            return Rounding(math.inf, math.inf, math.inf)
        worst = [max(old, float((x - y).norm())) for old, x, y in zip(worst, computed, exact, strict=True)]
    return Rounding(*(SAFETY * x for x in worst))


def of_run(problem: Problem, method: str, t: int, seed: int = 0) -> float:
    """Estimate the rounding of a hypergradient in a whole run of t steps; infinite if the run fails."""
    try:
        exact = hypergradient(problem, method, t).value
        worst = 0.0
        for run in range(RUNS):
            with _RandomRounding(seed + run):
                worst = max(worst, float((hypergradient(problem, method, t).value - exact).norm()))
    except Exception:  # the run works without random errors, but fails with them
        return math.inf
    return SAFETY * worst


def _parts(problem: Problem, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return w − Φ, v − ∇₁(E + vᵀΦ) and ∇₂(E + vᵀΦ)."""
    with torch.enable_grad():
        w, lam = w.detach().clone().requires_grad_(True), problem.lam.detach().clone().requires_grad_(True)
        ready = problem.prepare(lam)
        phi = problem.phi_at(w, ready)
        total = problem.outer_at(w, ready) + phi @ v
        of_w, of_lam = torch.autograd.grad(total, (w, lam), allow_unused=True, materialize_grads=True)
    return (w - phi).detach(), v - of_w, of_lam
