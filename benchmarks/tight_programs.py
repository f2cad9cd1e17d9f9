"""Small programs on which every bound of the enclosures is close to what it bounds, so that less of it is false.

With one or two numbers and a small ball a derivative hardly moves, and a remainder is attained at an end of the ball.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from sampled_derivatives import Judge, Verdict
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program import cholesky_certificate
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY
from boundcheck.numerics.program.enclosure.elementwise import products
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.intervals import point
from boundcheck.numerics.program.enclosure.log_sum_exp import LogSumExp
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse
from boundcheck.numerics.program.enclosure.value import Bend, Slope, Value

Function = Callable[[Tensor, Tensor], Tensor]
POINTS = 6  # the centre, both ends of an interval, and some between


@dataclass(frozen=True, eq=False)
class TightProgram:
    """A function of w and λ, and where to look at it."""

    name: str
    f: Function
    w: tuple[float, ...] = (0.7,)
    lam: tuple[float, ...] = (0.4,)
    radius: float = 0.01

    @cached_property
    def judge(self) -> Judge:
        """The samples, which are drawn once."""
        w, lam = (torch.tensor(x, dtype=torch.float64) for x in (self.w, self.lam))
        program = capture(self.f, w, lam, EXPANSIONS)
        return Judge(program, w, lam, self.radius, points=POINTS, seed=1)

    @cached_property
    def scalar(self) -> bool:
        """Is its value a number, and not a vector?"""
        return not self.judge.program.shape

    def false(self) -> list[str]:
        """What the enclosures say of it that the samples contradict."""
        self.judge.verdict = Verdict()
        return self.judge.judge(self.scalar).false


def _of_one_number(name: str, phi: Callable[[Tensor], Tensor], *at: float) -> list[TightProgram]:
    """φ as a number and as a vector, around some points."""
    return [TightProgram(f"{name} at {w}", lambda w, lam: (2 * phi(w + lam - 0.4)).sum(), (w,)) for w in at or (0.7,)]


PLACES: dict[str, tuple[float, ...]] = {
    "sigmoid": (0.5, 0.0, 3.0),
    "tanh": (0.4, 0.0, 1.2),
    "atan": (0.4, 0.0, 1.2),
    "erf": (0.4, 0.0, 1.3),
    "log_sigmoid": (0.7, 0.0),
}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(torch, name) for name in ELEMENTARY if hasattr(torch, name)},
    "log_sigmoid": F.logsigmoid,
}


SKEW = math.log((math.sqrt(3) + 1) / (math.sqrt(3) - 1)) / 2  # there log(2 cosh w) has the largest third derivative


def _bent_group(w: Tensor, lam: Tensor) -> Tensor:
    """Log(2 cosh g) for a g that bends far more than it rises."""
    g = w[0] + 50 * w[0] ** 2
    return torch.logsumexp(torch.stack([g, -g]), 0)


def _unit(x: Tensor, other: float) -> Tensor:
    """The vectors (x, other), divided by their lengths."""
    pairs = torch.stack([x, torch.full_like(x, other)], -1)
    return pairs * torch.rsqrt((pairs * pairs).sum(-1, keepdim=True))


def _bent_unit(w: Tensor, lam: Tensor) -> Tensor:
    """The first entry of a unit vector where it bends most, for one that bends itself far more than it rises."""
    return _unit(0.7 + w[0] + 50 * w[0] ** 2, 0.7 * 2**0.5)[0]


B = torch.tensor([[1.5], [-0.5]], dtype=torch.float64)

PROGRAMS: list[TightProgram] = [
    *(p for name, phi in FUNCTIONS.items() for p in _of_one_number(name, phi, *PLACES.get(name, ()))),
    *_of_one_number("x^3", lambda x: x**3),
    *_of_one_number("x^2.5", lambda x: x**2.5),
    *_of_one_number("max(x, 0)^2", lambda x: torch.relu(x) ** 2),
    *_of_one_number("max(x, 0)^3", lambda x: x.clamp(min=0) ** 3),
    *_of_one_number("|x|^3", lambda x: x.abs() ** 3, -0.7),
    *_of_one_number("softplus", F.softplus, 0.7, 0.0),
    *_of_one_number("huber", lambda x: F.huber_loss(x, torch.zeros(1).double(), reduction="sum", delta=1.0)),
    *_of_one_number("smooth l1", lambda x: F.smooth_l1_loss(x, torch.zeros(1).double(), reduction="sum", beta=0.9)),
    *_of_one_number("e^(x³)", lambda x: torch.exp(x**3)),
    *_of_one_number("e^(x³/2)", lambda x: torch.exp(0.5 * x**3)),
    *_of_one_number("x² + e^x", lambda x: x**2 + torch.exp(x)),
    *_of_one_number("x³ e^x", lambda x: x**3 * torch.exp(x)),
    *_of_one_number("3 e^(2x)", lambda x: 3 * torch.exp(2 * x)),
    # sums and products
    TightProgram("a linear map", lambda w, lam: B @ (3 * w + lam)),
    TightProgram("a linear number", lambda w, lam: (3 * w + lam).sum()),
    TightProgram("sum of e^x", lambda w, lam: (B @ torch.exp(w + lam)).sum()),
    TightProgram("map of e^x", lambda w, lam: B[:1] @ torch.exp(w + lam)),
    TightProgram("e^x of a map of e^x", lambda w, lam: torch.exp(B[:1] @ torch.exp(w + lam))),
    TightProgram("e^x of a sum of e^x", lambda w, lam: torch.exp((B[:1] @ torch.exp(w + lam)).sum())),
    TightProgram("tanh of a map", lambda w, lam: torch.tanh(B[:1] @ (w + lam))),
    TightProgram("w less a map", lambda w, lam: w - 0.3 * torch.exp(w + lam)),
    TightProgram("w times λ", lambda w, lam: w * lam),
    TightProgram("w e^λ", lambda w, lam: (w * torch.exp(lam)).sum()),
    TightProgram("e^w e^λ", lambda w, lam: torch.exp(w) * torch.exp(lam)),
    TightProgram("number e^w e^λ", lambda w, lam: (torch.exp(w) * torch.exp(lam)).sum()),
    TightProgram("e^(e^w e^λ)", lambda w, lam: torch.exp(torch.exp(w) * torch.exp(lam)).sum()),
    TightProgram("dot", lambda w, lam: torch.dot(torch.exp(w), torch.exp(lam + w))),
    TightProgram("dot of affine", lambda w, lam: torch.dot(w + lam, w - 2 * lam)),
    TightProgram("mm", lambda w, lam: (torch.exp(w)[:, None] @ torch.exp(lam + w)[None])[0]),
    TightProgram("mm of affine", lambda w, lam: ((w + lam)[:, None] @ (w - 2 * lam)[None])[0]),
    TightProgram("e^x of mm", lambda w, lam: torch.exp((torch.exp(w)[:, None] @ torch.exp(lam + w)[None])[0]).sum()),
    TightProgram("conv", lambda w, lam: F.conv1d(torch.exp(w)[None, None], torch.exp(lam + w)[None, None])[0, 0]),
    TightProgram("conv number", lambda w, lam: F.conv1d(torch.exp(w)[None, None], torch.exp(w)[None, None]).sum()),
    # log-sum-exp
    TightProgram("logsumexp", lambda w, lam: torch.logsumexp(torch.stack([w[0], lam[0], w[0] - lam[0]]), 0)),
    TightProgram("logsumexp of two", lambda w, lam: torch.logsumexp(torch.stack([w[0], -lam[0]]), 0), (0.5,)),
    TightProgram("softmax", lambda w, lam: torch.softmax(torch.cat([w, 2 * lam]), 0)[:1]),
    TightProgram("logsumexp of e^x", lambda w, lam: torch.logsumexp(torch.stack([w.exp()[0], lam.exp()[0]]), 0)),
    TightProgram(
        "logsumexp over a wide ball", lambda w, lam: torch.logsumexp(torch.stack([w[0], -w[0]]), 0), (0.0,), radius=3.0
    ),
    TightProgram("e^x of logsumexp", lambda w, lam: torch.exp(torch.logsumexp(torch.cat([w, lam]), 0))),
    TightProgram(
        "logsumexp where it is most skew", lambda w, lam: torch.logsumexp(torch.stack([w[0], -w[0]]), 0), (SKEW,)
    ),
    TightProgram("logsumexp of what bends", _bent_group, (0.0,), radius=1e-4),
    # x/‖x‖
    TightProgram("unit vector", lambda w, lam: _unit(w + lam - 0.4, 1.0).reshape(-1)),
    TightProgram("unit vector where it turns", lambda w, lam: _unit(w + lam - 0.4, 1.0)[:, 0], (0.0,)),
    TightProgram("unit number where it turns", lambda w, lam: _unit(w + lam - 0.4, 1.0)[0, 0], (0.0,)),
    TightProgram("unit vector where it bends", lambda w, lam: _unit(w + lam - 0.4, 0.7 * 2**0.5)[:, 0]),
    TightProgram("unit number where it bends", lambda w, lam: _unit(w + lam - 0.4, 0.7 * 2**0.5)[0, 0]),
    TightProgram("unit number of e^w", lambda w, lam: _unit(torch.exp(w + lam) - math.exp(0.4), 1.0)[0, 0], (0.0,)),
    TightProgram("unit vector of e^w", lambda w, lam: _unit(torch.exp(w + lam) - math.exp(0.4), 1.0)[:, 0], (0.0,)),
    TightProgram("unit vector of e^w where it bends", lambda w, lam: _unit(torch.exp(w + lam), 2**0.5)[:, 0], (-0.4,)),
    TightProgram("unit number over a wide ball", lambda w, lam: _unit(w, 1e-3)[0, 0], (0.0,), radius=1.0),
    TightProgram("unit vector over a wide ball", lambda w, lam: _unit(w, 1e-3)[:, 0], (0.0,), radius=1.0),
    TightProgram("unit number of what bends", _bent_unit, (0.0,), radius=1e-4),
    # norms of forms
    TightProgram(
        "third derivatives that cancel",
        lambda w, lam: torch.exp(w).sum() - 0.1 * torch.exp(2 * w).sum() + (w * lam).sum(),
    ),
]


@dataclass(frozen=True)
class Formula:
    """A bound that is known by hand: what a function of the library returns is at least that."""

    name: str
    bound: Callable[[], float]
    truth: float

    def false(self) -> list[str]:
        """What is wrong with it."""
        bound = self.bound()
        return [] if bound >= self.truth else [f"{bound} < {self.truth}"]


def _one_entry(F: float, rows: float) -> tuple[LogSumExp, Slope]:
    """A group of one entry with derivative F, up to `rows`."""
    one = torch.ones(1, dtype=torch.float64)
    slope = Slope(F * one[None], 0 * one, rows * one)
    return LogSumExp(Value(point(one), point(one), {"w": slope}, {})), slope


def _unknown_rows_of_third() -> float:
    rule, slope = _one_entry(2.0, 0.5)
    return rule._loose(torch.ones(1, dtype=torch.float64), [slope] * 3)


def _block(*shape: int) -> Sparse:
    """Two rows of two numbers, 0.6 and 0.8 times ±2, at right angles."""
    return Sparse(csr_matrix([[1.2, 1.6], [-1.6, 1.2]]), torch.Size(shape))


def _of_line() -> float:
    squares = _block(2).line_norms(0, 9)
    return math.nan if squares is None else float(squares)


def _slope_of(held: Tensor | Sparse) -> Slope:
    zeros = torch.zeros(2, dtype=torch.float64)
    return Slope(held, zeros, zeros)


def _rest_as_a_whole() -> float:
    """Σ_i s_i D²x_i⊗J_i of a bend of which only the norm is known."""
    rest = torch.full((2,), 10.0, dtype=torch.float64)
    form = next(products(Bend((), rest, 3.0), rest.shape, point(0 * rest + 2), _slope_of(_block(2)), (0, 1, 2)))
    return form.slack


FORMULAS = [
    Formula("the norms of rows without zeros", lambda: float(_block(2).row_norms().min()), 2.0),
    Formula("the norm of a matrix without zeros", lambda: _block(2).norm(), 2.0),
    Formula("the norm of a line without zeros", _of_line, 4.0),
    Formula("the norm of a slope", lambda: _slope_of(_block(2).formed()).norm, 2.0),
    Formula("the norm of a slope with weights", lambda: _slope_of(_block(2)).weighted_norm(torch.ones(2) * 1.5), 3.0),
    Formula("what a bend of known norm adds to D³", _rest_as_a_whole, 12.0),
    Formula("what unknown rows add to J³: 2.5³ − 2³", _unknown_rows_of_third, 2.5**3 - 2**3),
    Formula(
        "the largest eigenvalue of a sparse matrix",
        lambda: cholesky_certificate.largest_eigenvalue_of_sparse(
            csr_matrix([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0] * 3])
        ),
        3.0,
    ),
    Formula("the Frobenius norm of I", lambda: cholesky_certificate.frobenius(torch.eye(4).double()), 2.0),
]
