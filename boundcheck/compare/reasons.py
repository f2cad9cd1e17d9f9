"""The text of the reason beside a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boundcheck.compare.applied_bound import of_sample
from boundcheck.constants import NAMES
from boundcheck.errors import MissingConstantError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.observables import may_be_formed
from boundcheck.report.method_curve import Trace
from boundcheck.report.verdict import Verdict, excess
from boundcheck.theory.bound import Bound
from boundcheck.theory.symbols import QUANTITIES, rho


def know(name: str) -> str:
    """Advice how to give a constant that cannot be measured."""
    return f"if you can prove a value, give it with --know {name}=… (known= in Python)"


def missing(why: MissingConstantError, problem: Problem) -> str:
    """Why a bound cannot be evaluated: a constant is missing, or a quantity is too large to compute.

    Parameters
    ----------
    why : MissingConstantError
        The error with the missing names.
    problem : Problem
        The problem.

    Returns
    -------
    str
        The first missing name with its meaning, and what to do.
    """
    if not why.names:
        return str(why)
    computed = [name for name in why.names if QUANTITIES[name].kind == "observable" or name == "W"]
    if computed and not may_be_formed(problem):
        size = f"d = {problem.d}, n = {problem.n}"
        return (
            f"needs {computed[0]} ({QUANTITIES[computed[0]].meaning}), not computed for a problem of this size ({size})"
        )
    name = why.names[0]
    remedy = f"; {know(name)}" if name in NAMES else ""
    return f"needs {name} ({QUANTITIES[name].meaning}), which was not measured{remedy}"


@dataclass(frozen=True, eq=False)
class Finding:
    """A verdict with the numbers from which it follows."""

    verdict: Verdict
    sample: int  # the number of the λ that decides
    errors: np.ndarray  # samples × T, like `values` and `floor`
    values: np.ndarray
    floor: np.ndarray
    weakest: tuple[str, ...]  # the constants that keep the bound from being proved
    delta: float
    doubt: str
    proof: Trace | None
    limits: str


def limits_of(bound: Bound, values: np.ndarray, applies: np.ndarray) -> str:
    """The t for which the theorem applies, as text; empty if all.

    Parameters
    ----------
    bound : Bound
        The theorem.
    values : array of shape (samples, T)
        The values of the bound; NaN where the theorem does not apply.
    applies : array of bool
        Whether the theorem applies at each t with observables.
    """
    if any(assumption.key == "ball" for assumption in bound.assumptions):
        also = ", and near enough to w* for its conditions" if bound.conditions else ""
        return "" if applies.all() else f"at the t where w_t is in the ball of its constants{also}"
    since = int(np.isfinite(values).all(axis=0).argmax()) + 1
    limits = f"for t ≥ {since}" if since > 1 else ""
    return limits + (", as ρ(t) > 1 before" if limits and any(c.left == rho for c in bound.conditions) else "")


def reason(finding: Finding) -> str:
    """The reason for a verdict in one line; empty if the verdict needs no reason."""
    verdict = finding.verdict
    if verdict is Verdict.HOLDS:
        return finding.limits
    if verdict is Verdict.HOLDS_PROBABLY:
        return f"with probability at least {1 - finding.delta:.6g}, for {', '.join(finding.weakest)}"
    if verdict is Verdict.CONSISTENT:
        estimates = _in_doubt(finding.weakest, "{names} {are} estimated from {side}", ("below", "above"))
        return f"no proof: {finding.doubt or estimates}"
    if verdict is Verdict.INCONCLUSIVE:
        too_small = _in_doubt(finding.weakest, "{names} may be too {side}", ("small", "large"))
        why = finding.doubt or too_small or "the reference hypergradient is not certified"
        return f"{_largest_excess(finding)}; {why}"
    return _largest_excess(finding) + _broken_link(finding.proof)


def _largest_excess(finding: Finding) -> str:
    i = finding.sample
    errors, values = finding.errors[i], finding.values[i]
    step = int(excess(errors, values, finding.floor[i]).argmax())
    ratio = errors[step] / values[step] if values[step] > 0 else np.inf
    return f"error/bound = {ratio:.3g} at t = {step + 1}{of_sample(i, finding.errors)}"


def _broken_link(proof: Trace | None) -> str:
    link = None if proof is None else proof.first_broken
    if proof is None or link is None:
        return ""
    uses = proof.uses[proof.links.index(link)]
    return f"; the proof breaks at {link!r}" + (f", which uses {', '.join(uses)}" if uses else "")


def _in_doubt(names: Sequence[str], template: str, sides: tuple[str, str]) -> str:
    """Name the constants in doubt and their sides; `sides` are for constants with which bounds rise and fall."""
    falling = [name for name in names if QUANTITIES[name].direction < 0]
    rising = [name for name in names if name not in falling]
    return ", ".join(
        template.format(names=", ".join(group), are="is" if len(group) == 1 else "are", side=side)
        for group, side in zip((rising, falling), sides, strict=True)
        if group
    )
