"""The fault `scale`: a wrong factor on g, or on its implicit part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from boundcheck.trust.diagnosis import Suspect, double
from boundcheck.trust.evidence import Evidence

SHARE = 0.01  # a factor may leave this share of the error; errors of slow iterations are nearly parallel to ∇f too
FITTED_SHARE = 1e-4  # a factor that was fitted to g may leave this share
CLOSE_TO_ONE = 0.1  # a factor c with a smaller |log c| is not a typical mistake
WHOLE = 1e-3  # a factor this near to a whole number counts as the whole number
LARGEST_WHOLE = 10_000
BOTH_OR_NONE = "The step α goes with both or none: ∂₁₁ℓ v = ∇₁E with −∂₂₁ℓ, or (I − ∂₁Φᵀ)v = ∇₁E with ∂₂Φ."


@dataclass(frozen=True)
class FittedFactor:
    """A factor with its name; `free` is 1 if it was fitted to g, and it was chosen from `tries` factors."""

    value: float
    name: str = ""
    step: bool = False
    free: int = 0
    tries: int = 1
    share: float = SHARE

    @property
    def words(self) -> str:
        return f"{self.value:.6g} times what it should be{self.name}"


def named(e: Evidence) -> Iterator[Suspect]:
    """Suspects with the factors 2 and α (the step size), and their inverses."""
    factors = [FittedFactor(2.0), FittedFactor(0.5)]
    if e.alpha is not None and abs(e.alpha - 1) > WHOLE:
        for value, name in ((e.alpha, "the step size α"), (1 / e.alpha, "one over the step size α")):
            factors.append(FittedFactor(value, f" ({value:.6g} is {name})", step=True))
    for factor in factors:
        yield _of_g(e, factor)
    if e.two_parts:
        for factor in factors:
            yield _of_implicit(e, factor)


def fitted(e: Evidence) -> Iterator[Suspect]:
    """Suspects with the factor that fits best."""
    for factor in _best(double(e.g), double(e.base.value)):
        yield _of_g(e, factor)
    if e.two_parts:
        for factor in _best(double(e.g) - double(e.base.direct), double(e.base.implicit)):
            yield _of_implicit(e, factor)


def _best(x: Tensor, y: Tensor) -> Iterator[FittedFactor]:
    """The factor c that minimises ‖x − cy‖: rounded to a whole number (or 1/c) if it is near one, and unrounded."""
    square = float(y @ y)
    if not square > 0:
        return
    value = float(x @ y) / square
    if value > 0:
        for power in (1, -1):
            whole = value if power == 1 else 1 / value
            near = round(whole) if whole < LARGEST_WHOLE else 0
            if near > 2 and abs(whole - near) <= WHOLE * near:
                yield FittedFactor(
                    float(near) ** power, ", as if a sum and a mean were mixed up", tries=2 * near, share=FITTED_SHARE
                )
    if value != 0 and abs(math.log(abs(value))) > CLOSE_TO_ONE:
        yield FittedFactor(value, free=1, share=FITTED_SHARE)


def _of_g(e: Evidence, factor: FittedFactor) -> Suspect:
    remedy = f"Divide it by {factor.value:.6g}."
    return _suspect(e, factor, factor.value * e.base.value, f"it is {factor.words}", remedy)


def _of_implicit(e: Evidence, factor: FittedFactor) -> Suspect:
    h = e.base.direct + factor.value * e.base.implicit
    remedy = f"Divide the implicit part by {factor.value:.6g}." + (f" {BOTH_OR_NONE}" if factor.step else "")
    return _suspect(e, factor, h, f"its implicit part ∂₂Φᵀv is {factor.words}", remedy)


def _suspect(e: Evidence, factor: FittedFactor, h: Tensor, cause: str, remedy: str) -> Suspect:
    return Suspect(
        "scale", e.off(h), cause, remedy, free=factor.free, tries=factor.tries, share=factor.share
    )  # fmt: skip
