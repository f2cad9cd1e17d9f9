"""Which statements of the library are false: each a `Lie` with its kind, the problem's number and one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import boundcheck as bc
from boundcheck.report.verdict import Verdict
from boundcheck.theory.symbols import sigma

from .case import Case
from .exact import mp, norm
from .witness import AT_W_STAR, INFIMA, UNITS, least, witnesses_of

PROVED = {bc.Side.EXACT, bc.Side.UPPER}
SOLVED = 1e-34  # relative to w: what the solution of the truth lets pass, with slopes up to 10⁴
NEAR = 1.1e-9  # by how much a constant may be too large and count as exact
SMALL_ANGLE = 1e-30  # degrees: what 70 digits leave of an angle of 0
FAR = {"torch.float64": 1e-3, "torch.float32": 3e-2}  # relative: a derivative that is further off is another derivative
JUDGED: Counter[str] = Counter()  # statements that were compared with the truth since the start, by kind


@dataclass(frozen=True)
class Lie:
    """A false statement."""

    kind: str
    case: Case
    words: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.words} | {self.case}"


def constants(case: Case, found: Mapping[str, Any], ball: str) -> Iterator[Lie]:
    """Constants that are proved, against witnesses; an accepted false claim is a lie of its own kind."""
    if case.exact.w_star is None:
        return
    witnesses = witnesses_of(case)
    for name, constant in found.items():
        safe = {bc.Side.EXACT, bc.Side.LOWER} if name in INFIMA else PROVED
        if constant.side not in safe and constant.side is not bc.Side.HIGH_PROBABILITY:
            continue
        truth = least(witnesses, name, ball, constant.provenance.ball)
        if truth is None:
            continue
        JUDGED["constant"] += 1
        told = f"{name} = {constant.value:.9g} {constant.side.value} on the {ball} ball, truth"
        kind = "constant with high probability" if constant.side is bc.Side.HIGH_PROBABILITY else "constant"
        if name in case.claims and constant.value == case.claims[name][0]:
            kind = "claim believed"
        units = 1 if name in ("D", "r_0") else UNITS  # these add what rounding may have hidden, so no more is forgiven
        loose = units * case.eps * abs(truth)
        if name in AT_W_STAR:  # the truth knows w* to 1e-38 of itself, so a gradient that is 0 there only to about that
            loose = max(loose, SOLVED * float(case.exact.w_scale))
        if constant.side is bc.Side.EXACT:
            loose = max(loose, witnesses.rounding(name)) if name not in INFIMA else 10 * loose
        if name in INFIMA:
            if constant.value > truth + loose:
                yield Lie(kind, case, f"{told} ≤ {truth:.9g}")
        elif constant.value < truth - loose:
            yield Lie(kind, case, f"{told} ≥ {truth:.9g}")
        elif name in AT_W_STAR and constant.side is bc.Side.EXACT and constant.value > truth * (1 + NEAR) + 2 * loose:
            yield Lie(kind, case, f"{told} = {truth:.9g}")


def enclosure(case: Case, g: Any, found: bc.Enclosure) -> Iterator[Lie]:
    """The interval has to hold the true error of the vector."""
    if case.exact.w_star is None or found.side not in PROVED | {bc.Side.HIGH_PROBABILITY}:
        return
    error = float(case.exact.error(g))
    if not np.isfinite(error):  # E has no gradient at w*
        return
    JUDGED["enclosure"] += 1
    lower, upper = float(found.lower), float(found.upper)
    if not lower * (1 - 1e-12) <= error <= upper * (1 + 1e-12):
        kind = "enclosure" if found.side in PROVED else "enclosure with high probability"
        yield Lie(kind, case, f"[{lower:.9g}, {upper:.9g}] {found.side.value}, error {error:.9g}")


def derivative(case: Case, method: str, t: int, g: Any) -> Iterator[Lie]:
    """A hypergradient far from what the method gives in exact arithmetic: a derivative of something else."""
    exact = case.exact
    if case.rough or case.undefined or exact.w_star is None:
        return
    if method == "exact":
        truth = exact.gradient
    elif method == "itd":
        truth = exact.itd(t)[t]
    else:
        if method == "aid-cg" and case.lopsided:
            return
        truth = exact.aid(method, exact.path(exact.lam, t)[t], t)
    off, size = float(norm([a - b for a, b in zip(g, truth, strict=True)])), float(norm(truth))
    if not np.isfinite(size):  # E has no gradient there
        return
    JUDGED["derivative"] += 1
    witnesses = witnesses_of(case)
    rounding = UNITS * case.eps * witnesses.gain**2 * (size + witnesses.known("W") * witnesses.known("g_star"))
    if not off <= FAR[str(case.dtype)] * size + rounding + _shaken(case):
        yield Lie("derivative", case, f"{method}, t = {t}: ‖g − truth‖ = {off:.6g}, ‖truth‖ = {size:.6g}")


def _shaken(case: Case) -> float:
    """What rounding of w may do to ∇f by way of ∇₁E, ∇₂E and ∂₂Φ, from the truth beside w*."""
    exact, witnesses = case.exact, witnesses_of(case)
    size = max(float(norm(exact.w_star)), float(norm(exact.w0)), case.w_scale * 1e-3)
    shift = UNITS * case.eps * witnesses.gain * size
    moved = [x + shift for x in exact.w_star]
    of_E = float(norm([a - b for a, b in zip(exact.d1outer(moved), exact.d1outer(exact.w_star), strict=True)]))
    of_lam = float(norm([a - b for a, b in zip(exact.d2outer(moved), exact.d2outer(exact.w_star), strict=True)]))
    shaken = of_lam + witnesses.known("W") * of_E
    return shaken if np.isfinite(shaken) else 0.0  # E is not defined beside w*: then nothing is forgiven for it


def errors(case: Case, method: str, T: int) -> dict[int, float]:
    """The true error of a method in exact arithmetic at every t for ITD, at three for AID."""
    exact = case.exact
    if method == "itd":
        return {t: float(exact.error(g)) for t, g in enumerate(exact.itd(T)) if t}
    path = exact.path(exact.lam, T)
    return {t: float(exact.error(exact.aid(method, path[t], t))) for t in sorted({1, (T + 1) // 2, T})}


def report(case: Case, found: bc.Report, problem: bc.Problem | None = None) -> Iterator[Lie]:
    """Verdicts, constants, enclosures and tightness of one report; with the problem, accuracies at the last t too."""
    yield from _gradient_norm(case, found)
    if problem is not None:
        for method, curve in found.curves.items():
            yield from _last(case, problem, method, curve)
    for ball, some in found.constants.items():
        yield from constants(case, some, ball)
    for method, curve in found.curves.items():
        verdicts = {name: bound.verdict for name, bound in curve.bounds.items()}
        broken = [name for name, verdict in verdicts.items() if verdict is Verdict.VIOLATED]
        perhaps = [name for name, verdict in verdicts.items() if verdict is Verdict.VIOLATED_PROBABLY]
        holds = {name: bound for name, bound in curve.bounds.items() if bound.verdict is Verdict.HOLDS}
        JUDGED["verdict"] += len(broken) + len(perhaps) + len(holds)
        if broken and not _told(case, found):
            yield Lie("violated", case, f"{method}: {', '.join(broken)}")
        if perhaps:
            yield Lie("violated with high probability", case, f"{method}: {', '.join(perhaps)}")
        if holds and case.vacuous:
            yield Lie("vacuous", case, f"{method}: {', '.join(holds)} hold with nothing to differentiate")
        for name, bound in holds.items():
            if bound.best is not None and bound.best < 1 - 1e-6:
                yield Lie("tightness", case, f"{method}: {name} holds beside bound/error = {bound.best:.3g}")
        if holds and case.exact.w_star is not None and not case.undefined:
            yield from _held(case, method, curve, holds)
        if case.undefined and holds:
            yield Lie("undefined", case, f"{method}: {', '.join(holds)} hold for what is no function")


def _gradient_norm(case: Case, found: bc.Report) -> Iterator[Lie]:
    """‖∇f‖ of the reference is as far from the truth as its certificate says, at most."""
    eps_g = found.certificates[0] if found.certificates else None
    if eps_g is None or eps_g.side not in PROVED | {bc.Side.HIGH_PROBABILITY} or case.exact.w_star is None:
        return
    truth, told = float(norm(case.exact.gradient)), found.gradient_norms[0]
    if np.isfinite(truth):
        JUDGED["gradient norm"] += 1
        if abs(told - truth) > eps_g.value + UNITS * case.eps * truth:
            yield Lie("gradient norm", case, f"‖∇f‖ = {told:.9g}, at most {eps_g.value:.3g} off; it is {truth:.9g}")


def _last(case: Case, problem: bc.Problem, method: str, curve: Any) -> Iterator[Lie]:
    """Relative error, angle and direction of what the method returns at the last t."""
    last, exact = curve.last, case.exact
    if last is None or last.error.side not in PROVED | {bc.Side.HIGH_PROBABILITY} or exact.w_star is None:
        return
    if case.undefined:
        yield Lie("undefined", case, f"{method}: an accuracy for what is no function")
        return
    t = int(curve.t[-1])
    g = [mp.mpf(x) for x in bc.hypergradient(problem, method, t).value.tolist()]
    truth, error, length, size = exact.gradient, exact.error(g), norm(g), norm(exact.gradient)
    if not np.isfinite(float(error)):
        return
    JUDGED["accuracy at the last t"] += 1
    along = mp.fdot(g, truth)
    told = f"{method}, t = {t}, {last.error.side.value}:"
    loose = 1 + mp.mpf(1e-12)
    for words, value, enclosure in (("error", error, last.error), ("‖∇f‖", size, last.gradient_norm)):
        if not float(enclosure.lower) / loose <= value <= float(enclosure.upper) * loose:
            yield Lie(
                "accuracy",
                case,
                f"{told} {words} in [{enclosure.lower:.9g}, {enclosure.upper:.9g}], is {float(value):.9g}",
            )
    if error > size * mp.mpf(last.relative_error) * loose:
        yield Lie("accuracy", case, f"{told} relative error {last.relative_error:.9g}, is {float(error / size):.9g}")
    if length and size and (angle := _degrees(along / (length * size))) > last.angle * (1 + 1e-12) + SMALL_ANGLE:
        yield Lie("accuracy", case, f"{told} angle {last.angle:.9g}°, is {angle:.9g}°")
    if last.descent is not None and last.descent is not bool(along > 0):
        yield Lie("accuracy", case, f"{told} descent {last.descent}, but ⟨g, ∇f⟩ = {float(along):.3g}")


def _degrees(cosine: Any) -> float:
    return float(mp.degrees(mp.acos(max(min(cosine, mp.mpf(1)), mp.mpf(-1)))))


def _told(case: Case, found: bc.Report) -> bool:
    """Was a false claim given, and does the report's table speak of it?"""
    return bool(case.false_claims) and any(name in found.table() for name in case.false_claims)


def _held(case: Case, method: str, curve: Any, holds: Mapping[str, Any]) -> Iterator[Lie]:
    if method == "aid-cg" and case.lopsided:
        # bounds from residuals are true of any v, so those are compared with the error below
        symmetric = [name for name in holds if _needs_symmetry(bc.bounds[name])]
        if symmetric:
            yield Lie("holds", case, f"aid-cg: {', '.join(symmetric)} on a system that is not symmetric")
            return
    if method not in ("itd", "aid-fp", "aid-cg"):
        return
    T = len(curve.t)
    for t, error in errors(case, method, T).items():
        floor = float(curve.floor[0, t - 1])
        for name, bound in holds.items():
            value = float(bound.values[0, t - 1])
            JUDGED["bound that holds, at one t"] += 1
            if np.isfinite(value) and value * (1 + UNITS * case.eps) + floor < error:
                yield Lie(
                    "holds", case, f"{method}: {name} = {value:.6g} + floor {floor:.2g} < error {error:.6g}, t = {t}"
                )
                return


def _needs_symmetry(bound: bc.Bound) -> bool:
    return bound.mentions(sigma) or any(assumption.key == "symmetric" for assumption in bound.assumptions)


def plan(case: Case, found: bc.Plan) -> Iterator[Lie]:
    """Guarantees that are proved, against runs in exact arithmetic and the vectors that the library returns."""
    yield from constants(case, found.constants, "local")
    for guarantee in found.guarantees:
        if guarantee.needed is not None and guarantee.needed[0] > guarantee.t:
            yield Lie("needed", case, f"{guarantee.method}: needed {guarantee.needed[0]} > t = {guarantee.t}")
        if guarantee.side not in PROVED:
            continue
        JUDGED["guarantee"] += 1
        told = f"{guarantee.method}, {guarantee.bound}, t = {guarantee.t}, k = {guarantee.k}, eps = {found.eps:g}"
        if found.eps < found.floor:
            yield Lie("guarantee below the floor", case, f"{told}, floor {found.floor:.3g}")
        if guarantee.method == "aid-cg" and case.lopsided:
            yield Lie("guarantee", case, f"{told}: conjugate gradient on a system that is not symmetric")
        elif case.vacuous or case.undefined:
            yield Lie("vacuous", case, told)
        elif case.exact.w_star is not None and guarantee.t <= 60 and (guarantee.k or 0) <= 200:
            yield from _guaranteed(case, found, guarantee, told)


def _guaranteed(case: Case, found: bc.Plan, guarantee: Any, told: str) -> Iterator[Lie]:
    exact, t, k = case.exact, guarantee.t, guarantee.k
    if guarantee.method == "itd":
        every = [float(exact.error(g)) for g in exact.itd(t)]
        error = every[-1]
    else:
        error = float(exact.error(exact.aid(guarantee.method, exact.path(exact.lam, t)[t], k)))
    if error > found.eps * (1 + UNITS * case.eps):
        yield Lie("guarantee", case, f"{told}: the run's error is {error:.6g}")
        return
    g = bc.hypergradient(found.problem, guarantee.method, t, k).value.tolist()
    if (real := float(exact.error(g))) > found.eps * (1 + UNITS * case.eps):
        yield Lie("guarantee", case, f"{told}: the vector's error is {real:.6g}")
    if guarantee.method == "itd" and guarantee.needed is not None and not case.rough:
        good = [e <= found.eps * (1 - 1e-6) for e in every]
        first = next((n for n in range(1, t + 1) if good[n]), t)
        onward = next((n for n in range(1, t + 1) if all(good[n:])), t)
        if guarantee.needed[0] not in (first, onward):
            yield Lie(
                "needed", case, f"{told}: needed {guarantee.needed[0]}, where {first} is enough, and {onward} for good"
            )
