"""The summary of a report: what the first screen says is what the numbers are, and it fits on the screen."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck import Report
from boundcheck.report.summary import Course, Grade, MethodSummary, StepsNeeded
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side, in_words, standing
from boundcheck.views.terminal import show_report

LINES = 40


@cache
def report() -> Report:
    return bc.check(small("lr"), t=30)


@cache
def rotation() -> Report:
    """A spiral away from 0: Φ expands by 1.2 at every step."""
    A = 1.2 * torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    return bc.check(
        bc.Problem.from_map(
            lambda w, lam: A @ w + lam, lambda w, lam: (w**2).sum(), *torch.ones(2, 2, dtype=torch.float64)
        ),
        ["itd", "aid-fp"],
        t=20,
    )


def of(given: Report, method: str) -> MethodSummary:
    return next(m for m in given.summary.methods if m.method == method)


def changed(given: Report, method: str, **fields: object) -> Report:
    return replace(given, curves={**given.curves, method: replace(given.curve(method), **fields)})


def with_verdicts(given: Report, verdict: Verdict, weakest: tuple[str, ...] = ()) -> Report:
    curves = {}
    for name, curve in given.curves.items():
        bounds = {
            key: replace(b, verdict=verdict, side=Side.LOWER, weakest=weakest, reason="why")
            for key, b in curve.applicable.items()
        }
        curves[name] = replace(curve, bounds=bounds)
    return replace(given, curves=curves)


def test_errors_are_relative_to_the_hypergradient() -> None:
    exact = bc.hypergradient(small("lr"), "exact").value
    for m in report().summary.methods:
        g = bc.hypergradient(small("lr"), m.method, t=30).value
        assert m.relative_error == pytest.approx(float((g - exact).norm() / exact.norm()), rel=1e-6)
        cosine = float(g @ exact / (g.norm() * exact.norm()))
        assert m.angle == pytest.approx(float(np.degrees(np.arccos(min(cosine, 1)))), rel=1e-3, abs=1e-4)
        assert m.descent is (cosine > 0)
        assert m.known == "proved"
        assert m.course is Course.CONVERGES


def test_the_steps_for_one_per_cent_are_those_of_the_run() -> None:
    for m in report().summary.methods:
        errors = report().curve(m.method).errors[0] / report().gradient_norms[0]
        if m.steps.measured:
            assert m.steps.needed is not None
            assert (errors[m.steps.needed - 1 :] <= 0.01).all()
            assert errors[m.steps.needed - 2] > 0.01
        else:
            assert errors[-1] > 0.01


def test_the_steps_that_are_guaranteed_are_enough() -> None:
    m = of(report(), "itd")
    assert m.steps.guaranteed is not None
    exact = bc.hypergradient(small("lr"), "exact").value
    g = bc.hypergradient(small("lr"), "itd", t=m.steps.guaranteed).value
    assert float((g - exact).norm()) <= 0.01 * float(exact.norm())
    asked = [b.asks_relative[0.01] for b in report().curve("itd").bounds.values() if b.asks_relative]
    assert m.steps.guaranteed == min(t for t in asked if t is not None)


def of_errors(relative: np.ndarray) -> StepsNeeded:
    """The steps for 1 % of a run with these errors."""
    errors, curve = report().gradient_norms[0] * relative[None], report().curve("itd")
    few = {"t": curve.t[: len(relative)], "errors": errors, "floor": 0 * errors, "bounds": {}}
    return of(changed(report(), "itd", **few), "itd").steps


def test_steps_beyond_the_run_follow_from_its_last_part() -> None:
    t = np.arange(1, 13)
    steps = of_errors(0.8**t)
    assert (steps.needed, steps.measured) == (21, False)  # 0.8²¹ < 0.01 < 0.8²⁰
    assert (steps.earliest, steps.latest) == (18, 23)  # a quarter of the nine that are missing
    assert of_errors(np.ones(12)).needed is None
    assert of_errors(0.8 ** t[:7]).needed is None  # too few


def test_a_rate_that_changes_makes_the_estimate_wide() -> None:
    t = np.arange(1, 25)
    slower = of_errors(0.5**t + 0.5 * 0.95**t)
    assert slower.needed == 77  # 0.5 · 0.95⁷⁷ < 0.01
    assert slower.latest == 90  # a quarter of the steps that are missing
    t = np.arange(1, 29)
    faster = of_errors(np.where(t < 21, 0.99**t, 0.99**20 * 0.8 ** (t - 20.0)))
    assert faster.needed == 40  # 0.99²⁰ · 0.8²⁰ < 0.01
    assert (faster.latest or 0) > 28 + 1.25 * 12


def test_no_method_is_the_cheapest_within_what_estimates_may_be_off() -> None:
    few, near, far = (StepsNeeded(t, False, None, t - 5, t + 5) for t in (30, 38, 50))
    assert not few.is_less(near)
    assert few.is_less(far)
    unknown = replace(few, latest=None)
    assert not unknown.is_less(far)


def test_the_best_bound_is_a_proved_one_if_there_is_one() -> None:
    m = of(report(), "itd")
    bounds = report().curve("itd").bounds
    assert m.best is not None
    assert m.best.known == "proved"
    assert m.blocked == ""
    first = bounds[m.best.name]
    assert all(first.values[0, -1] <= b.values[0, -1] for b in bounds.values() if np.isfinite(b.values[0, -1]))
    doubted = replace(first, verdict=Verdict.CONSISTENT, side=Side.LOWER)
    again = of(changed(report(), "itd", bounds={**bounds, first.name: doubted}), "itd")
    assert again.best is not None
    assert again.best.known == "proved"
    assert again.best.name != first.name
    only = of(changed(report(), "itd", bounds={first.name: replace(doubted, reason="why; do that")}), "itd")
    assert only.best is not None
    assert only.best.known == "estimated"
    assert only.blocked == f"{first.name}: why"


@pytest.mark.parametrize(
    ("ratio", "grade"), [(1, "tight"), (10, "tight"), (11, "loose"), (1e3, "loose"), (1e4, "vacuous")]
)
def test_grades(ratio: float, grade: str) -> None:
    assert Grade.of(ratio).value == grade


def test_a_run_that_diverges_says_so() -> None:
    assert {m.course for m in rotation().summary.methods} == {Course.DIVERGES}
    text = rotation().table()
    assert "The run diverges." in text
    assert "damp it" in " ".join(text.split())
    assert all(m.steps.needed is None for m in rotation().summary.methods)


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (Verdict.HOLDS, "holds: all {n} applicable bounds hold"),
        (Verdict.HOLDS_PROBABLY, "holds with high probability: all {n} applicable bounds hold, {n} of them with high"),
        (Verdict.CONSISTENT, "consistent: the {n} applicable bounds were not contradicted; no bound is proved"),
        (
            Verdict.INCONCLUSIVE,
            "inconclusive: the error is above {n} of {n} applicable bounds, but their constants may",
        ),
        (Verdict.VIOLATED, "violated: the error is above {n} of {n} applicable bounds, and their constants are proved"),
        (Verdict.NOT_APPLICABLE, "no bound applies"),
    ],
)
def test_the_verdict_in_words(verdict: Verdict, sentence: str) -> None:
    given = with_verdicts(report(), verdict)
    n = sum(len(curve.bounds) for curve in given.curves.values())
    assert given.summary.verdict_sentence.startswith(sentence.format(n=n))


def test_some_bounds_that_hold_are_counted_beside_the_others() -> None:
    bounds = report().curve("itd").applicable
    first = next(iter(bounds))
    doubted = replace(bounds[first], verdict=Verdict.CONSISTENT)
    given = replace(report(), curves={"itd": replace(report().curve("itd"), bounds={**bounds, first: doubted})})
    n = len(bounds)
    assert f"consistent: {n - 1} of {n} applicable bounds hold; the other 1" in given.summary.verdict_sentence


def test_the_constant_that_would_prove_the_most_is_named() -> None:
    steps = with_verdicts(report(), Verdict.CONSISTENT, ("nu_1",)).summary.next_steps
    assert any(step.startswith("Prove nu_1") for step in steps)
    steps = with_verdicts(report(), Verdict.CONSISTENT, ("nu_1", "eta_1")).summary.next_steps
    assert any("until eta_1, nu_1 are" in step for step in steps)


@pytest.mark.parametrize("given", [report, rotation], ids=["converges", "diverges"])
def test_the_first_screen_is_one_screen(given) -> None:  # type: ignore[no-untyped-def]
    for width in (60, 80, 120):
        lines = show_report.as_text(given(), width=width).splitlines()
        assert len(lines) <= LINES * max(1, 80 / width)
        assert max(map(len, lines)) <= width
        assert "…" not in "\n".join(lines)
    assert len(given().table(verbose=True).splitlines()) > len(given().table().splitlines())


def test_an_old_report_has_a_first_screen() -> None:
    content = report().to_json()
    del content["gradient_norms"]
    for curve in content["curves"]:
        del curve["last"]
        for bound in curve["bounds"].values():
            del bound["iterations_relative"]
    from boundcheck.report import report_json

    old = report_json.from_json(content)
    assert old.summary.methods[0].relative_error is None
    assert "At t = 30 the error is" in old.table()


@pytest.mark.parametrize(
    ("side", "name", "word", "words"),
    [
        ("exact", "q", "proved", "proved, exact"),
        ("upper", "q", "proved", "proved upper bound"),
        ("lower", "mu", "proved", "proved lower bound"),
        ("high-probability", "q", "probable", "probable upper bound"),
        ("high-probability", "mu", "probable", "probable lower bound"),
        ("lower", "q", "estimated", "estimated from below"),
        ("upper", "mu", "estimated", "estimated from above"),
    ],
)
def test_one_vocabulary(side: str, name: str, word: str, words: str) -> None:
    assert standing(Side(side), name) == word
    assert in_words(Side(side), name) == words


def test_without_a_gradient_errors_are_absolute() -> None:
    given = replace(report(), gradient_norms=(1e-30,))
    assert of(given, "itd").relative_error is None
    assert "∇f is 0 up to rounding, so errors are absolute." in given.table()
    assert of(given, "itd").steps.needed is None


def test_what_is_not_known_of_a_descent_direction_is_not_proved() -> None:
    last = report().curve("itd").last
    assert last is not None
    text = " ".join(changed(report(), "itd", last=replace(last, descent=None)).table().split())
    assert "it is not known whether −g is a descent direction for itd." in text
    text = " ".join(changed(report(), "itd", last=replace(last, descent=False)).table().split())
    assert "−g is not a descent direction for itd (proved" in text


def test_a_map_that_diverges_gets_no_advice_on_step_sizes() -> None:
    (step,) = (step for step in rotation().summary.next_steps if "diverged" in step)
    assert "damp it" in step
    assert "step size" not in step


def test_an_angle_of_which_nothing_is_known_is_not_shown() -> None:
    last = report().curve("itd").last
    assert last is not None
    assert "180°" not in changed(report(), "itd", last=replace(last, angle=180.0)).table()


def test_a_reference_without_a_certificate_is_named() -> None:
    assert "has no certificate" in replace(report(), certificates=(None,)).table()
    assert "has no certificate" not in report().table()


def cycle(start: float, Phi, t: int = 60) -> Report:  # type: ignore[no-untyped-def]
    one = torch.ones(1, dtype=torch.float64)
    return bc.check(bc.Problem.from_map(Phi, lambda w, lam: (w**2).sum(), start * one, 0.1 * one), ["itd"], t=t)


def test_a_run_that_ends_in_a_cycle_does_not_converge() -> None:
    """Φ contracts at w*, which the iterates never come near."""
    given = cycle(3000.0, lambda w, lam: -(0.5 * w + 3 * w**3 / (1 + w**4)) + lam)
    assert float(given.constants["local"]["q_star"].value) < 1
    assert of(given, "itd").course is Course.FALLS
    assert "converges" not in given.table()


def test_an_error_that_grows_is_a_run_that_diverges() -> None:
    """Φ contracts at w* and expands far away."""
    given = cycle(30.0, lambda w, lam: -(0.5 * w + 0.6 * w**3 / (1 + w**2)) + lam)
    assert float(given.constants["local"]["q_star"].value) < 1
    assert of(given, "itd").course is Course.DIVERGES
    assert "The run diverges." in given.table()


def test_an_error_that_grows_at_first_is_no_divergence_where_phi_contracts() -> None:
    curve = report().curve("itd")
    growing = changed(report(), "itd", errors=curve.errors[:, ::-1].copy())
    assert of(growing, "itd").course is Course.STALLS


def test_a_step_size_is_advised_where_it_can_be_given() -> None:
    advice = "Take step_size=0.34."
    assert show_report._as_asked(advice, "newsgroups") == "Add --set-problem step_size=0.34."
    assert show_report._as_asked(advice, "mine.py:problem") == "Take step_size=0.34 in Problem.from_loss."
    assert show_report._as_asked(advice, "") == "Take step_size=0.34 in Problem.from_loss."
    assert show_report._as_asked("Prove q.", "newsgroups") == "Prove q."
