"""One row of a sweep: the check or plan of one method on one problem at one λ, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from boundcheck.ball import BallKind
from boundcheck.json_numbers import finite
from boundcheck.report.verdict import Verdict, worst
from boundcheck.side import standing
from boundcheck.theory.kinds import BoundKind

if TYPE_CHECKING:
    from boundcheck.compare.guarantees import Plan
    from boundcheck.report.report import Report
    from boundcheck.report.summary import StepsNeeded

FAILED, NO_GUARANTEE = "failed", "no guarantee"


@dataclass(frozen=True)
class SweepRow:
    """The check of one method on one problem at one λ or, with ``action="plan"``, its plan.

    Attributes
    ----------
    options : mapping from str to object
        The place in the grid: a value for each axis.
    sample : int
        The index of the drawn λ, from 0.
    method : str
        The method; empty if the problem could not be made and no methods were named.
    verdict : str
        The worst verdict of the bounds on this method, as in `Verdict`, or "failed". For a plan: how its steps are
        known ("proved", "probable" or "estimated"), "no guarantee", or "failed".
    bound : str
        The best bound; empty if there is none.
    known : str
        How the best bound is known: "proved", "probable" or "estimated"; empty if there is none.
    ratio : float or None
        The best bound over the error, at the last t where the error is more than rounding. For a plan: the cost of the
        guaranteed steps over the cost of the steps that a run needed.
    a_priori : float or None
        The same as `ratio` for the best bound that can be computed before a run from q and Lipschitz constants.
    error : float or None
        The error at the last t; for a plan, the error of the run with the guaranteed steps.
    relative_error : float or None
        The error at the last t in units of ‖∇f‖.
    course : str
        How the error behaves as t grows: "converges", "falls", "converged", "stalls" or "diverges".
    rate : float or None
        The measured factor by which the error shrinks at each step.
    q_local : float or None
        The contraction constant around w*, if known.
    needed : int or None
        The t that is needed for an error of 1 % of ‖∇f‖; for a plan, the t that a run needed.
    guaranteed : int or None
        The t for which a proved bound is within 1 % of ‖∇f‖; for a plan, the t that a bound guarantees.
    guaranteed_k : int or None
        For a plan, the steps of the linear solver that belong to `guaranteed`.
    reason : str
        Why there is no verdict or no guarantee, or the message of the error; empty otherwise.
    """

    options: Mapping[str, Any]
    sample: int
    method: str
    verdict: str
    bound: str = ""
    known: str = ""
    ratio: float | None = None
    a_priori: float | None = None
    error: float | None = None
    relative_error: float | None = None
    course: str = ""
    rate: float | None = None
    q_local: float | None = None
    needed: int | None = None
    guaranteed: int | None = None
    guaranteed_k: int | None = None
    reason: str = ""

    def flat(self) -> dict[str, Any]:
        """Return the row as one dict, with the options first.

        Returns
        -------
        dict
            The columns by name. An option with the name of another column is called "NAME (option)".
        """
        names = {field.name for field in fields(self)}
        options = {f"{name} (option)" if name in names else name: value for name, value in self.options.items()}
        return options | {name: value for name, value in asdict(self).items() if name != "options"}


def of_report(report: Report) -> Iterator[dict[str, Any]]:
    """Yield a row for each method of a report at one λ, without its place in the grid."""
    q = report.constants[BallKind.LOCAL].get("q")
    for summary in report.summary.methods:
        curve, best = report.curves[summary.method], summary.best
        verdict = worst([bound.verdict for bound in curve.applicable.values()])
        a_priori = [bound.at_end for bound in curve.applicable.values() if bound.kind is BoundKind.A_PRIORI]
        yield {
            "method": summary.method,
            "verdict": verdict.value,
            "bound": best.name if best else "",
            "known": best.known if best else "",
            "ratio": best.ratio if best else None,
            "a_priori": _finite(min(a_priori, default=None)),
            "error": _finite(summary.error),
            "relative_error": _finite(summary.relative_error),
            "course": summary.course.value,
            "rate": curve.rate.value if curve.rate else None,
            "q_local": _finite(q.value) if q else None,
            "needed": _needed(summary.steps),
            "guaranteed": summary.steps.guaranteed,
            "reason": summary.blocked if verdict is Verdict.NOT_APPLICABLE else "",
        }
    for method, why in report.refused.items():
        yield {"method": method, "verdict": Verdict.NOT_APPLICABLE.value, "reason": why}


def _needed(steps: StepsNeeded) -> int | None:
    """Return the measured t, or else the expected t, which is at most the t that is proved to be enough."""
    if steps.needed is None or steps.measured or steps.guaranteed is None:
        return steps.needed
    return min(steps.needed, steps.guaranteed)


def of_plan(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row for each method of a plan, without its place in the grid."""
    guarantees = {guarantee.method: guarantee for guarantee in plan.guarantees}
    q = plan.constants.get("q")
    for method in dict.fromkeys([*guarantees, *plan.needs, *plan.silent]):
        best, need = guarantees.get(method), plan.needs.get(method)
        ratio = best.cost / need.cost if best and need and need.cost > 0 else None
        yield {
            "method": method,
            "verdict": standing(best.side) if best else NO_GUARANTEE,
            "bound": best.bound if best else "",
            "known": standing(best.side) if best else "",
            "ratio": _finite(ratio),
            "error": _finite(best.error) if best else None,
            "q_local": _finite(q.value) if q else None,
            "needed": need.t if need else None,
            "guaranteed": best.t if best else None,
            "guaranteed_k": best.k if best else None,
            "reason": "" if best else plan.silent.get(method, ""),
        }


def failed(methods: list[str] | None, error: Exception) -> list[dict[str, Any]]:
    """Return the rows of a task that raised."""
    from boundcheck.errors import BoundcheckError

    text = " ".join(str(error).split())[:300]
    reason = text if isinstance(error, BoundcheckError) else f"{type(error).__name__}: {text}"
    return [{"method": method, "verdict": FAILED, "reason": reason} for method in methods or [""]]


def _finite(value: float | None) -> float | None:
    return None if value is None else finite(float(value))
