"""Random programs f(w, λ): compositions of everything that the enclosures have a rule for.

A program is a list of steps on a pool of tensors that starts with w and λ. Each step takes tensors of the pool, also
the same one twice, and puts its result there; the program ends in a number or in a vector as long as w. Everything
follows from the seed. A step whose result is not finite, or is large, at the centre is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

MOST = 24  # entries of a tensor
LARGEST = 300.0  # entry at the centre
Apply = Callable[..., Tensor]
Draw = np.random.Generator


@dataclass
class RandomProgram:
    """A function of (w, λ), where to look at it, and whether it is a scalar."""

    seed: int
    w: Tensor
    lam: Tensor
    radius: float
    scalar: bool
    steps: list[tuple[str, tuple[int, ...], Apply]] = field(default_factory=list)
    numbers: list[Tensor] = field(default_factory=list)

    def __call__(self, w: Tensor, lam: Tensor) -> Tensor:
        pool = [w, lam]
        for _, places, apply in self.steps:
            pool.append(apply(*(pool[i] for i in places)))
        return pool[-1]

    @property
    def text(self) -> str:
        """The steps, for a person."""
        return " ".join(f"{name}{places}" for name, places, _ in self.steps)


def random_program(seed: int) -> RandomProgram:
    """The program of a seed."""
    draw = np.random.default_rng(seed)
    d, n = int(draw.integers(1, 6)), int(draw.integers(1, 4))
    dtype = torch.float32 if draw.random() < 0.25 else torch.float64
    scale = 10 ** draw.uniform(-1, 0.7)
    w, lam = (torch.tensor(scale * draw.standard_normal(k), dtype=dtype) for k in (d, n))
    program = RandomProgram(seed, w, lam, float(10 ** draw.uniform(-8, 1)), bool(draw.random() < 0.7))
    maker = _Maker(program, draw)
    for _ in range(int(draw.integers(1, 9))):
        maker.step()
    maker.finish()
    return program


class _Maker:
    def __init__(self, program: RandomProgram, draw: Draw) -> None:
        self.program, self.draw = program, draw
        self.pool = [program.w, program.lam]

    def step(self) -> None:
        names = list(STEPS)
        for _ in range(20):
            name = names[int(self.draw.integers(len(names)))]
            if self.take(name, *STEPS[name](self)):
                return

    def take(self, name: str, places: tuple[int, ...] | None, apply: Apply | None) -> bool:
        if places is None or apply is None:
            return False
        try:
            result = apply(*(self.pool[i] for i in places))
        except (RuntimeError, IndexError):  # the shapes do not fit
            return False
        if not result.numel():
            return False
        ok = bool(result.isfinite().all()) and float(result.abs().max()) <= LARGEST and result.numel() <= MOST
        if ok:
            self.program.steps.append((name, places, apply))
            self.pool.append(result)
        return ok

    def finish(self) -> None:
        """Everything that was made enters the result, with weights, so that no step is in vain."""
        d = self.program.w.numel()
        for place in range(len(self.pool)):
            x = self.pool[place]
            weights = self.numbers(*x.shape)
            if self.program.scalar:
                self.take("weigh", (place,), lambda t, weights=weights: (t * weights).sum())
            else:
                matrix = self.numbers(d, x.numel())
                self.take("spread", (place,), lambda t, m=matrix: m @ t.reshape(-1))
        ends = [i for i, (name, _, _) in enumerate(self.program.steps) if name in ("weigh", "spread")]
        places = [2 + i for i in ends]
        count = int(self.draw.integers(1, len(places) + 1)) if len(places) > 2 else len(places)
        chosen = sorted({*places[-1:], *(int(i) for i in self.draw.choice(places, count, replace=False))})
        self.take("total", tuple(chosen), lambda *parts: sum(parts[1:], parts[0]))
        if self.draw.random() < 0.3:
            wrap = (torch.tanh, torch.exp, torch.square, F.silu)[int(self.draw.integers(4))]
            self.take("wrap", (len(self.pool) - 1,), lambda t: wrap(0.2 * t))
        if not self.program.steps or self.pool[-1].dim() != (0 if self.program.scalar else 1):
            self.take("total", (len(self.pool) - 1,), lambda t: t.sum() if self.program.scalar else t.reshape(-1)[:d])

    def numbers(self, *shape: int) -> Tensor:
        x = self.draw.standard_normal(shape) * 10 ** self.draw.uniform(-1, 0.5)
        return torch.tensor(x, dtype=self.program.w.dtype)

    def any(self, test: Callable[[Tensor], bool] = lambda _: True) -> int | None:
        """A place of the pool, later ones more often."""
        fit = [i for i, x in enumerate(self.pool) if test(x)]
        if not fit:
            return None
        return fit[-1] if self.draw.random() < 0.4 else fit[int(self.draw.integers(len(fit)))]


Step = Callable[[_Maker], tuple[Any, Any]]
STEPS: dict[str, Step] = {}


def _unary(name: str, apply: Apply, test: Callable[[Tensor], bool] = lambda _: True) -> None:
    def step(maker: _Maker) -> tuple[Any, Any]:
        place = maker.any(test)
        return (None, None) if place is None else ((place,), apply)

    STEPS[name] = step


def _positive(x: Tensor) -> bool:
    return float(x.min()) > 0.05


def _small(x: Tensor) -> bool:
    return float(x.abs().max()) < 3


for _name, _apply in {
    "exp": torch.exp, "expm1": torch.expm1, "sinh": torch.sinh, "cosh": torch.cosh, "cube": lambda x: x**3,
    "fourth": lambda x: x**4, "exp chain": lambda x: torch.log(1 + torch.exp(-x)),
    "1/cosh": lambda x: 1 / torch.cosh(x),
}.items():  # fmt: skip
    _unary(_name, _apply, _small)
for _name, _apply in {
    "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "x^1.3": lambda x: x**1.3, "x^-2": lambda x: x**-2,
    "log1p": torch.log1p, "x log x": lambda x: x * torch.log(x),
}.items():  # fmt: skip
    _unary(_name, _apply, _positive)
for _name, _apply in {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "log_sigmoid": F.logsigmoid, "atan": torch.atan, "erf": torch.erf,
    "abs": torch.abs, "relu": torch.relu, "square": torch.square, "softplus": F.softplus, "silu": F.silu,
    "softplus 3": lambda x: F.softplus(x, 3.0), "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "root": lambda x: torch.sqrt(x * x + 0.1), "1/(1+x²)": lambda x: 1 / (1 + x**2),
    "x/(1+x²)": lambda x: x / (1 + x**2),
    "gauss": lambda x: torch.exp(-(x**2)), "x·σ": lambda x: x * torch.sigmoid(x), "x−σ": lambda x: x - torch.sigmoid(x),
    "reciprocal": torch.reciprocal, "neg": torch.neg, "3−x": lambda x: 3 - x, "sum": torch.sum, "mean": torch.mean,
    "flip": lambda x: x.reshape(-1).flip(0), "clone": lambda x: x.clone(), "cumsum": lambda x: x.reshape(-1).cumsum(0),
    "column": lambda x: x.reshape(-1)[:, None], "row": lambda x: x.reshape(1, -1), "twice": lambda x: torch.cat([x, x]),
    "outer": lambda x: torch.outer(x.reshape(-1), x.reshape(-1)), "pairs": lambda x: torch.stack([x, -2 * x]),
    "norm": lambda x: torch.linalg.vector_norm(x), "var": lambda x: torch.var(x) if x.numel() > 1 else x.sum(),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]), "unit": lambda x: x / torch.linalg.vector_norm(x),
    "rms": lambda x: x * torch.rsqrt((x * x).mean(0, keepdim=True) + 0.1),
    "softmax": lambda x: torch.softmax(x.reshape(-1), 0), "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x.reshape(-1), 0),
    "lse rows": lambda x: torch.logsumexp(x, -1, keepdim=True),
    "x·x": lambda x: torch.dot(x.reshape(-1), x.reshape(-1)), "swap": lambda x: x.reshape(len(x), -1).T,
    "gram": lambda x: x.reshape(len(x), -1) @ x.reshape(len(x), -1).T, "first": lambda x: x[0],
    "last": lambda x: x[-1:],
}.items():  # fmt: skip
    _unary(_name, _apply, lambda x: x.dim() > 0)


def _with_numbers(name: str, make: Callable[[_Maker, Tensor], Apply | None]) -> None:
    def step(maker: _Maker) -> tuple[Any, Any]:
        place = maker.any(lambda x: x.dim() > 0)
        return (None, None) if place is None else ((place,), make(maker, maker.pool[place]))

    STEPS[name] = step


def _fixed(number: Tensor, apply: Callable[[Tensor, Tensor], Tensor]) -> Apply:
    return lambda x: apply(x, number)


_with_numbers("A x", lambda m, x: _fixed(m.numbers(int(m.draw.integers(1, 5)), len(x)), torch.matmul))
_with_numbers("x A", lambda m, x: _fixed(m.numbers(x.shape[-1], int(m.draw.integers(1, 5))), torch.matmul))
_with_numbers("a x", lambda m, x: _fixed(m.numbers(*x.shape), torch.mul))
_with_numbers("x + a", lambda m, x: _fixed(m.numbers(*x.shape), torch.add))
_with_numbers("a − x", lambda m, x: _fixed(m.numbers(*x.shape), lambda x, a: a - x))
_with_numbers("x / a", lambda m, x: _fixed(m.numbers(*x.shape).abs() + 0.3, torch.div))
_with_numbers("a / x", lambda m, x: _fixed(m.numbers(*x.shape), lambda x, a: a / (2 + x**2)))
_with_numbers("huber", lambda m, x: _fixed(m.numbers(*x.shape), lambda x, a: F.huber_loss(x, a, delta=0.7)))
_with_numbers("smooth_l1", lambda m, x: _fixed(m.numbers(*x.shape), lambda x, a: F.smooth_l1_loss(x, a, beta=0.3)))
_with_numbers("mse", lambda m, x: _fixed(m.numbers(*x.shape), F.mse_loss))
_with_numbers(
    "bce", lambda m, x: _fixed(m.numbers(*x.shape).sigmoid(), lambda x, a: F.binary_cross_entropy_with_logits(x, a))
)
_with_numbers("where", lambda m, x: _fixed(m.numbers(*x.shape), lambda x, a: torch.where(a > 0, x, a)))
_with_numbers("tril", lambda m, x: _fixed(m.numbers(1), lambda x, a: (x.reshape(len(x), -1) + a).tril()))


def _cross_entropy(maker: _Maker, x: Tensor) -> Apply | None:
    if x.dim() != 2 or x.shape[1] < 2:
        return None
    target = torch.tensor(maker.draw.integers(0, x.shape[1], len(x)))
    return lambda t: F.cross_entropy(t, target, label_smoothing=0.1 if x.shape[1] == 3 else 0.0)


def _convolved(maker: _Maker, x: Tensor) -> Apply | None:
    kernel = maker.numbers(2, 1, min(2, x.numel()))
    return lambda t: F.conv1d(t.reshape(1, 1, -1), kernel).reshape(2, -1)


_with_numbers("cross entropy", _cross_entropy)
_with_numbers("conv", _convolved)


def _binary(name: str, apply: Apply, test: Callable[[Tensor, Tensor], bool]) -> None:
    def step(maker: _Maker) -> tuple[Any, Any]:
        one = maker.any()
        assert one is not None
        two = maker.any(lambda y: test(maker.pool[one], y))
        return (None, None) if two is None else ((one, two), apply)

    STEPS[name] = step


def _broadcast(x: Tensor, y: Tensor) -> bool:
    try:
        return torch.broadcast_shapes(x.shape, y.shape).numel() <= MOST
    except RuntimeError:
        return False


def _fit(x: Tensor, y: Tensor) -> bool:
    return x.dim() in (1, 2) and y.dim() in (1, 2) and x.shape[-1] == y.shape[0]


for _name, _apply in {
    "x + y": torch.add, "x − y": torch.sub, "x y": torch.mul, "x·y": torch.mul,
    "x tanh y": lambda x, y: x * torch.tanh(y),
    "x / (1 + y²)": lambda x, y: x / (1 + y**2), "x − 2.5 y": lambda x, y: torch.sub(x, y, alpha=2.5),
    "logaddexp": torch.logaddexp, "mse two": lambda x, y: ((x - y) ** 2).mean(),
    "x e^y": lambda x, y: x * torch.exp(-y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
}.items():  # fmt: skip
    _binary(_name, _apply, _broadcast)
for _name in ("x @ y", "x @ y again"):
    _binary(_name, torch.matmul, _fit)
_binary("outer two", lambda x, y: torch.outer(x, y), lambda x, y: x.dim() == y.dim() == 1)
_binary("cat", lambda x, y: torch.cat([x.reshape(-1), y.reshape(-1)]), lambda x, y: True)
_binary(
    "conv two", lambda x, y: F.conv1d(x.reshape(1, 1, -1), y.reshape(1, 1, -1)).reshape(-1),
    lambda x, y: 0 < y.numel() <= x.numel(),
)  # fmt: skip
_binary(
    "bmm", lambda x, y: (x.reshape(2, -1, 1) @ y.reshape(2, 1, -1)).reshape(2, -1),
    lambda x, y: x.numel() % 2 == 0 and y.numel() % 2 == 0 and x.numel() * y.numel() <= 2 * MOST,
)  # fmt: skip
_binary("huber two", lambda x, y: F.huber_loss(x, y, delta=0.5), lambda x, y: x.shape == y.shape)
