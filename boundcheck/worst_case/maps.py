"""Which terms of a bound can be attained together: worst instances with some of the parts; and maps over q, t and k.

λ has an effect through ν₂ or L_Φ, and ∇₁E differs from 0 through η₁ or L_E. Two terms that can be attained one by one
may not be attained together; the ratio for both shows the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import isnan
from typing import Any

from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.progress import Progress
from boundcheck.worst_case import confirm
from boundcheck.worst_case.family import Family
from boundcheck.worst_case.search import FULL, QUICK, search
from boundcheck.worst_case.target import PARTS, Target, checked_parts, target
from boundcheck.worst_case.terms import BoundTerm
from boundcheck.worst_case.worst import step_counts

SUBSETS = (  # the parts that a term needs: one for ∂₂Φ, one for ∇₁E, and then the constants of the terms
    ("eta_2",),
    ("L_Phi", "L_E"),
    ("nu_2", "L_E"),
    ("L_Phi", "eta_1"),
    ("L_Phi", "L_E", "nu_1"),
    ("L_Phi", "L_E", "nu_2"),
    ("L_Phi", "L_E", "eta_1"),
    ("nu_2", "eta_1"),
    ("L_Phi", "L_E", "nu_1", "nu_2"),
    ("L_Phi", "L_E", "nu_2", "eta_1"),
    PARTS,
)
LEAST = 0.1  # the least share of the bound that each required term must have


@dataclass(frozen=True)
class Together:
    """The largest ratio found with these parts, if each of their terms has at least the share `least` of the bound."""

    parts: tuple[str, ...]
    least: float
    ratio: float
    terms: tuple[BoundTerm, ...]


@dataclass(frozen=True)
class MapCell:
    """One cell of a map: the largest ratio found for this q, t and k."""

    q: float
    t: int
    k: int | None
    ratio: float
    terms: tuple[BoundTerm, ...]


@dataclass(frozen=True)
class Map:
    """The largest ratios of one bound over q, t and k."""

    bound: str
    qs: tuple[float, ...]
    ts: tuple[int, ...]
    ks: tuple[int | None, ...]
    cells: tuple[MapCell, ...]

    def ratio(self, q: float, t: int, k: int | None) -> float:
        return next(cell.ratio for cell in self.cells if (cell.q, cell.t, cell.k) == (q, t, k))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def markdown(self) -> str:
        """Return a table with a row for each q and k, and a column for each t."""
        lines = ["| q | k | " + " | ".join(f"t = {t}" for t in self.ts) + " |", "|---" * (2 + len(self.ts)) + "|"]
        for q, k in product(self.qs, self.ks):
            ratios = [self.ratio(q, t, k) for t in self.ts]
            values = " | ".join("–" if isnan(ratio) else f"{ratio:.4f}" for ratio in ratios)
            lines.append(f"| {q:g} | {'–' if k is None else k} | {values} |")
        return "\n".join(lines) + "\n"


def together(
    bound: str, q: float = 0.9, t: int = 20, k: int = 20, dim: int = 1, seed: int = 0, *,
    least: float = LEAST, subsets: Sequence[tuple[str, ...]] = SUBSETS, saturating: bool = True,
    quick: bool = False, progress: Progress | None = None,
) -> tuple[Together, ...]:  # fmt: skip
    """Return for each subset of the parts the largest ratio with all terms of its parts present in the bound.

    A term is present if its share of the bound is at least `least`. With `least = 0`, terms may be arbitrarily small,
    so every subset that contains an attained term is attained.
    """
    if not 0 <= least < 1:
        raise InputError(f"least = {least} is not a share; give 0 <= least < 1")
    attacked = target(bound)
    steps, solves = step_counts(attacked, q, t, k, dim)
    rows = []
    for number, subset in enumerate(subsets):
        if progress:
            progress("terms", number, len(subsets))
        if set(subset) & attacked.without and subset != PARTS:
            continue
        family = Family(attacked, dim, q, checked_parts(subset, attacked), saturating, least)
        search_result = search(family, steps, solves, seed, QUICK if quick else FULL)
        best = confirm.of_row(family, search_result.raw, steps, solves)
        rows.append(Together(subset, least, float(best.ratio), best.terms))
    return tuple(rows)


def map_of(
    bound: str, qs: Sequence[float] = (0.5, 0.9, 0.99), ts: Sequence[int] = (1, 2, 5, 20, 50),
    ks: Sequence[int] = (1, 5, 20), dim: int = 1, seed: int = 0, *, only: Sequence[str] | None = None,
    saturating: bool = True, quick: bool = False, least: float = 0.0, progress: Progress | None = None,
) -> Map:  # fmt: skip
    """Return the largest ratio at each q, t and k. Each search starts from the previous result and at random."""
    attacked: Target = target(bound)
    parts = checked_parts(None if only is None else tuple(only), attacked)
    places = list(product(qs, ks if attacked.takes_k else (None,), ts))
    cells: list[MapCell] = []
    warm: Tensor | None = None
    for number, (q, k, t) in enumerate(places):
        if progress:
            progress(f"{bound} q = {q:g}, t = {t}", number, len(places))
        steps, solves = step_counts(attacked, q, t, 20 if k is None else k, dim)
        family = Family(attacked, dim, q, parts, saturating, least)
        search_result = search(family, steps, solves, seed, QUICK if quick else FULL, warm=warm)
        warm = search_result.raw
        best = confirm.of_row(family, search_result.raw, steps, solves)
        cells.append(MapCell(q, t, k, float(best.ratio), best.terms))
    return Map(bound, tuple(qs), tuple(ts), tuple(ks) if attacked.takes_k else (None,), tuple(cells))
