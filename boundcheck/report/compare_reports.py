"""Compare two reports and list the changes that are larger than rounding."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping

import numpy as np

from boundcheck.constants import Constant
from boundcheck.errors import InputError
from boundcheck.report.comparison import Change, ChangePart, Comparison
from boundcheck.report.method_curve import BoundCurve, Curve
from boundcheck.report.report import Report
from boundcheck.report.summary import Course
from boundcheck.report.verdict import Verdict
from boundcheck.side import in_words, standing

RTOL = 1e-6
ORDER = ("proved", "probable", "estimated")
VERDICTS = list(Verdict)  # from good to bad
COURSES = [Course.CONVERGES, Course.FALLS, Course.STALLS, Course.DIVERGES]  # from good to bad
GOOD = {Course.ROUNDING: Course.CONVERGES}  # these two differ only by the rounding floor
ROUNDING = {True: 1e-6, False: 1e-3}  # relative rounding of losses at w*; True if both reports are in float64


def compare_reports(
    before: Report | str | os.PathLike[str], after: Report | str | os.PathLike[str], *, rtol: float = RTOL
) -> Comparison:
    """List the changes from one report to another.

    Parameters
    ----------
    before : Report or path
        The first report, its `report.json`, or the directory of this file.
    after : Report or path
        The second report, its `report.json`, or the directory of this file.
    rtol : float
        The relative difference up to which numbers count as equal; 1e-6 by default. Errors also count as equal if they
        differ by no more than their rounding floors.

    Returns
    -------
    Comparison
        All changes, and a sentence; `print` shows them.

    Raises
    ------
    InputError
        If a file cannot be read or is not a report, or `rtol` is not a number from 0 to 1.

    Examples
    --------
    >>> import boundcheck as bc
    >>> first = bc.check("scalar", ["itd"], t=5)
    >>> bc.compare_reports(first, first).sentence
    'scalar: nothing changed.'
    """
    if isinstance(rtol, bool) or not isinstance(rtol, int | float) or not 0 <= rtol < 1:
        raise InputError(f"rtol = {rtol!r} is not a relative difference; give a number >= 0 and < 1, as in rtol=1e-6")
    a, b = (x if isinstance(x, Report) else Report.load(x) for x in (before, after))
    changes = tuple(_changes(a, b, rtol))
    order = list(ChangePart)
    return Comparison(
        problems=(str(a.problem["name"]), str(b.problem["name"])),
        changes=tuple(sorted(changes, key=lambda change: order.index(change.part))),
        violated=tuple(_violated(a, b)),
        seconds=(a.seconds, b.seconds),
        rtol=rtol,
    )


def _changes(a: Report, b: Report, rtol: float) -> Iterator[Change]:
    for key in dict.fromkeys((*a.problem, *b.problem)):
        if key == "landmarks":
            yield from _landmarks(a, b, rtol)
        elif a.problem.get(key) != b.problem.get(key):
            yield Change(ChangePart.PROBLEM, key, _word(a.problem.get(key)), _word(b.problem.get(key)))
    ends = [max(int(curve.t[-1]) for curve in x.curves.values()) for x in (a, b)]
    if ends[0] != ends[1]:
        yield Change(ChangePart.PROBLEM, "last t", ends[0], ends[1])
    for method in dict.fromkeys((*a.curves, *b.curves)):
        if method not in a.curves or method not in b.curves:
            first, second = ("run" if method in x.curves else "not run" for x in (a, b))
            yield Change(ChangePart.METHOD, method, first, second)
        else:
            yield from _of_course(method, a, b)
            yield from _of_curve(a.curves[method], b.curves[method], rtol)
    for ball in dict.fromkeys((*a.constants, *b.constants)):
        yield from _of_constants(f"{ball} ball", a.constants.get(ball, {}), b.constants.get(ball, {}), rtol)


def _landmarks(a: Report, b: Report, rtol: float) -> Iterator[Change]:
    """Changes of the norms and losses that identify a problem, if both reports have them."""
    first, second = (_numbers(x.problem.get("landmarks")) for x in (a, b))
    rounding = max(rtol, ROUNDING[{a.problem["dtype"], b.problem["dtype"]} == {"float64"}])
    for name in (name for name in first if name in second):
        kind = name.partition(" loss")[0]
        sizes = [abs(x) for x in (*_of_kind(first, kind), *_of_kind(second, kind)) if math.isfinite(x)]
        if not _equal(first[name], second[name], rounding, rounding * max(sizes, default=0.0)):
            yield Change(ChangePart.PROBLEM, name, first[name], second[name])


def _numbers(landmarks: object) -> dict[str, float]:
    entries = landmarks.items() if isinstance(landmarks, Mapping) else ()
    return {str(name): math.nan if x is None else float(x) for name, x in entries}


def _of_kind(numbers: Mapping[str, float], kind: str) -> Iterator[float]:
    return (x for name, x in numbers.items() if name.startswith(kind))


def _of_course(method: str, a: Report, b: Report) -> Iterator[Change]:
    """The change of a method's course: converges, falls, stalls or diverges."""
    before, after = (next(m.course for m in x.summary.methods if m.method == method) for x in (a, b))
    worse = COURSES.index(GOOD.get(after, after)) - COURSES.index(GOOD.get(before, before))
    if worse:
        yield Change(ChangePart.COURSE, method, before.value, after.value, worse > 0)


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _violated(a: Report, b: Report) -> Iterator[str]:
    """The bounds whose verdict became a violation, or a more certain violation."""
    earlier = a.verdicts
    for key, verdict in b.verdicts.items():
        if verdict.is_violation and (key not in earlier or _worse(earlier[key], verdict)):
            yield f"{key[1]} on {key[0]}"


def _worse(before: Verdict, after: Verdict) -> bool:
    return VERDICTS.index(after) > VERDICTS.index(before)


def _of_curve(a: Curve, b: Curve, rtol: float) -> Iterator[Change]:
    """Changes of errors, steps and bounds of a method that both reports have."""
    last = min(len(a.t), len(b.t)) - 1
    first, second = (float(curve.errors[:, last].mean()) for curve in (a, b))
    floor = max(float(curve.floor[:, last].mean()) for curve in (a, b))
    if not _equal(first, second, rtol, floor):
        yield Change(ChangePart.ERROR, f"{a.method} at t = {int(a.t[last])}", first, second, not second <= first)
    yield from _of_steps(a, b)
    for name in dict.fromkeys((*a.bounds, *b.bounds)):
        yield from _of_bound(a.method, name, a, b, rtol)


def _of_steps(a: Curve, b: Curve) -> Iterator[Change]:
    """Changes of the t for each accuracy above the rounding floor: the measured t, and the guaranteed t."""
    rounding = float(max(a.floor[:, -1].max(), b.floor[:, -1].max()))
    for eps in (eps for eps in a.needs if eps in b.needs and eps > rounding):
        pairs = {"needs": (a.needs[eps], b.needs[eps]), "is guaranteed": (_guaranteed(a, eps), _guaranteed(b, eps))}
        for what, (first, second) in pairs.items():
            if first != second:
                worse = first is not None and (second is None or second > first)
                yield Change(ChangePart.STEPS, f"{a.method} {what}, error ≤ {eps:g}", first, second, worse)


def _guaranteed(curve: Curve, eps: float) -> int | None:
    """The least t that a proved bound guarantees."""
    steps = [b.asks.get(eps) for b in curve.bounds.values() if b.verdict is Verdict.HOLDS]
    return min((t for t in steps if t is not None), default=None)


def _of_bound(method: str, name: str, a: Curve, b: Curve, rtol: float) -> Iterator[Change]:
    label = f"{name} on {method}"
    first, second = a.bounds.get(name), b.bounds.get(name)
    if first is None or second is None:
        was, now = (None if bound is None else bound.verdict for bound in (first, second))
        if Verdict.NOT_APPLICABLE not in (was, now):
            worse = True if now is not None and now.is_violation else None
            yield Change(ChangePart.VERDICT, label, was and was.value, now and now.value, worse)
        return
    if first.verdict is not second.verdict:
        yield Change(
            ChangePart.VERDICT, label, first.verdict.value, second.verdict.value, _worse(first.verdict, second.verdict)
        )
    yield from _of_tightness(label, (a, first), (b, second), rtol)


def _of_tightness(
    label: str, a: tuple[Curve, BoundCurve], b: tuple[Curve, BoundCurve], rtol: float
) -> Iterator[Change]:  # fmt: skip
    """The change of bound/error at the last t at which both reports have it, if it is larger than rounding."""
    steps = min(len(a[0].t), len(b[0].t))
    both = np.logical_and.reduce([np.isfinite(bound.tightness[:, :steps]).all(axis=0) for _, bound in (a, b)])
    if not both.any():
        return
    last = int(np.flatnonzero(both)[-1])
    first, second = (float(bound.tightness[:, last].mean()) for _, bound in (a, b))
    rounding = sum(float((curve.floor[:, last] / curve.errors[:, last]).max()) for curve, _ in (a, b))
    if not _equal(first, second, rtol + rounding, 0.0):
        yield Change(ChangePart.TIGHTNESS, f"{label} at t = {int(a[0].t[last])}", first, second, second > first)


def _of_constants(
    where: str, a: Mapping[str, Constant], b: Mapping[str, Constant], rtol: float
) -> Iterator[Change]:  # fmt: skip
    """Changes of the values of constants, and of how they are known."""
    for name in dict.fromkeys((*a, *b)):
        first, second = a.get(name), b.get(name)
        label = f"{name} ({where})"
        if first is None or second is None:
            yield Change(ChangePart.CONSTANT, label, _value(first), _value(second))
            continue
        if not _equal(first.value, second.value, rtol, 0.0):
            yield Change(ChangePart.CONSTANT, label, first.value, second.value)
        if first.side is not second.side:
            was, now = (ORDER.index(standing(c.side, name)) for c in (first, second))
            worse = None if was == now else now > was
            yield Change(ChangePart.CONSTANT, label, in_words(first.side, name), in_words(second.side, name), worse)


def _value(constant: Constant | None) -> float | None:
    return None if constant is None else constant.value


def _equal(a: float, b: float, rtol: float, floor: float) -> bool:
    """Whether two numbers differ by no more than rounding; two NaNs are equal."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    return abs(a - b) <= rtol * max(abs(a), abs(b)) + floor if math.isfinite(a) and math.isfinite(b) else False
