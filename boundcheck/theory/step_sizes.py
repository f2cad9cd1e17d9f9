"""Step sizes from μ and L, and from the constants of a problem: the public module `bc.step_sizes`.

`gradient_methods.py` has the methods, `lyapunov.py` the norms in which momentum methods contract, and `step_advice.py`
the recommended step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from boundcheck.constants import Constants
from boundcheck.errors import InputError
from boundcheck.side import Side
from boundcheck.theory.gradient_methods import GradientDescent, Momentum, gradient_descent, heavy_ball, nesterov
from boundcheck.theory.lyapunov import Lyapunov, lyapunov, lyapunov_for
from boundcheck.theory.step_advice import StepAdvice, advise

__all__ = [
    "GradientDescent",
    "Lyapunov",
    "Momentum",
    "OwnStep",
    "StepAdvice",
    "StepSizes",
    "advise",
    "from_constants",
    "gradient_descent",
    "heavy_ball",
    "lyapunov",
    "lyapunov_for",
    "nesterov",
]


@dataclass(frozen=True)
class OwnStep:
    """The gradient step of the problem itself.

    Attributes
    ----------
    alpha : float
        The step α.
    q : float
        The contraction constant max(1 − αμ, αL − 1).
    contracts : bool
        Whether q < 1, and no measurement on the ball shows otherwise.
    """

    alpha: float
    q: float
    contracts: bool


@dataclass(frozen=True)
class StepSizes:
    """Step sizes for μ and L: the best gradient step, the momentum methods, and the problem's own step.

    Attributes
    ----------
    proved : bool
        False if μ and L were measured at w* only, or hold only with some probability. Then all numbers are estimates.
    best : GradientDescent
        Gradient descent with the best step.
    heavy_ball : Momentum
        Heavy ball with its best parameters.
    nesterov : Momentum
        Nesterov's method.
    own : OwnStep or None
        The step of the problem; None if the constants contain no alpha.
    """

    proved: bool
    best: GradientDescent
    heavy_ball: Momentum
    nesterov: Momentum
    own: OwnStep | None

    def as_json(self) -> dict[str, Any]:
        """The step sizes as plain data, for a JSON file.

        Returns
        -------
        dict
            "proved", and the numbers of each method by its name; "own" if the problem has a step.
        """
        content: dict[str, Any] = {"proved": self.proved, "gradient-descent": asdict(self.best)}
        for method in (self.heavy_ball, self.nesterov):
            content[method.name] = {"alpha": method.alpha, "beta": method.beta, "rate": method.rate}
        return content if self.own is None else {**content, "own": asdict(self.own)}


def from_constants(constants: Constants) -> StepSizes | None:
    """Compute step sizes from the constants of a problem.

    Parameters
    ----------
    constants : Constants
        The constants: μ and L, and alpha and q if the problem has a step size.

    Returns
    -------
    StepSizes or None
        None if μ or L is missing, or if they are not the ends of a positive spectrum.

    Examples
    --------
    >>> import boundcheck as bc
    >>> sizes = bc.step_sizes.from_constants(bc.Constants.given(mu=1.0, L=4.0))
    >>> sizes.proved, sizes.best.alpha, sizes.own
    (True, 0.4, None)
    """
    if not {"mu", "L"} <= set(constants) or constants["mu"].value <= 0:
        return None
    low, high = constants["mu"].value, constants["L"].value
    try:
        best, heavy, accelerated = gradient_descent(low, high), heavy_ball(low, high), nesterov(low, high)
    except InputError:
        return None
    return StepSizes(_vouched(constants), best, heavy, accelerated, _own_step(constants))


def _vouched(constants: Constants) -> bool:
    """Whether μ and L are on their safe sides. Then a step that contracts for them contracts for the true values."""
    mu, L = constants["mu"].side, constants["L"].side
    return mu in (Side.EXACT, Side.LOWER) and L in (Side.EXACT, Side.UPPER)


def _own_step(constants: Constants) -> OwnStep | None:
    if "alpha" not in constants:
        return None
    step = gradient_descent(constants["mu"].value, constants["L"].value, constants["alpha"].value)
    q = constants["q"]
    refuted = q.value >= 1 and q.side in (Side.EXACT, Side.LOWER)  # Φ does not contract on the whole ball
    return OwnStep(step.alpha, step.q, step.contracts and not refuted)
