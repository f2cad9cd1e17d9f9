"""A test that a function returns the same value in a plain call, under differentiation, and in a batch.

The library runs the user's functions in all these ways and assumes that they are one function. This fails for code that
asks how it is run (`requires_grad`), or that catches an error which is raised only in a batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.derivatives import Function, Linearisation, rows
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.user_lines import current_line

BESIDE = 0.1  # relative distance of the second point
SUMMATION_ROUNDINGS = 2**12  # allowed roundings of a value: two orders of summation differ by a few for each term
SHAKES = 4  # number of runs near a point that measure the rounding
ROUNDINGS = 64.0  # differences up to this many times the measured rounding are allowed
REMEDY = "write it without `try`, requires_grad and is_grad_enabled()"


class _Errors(TorchFunctionMode):
    """Records the first error that a PyTorch function raises while this mode is active."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            line = current_line()
            self.first = self.first or getattr(func, "__name__", str(func)) + (f", {line}" if line else "")
            raise


class _Roundings(TorchFunctionMode):
    """Multiplies the results of PyTorch functions by 1 + ε·noise, with the ε of their dtype, while it is active."""

    def __init__(self, draw: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or result.dtype not in _REAL:
            return result
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if result._is_view() or any(x.data_ptr() == result.data_ptr() for x in inputs):
            return result  # nothing was computed, or it was written in place
        return result * (1 + torch.finfo(result.dtype).eps * self.draw(result))


_REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class _RowResults:
    """The values at rows w, and the derivatives of their products with c: by w, and by λ summed over the rows."""

    value: Tensor
    by_w: Tensor
    by_lam: Tensor

    @property
    def parts(self) -> tuple[tuple[str, Tensor], ...]:
        return ("value", self.value), ("derivative by params", self.by_w), ("derivative by hparams", self.by_lam)


def refuse_unless_same(problem: Problem, w: Tensor) -> None:
    """Compare each function of a problem in a plain call and in a batch, at w and at a point near it.

    Functions that are random, or that cannot be differentiated or run in a batch, are skipped. They are refused later,
    if it matters.

    Parameters
    ----------
    problem : Problem
        The problem, whose Φ and E are compared at its λ.
    w : Tensor
        The point at which they are compared.

    Raises
    ------
    InputError
        If values differ by more than rounding, or if a function catches an error that only a batch raises.
    """
    generator = torch.Generator(device="cpu").manual_seed(23)

    def draw(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)

    points = torch.stack([w, w + BESIDE * (1 + w.abs().mean()) * draw(w)])
    of_map = "fp_map" if problem.inner_at is None else "the gradient step on inner_loss"
    for name, function in ((of_map, problem.phi_at), ("outer_loss", problem.outer_at)):
        _compare(problem, name, function, points, draw)


def _compare(problem: Problem, name: str, function: Function, points: Tensor, draw: Callable[[Tensor], Tensor]) -> None:
    plain_errors = _Errors()

    def values() -> Tensor:
        return torch.stack([function(w, problem.prepare(problem.lam)) for w in points])

    with plain_errors:
        plain = values()
        if not _same(plain, values()):
            return  # the function is random and is refused later
        c = draw(plain)
        try:
            expected = _plain_answer(problem, function, points, problem.lam, c)
        except (RuntimeError, NotImplementedError):  # such as no second derivative; refused if needed
            return
    if not _same(plain, expected.value) and not _same(plain, values()):
        return  # a minibatch that changes every few calls is refused later
    _refuse_gap(problem, name, "while it is differentiated", "value", plain, expected.value, None)
    for _ in range(2):  # `batchable` learns from the first call, and may itself catch an error in it
        try:
            with warnings.catch_warnings(), _Errors() as in_batch:
                warnings.simplefilter("ignore")  # warnings about slow batches
                batch = _batched_answer(problem, function, points, c)
        except Exception:  # refused later if a batch is needed
            return
        if not in_batch.first:
            break
    if in_batch.first and not plain_errors.first:
        raise InputError(
            f"{problem.name}: {name} catches an error ({in_batch.first}) that is raised in a batch only, where it "
            f"may compute something else than in a plain call; {REMEDY}"
        )
    rounding_shift = _RoundingShift(problem, function, points, c, draw)
    minuends = {"value": points, "derivative by params": c}  # in w − α∇₁ℓ, the minuend may almost cancel
    for (what, first), (_, second) in zip(expected.parts, batch.parts, strict=True):
        _refuse_gap(problem, name, "in a batch", what, first, second, rounding_shift, minuends.get(what))


def _same(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=0, atol=0, equal_nan=True)


@dataclass(frozen=True, eq=False)
class _RoundingShift:
    """Measures rounding: how much results change if w, λ and all intermediate results change by one rounding."""

    problem: Problem
    function: Function
    points: Tensor
    c: Tensor
    draw: Callable[[Tensor], Tensor]

    def spread(self, what: str, value: Tensor) -> Tensor:
        eps = torch.finfo(value.dtype).eps
        most = torch.zeros_like(value)
        for _ in range(SHAKES):
            points, lam = (x * (1 + eps * self.draw(x)) for x in (self.points, self.problem.lam))
            with _Roundings(self.draw):
                answer = dict(_plain_answer(self.problem, self.function, points, lam, self.c).parts)
            most = torch.maximum(most, (answer[what] - value).abs())
        return most.max()


def _refuse_gap(
    problem: Problem, name: str, where: str, what: str, first: Tensor, second: Tensor, shaken: _RoundingShift | None,
    minuend: Tensor | None = None,
) -> None:  # fmt: skip
    if not bool(first.isfinite().all()):
        return
    rounding = SUMMATION_ROUNDINGS * torch.finfo(first.dtype).eps * float(first.abs().max())
    if minuend is not None:
        rounding += ROUNDINGS * torch.finfo(first.dtype).eps * float(minuend.abs().max())
    gap = float((first - second).abs().max())
    if gap <= rounding or (shaken is not None and gap <= rounding + ROUNDINGS * float(shaken.spread(what, first))):
        return
    i = int((first - second).abs().nan_to_num(float("inf")).argmax())
    raise InputError(
        f"{problem.name}: a {what} of {name} is {float(first.reshape(-1)[i]):.6g} in a plain call and "
        f"{float(second.reshape(-1)[i]):.6g} {where}; {REMEDY}"
    )


def _plain_answer(problem: Problem, function: Function, points: Tensor, lam: Tensor, c: Tensor) -> _RowResults:
    prepared = Prepared(problem, lam)
    linearised = [Linearisation(function, w, prepared.ready, prepared.leaves) for w in points]
    by_w = torch.stack([one.d1_T(v) for one, v in zip(linearised, c, strict=True)])
    by_lam = [prepared.pull_back(one.d2_T(v)) for one, v in zip(linearised, c, strict=True)]
    return _RowResults(torch.stack([one.y.detach() for one in linearised]), by_w, sum(by_lam[1:], by_lam[0]))


def _batched_answer(problem: Problem, function: Function, points: Tensor, c: Tensor) -> _RowResults:
    prepared = Prepared(problem, problem.lam[None])
    linearised = Linearisation(rows(function), points[None], prepared.ready, prepared.leaves)
    value, by_w = linearised.y.detach()[0], linearised.d1_T(c[None])[0]
    return _RowResults(value, by_w, prepared.pull_back(linearised.d2_T(c[None]))[0])
