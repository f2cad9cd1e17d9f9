"""Extreme eigenvalues and norms of operators that are given by products: Lanczos with full reorthogonalisation.

`lanczos` is for a symmetric A, definite or not, and `norm` for any J: Lanczos on JᵀJ is equivalent to Golub-Kahan on J.
Both use a random start, on which their certificates depend (`lanczos_certificate.py`). The Rayleigh quotients of a
Jacobian that is not symmetric do not give its norm: for 0.9 times a quarter turn they are all 0, and the norm is 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.estimate.dense_certificate import dense_norm, dense_symmetric
from boundcheck.numerics.estimate.lanczos_certificate import (
    Extreme,
    Slack,
    Symmetric,
    Tridiagonal,
    least_overlap,
    ratio,
    slack,
)
from boundcheck.side import Side

__all__ = ["Extreme", "Slack", "Symmetric", "dense_norm", "dense_symmetric", "lanczos", "norm", "power", "slack"]

Product = Callable[[Tensor], Tensor]
End = Literal["largest", "smallest", "both"]
BLOCK = 64  # number of basis vectors in one allocation
MEMORY = 2**30  # bytes for the basis
EXHAUSTED = 16.0  # a β below this times ε‖A‖ is rounding
CAUTION = 3.0  # factor on the extrapolated error


def _start(n: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Draw a unit vector, uniform on the sphere. It is the same for every dtype and device."""
    if n < 1:
        raise InputError(f"n = {n} is not a dimension; give an operator on at least one unknown")
    normal = torch.randn(n, generator=generator, dtype=torch.float64, device="cpu")
    b: Tensor = normal.to(device=device, dtype=dtype)
    b /= b.norm()
    return b


@torch.no_grad()
def power(
    product: Product,
    n: int,
    steps: int,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> list[float]:
    """Return the Rayleigh quotients uᵀAu after each product of the power method, which are below λmax.

    The method is slow, and serves for comparisons only.
    """
    u = _start(n, generator, dtype, device)
    quotients = torch.zeros(steps, dtype=dtype, device=device)
    for k in range(steps):
        Au = product(u)
        quotients[k] = u @ Au
        length = Au.norm()
        u = Au / torch.where(length > 0, length, 1)
    values: list[float] = quotients.to("cpu").tolist()
    return values


@torch.no_grad()
def lanczos(
    product: Product,
    n: int,
    *,
    delta: float | None = 1e-3,
    rtol: float = 1e-6,
    most: int = 1000,
    want: End = "both",
    memory: int = MEMORY,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Symmetric:
    """Return both ends of the spectrum of a symmetric A, definite or not, from at most `most` products.

    The iteration stops when the wanted end has converged to a relative tolerance rtol, or when the Krylov space is
    exhausted. Each end, wanted or not, is certified with probability 1 − delta; with delta = None, neither is.
    For n ≤ 2, the n products give the matrix.
    """
    if not 0 < rtol < 1 or most < 1:
        raise InputError(f"rtol = {rtol}, most = {most} allow no steps; give 0 < rtol < 1 and most ≥ 1")
    if n in (1, 2):
        eye = torch.eye(n, dtype=dtype, device=device)
        extremes = dense_symmetric(torch.stack([_checked(product, e) for e in eye]))
        return Symmetric(
            replace(extremes.largest, products=n, steps=n), replace(extremes.smallest, products=n, steps=n)
        )
    t = None if delta is None else least_overlap(n, delta)
    b = _start(n, generator, dtype, device)
    room = int(memory // (n * b.element_size()))
    if room < 2:
        raise InputError(f"memory = {memory} bytes holds {room} vectors of n = {n}; give {2 * n * b.element_size()}")
    run = _krylov(product, b, rtol, min(most, room, n), want)
    return Symmetric(
        largest=_certified(run.T, t, delta, run.products, run.exhausted or run.largest.converged(run.T, rtol)),
        smallest=_negated(
            _certified(run.T.negative, t, delta, run.products, run.exhausted or run.smallest.converged(run.T, rtol))
        ),
    )


@dataclass(frozen=True)
class _Trail:
    """The last three computed Ritz values of one end of the spectrum."""

    theta: tuple[float, ...] = ()

    def then(self, theta: float) -> _Trail:
        return _Trail((*self.theta[-2:], theta))

    def to_come(self) -> float:
        """Return an extrapolation of the remaining gain from the last two gains, times a safety factor.

        A test of the residual would need half as many products again, because the error is of the order of its square.
        """
        if len(self.theta) < 3:
            return math.inf
        gain, before = abs(self.theta[-1] - self.theta[-2]), abs(self.theta[-2] - self.theta[-3])
        shrinking = gain / before if before > 0 else float(gain > 0)
        return CAUTION * gain * max(shrinking, 0.1) / (1 - shrinking) if shrinking < 1 else math.inf

    def converged(self, T: Tridiagonal, rtol: float) -> bool:
        """Return whether the value has converged to a relative tolerance rtol, or is zero up to rounding."""
        size = abs(self.theta[-1])
        return self.to_come() <= rtol * size or (self.at_rest(T) and (T.noise <= rtol * size or size <= T.noise))

    def at_rest(self, T: Tridiagonal) -> bool:
        """Return whether the last change was only rounding."""
        return len(self.theta) == 3 and abs(self.theta[-1] - self.theta[-2]) <= T.noise


@dataclass(frozen=True)
class _LanczosRun:
    T: Tridiagonal
    products: int
    largest: _Trail
    smallest: _Trail
    exhausted: bool  # the Krylov space is invariant, so this start gives no more information


def _checked(product: Product, q: Tensor) -> Tensor:
    r = product(q)
    if r.shape != q.shape:
        raise InputError(f"the product has shape {tuple(r.shape)} for a vector of n = {len(q)}; A must be square")
    return r


def _length(r: Tensor) -> Tensor:
    """Return ‖r‖ without overflow or underflow of squares, since a β of zero ends the iteration."""
    size = r.abs().max()
    length: Tensor = size * (r / torch.where(size > 0, size, 1)).norm()
    return length


def _krylov(product: Product, q: Tensor, rtol: float, most: int, want: End) -> _LanczosRun:
    """Run Lanczos steps until convergence.

    T is examined after 1, 2, 4, 8, 12, … products, later whenever their number has grown by a sixteenth. Only then does
    the host wait for the device.
    """
    n, eps = len(q), torch.finfo(q.dtype).eps
    coefficients = torch.zeros(2, most, dtype=q.dtype, device=q.device)
    blocks: list[Tensor] = []
    largest, smallest, look = _Trail(), _Trail(), 1
    for k in range(1, most + 1):
        row = (k - 1) % BLOCK
        if row == 0:
            blocks.append(torch.zeros(min(BLOCK, most - k + 1), n, dtype=q.dtype, device=q.device))
        blocks[-1][row] = q
        r = _checked(product, q)
        coefficients[0, k - 1] = q @ r
        for _ in range(2):  # twice is enough
            for Q in blocks:  # unused rows are zero
                r = r - (Q @ r) @ Q
        beta = _length(r)
        coefficients[1, k - 1] = beta
        q = r / torch.where(beta > 0, beta, 1)
        if k < min(look, most):
            continue
        look = k + min(k, max(4, k // 16))
        T, exhausted = _tridiagonal(coefficients[:, :k], n, eps)
        largest, smallest = largest.then(float(T.theta[-1])), smallest.then(float(T.theta[0]))
        ends = {"largest": [largest], "smallest": [smallest], "both": [largest, smallest]}[want]
        if exhausted or k == most or all(end.converged(T, rtol) or end.at_rest(T) for end in ends):
            return _LanczosRun(T, k, largest, smallest, exhausted)
    raise DivergenceError(f"none of {most} steps was examined")  # not reached: the last step is always examined


def _tridiagonal(coefficients: Tensor, n: int, eps: float) -> tuple[Tridiagonal, bool]:
    """Return T, cut off where the Krylov space ends, and whether it ends. Entries after the end are rounding."""
    diagonal, beta = coefficients.to("cpu").tolist()
    if not all(map(math.isfinite, (*diagonal, *beta))):
        raise DivergenceError("a product with A is not finite; look for an overflow in the function it comes from")
    size = 0.0
    for j, (a, b) in enumerate(zip(diagonal, beta, strict=True), start=1):
        size = max(size, abs(a))
        if b <= EXHAUSTED * eps * size or j == n:
            return Tridiagonal.of(tuple(diagonal[:j]), tuple(beta[:j]), n, eps), True
        size = max(size, b)
    return Tridiagonal.of(tuple(diagonal), tuple(beta), n, eps), False


def _certified(T: Tridiagonal, t: float | None, delta: float | None, products: int, converged: bool) -> Extreme:
    """Return the upper end of the spectrum with its certificate."""
    estimate = float(T.theta[-1])
    value = estimate if t is None else T.upper_end(t)
    side = Side.LOWER if t is None else Side.HIGH_PROBABILITY
    cost = ratio(value, estimate)
    return Extreme(value, estimate, side, products, T.k, T.residual, cost, delta, converged)


def _negated(end: Extreme) -> Extreme:
    return replace(end, value=-end.value, estimate=-end.estimate)


def _singular(end: Extreme) -> Extreme:
    """Convert an end of the spectrum of JᵀJ to a singular value of J.

    Each step is a JVP and a VJP. The residual is ‖Jᵀu − σv‖ for Jv = σu.
    """
    value, estimate = (math.sqrt(max(x, 0.0)) for x in (end.value, end.estimate))
    residual = end.residual / estimate if estimate else end.residual**0.5
    products = 2 * end.products
    return replace(
        end, value=value, estimate=estimate, products=products, residual=residual, slack=ratio(value, estimate)
    )


def norm(
    d1: Product,
    d1_T: Product,
    shape: tuple[int, int],
    *,
    delta: float | None = 1e-3,
    rtol: float = 1e-6,
    most: int = 1000,
    memory: int = MEMORY,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Extreme:
    """Return ‖J‖ of a matrix J of the given shape, from the products d1(u) = Ju and d1_T(v) = Jᵀv.

    `most` is the most steps; each is one product of both kinds. The iteration uses the smaller of JᵀJ and JJᵀ.
    """
    gram, n = _gram(d1, d1_T, shape)
    extremes = lanczos(
        gram, n, delta=delta, rtol=rtol, most=most, want="largest", memory=memory,
        generator=generator, dtype=dtype, device=device,
    )  # fmt: skip
    return _singular(extremes.largest)


def _gram(d1: Product, d1_T: Product, shape: tuple[int, int]) -> tuple[Product, int]:
    rows, columns = shape
    if rows < columns:
        return lambda v: d1(d1_T(v)), rows
    return lambda u: d1_T(d1(u)), columns
