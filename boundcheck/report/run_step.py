"""One step of an upper-level run: the accuracy of its hypergradient and of its start."""

from __future__ import annotations

import math
from dataclasses import dataclass

from boundcheck.report.accuracy import Accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side

COLUMNS = (
    "step", "side", "error_lower", "error", "relative_error", "angle", "descent", "gradient_norm", "f", "decrease",
    "lam_step", "r_0", "r_t", "r_t_bound", "r_t_bound_side", "r_t_residual", "r_t_estimate", "t", "k", "t_enough",
    "k_enough", "cost", "seconds", "why",
)  # fmt: skip
WORDS = frozenset(("side", "r_t_bound_side", "why"))


@dataclass(frozen=True)
class DistanceBound:
    """A bound on r_t = ‖w_t − w(λ)‖, with its side.

    Attributes
    ----------
    name : str
        The name of the bound in the catalogue, "warm-start" or "warm-drift".
    value : float
        The value of the bound.
    side : Side
        `UPPER` or `EXACT` if it is proved, `HIGH_PROBABILITY` if it holds with some probability, `LOWER` if it is an
        estimate.
    """

    name: str
    value: float
    side: Side

    @property
    def proved(self) -> bool:
        """Whether the bound is proved."""
        return self.side in (Side.UPPER, Side.EXACT)


@dataclass(frozen=True)
class Enough:
    """Numbers of steps that reach the requested relative error from the same start. They were run and compared.

    Attributes
    ----------
    t : int
        Lower-level steps.
    k : int or None
        Steps of the linear solver; None for ITD.
    """

    t: int
    k: int | None


@dataclass(frozen=True, eq=False)
class RunStep:
    """One step of an upper-level run: the w and the g that were computed at λ, compared with w(λ) and ∇f(λ).

    Attributes
    ----------
    step : int
        The number of the step, from 0.
    lam_step : float
        The distance of λ from the λ of the previous step; NaN at the first step.
    accuracy : Accuracy or None
        The error of g, absolute and relative, its angle, and whether −g is a descent direction; None if unknown, and
        then `why` gives the reason.
    f : float
        An estimate of f(λ): E at the reference.
    decrease : float
        An estimate of the decrease of f since the last watched step; NaN at the first step.
    r_0 : Enclosure or None
        Lower and upper bounds on ‖w_0 − w(λ)‖, where w_0 is the start of this step; None if unknown.
    r_t : Enclosure or None
        Lower and upper bounds on ‖w − w(λ)‖.
    bound : DistanceBound or None
        The bound `warm-start` on r_t, q^t r_0, for exact arithmetic.
    from_residual : DistanceBound or None
        The bound from the start alone, without w(λ): q^t ‖w_0 − Φ(w_0, λ)‖/(1 − q).
    estimate : DistanceBound or None
        `warm-drift` with ‖w'‖ at the previous λ: q^t (r of the previous step + W ‖Δλ‖). This is an estimate, because W
        at one λ does not bound ‖w'‖ between both λ.
    t, k : int or None
        The numbers of steps, if they are known.
    enough : Enough or None
        The steps that are enough for the requested relative error; None if none was requested, or if no steps up to
        the limit are enough.
    seconds : float
        The time that this row took.
    why : str
        Why a number is missing or only an estimate; empty otherwise.
    """

    step: int
    lam_step: float = math.nan
    accuracy: Accuracy | None = None
    f: float = math.nan
    decrease: float = math.nan
    r_0: Enclosure | None = None
    r_t: Enclosure | None = None
    bound: DistanceBound | None = None
    from_residual: DistanceBound | None = None
    estimate: DistanceBound | None = None
    t: int | None = None
    k: int | None = None
    enough: Enough | None = None
    seconds: float = math.nan
    why: str = ""

    @property
    def proved(self) -> bool:
        """Whether the error of g is proved."""
        return self.accuracy is not None and self.accuracy.proved

    @property
    def descent(self) -> bool | None:
        """Whether −g is a descent direction of f; None if that is unknown or only estimated."""
        return self.accuracy.descent if self.accuracy is not None and self.proved else None

    @property
    def cost(self) -> int | None:
        """The number of steps t + k; None if t is unknown."""
        return None if self.t is None else self.t + (self.k or 0)

    @property
    def estimate_held(self) -> bool | None:
        """Whether r_t is at most its estimate; None if the bounds on r_t do not decide."""
        if self.estimate is None or self.r_t is None:
            return None
        if float(self.r_t.upper) <= self.estimate.value:
            return True
        return False if float(self.r_t.lower) > self.estimate.value else None

    def to_dict(self) -> dict[str, float]:
        """The known numbers by name, for a logger.

        Returns
        -------
        dict from str to float
            The names are the columns of `RunTrace.to_csv`. `descent` is 1 or 0, and `proved` is 1 if the error is
            proved, else 0. Numbers that are unknown or not finite are left out.
        """
        cells = {name: value for name, value in self.numbers().items() if name not in WORDS and value is not None}
        cells["proved"] = float(self.proved)
        return {name: float(value) for name, value in cells.items() if math.isfinite(value)}

    def numbers(self) -> dict[str, float | None]:
        """Every column of `RunTrace.to_csv` as a number.

        Returns
        -------
        dict from str to float or None
            The numbers by name; None if a number is unknown, and for columns of text.
        """
        accuracy = self.accuracy
        cells: dict[str, float | None] = dict.fromkeys(COLUMNS)
        cells |= {"step": self.step, "f": self.f, "decrease": self.decrease, "lam_step": self.lam_step}
        cells |= {"t": self.t, "k": self.k, "cost": self.cost, "seconds": self.seconds}
        if accuracy is not None:
            cells |= {"error_lower": float(accuracy.error.lower), "error": float(accuracy.error.upper)}
            cells |= {"relative_error": accuracy.relative_error, "angle": accuracy.angle}
            cells |= {"gradient_norm": float(accuracy.gradient_norm.upper)}
            cells["descent"] = None if self.descent is None else float(self.descent)
        for name, distance in (("r_0", self.r_0), ("r_t", self.r_t)):
            cells[name] = None if distance is None else float(distance.upper)
        bounds = {"r_t_bound": self.bound, "r_t_residual": self.from_residual, "r_t_estimate": self.estimate}
        cells |= {name: None if bound is None else bound.value for name, bound in bounds.items()}
        if self.enough is not None:
            cells |= {"t_enough": self.enough.t, "k_enough": self.enough.k}
        return cells

    def words(self) -> dict[str, str]:
        """The columns of text of `RunTrace.to_csv`.

        Returns
        -------
        dict from str to str
            The texts by name; empty if unknown.
        """
        side = "" if self.accuracy is None else self.accuracy.error.side.value
        return {"side": side, "why": self.why, "r_t_bound_side": "" if self.bound is None else self.bound.side.value}

    def to_csv(self) -> list[str]:
        """One line of `RunTrace.to_csv`.

        Returns
        -------
        list of str
            A cell for each column; empty if unknown.
        """
        words = self.words()
        return [words[name] if name in WORDS else _number(value) for name, value in self.numbers().items()]


def _number(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, int) else repr(float(value))
