"""Verdicts: whether the error stays below a bound, and what this proves, given how the constants are known."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from boundcheck.side import Side


class Verdict(str, Enum):
    """Whether the error stays below a bound, and what this proves; ordered from good to bad.

    Attributes
    ----------
    HOLDS : str
        "holds": the error is below the bound, and the constants are proved.
    HOLDS_PROBABLY : str
        "holds with high probability": the error is below the bound, and the constants are right with probability 1 − δ.
    CONSISTENT : str
        "consistent": the error is below the bound, but a constant may be too small, so nothing is proved.
    NOT_APPLICABLE : str
        "not applicable": the theorem does not apply to this method on this problem.
    INCONCLUSIVE : str
        "inconclusive": the error is above the bound, but a constant or the reference may be wrong.
    VIOLATED_PROBABLY : str
        "violated with high probability": the error is above the bound by more than rounding, the reference is
        certified, and the constants are right with probability 1 − δ.
    VIOLATED : str
        "violated": the error is above the bound by more than rounding, the reference is certified, and the constants
        are proved.
    """

    HOLDS = "holds"
    HOLDS_PROBABLY = "holds with high probability"
    CONSISTENT = "consistent"
    NOT_APPLICABLE = "not applicable"
    INCONCLUSIVE = "inconclusive"
    VIOLATED_PROBABLY = "violated with high probability"
    VIOLATED = "violated"

    @property
    def is_violation(self) -> bool:
        """Whether the error is above the bound, for certain or with high probability."""
        return self in (Verdict.VIOLATED, Verdict.VIOLATED_PROBABLY)


FORMULA_ROUNDING = 1e-9  # relative: a bound is a sum of products of a dozen rounded numbers and of q^t
FINE = 1e-6  # relative to the error: rounding that does not show in the printed digits of bound/error
WHEN = {
    Side.EXACT: (Verdict.HOLDS, Verdict.VIOLATED),
    Side.UPPER: (Verdict.HOLDS, Verdict.VIOLATED),
    Side.HIGH_PROBABILITY: (Verdict.HOLDS_PROBABLY, Verdict.VIOLATED_PROBABLY),
    Side.LOWER: (Verdict.CONSISTENT, Verdict.INCONCLUSIVE),
}


def excess(errors: np.ndarray, values: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Where the error exceeds the bound by more than rounding; False where the theorem does not apply (NaN)."""
    larger: np.ndarray = errors > values * (1 + FORMULA_ROUNDING) + floor
    return larger


def compared(errors: np.ndarray, values: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Where bound/error is meaningful: the error is above the floor, and rounding does not decide which is larger.

    If the error exceeds the bound by no more than the floor, the floor must be at most a millionth of the error.
    """
    within = (errors > values * (1 + FORMULA_ROUNDING)) & ~excess(errors, values, floor) & (floor > FINE * errors)
    comparable: np.ndarray = (errors > floor) & ~within & ~np.isnan(values)
    return comparable


def judge(
    errors: np.ndarray, values: np.ndarray, floor: np.ndarray, side: Side, *, certified: bool = True
) -> Verdict:  # fmt: skip
    """The verdict over all t at which the bound applies; without a certified reference it is never a violation."""
    if not np.isfinite(values).any():
        return Verdict.NOT_APPLICABLE
    verdict = WHEN[side][bool(excess(errors, values, floor).any())]
    return Verdict.INCONCLUSIVE if verdict.is_violation and not certified else verdict


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of several verdicts."""
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.NOT_APPLICABLE)
