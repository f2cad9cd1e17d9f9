"""The steps of a stochastic iteration: w_{i+1} = w_i + η_i(Φ̂(w_i, ζ_i) − w_i)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from boundcheck.errors import InputError

NUMBER = r"\d*\.?\d+(?:e[-+]?\d+)?|\d+\."
DECREASING = rf"(?:η_i=)?(?P<beta>{NUMBER})/\((?P<gamma>{NUMBER})\+i\)"
CONSTANT = rf"(?:η=)?(?P<eta>{NUMBER})"
FORMS = tuple(
    re.compile(form) for form in (CONSTANT, DECREASING, rf"{CONSTANT}for(?P<switch>\d+)steps?,?then{DECREASING}")
)


@dataclass(frozen=True)
class StepSchedule:
    """The steps η_0, η_1, … of a stochastic iteration: constant, decreasing, or constant first and decreasing later.

    η_i = `eta` for i < `switch`, and β/(γ + i − switch) from then on.

    Attributes
    ----------
    eta : float
        The constant step, in (0, 1]; not used if `switch` is 0.
    switch : int or None
        The first i at which steps decrease; None for constant steps.
    beta : float
        The numerator of decreasing steps; 0 if there are none.
    gamma : float
        The offset of decreasing steps, at least β, so that no step is above 1; 0 if there are none.
    """

    eta: float
    switch: int | None = None
    beta: float = 0.0
    gamma: float = 0.0

    def __post_init__(self) -> None:
        if self.switch != 0 and not 0 < self.eta <= 1:
            raise InputError(f"eta = {self.eta} is not a step; give a number in (0, 1]")
        if self.switch is not None:
            if self.switch < 0:
                raise InputError(f"switch = {self.switch} < 0; give the first step that decreases, 0 or later")
            if not 0 < self.beta < math.inf:
                raise InputError(f"beta = {self.beta} is not the size of a step; give a positive number")
            if not self.beta <= self.gamma < math.inf:
                raise InputError(f"gamma = {self.gamma} < beta = {self.beta}, so a step is above 1; give gamma >= beta")

    @classmethod
    def constant(cls, eta: float) -> StepSchedule:
        """Return the same step η for every iteration.

        Parameters
        ----------
        eta : float
            The step, in (0, 1]; with 1, w_{i+1} = Φ̂(w_i, ζ_i).

        Returns
        -------
        StepSchedule
            The steps.

        Raises
        ------
        InputError
            If the step is not in (0, 1].
        """
        return cls(eta)

    @classmethod
    def decreasing(cls, beta: float, gamma: float) -> StepSchedule:
        """Return the steps η_i = β/(γ + i).

        Parameters
        ----------
        beta : float
            The numerator β, positive.
        gamma : float
            The offset γ, at least `beta`.

        Returns
        -------
        StepSchedule
            The steps.

        Raises
        ------
        InputError
            If β or γ cannot be used.
        """
        return cls(0.0, 0, beta, gamma)

    @classmethod
    def parse(cls, text: str) -> StepSchedule:
        """Return the steps of a text, as on the command line.

        Parameters
        ----------
        text : str
            A number for constant steps; "2/(10+i)" for steps that decrease; or
            "0.5 for 100 steps, then 2/(10+i)". Spaces do not matter.

        Returns
        -------
        StepSchedule
            The steps.

        Raises
        ------
        InputError
            If the text has another form, or a step cannot be used.

        Examples
        --------
        >>> import boundcheck as bc
        >>> print(bc.StepSchedule.parse("0.5"))
        η = 0.5
        >>> print(bc.StepSchedule.parse("2/(10+i)"))
        η_i = 2/(10 + i)
        """
        packed = "".join(text.split()).lower()
        match = next((match for form in FORMS if (match := form.fullmatch(packed))), None)
        if match is None:
            raise InputError(f"{text!r} is not a step; write a number such as 0.5, or 2/(10+i) for steps that decrease")
        parts = match.groupdict()
        eta, beta, gamma = (float(parts.get(name) or 0) for name in ("eta", "beta", "gamma"))
        if "beta" not in parts:
            return cls(eta)
        return cls(eta, int(parts["switch"]) if "switch" in parts else 0, beta, gamma)

    def at(self, i: int) -> float:
        """Return the step η_i of the iteration from w_i to w_{i+1}.

        Parameters
        ----------
        i : int
            The iteration, from 0.

        Returns
        -------
        float
            The step, in (0, 1].
        """
        if self.switch is None or i < self.switch:
            return self.eta
        return self.beta / (self.gamma + i - self.switch)

    @property
    def largest(self) -> float:
        """The largest step."""
        first = 0.0 if self.switch == 0 else self.eta
        return first if self.switch is None else max(first, self.beta / self.gamma)

    def __str__(self) -> str:
        decreasing = f"η_i = {self.beta:.4g}/({self.gamma:.4g} + i)"
        if self.switch is None:
            return f"η = {self.eta:.4g}"
        if self.switch == 0:
            return decreasing
        many = "step" if self.switch == 1 else "steps"
        return f"η = {self.eta:.4g} for {self.switch} {many}, then {decreasing}"
