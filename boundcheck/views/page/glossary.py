"""The glossary of a page: words and letters, explained to readers who are new to hypergradients."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from boundcheck.report.summary import LOOSE, TIGHT, Course
from boundcheck.report.verdict import Verdict

INTRODUCTION = (
    "A bilevel problem has two levels. The lower level finds weights w for given hyperparameters λ, for example by "
    "training a model. The upper level looks for a λ that makes a second loss E small, for example the validation "
    "error. To do that with gradients one needs the hypergradient ∇f(λ), where f(λ) = E(w*(λ), λ).",
    "A computer takes finitely many steps, so it finds an approximation g of ∇f, with an error ‖g − ∇f‖. Theorems say "
    "how large this error can be at most. Such a limit is called a bound. This page shows the bounds, and on the page "
    "of a problem also the error that was measured.",
)
PROBLEM: Mapping[str, str] = {
    "λ": "The hyperparameters, for example the strength of a penalty.",
    "w": "The weights of the lower level. w₀ is the start, wₜ is the result of t steps, and w* is the solution.",
    "Φ": "One step of the lower level, for example a step of gradient descent: wₜ₊₁ = Φ(wₜ, λ). The solution is "
    "its fixed point: w* = Φ(w*, λ).",
    "E": "The upper-level loss, for example the validation error.",
    "f, ∇f": "f(λ) = E(w*, λ) is what the upper level minimises. Its gradient ∇f is the hypergradient.",
    "g": "The approximate hypergradient that a method computes. Its error is ‖g − ∇f‖. Its relative error is the error "
    "divided by ‖∇f‖, in percent.",
    "angle": "The angle between g and ∇f: 0° is best.",
    "descent direction": "A small enough step from λ along −g makes f smaller. This is so if the angle is below 90°.",
}
METHODS: Mapping[str, str] = {
    "ITD": "Iterative differentiation: run t steps of Φ and differentiate through them, as backpropagation does. "
    "Truncated ITD goes back through the last K steps only.",
    "AID": "Approximate implicit differentiation: run t steps of Φ, then solve a linear system with k steps of a "
    "linear solver.",
    "FP": "Fixed-point iteration, a linear solver that repeats one product with a Jacobian. AID-FP uses it.",
    "CG": "Conjugate gradient, a faster linear solver for symmetric systems. AID-CG uses it. AID-CGN uses conjugate "
    "gradient on the normal equations, which also works for systems that are not symmetric.",
    "t, k": "The number of lower-level steps, and the number of steps of the linear solver.",
}
NUMBERS: Mapping[str, str] = {
    "q": "The contraction constant: one step of Φ multiplies the distance between any two points by at most q. Φ is a "
    "contraction if q < 1. The closer q is to 1, the slower the steps converge.",
    "κ": "The condition number: the largest curvature of the lower-level loss divided by the smallest. 1 is best; a "
    "large κ means slow convergence.",
    "a priori": "A bound that is known before the run, from constants such as q.",
    "a posteriori": "A bound that is computed from what was observed during the run.",
    "bound/error": "The bound divided by the error. 1 is best. A bound is called tight if this is at most "
    f"{TIGHT:g}, loose if it is at most {LOOSE:g}, and vacuous above that.",
    "rounding floor": "The size of the rounding errors of the computer. An error below it cannot be compared with a "
    "bound.",
}
KNOWN: Mapping[str, str] = {
    "proved": "The number is exact, or it is on the safe side for sure.",
    "probable": "The number is on the safe side with a probability that is stated.",
    "estimated": "The number was measured at some points only. The true value may be worse.",
}
COURSES: Mapping[Course, str] = {
    Course.CONVERGES: "The error falls as t grows, and Φ contracts where the iterates are.",
    Course.FALLS: "The error is smaller than at the start, but it may not fall any more.",
    Course.ROUNDING: "Only rounding errors are left.",
    Course.STALLS: "The error does not fall.",
    Course.DIVERGES: "The error does not fall, and Φ is not a contraction at w* or the error is not finite. A smaller "
    "step size usually helps.",
}
VERDICTS: Mapping[Verdict, str] = {
    Verdict.HOLDS: "The error stays below the bound, and every constant in the bound is proved.",
    Verdict.HOLDS_PROBABLY: "The same, but some constants are only probable.",
    Verdict.CONSISTENT: "The error stays below the bound, but some constants are estimated. Nothing is proved.",
    Verdict.NOT_APPLICABLE: "An assumption of the theorem fails, or it is not known whether it is met.",
    Verdict.INCONCLUSIVE: "The error is above the bound, but an estimated constant may be too small.",
    Verdict.VIOLATED_PROBABLY: "The error is above the bound, and the constants are proved or probable.",
    Verdict.VIOLATED: "The error is above the bound, though every constant is proved. There is a mistake: in the "
    "theorem, in the code, or in what was said about the problem.",
}
PARTS: Mapping[str, Mapping[str, str]] = {
    "The problem": PROBLEM,
    "The methods": METHODS,
    "The numbers": NUMBERS,
    "How a number is known": KNOWN,
    "How a run goes": {course.value: meaning for course, meaning in COURSES.items()},
    "The verdicts on a bound": {verdict.value: meaning for verdict, meaning in VERDICTS.items()},
}


def as_html() -> str:
    """Return the glossary as HTML, without scripts."""
    return described(INTRODUCTION, PARTS)


def described(paragraphs: Iterable[str], parts: Mapping[str, Mapping[str, str]]) -> str:
    """Return HTML with paragraphs, and then terms with their meanings under titles."""
    text = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in paragraphs)
    for title, entries in parts.items():
        pairs = "".join(f"<dt>{html.escape(term)}</dt><dd>{html.escape(what)}</dd>" for term, what in entries.items())
        text += f"<h3>{html.escape(title)}</h3><dl>{pairs}</dl>"
    return text
