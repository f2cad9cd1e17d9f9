"""The balls around w* on which χ and ω are bounded, each enclosed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from boundcheck.constants import Constant, Constants
from boundcheck.numerics.estimate import derived_constants, directional_constants
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.side import Side


def falling(radii: Sequence[float]) -> list[float]:
    return sorted(set(radii), reverse=True)


@dataclass(frozen=True, eq=False)
class DirectionalBalls:
    """χ and ω on balls around w*, each of which is enclosed once."""

    proof: ProgramProof
    w: Tensor
    off: float
    balls: dict[float, directional_constants.OnBall | None] = field(default_factory=dict)

    def enclose(self, width: float) -> directional_constants.OnBall | None:
        if width not in self.balls:
            wider = (width + self.off) * derived_constants.ROUNDED_UP
            try:
                self.balls[width] = directional_constants.OnBall.of(self.proof, self.w, width, wider)
            except Declined:
                self.balls[width] = None
        return self.balls[width]

    def constants(self, radii: Sequence[float], asked: Sequence[float]) -> list[Constant]:
        """On the first of some balls and on those asked for; none where a program cannot be enclosed."""
        balls = [self.enclose(width) for width in falling(radii)]
        enclosed = [ball for ball in balls if ball is not None]
        try:
            some = enclosed if len(enclosed) == len(balls) else []
            return directional_constants.constants_of(self.proof, self.w, self.off, some, asked)
        except Declined:
            return []


def directional_balls(
    setting: Setting, constants: Constants, with_step: Callable[[], ProgramProof | None], off: float
) -> DirectionalBalls | None:
    """χ and ω, if α does not depend on λ."""
    slope, r_0 = constants.get("grad_alpha"), constants.get("r_0")
    frozen = setting.problem.frozen_step or (slope is not None and slope.value == 0 and slope.side is Side.EXACT)
    probable = r_0 is None or r_0.side is Side.HIGH_PROBABILITY  # is it known where w* is only with some probability?
    if not frozen or "alpha" not in constants or setting.problem.inner_at is None or probable:
        return None
    proof = setting.program if setting.program.has_loss else with_step()
    return None if proof is None else DirectionalBalls(proof, setting.w_star, off)
