"""Cases of the adversary by hand, and what of an answer about them is false."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from adversary import judge
from adversary.case import Case
from adversary.exact import mp

import boundcheck as bc

D, SINGLE = torch.float64, torch.float32
ALL = ("itd", "aid-fp", "aid-cg")


def given(
    phi: Any, outer: Any, w0: Sequence[float], lam: Sequence[float], exact_phi: Any, exact_outer: Any,
    dtype: torch.dtype = D, **more: Any,
) -> Case:  # fmt: skip
    """A case by hand: Φ and E in torch, then in mpmath."""
    w, v = (torch.tensor(list(x), dtype=dtype) for x in (w0, lam))
    return Case(0, ("item",), "item", phi, outer, w, v, list(w0), list(lam), exact_phi, exact_outer, dtype, **more)


def affine(outer: Any, exact_outer: Any, w0: float = 0.0, lam: float = 0.5, **more: Any) -> Case:
    """Φ = w/2 + λ, so w* = 2λ."""
    exact = lambda w, v: [x / 2 + v[0] for x in w]  # noqa: E731
    return given(lambda w, v: 0.5 * w + v, outer, [w0], [lam], exact, exact_outer, unique=True, **more)


def half_square(w: Any, v: Any) -> Any:
    return (w**2).sum() / 2


def exact_half_square(w: Any, v: Any) -> Any:
    return mp.fsum(x * x for x in w) / 2


def lies_of(answer: Callable[[], Any], judged: Callable[[Any], Any]) -> list[str]:
    """What is false in an answer; nothing where it is refused."""
    try:
        result = answer()
    except bc.BoundcheckError:
        return []
    return [str(lie) for lie in judged(result)]


def check(case: Case, methods: Sequence[str] = ALL, t: int = 10, **more: Any) -> list[str]:
    return lies_of(
        lambda: bc.check(case.problem(), methods, t=t, budget=30, **more), lambda found: judge.report(case, found)
    )


def plan(case: Case, eps: float, methods: Sequence[str] = ALL) -> list[str]:
    return lies_of(
        lambda: bc.plan(case.problem(), eps, methods=methods, budget=30), lambda found: judge.plan(case, found)
    )


def enclose(case: Case, g: Sequence[float] | None = None) -> list[str]:
    def vector() -> torch.Tensor:
        if g is not None:
            return torch.tensor(list(g), dtype=case.dtype)
        return bc.hypergradient(case.problem(), "exact").value

    def judged(both: Any) -> Any:
        return judge.enclosure(case, both[0].tolist(), both[1])

    return lies_of(lambda: (x := vector(), bc.enclose(case.problem(), x, budget=30)), judged)
