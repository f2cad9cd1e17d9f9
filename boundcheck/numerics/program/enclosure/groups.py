"""Base class of rules that combine all entries of a group, the last axis of the tensor that they read.

Second derivatives contain a matrix X_g for each group g. It is bounded by its norm, and J_gᵀX_gK_g by the norms of X_g
and of the groups J_g and K_g.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from boundcheck.numerics.program.enclosure.elementwise import slack_by_norm
from boundcheck.numerics.program.enclosure.forms import sum_of_products
from boundcheck.numerics.program.enclosure.intervals import UP, euclidean
from boundcheck.numerics.program.enclosure.value import Pair, Slope, Value, rounding


@dataclass(frozen=True, eq=False)
class Groups:
    """A tensor x of shape (…, k), in which the last axis is a group."""

    x: Value

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors that the rule reads."""
        return (self.x,)

    @property
    def k(self) -> int:
        """The length of a group."""
        return self.x.shape[-1]

    def _sizes(self, x: Tensor) -> Tensor:
        """Return upper bounds of the norms of the groups."""
        sizes: Tensor = euclidean(x.reshape(-1, self.k), 1) * (UP + rounding(self.k))
        return sizes

    def _each(self, x: Tensor) -> Tensor:
        """Repeat one number per group for each entry of the group."""
        return x[:, None].expand(-1, self.k).reshape(-1)

    def _cross_slack(self, s: Tensor, one: Slope, two: Slope, pair: Pair) -> float:
        """Bound the difference of Σ_g JᵀX_g K and Σ_g FᵀX_g G by the uncertainty `rows`, if ‖X_g‖ is at most s_g."""
        if not bool(one.rows.any()) and not bool(two.rows.any()):
            return 0.0
        by_sum = sum_of_products(s, self._sizes(one.norms), self._sizes(two.rows))
        by_sum += sum_of_products(s, self._sizes(one.rows), self._sizes(two.reach))

        def remainders() -> tuple[float, float]:
            return self.x.remainder(pair[0]), self.x.remainder(pair[1])

        return min(by_sum, slack_by_norm(self._each(s), one, two, remainders)) * UP

    def _loose(self, c: Tensor, slopes: list[Slope]) -> float:
        """Bound what the uncertainty `rows` adds to Σ_g c_g ‖J_g‖‖K_g‖‖L_g‖."""
        if not any(bool(slope.rows.any()) for slope in slopes):
            return 0.0
        n = [self._sizes(slope.norms) for slope in slopes]
        r = [self._sizes(slope.rows) for slope in slopes]
        slack = sum_of_products(c, r[0], n[1] + r[1], n[2] + r[2])
        return slack + sum_of_products(c, n[0], r[1], n[2] + r[2]) + sum_of_products(c, n[0], n[1], r[2])
