"""What `check` found: errors, bounds, verdicts, proof chains and constants, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from boundcheck.compare.verdict import Verdict, worst
from boundcheck.constants import Constants, Side
from boundcheck.errors import InputError, UnknownNameError


@dataclass(frozen=True, eq=False)
class Trace:
    """A proof on the problem: the value after each link at some t, and by how much each link is loose."""

    links: tuple[str, ...]
    because: tuple[str, ...]
    uses: tuple[tuple[str, ...], ...]  # the constants that a link brings in
    t: np.ndarray
    values: np.ndarray  # links × t
    slacks: np.ndarray  # links × t, 1 in the first row; their product is bound/error
    broken: np.ndarray  # links × t: does the link fall by more than rounding?

    @property
    def first_broken(self) -> str | None:
        """The first link that falls, at the first t where one does."""
        at = self.broken.any(axis=0)
        return self.links[int(self.broken[:, at.argmax()].argmax())] if at.any() else None


@dataclass(frozen=True)
class Rate:
    """The error shrinks by `value` a step for first ≤ t ≤ last, where its logarithm is a line."""

    value: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class BoundCurve:
    """One bound for one method: its values (NaN where the theorem says nothing), and how the error relates to them."""

    name: str
    title: str
    reference: str
    ball: str  # on which its constants were taken: "paper" or "local"
    values: np.ndarray  # samples × t
    side: Side
    delta: float
    weakest: tuple[str, ...]
    verdict: Verdict
    reason: str  # why it is not applicable, inconclusive, violated; or what the verdict rests on
    tightness: np.ndarray  # bound/error, samples × t; NaN where the error is at the floor
    rate_predicted: float | None
    asks: Mapping[float, int | None]  # the t that it guarantees for an accuracy
    trace: Trace | None

    @property
    def best(self) -> float | None:
        """The smallest bound/error; None where every error is at the floor."""
        return None if np.isnan(self.tightness).all() else float(np.nanmin(self.tightness))

    @property
    def worst(self) -> float | None:
        return None if np.isnan(self.tightness).all() else float(np.nanmax(self.tightness))


@dataclass(frozen=True, eq=False)
class Curve:
    """One method: its error at every t for each λ, the floor below which that is rounding, and the bounds on it."""

    method: str
    t: np.ndarray
    k: np.ndarray | None  # None for ITD
    errors: np.ndarray  # samples × t
    floor: np.ndarray  # samples × t
    rate: Rate | None  # measured on the first sample
    needs: Mapping[float, int | None]  # the t from which on the error of every sample is below an accuracy
    bounds: Mapping[str, BoundCurve]

    @property
    def applicable(self) -> dict[str, BoundCurve]:
        return {name: bound for name, bound in self.bounds.items() if bound.verdict is not Verdict.NOT_APPLICABLE}


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that `check` found on one problem."""

    problem: Mapping[str, object]  # name, dim, hdim, seed, dtype, device, dynamics
    constants: Mapping[str, Constants]  # of the first λ, by ball
    curves: Mapping[str, Curve]
    reference_error: float | None  # a bound on the error of the reference itself
    reference_side: Side
    floor_how: str
    seconds: float

    @property
    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """By method and bound."""
        return {(m, b.name): b.verdict for m, curve in self.curves.items() for b in curve.bounds.values()}

    @property
    def verdict(self) -> Verdict:
        """The worst of those that apply."""
        applied = [v for v in self.verdicts.values() if v is not Verdict.NOT_APPLICABLE]
        return worst(applied)

    def curve(self, method: str) -> Curve:
        try:
            return self.curves[method]
        except KeyError:
            raise UnknownNameError.among("curve", method, self.curves) from None

    def trace(self, method: str, bound: str | None = None) -> Trace:
        """The proof of a bound on this problem; of the bound named like the method unless another is named."""
        curve = self.curve(method)
        name = bound or method.partition(":")[0]
        if name not in curve.bounds:
            raise UnknownNameError.among(f"bound on {method}", name, curve.bounds)
        found = curve.bounds[name]
        if found.trace is None:
            raise InputError(f"{name} has no trace on {method}: {found.reason or 'its proof is not encoded'}")
        return found.trace
