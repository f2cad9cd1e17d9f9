"""The glossary of a page about minibatches."""

from __future__ import annotations

from collections.abc import Mapping

from boundcheck.report.stochastic_curve import Measured
from boundcheck.views.page.glossary import INTRODUCTION, KNOWN, PROBLEM, described

PARAGRAPHS = (
    INTRODUCTION[0],
    "A computer takes finitely many steps, and with much data each step sees only a random minibatch of the examples. "
    "So the computed hypergradient g is random. This page shows how far g is from ∇f on average over many independent "
    "runs, and whether that stays below what theorems guarantee. Such a guarantee is called a bound.",
)
METHODS: Mapping[str, str] = {
    "SID": "Stochastic implicit differentiation: t steps for w and k steps for a linear system, each with a minibatch "
    "of its own; then one more minibatch for the last derivative.",
    "NEUMANN": "The same with another linear solver: a product of a random number of Jacobians, below k, each with a "
    "minibatch of its own.",
    "η": "The step: how far each iteration goes towards what its minibatch says. Smaller steps average over more "
    "minibatches and are slower.",
    "t, k": "The number of steps for w, and of steps of the linear solver.",
}
ERRORS: Mapping[str, str] = {
    "mean square error": f"{Measured.MSE.formula}, the mean of the squared error. It is the bias squared plus both "
    "variances.",
    "bias": f"{Measured.BIAS.formula}, the error of the mean of g over all minibatches. More runs do not make it "
    "smaller. More steps do, down to a floor if the steps are constant.",
    "variance given w": f"{Measured.VARIANCE_GIVEN_W.formula}: how much g varies from the minibatches of the linear "
    "solver and the last one, for a fixed result w_t of the lower level.",
    "variance of the mean": f"{Measured.VARIANCE_OF_MEAN.formula}: how much g varies from the minibatches of the lower "
    "level.",
    "interval": "A confidence interval. All intervals of the page contain the true values with the stated probability.",
    "bound/estimate": "The bound divided by the estimate. 1 is best.",
}
VERDICTS: Mapping[str, str] = {
    "holds with high probability": "The whole interval is below the bound, and every constant in it is proved. Only "
    "the intervals may fail, with the stated probability.",
    "consistent": "Nothing contradicts the bound, but a constant is estimated, the interval is approximate, or there "
    "are too few runs.",
    "inconclusive": "The estimate is above the bound, but not for certain: the interval contains the bound, or a "
    "constant may be too small.",
    "violated with high probability": "The whole interval is above the bound, though every constant is proved. There "
    "is a mistake: in the theorem, in the code, or in what was said about the problem.",
    "not applicable": "An assumption of the theorem fails, or it is not known whether it is met.",
}
PARTS: Mapping[str, Mapping[str, str]] = {
    "The problem": {term: what for term, what in PROBLEM.items() if term in ("λ", "w", "Φ", "E", "f, ∇f")},
    "The methods": METHODS,
    "The errors": ERRORS,
    "How a number is known": KNOWN,
    "The verdicts on a bound": VERDICTS,
}


def as_html() -> str:
    """Return the glossary as HTML, without scripts."""
    return described(PARAGRAPHS, PARTS)
