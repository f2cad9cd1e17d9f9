"""`worst`: search for the instance with the largest error/bound; the result can be shown, saved and checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from boundcheck import __version__
from boundcheck.errors import InputError
from boundcheck.json_numbers import SCHEMA
from boundcheck.methods import count
from boundcheck.progress import Progress
from boundcheck.worst_case import confirm as exact
from boundcheck.worst_case import worst_card
from boundcheck.worst_case.confirm import Exact
from boundcheck.worst_case.family import Family
from boundcheck.worst_case.search import FULL, QUICK, SearchEffort, SearchResult, search
from boundcheck.worst_case.target import Target, checked_parts, target

LARGEST_DIM, LONGEST = 6, 2000


class StepCounts(NamedTuple):
    """t, and k if the method has one."""

    t: int
    k: int


@dataclass(frozen=True, eq=False)
class Worst:
    """The worst problem that was found for a bound at t and k.

    Attributes
    ----------
    found : SearchResult
        The instance, and its ratio in double precision.
    t : int
        The lower-level steps.
    k : int or None
        The steps of the linear solver; None if the bound has no k.
    seed : int
        The seed of the search.
    by_dim : dict from int to float
        The best ratio in each dimension that was searched.
    starts : int
        The number of random starts.
    evaluations : int
        The number of evaluated instances.
    seconds : float
        The time of the search.
    """

    found: SearchResult
    t: int
    k: int | None
    seed: int
    by_dim: dict[int, float]
    starts: int
    evaluations: int
    seconds: float

    @property
    def target(self) -> Target:
        """The inequality for which the search ran."""
        return self.found.family.target

    @property
    def bound(self) -> str:
        """The name of the bound, or of the claim."""
        return self.target.name

    @property
    def dim(self) -> int:
        """The dimension d of the instance."""
        return self.found.family.d

    @cached_property
    def exact(self) -> Exact:
        """Error and bound of the instance in 50 digits, or in 200 digits if it seems to refute the bound."""
        return exact.of_row(self.found.family, self.found.raw, self.t, self.steps)

    @property
    def steps(self) -> int:
        """k, or t if the bound has no k."""
        return self.t if self.k is None else self.k

    @property
    def ratio(self) -> float:
        """The ratio error/bound, computed in 50 digits."""
        return float(self.exact.ratio)

    @property
    def refuted(self) -> bool:
        """Whether the ratio is above 1 in 50 digits."""
        return self.exact.refutes

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the instance was allowed to have."""
        return tuple(sorted(self.found.family.parts))

    def __repr__(self) -> str:
        k = "" if self.k is None else f", k={self.k}"
        q = self.found.family.q
        return f"Worst({self.bound}, q={q:g}, t={self.t}{k}, d={self.dim}, error/bound ≈ {self.found.ratio:.6g})"

    def __str__(self) -> str:
        return worst_card.card(self).text()

    def _repr_html_(self) -> str:
        return worst_card.card(self).html()

    def numbers(self) -> dict[str, list[float]]:
        """Return all numbers of the instance.

        Returns
        -------
        dict from str to list of float
            The numbers by the part of the instance that they describe.
        """
        instance = self.found.family.instance(self.found.raw).row(0)
        return {name: [float(x) for x in array[0]] for name, array in instance.numbers.items() if array.shape[1]}

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data, as the command prints it with ``--json``.

        Returns
        -------
        dict
            The ratio, the constants, the terms and the instance.
        """
        return {
            "schema": SCHEMA,
            "version": __version__,
            "bound": self.bound,
            "claim": self.target.claim or None,
            "q": self.found.family.q,
            "t": self.t,
            "k": self.k,
            "dim": self.dim,
            "only": list(self.parts),
            "saturating": self.found.family.saturating,
            "seed": self.seed,
            "ratio": self.ratio,
            "refuted": self.refuted,
            "exact": {name: self.exact.digits(name) for name in ("ratio", "error", "bound")},
            "double": self.found.ratio,
            "constants": self.exact.constants,
            "terms": [asdict(term) for term in self.exact.terms],
            "by_dim": {str(d): ratio for d, ratio in self.by_dim.items()},
            "instance": self.numbers(),
            "starts": self.starts,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "interrupted": self.found.interrupted,
        }


def worst(
    bound: str,
    q: float = 0.9,
    t: int = 20,
    k: int | None = None,
    dim: int = 2,
    seed: int = 0,
    *,
    only: Sequence[str] | None = None,
    saturating: bool = True,
    quick: bool = False,
    effort: SearchEffort | None = None,
    progress: Progress | None = None,
) -> Worst:
    """Search for the problem on which the error comes closest to a bound, or exceeds it.

    The search maximises error/bound over bilevel problems of dimensions 1 and `dim` with contraction constant q.
    If you interrupt it, it returns the best problem found so far.

    Parameters
    ----------
    bound : str
        A name from the catalogue, or one of the false claims "appB-aid" and "heavy-ball-2D".
    q : float
        The contraction constant, 0 < q < 1; 0.9 by default.
    t : int
        The lower-level steps, at most 2000; 20 by default.
    k : int, optional
        The steps of the linear solver, at most 2000; 20 by default. Only for bounds with a k.
    dim : int
        The dimension of w, from 1 to 6; 2 by default.
    seed : int
        The seed of the search; 0 by default.
    only : sequence of str, optional
        The parts that a problem may have: "nu_1", "nu_2", "eta_1", "eta_2", and "L_Phi" and "L_E" for the values of
        ∂₂Φ and ∇₁E at 0; all of them by default.
    saturating : bool
        Whether Φ and E may saturate; True by default. If False, Φ is bilinear and E quadratic.
    quick : bool
        Whether to search with fewer random starts; False by default.
    effort : SearchEffort, optional
        The effort of the search, in place of `quick`.
    progress : callable (what, done, of) -> None, optional
        Called with a description, the amount that is done, and the total amount.

    Returns
    -------
    Worst
        `.ratio` is error/bound in 50 digits, and `.refuted` whether it is above 1.

    Raises
    ------
    UnknownNameError
        If there is no such bound, or no such part of an instance.
    InputError
        If an argument cannot be used, or `k` is given for a bound without one.
    AssumptionError
        If the bound cannot be searched: it uses a quantity that the searched problems do not have.

    Examples
    --------
    >>> import boundcheck as bc
    >>> result = bc.worst("itd-local", q=0.5, t=2, dim=1, quick=True)
    >>> round(result.ratio, 6), result.refuted
    (1.0, False)
    """
    start = time.perf_counter()
    attacked = target(bound)
    if k is not None and not attacked.takes_k:
        raise InputError(f"k = {k} was given, but {bound} does not depend on k; leave it out")
    steps, solves = step_counts(attacked, q, t, 20 if k is None else k, dim)
    parts = checked_parts(None if only is None else tuple(only), attacked)
    effort = effort or (QUICK if quick else FULL)
    searches: list[SearchResult] = []
    for d in sorted({1, dim}):
        family = Family(attacked, d, float(q), parts, saturating)
        searches.append(search(family, steps, solves, seed, effort, _progress_in(progress, d)))
        if searches[-1].interrupted:
            break
    # compare in 50 digits: if κ or a ramp is extreme, the ratio in doubles may be too large
    ratios = [
        float(exact.of_row(search_result.family, search_result.raw, steps, solves).ratio) for search_result in searches
    ]
    best = searches[ratios.index(max(ratios))]
    return Worst(
        best,
        steps,
        solves if attacked.takes_k else None,
        seed,
        {search_result.family.d: ratio for search_result, ratio in zip(searches, ratios, strict=True)},
        sum(search_result.starts for search_result in searches),
        sum(search_result.evaluations for search_result in searches),
        time.perf_counter() - start,
    )


def _progress_in(progress: Progress | None, d: int) -> Progress | None:
    return None if progress is None else lambda what, done, of: progress(f"d = {d}: {what}", done, of)


def step_counts(attacked: Target, q: Any, t: Any, k: Any, dim: Any) -> StepCounts:
    """Return t and k, or raise InputError if an argument cannot be used."""
    steps, solves = count(t, "t"), count(k, "k")
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 < q < 1:
        raise InputError(f"q must be between 0 and 1 (got {q})")
    if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= LARGEST_DIM:
        raise InputError(f"dim must be from 1 to {LARGEST_DIM} (got {dim})")
    if steps < attacked.bound.t_min:
        raise InputError(f"t must be at least {attacked.bound.t_min} for {attacked.name} (got {steps})")
    for name, number in (("t", steps), ("k", solves)):
        if number > LONGEST:
            raise InputError(f"{name} must be at most {LONGEST} (got {number})")
    if attacked.method == "itd-truncated":
        solves = attacked.bound.only_k or min(solves, steps)
    return StepCounts(steps, solves)
