"""Values and derivatives of a recorded program at points of a ball, held against what is proved over the ball.

Everything that the enclosures say is compared: of every value its box, its Jacobian, its second derivative; of the
program the bounds of `ScalarBounds` or `MapBounds`. Samples are computed in float64, which rounds. How much is seen by
computing them in float32 too: rounding is proportional to the unit, so float64 rounds by 2⁻²⁹ of the difference. One
difference may be small by chance, so `CHANCE` times that is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from boundcheck.numerics.bilevel.quiet_batches import quiet_batches
from boundcheck.numerics.program.enclosure.interpreter import Enclosures
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.enclosure.value import LAM, PAIRS, Pair, Value, W
from boundcheck.numerics.program.recorded_program import Program, Ref

F32, F64 = torch.float32, torch.float64
CHANCE = 256
UNITS = 64 * 2.0**-53  # of the norms and eigenvalues below, which have at most a few dozen entries


@dataclass
class Verdict:
    """What the samples say: `false` lists every statement that they contradict, `ratios` how tight the bounds are."""

    false: list[str] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)


def points_of(centre: Tensor, radius: float, count: int, seed: int) -> Tensor:
    """The centre, then points of the ball: most on its surface, some on the axes, some inside."""
    generator = torch.Generator().manual_seed(seed)
    d = centre.numel()
    steps = torch.randn(count, d, generator=generator, dtype=F64)
    axes = torch.randint(d, (count,), generator=generator)
    for i in range(count):
        if i % 3 == 1:
            sign = float(steps[i, 0].sign()) or 1.0
            steps[i] = 0
            steps[i, axes[i]] = sign
    steps = steps / steps.norm(dim=1, keepdim=True)
    lengths = torch.ones(count, dtype=F64)
    lengths[0] = 0
    lengths[3::4] = torch.rand(len(lengths[3::4]), generator=generator, dtype=F64)
    return centre.to(F64) + radius * (1 - 1e-12) * lengths[:, None] * steps


def every_value(program: Program, d: int, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """z = (w, λ) ↦ all values of a program in a row; numbers in it are taken as they are, in another precision."""

    def as_is(x: Any) -> Any:
        if isinstance(x, Tensor) and x.is_floating_point():
            return x.to(dtype)
        return dtype if x in (F32, F64) and isinstance(x, torch.dtype) else x

    calls = [tree_map(as_is, (op.args, op.kwargs), is_leaf=_is_ref) for op in program.operations]

    def run(z: Tensor) -> Tensor:
        results: list[Any] = [(z[:d],), (z[d:],)]

        def of(x: Any) -> Any:
            return results[x.node][x.item] if _is_ref(x) else x

        for operation, call in zip(program.operations[2:], calls[2:], strict=True):
            args, kwargs = tree_map(of, call, is_leaf=_is_ref)
            result = FORMULAS.get(operation.name, operation.func)(*args, **kwargs)
            results.append(tuple(result) if isinstance(result, tuple | list) else (result,))
        return torch.cat([x.reshape(-1).to(dtype) for some in results for x in some])

    return run


def _huber(x: Tensor, y: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    size = (x - y).abs()
    return _reduced(torch.where(size <= delta, (x - y) ** 2 / 2, delta * (size - delta / 2)), reduction)


def _smooth_l1(x: Tensor, y: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    return _huber(x, y, reduction, beta) / beta


def _reduced(x: Tensor, reduction: int) -> Tensor:
    return x.mean() if reduction == 1 else x.sum() if reduction == 2 else x


def _sigmoid(x: Tensor) -> Tensor:
    """Without the 1 − s of PyTorch's derivative, which rounds by more than its value where s is close to 1."""
    above, below = torch.exp(-torch.where(x > 0, x, 0.0)), torch.exp(torch.where(x > 0, 0.0, x))
    return torch.where(x > 0, 1 / (1 + above), below / (1 + below))


def _tanh(x: Tensor) -> Tensor:
    above, below = torch.exp(-2 * torch.where(x > 0, x, 0.0)), torch.exp(2 * torch.where(x > 0, 0.0, x))
    small = torch.where(x.abs() < 1, x, 0.0)  # where the difference below would lose all digits
    return torch.where(
        x.abs() < 1, torch.sinh(small) / torch.cosh(small), torch.where(x > 0, 2 / (1 + above) - 1, 1 - 2 / (1 + below))
    )


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Without PyTorch's threshold, beyond which bounds are said to be those of this function."""
    return torch.logaddexp(beta * x, torch.zeros_like(x)) / beta


def _reshaped(x: Tensor, shape: Any, *rest: Any) -> Tensor:
    return x.reshape(shape)


FORMULAS: dict[str, Callable[..., Any]] = {  # the first fail in batches, the last three round
    "view": _reshaped,
    "_unsafe_view": _reshaped,
    "_reshape_alias": _reshaped,
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "softplus": _softplus,
}


def _is_ref(x: Any) -> bool:
    return isinstance(x, Ref)


def jets(
    run: Callable[[Tensor], Tensor], Z: Tensor, orders: Iterable[int] = (0, 1, 2), *, backward: bool = False
) -> list[Tensor]:
    """Values and derivatives of some orders, at all points: shapes (points, N), (points, N, m), …

    `backward` is quicker for few values and high orders.
    """
    one_more = torch.func.jacrev if backward else torch.func.jacfwd

    def level(k: int) -> Callable[[Tensor], Tensor]:
        return run if k == 0 else one_more(level(k - 1))

    answer = []
    for k in orders:
        try:
            with quiet_batches():
                answer.append(torch.func.vmap(level(k))(Z))
        except (RuntimeError, NotImplementedError):  # an operation without a rule for batches or forward derivatives
            answer.append(torch.stack([_backward(run, z, k) for z in Z]))
    return [x.detach() for x in answer]


def _backward(run: Callable[[Tensor], Tensor], z: Tensor, order: int) -> Tensor:
    z = z.clone().requires_grad_()
    with torch.enable_grad():
        current = run(z)
        for _ in range(order):
            rows = []
            for entry in current.reshape(-1):
                row = None
                if entry.requires_grad:
                    row = torch.autograd.grad(entry, z, create_graph=True, allow_unused=True)[0]
                rows.append(torch.zeros_like(z) if row is None else row)
            current = torch.stack(rows).reshape(*current.shape, len(z))
    return current.detach()


class Judge:
    """Compares one program over one ball with samples."""

    def __init__(
        self,
        program: Program,
        centre: Tensor,
        lam: Tensor,
        radius: float,
        *,
        points: int = 6,
        seed: int = 0,
        skip: int = 2,
    ) -> None:
        self.program, self.radius, self.skip = program, radius, skip
        self.centre, self.lam = centre, lam
        self.d, self.n = centre.numel(), lam.numel()
        W_points = points_of(centre, radius, points, seed)
        self.Z = torch.cat([W_points, lam.to(F64).expand(points, -1)], 1)
        self.verdict = Verdict()
        self._jets = jets(every_value(program, self.d, F64), self.Z)
        finite = torch.stack([x.flatten(1).isfinite().all(1) for x in self._jets]).all(0)
        finite = finite & bool(finite[0])  # the centre has to be there; a point outside of the domain says nothing
        self.Z, self._jets = self.Z[finite], [x[finite] for x in self._jets]
        self._rough: list[Tensor] | None = None
        self._thirds: dict[torch.dtype, Tensor] = {}
        self._least = False

    def rounding(self, order: int, some: slice) -> Tensor:
        """How much the samples of some values round, entry by entry; with `_least`, at least."""
        least = UNITS * self._jets[order][:, some].abs()
        if self._least:
            return least
        if self._rough is None:
            self._rough = jets(every_value(self.program, self.d, F32), self.Z.to(F32))
        gap = (self._jets[order][:, some] - self._rough[order][:, some].to(F64)).abs()
        gap = torch.where(gap.isnan(), math.inf, gap)
        return CHANCE * 2.0**-29 * gap + least + 1e-300

    def judge(self, scalar: bool) -> Verdict:
        """Everything that is said, compared."""
        if not len(self.Z):
            return self.verdict
        if scalar:
            bounds = ScalarBounds(self.program, self.centre, self.lam, self.radius)
            self._values(bounds.over.enclosures)
            self._scalar(bounds)
        else:
            of_map = MapBounds(self.program, self.centre, self.lam, self.radius)
            self._values(of_map.over)
            self._map(of_map)
        return self.verdict

    def _slices(self, enclosures: Enclosures) -> Iterator[tuple[str, Value, slice]]:
        start = 0
        for index, operation in enumerate(self.program.operations):
            for item, shape in enumerate(operation.shapes):
                size = shape.numel()
                if operation.name == "log_sigmoid_forward" and item == 1:  # a buffer of PyTorch's
                    start += size
                    continue
                if index >= self.skip:  # values before that are not looked at
                    yield f"{index} {operation.name}", enclosures[Ref(index, item)], slice(start, start + size)
                start += size

    def _values(self, enclosures: Enclosures) -> None:
        for name, value, some in self._slices(enclosures):
            self._say(f"{name}: box", *self._outside(value, some))
            for slot, columns in self._columns():
                self._slope(name, value, some, slot, columns)
            for pair in PAIRS:
                self._bend(name, value, some, pair)

    def _columns(self) -> tuple[tuple[str, slice], ...]:
        return (W, slice(0, self.d)), (LAM, slice(self.d, self.d + self.n))

    def _outside(self, value: Value, some: slice) -> tuple[Tensor, Callable[[], Tensor]]:
        x = self._jets[0][:, some]
        lo, hi = value.box.lo.reshape(-1), value.box.hi.reshape(-1)
        excess = torch.maximum(lo - x, x - hi)
        at = torch.maximum(value.centre.lo.reshape(-1) - x[0], x[0] - value.centre.hi.reshape(-1))
        excess = torch.cat([excess, at[None]])
        return excess, lambda: torch.cat([self.rounding(0, some), self.rounding(0, some)[:1]])

    def _slope(self, name: str, value: Value, some: slice, slot: str, columns: slice) -> None:
        J = self._jets[1][:, some, columns]
        slope = value.slopes.get(slot)

        def off() -> Tensor:
            return self.rounding(1, some)[..., columns].norm(dim=2)

        if slope is None:
            self._say(f"{name}: {slot} enters", J.norm(dim=2), off)
            return
        gap = (J - slope.matrix).norm(dim=2)
        self._say(f"{name}: rows {slot}", gap - slope.rows.reshape(-1), off)
        self._say(f"{name}: slip {slot}", gap[:1] - slope.slip.reshape(-1), lambda: off()[:1])
        if value.rule is None:
            return
        whole, most = (J - slope.matrix).flatten(1).norm(dim=1), value.remainder(slot)
        if bool((whole > most).any()):  # at least the norm as a matrix, which takes longer
            whole = torch.linalg.matrix_norm(J - slope.matrix, 2)
        self._say(f"{name}: remainder {slot}", whole - most, lambda: off().norm(dim=1))

    def _second(self, some: slice, pair: Pair, of: Tensor) -> Tensor:
        place = dict(self._columns())
        return of[:, :, place[pair[0]], place[pair[1]]]

    def _bend(self, name: str, value: Value, some: slice, pair: Pair) -> None:
        H = self._second(some, pair, self._jets[2][:, some])

        def off() -> Tensor:
            return self._second(some, pair, self.rounding(2, some)).flatten(2).norm(dim=2)

        size = H.flatten(2).norm(dim=2)
        if pair in value.bends and bool((size > value.bends[pair].reshape(-1)).any()):
            size = torch.linalg.matrix_norm(H, 2)
        what = f"{pair[0]},{pair[1]}"
        bend = value.bend(pair)
        if pair not in value.bends or bend is None:
            self._say(f"{name}: bends {what}", size, off)
            return
        self._say(f"{name}: bends {what}", size - value.bends[pair].reshape(-1), off)
        rest, middle = bend.rest.reshape(-1).clone(), torch.zeros(H.shape[1:], dtype=F64)
        for term in bend.terms:
            M = term.matrix(value.shape).reshape(len(term.A), -1)
            sizes = term.A.flatten(1).norm(dim=1) * term.B.flatten(1).norm(dim=1)
            if term.A.shape[1] == 1:
                middle += torch.einsum("gi,g,ga,gb->iab", M, term.c.mid, term.A[:, 0], term.B[:, 0])
                rest += M.abs().T @ torch.nan_to_num(term.c.rad * sizes, math.inf)
            else:
                rest += M.abs().T @ (term.c.size * sizes)
        gap = (H - middle).flatten(2).norm(dim=2)
        if bool((gap > rest).any()):
            gap = torch.linalg.matrix_norm(H - middle, 2)
        self._say(f"{name}: terms {what}", gap - rest, off)
        whole, most = H.flatten(1).norm(dim=1), bend.norm(value.shape)
        beyond = whole > most
        if bool(beyond.any()):
            whole[beyond] = _norms(H[beyond])
        self._say(f"{name}: norm of bend {what}", whole - most, lambda: off().norm(dim=1))

    def _say(self, what: str, excess: Tensor, rounding: Callable[[], Tensor]) -> None:
        """Where a statement is exceeded by more than rounding, it is false."""
        if bool((excess <= 0).all()) or not excess.numel():
            return
        for self._least in (True, False):  # float32 only where it is needed
            if not bool((excess - rounding() > 0).any()):
                self._least = False
                return
        self.verdict.false.append(f"{what}: exceeded by {float(excess.max()):.3g}")

    def _third_of(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._thirds:
            run, some = every_value(self.program, self.d, dtype), self._output
            self._thirds[dtype] = jets(lambda z: run(z)[some], self.Z.to(dtype), (3,), backward=True)[0].to(F64)
        return self._thirds[dtype]

    @property
    def _output(self) -> slice:
        start = 0
        for index, operation in enumerate(self.program.operations):
            for item, shape in enumerate(operation.shapes):
                if Ref(index, item) == self.program.output:
                    return slice(start, start + shape.numel())
                start += shape.numel()
        raise AssertionError

    def _scalar(self, bounds: ScalarBounds) -> None:
        d, some = self.d, self._output
        g, H = self._jets[1][:, some][:, 0], self._jets[2][:, some][:, 0]
        T = torch.nan_to_num(self._third_of(F64)[:, 0], 0.0, 0.0, 0.0)

        def second() -> Tensor:
            return self.rounding(2, some)[:, 0].flatten(1).norm(dim=1)

        def third() -> Tensor:
            if self._least:
                return UNITS * T.flatten(1).norm(dim=1)
            gap = (T - self._third_of(F32)[:, 0]).abs()
            return (
                (CHANCE * 2.0**-29 * torch.where(gap.isnan(), math.inf, gap) + UNITS * T.abs()).flatten(1).norm(dim=1)
            )

        eigenvalues = torch.linalg.eigvalsh(H[:, :d, :d])
        self._say("smallest", bounds.smallest - eigenvalues[:, 0], second)
        self._say("largest", eigenvalues[:, -1] - bounds.largest, second)
        self._above("hessian", bounds.hessian, eigenvalues.abs().amax(1), second)
        self._above("gradient", bounds.gradient, g[:, :d].norm(dim=1), lambda: self.rounding(1, some)[:, 0].norm(dim=1))
        self._above("cross", bounds.cross, torch.linalg.matrix_norm(H[:, :d, d:], 2), second)
        self._above("third", bounds.third, _norms(T[:, :d, :d, :d]), third)
        self._above("third_cross", bounds.third_cross, _norms(T[:, :d, :d, d:]), third)
        parts = bounds.over.curvature((W, W))
        lo = sum((part.lo for part in parts), torch.zeros(d, d, dtype=F64))
        up = sum((part.up for part in parts), torch.zeros(d, d, dtype=F64))
        slack = math.fsum(part.slack for part in parts)
        if bool(lo.isfinite().all() and up.isfinite().all()):
            for name, gap in (("lo", H[:, :d, :d] - lo), ("up", up - H[:, :d, :d])):
                least = torch.linalg.eigvalsh((gap + gap.mT) / 2)[:, 0]
                self._say(f"Loewner {name}", -least - slack, second)

    def _map(self, bounds: MapBounds) -> None:
        d, some = self.d, self._output
        J, H = self._jets[1][:, some], self._jets[2][:, some]

        def first() -> Tensor:
            return self.rounding(1, some).flatten(1).norm(dim=1)

        def second() -> Tensor:
            return self.rounding(2, some).flatten(1).norm(dim=1)

        self._above("slope", bounds.slope, torch.linalg.matrix_norm(J[..., :d], 2), first)
        self._above("lam_slope", bounds.lam_slope, torch.linalg.matrix_norm(J[..., d:], 2), first)
        self._above("bend", bounds.bend, _norms(H[..., :d, :d]), second)
        self._above("lam_bend", bounds.lam_bend, _norms(H[..., :d, d:]), second)
        if len(self.Z) < 2 or self.centre.dtype != F64:  # another point is a point of float64
            return
        v = self.Z[1, :d]  # how far derivatives move from there; the centre would show less
        at = MapBounds(self.program, v, self.lam, 0.0)
        apart = (self.Z[:, :d] - v).norm(dim=1)
        others = apart > 0

        def moved() -> Tensor:
            return ((first() + first()[1]) / apart)[others]

        for what, pair, columns in (("calm", (W, W), slice(0, d)), ("lam_calm", (W, LAM), slice(d, None))):
            move = torch.linalg.matrix_norm(J[..., columns] - J[1, :, columns], 2) / apart
            self._above(what, bounds.calm(at, 0.0, pair), move[others], moved)

    def _above(self, what: str, proved: float, sampled: Tensor, rounding: Callable[[], Tensor]) -> None:
        self._say(what, sampled - proved, rounding)
        best = float(sampled.max())
        if best > 1e-9:
            self.verdict.ratios[what] = proved / best


def _norms(T: Tensor, steps: int = 8) -> Tensor:
    """At most the norm of each of several trilinear forms: the best of a few alternating ascents."""
    best = torch.zeros(len(T), dtype=F64)
    if not T.numel() or not bool(T.any()):
        return best
    generator = torch.Generator().manual_seed(T[0].numel())
    starts = [
        torch.linalg.svd(T.flatten(1, 2), full_matrices=False).Vh[:, 0],
        torch.randn(T.shape[3], generator=generator, dtype=F64).expand(len(T), -1),
    ]
    rows = T.flatten(2)
    for z in starts:
        z = z / z.norm(dim=1, keepdim=True)
        for _ in range(steps):
            U, S, Vh = torch.linalg.svd((T @ z[:, None, :, None])[..., 0], full_matrices=False)
            z = (Vh[:, :1] @ (U.mT[:, :1] @ rows).reshape(-1, *T.shape[2:]))[:, 0]
            length = z.norm(dim=1)
            best = torch.maximum(best, torch.maximum(S[:, 0], length))
            if not bool(length.any()):
                break
            z = torch.where(length[:, None] > 0, z / length[:, None], 0.0)
    return best
