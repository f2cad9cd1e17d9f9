"""Explanations of constants: the contribution of each operation of the user's functions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from boundcheck.ball import Ball
from boundcheck.constants import Constant, Constants
from boundcheck.json_numbers import finite
from boundcheck.side import in_words

ADD_UP = (
    "Each value is that of one operation alone; the norm of a sum is at most the sum of the norms, "
    "so they need not add up."
)


@dataclass(frozen=True)
class Contribution:
    """The contribution of one operation of the user's functions to a constant.

    Attributes
    ----------
    operation : str
        The name of the operation in PyTorch's ATen library, such as "softplus".
    line : str
        The file and line of the user's code that calls it, such as "mine.py:12"; empty if there is none.
    value : float
        The value of the constant with this operation alone; infinite if there is no bound.
    at_centre : float or None
        The same only at the centre of the ball; None if it is not computed.
    count : int
        The number of times that this line runs this operation; 1 by default.
    note : str
        How the value is composed: the range of the argument over the ball, derivatives, norms.
    hint : str
        What to change if the value is infinite or far above the value at the centre; else empty.
    """

    operation: str
    line: str
    value: float
    at_centre: float | None = None
    count: int = 1
    note: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Explanation:
    """The derivation of a constant from the user's functions.

    Attributes
    ----------
    constant : Constant
        The constant from `estimate_constants`.
    ball : Ball or None
        The ball over which the operations were enclosed; None if they were not.
    quantity : str
        The quantity to which the operations contribute, such as "α‖D³ℓ‖ by w"; empty if there are none.
    value : float or None
        The value that the functions prove; infinite if they prove no bound, None if they could not be read.
    contributions : tuple of Contribution
        The contributions of the operations, largest first.
    remark : str
        A remark: which formula the constant follows from, or what to look at instead.
    no_proof : str
        Why the functions prove nothing: the operation or the line; empty if they do.
    """

    constant: Constant
    ball: Ball | None = None
    quantity: str = ""
    value: float | None = None
    contributions: tuple[Contribution, ...] = ()
    remark: str = ""
    no_proof: str = ""

    def __str__(self) -> str:
        constant = self.constant
        known = in_words(constant.side, constant.name)
        lines = [f"{constant.name} = {constant.value:.6g}, {known}: {constant.provenance.how}"]
        lines += [f"  not proved: {self.no_proof}"] if self.no_proof else []
        lines += [f"  {self.remark}"] if self.remark else []
        for part in self.contributions:
            place = " ".join(filter(None, (part.operation, part.line)))
            lines.append(f"  {part.value:.6g} by {place}{f': {part.note}' if part.note else ''}")
            lines += [f"    {part.hint}"] if part.hint else []
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as plain data, for a JSON file.

        Returns
        -------
        dict
            Plain data, with None in place of infinity.
        """
        name = self.constant.name
        return {
            "name": name,
            "constant": Constants({name: self.constant}).as_json()[name],
            "ball": None if self.ball is None else asdict(self.ball),
            "quantity": self.quantity,
            "value": finite(self.value),
            "contributions": [
                {**asdict(part), "value": finite(part.value), "at_centre": finite(part.at_centre)}
                for part in self.contributions
            ],
            "remark": self.remark,
            "no_proof": self.no_proof,
        }
