"""The reason why the program of a problem does not prove a constant: the operation and the line, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.estimate.derived_constants import OF_LOWER
from boundcheck.numerics.estimate.program_proof import MOST_LAM, ProgramProof
from boundcheck.numerics.program.enclosure.site_notes import culprit
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.side import Side

# The order of the derivative of a loss, of a map or of E that each constant bounds.
OF_LOSS = {"mu": 2, "L": 2, "q": 2, "L_Phi": 2, "nu_1": 3, "nu_2": 3, "hat_rho_1": 3, "hat_rho_2": 3}
OF_MAP = {"q": 1, "L_Phi": 1, "nu_1": 2, "nu_2": 2}
OF_OUTER = {"L_E": 1, "eta_1": 2, "eta_2": 2}
BY_STEP = frozenset(("q", "nu_1", "L_Phi", "nu_2"))  # for a gradient step, these contain α times a derivative of ℓ
BY_LAM = frozenset(("L_Phi", "nu_2", "hat_rho_2", "eta_2"))


@dataclass(frozen=True, eq=False)
class WhyNot:
    """A proof over a region and its results. `no_centre` says why the position of the centre w* is not proved."""

    proof: ProgramProof
    region: Region
    alpha: Constant | None
    proved: Sequence[Constant]
    no_centre: str = ""

    def with_reason(self, constant: Constant) -> Constant:
        """Return the constant; if it is an estimate, add the reason why it is not proved."""
        if constant.is_safe or constant.name not in (OF_LOSS | OF_OUTER if self.proof.has_loss else OF_MAP | OF_OUTER):
            return constant
        reason = self.reason(constant.name)
        return replace(constant, provenance=replace(constant.provenance, no_proof=reason)) if reason else constant

    def reason(self, name: str) -> str:
        """Return the reason why a constant is not proved; empty if the program proves it."""
        problem, level = self.proof.problem, "outer" if name in OF_OUTER else "lower"
        by_name = {constant.name: constant for constant in self.proved}
        if level in self.proof.declined:
            return self.proof.declined[level]
        if name in BY_LAM and problem.n > MOST_LAM:
            return f"λ has {problem.n} entries, and derivatives by more than {MOST_LAM} are not formed"
        if self.proof.has_loss and name in BY_STEP and (self.alpha is None or self.alpha.side is not Side.EXACT):
            return "the step size is not the same number for all w"
        if self.proof.has_loss and name in ("L_Phi", "nu_2") and not problem.frozen_step:
            return "the step size depends on λ, and is differentiated"
        if self.no_centre:
            return f"the ball is around w*, whose position is not proved: {self.no_centre}"
        q = by_name.get("q")
        if name in OF_LOWER and q is not None and q.value >= 1:
            called = self.proof.called(level)
            return f"only q ≤ {q.value:.4g} follows from {called} on the ball, and a contraction needs q < 1"
        return "" if name in by_name else self._about_infinity(name, level)

    def _about_infinity(self, name: str, level: str) -> str:
        called = self.proof.called(level)
        order = (OF_OUTER if level == "outer" else OF_LOSS if self.proof.has_loss else OF_MAP)[name]
        operation = _culprit(self.proof, self.region, level, order)
        return f"{called}: {operation or 'its bound over the ball is infinite'}"


@lru_cache(maxsize=8)
def _culprit(proof: ProgramProof, region: Region, level: str, order: int) -> str:
    bounds = proof.outer_bounds if level == "outer" else proof.lower_bounds
    try:
        over = bounds(region.point, region.radius).over
    except Declined as why:
        return str(why)
    return culprit(over.values, order)
