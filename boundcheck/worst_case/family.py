"""Turn unconstrained numbers into instances, so that every step of an ascent gives a valid instance.

A row of raw numbers has w* and the ramps and angles of an instance. Lengths of ramps are exponentials; φ' is scaled so
that the contraction constant is q; w* is scaled to length 1, which changes no ratio. Without a part in `parts`, the
corresponding numbers are 0: slopes of φ', ζ, γ, χ for nu_1, nu_2, eta_1, eta_2, and the values of ∂₂Φ and ∇₁E at w = 0
for L_Phi and L_E. Without `saturating`, ramps are straight wherever they are evaluated: Φ is then bilinear, E is
quadratic, and ν₁ = 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.worst_case.arithmetic import DOUBLE, times
from boundcheck.worst_case.instance import ANGLES, RAMPS, Instance
from boundcheck.worst_case.ramp import Ramp
from boundcheck.worst_case.target import Target

FAR = 1e4  # the length of ramps without saturation
SHORTEST, LONGEST = -4.0, 4.0  # logarithms of the lengths of ramps
WIDER, WIDEST = 0.01, 8.0  # log of the tuned κ over the κ of the spectrum: least value (κ − 1 cancels), and range


@dataclass(frozen=True, eq=False)
class Family:
    """The instances among which the search looks for the worst."""

    target: Target
    d: int
    q: float
    parts: frozenset[str]
    saturating: bool = True
    least: float = 0.0  # the least share of the bound for each term of `parts`

    @cached_property
    def layout(self) -> dict[str, slice]:
        """The place of each array in a row."""
        slices, start = {}, 0
        for name, size in self._sizes():
            slices[name] = slice(start, start + size)
            start += size
        return slices

    def _sizes(self) -> Iterator[tuple[str, int]]:
        d, symmetric = self.d, self.target.kind(self.d).symmetric
        yield "w_star", d
        for name in RAMPS:
            for field in ("star", "plus", "minus", "m_plus", "m_minus"):
                yield f"{name}.{field}", 1 if name == "chi" else d
        for name in ANGLES:
            yield name, 0 if symmetric and name in ("U", "U_Z") else d * (d - 1) // 2
        for name in ("u", "s"):
            yield name, d if self.target.frees_solvers else 0
        yield "kappa", int(self.target.tuned)
        yield "scales", 2 if self.target.smooth else 0

    @property
    def size(self) -> int:
        return sum(size for _, size in self._sizes())

    def random(self, rows: int, generator: torch.Generator) -> Tensor:
        """Return normal numbers. In every other row ramps are long and straight; else all of them saturate early."""
        raw = torch.randn(rows, self.size, generator=generator, dtype=torch.float64)
        for name in ("zeta", "gamma", "chi"):
            plus, minus, *lengths = (self.layout[f"{name}.{field}"] for field in ("plus", "minus", "m_plus", "m_minus"))
            raw[::2, minus] = -raw[::2, plus]
            for length in lengths:
                raw[::2, length] = LONGEST - 0.1
        return raw

    def instance(self, raw: Tensor) -> Instance:
        """Return the instances of rows of raw numbers."""
        numbers = {name: raw[:, part] for name, part in self.layout.items()}
        scales = numbers.pop("scales")
        numbers["w_star"] = numbers["w_star"] / DOUBLE.norm(numbers["w_star"])[:, None].clamp(min=1e-9)
        numbers["kappa"] = (WIDER + WIDEST * torch.sigmoid(numbers["kappa"])).exp()
        half_turn = torch.zeros(len(raw), self.d * (self.d - 1) // 2, dtype=raw.dtype)
        numbers |= {name: half_turn for name in ANGLES if numbers[name].shape[1] != half_turn.shape[1]}
        ramps = {name: self._ramp(numbers, name) for name in RAMPS}
        ramps["phi"] = self._contracting(ramps["phi"])
        instance = Instance(self.target.kind(self.d), numbers | _flat(ramps))
        for name, part, V in (("zeta", "L_Phi", instance.V_Z), ("gamma", "L_E", instance.V_g)):
            if part not in self.parts:  # exactly 0 at w = 0; the search would exploit a cancellation
                ramps[name] = ramps[name].through(-ramps[name].change(DOUBLE, times(V, instance.start)))
        if self.target.smooth:
            ramps |= self._at_most_one(Instance(instance.kind, numbers | _flat(ramps)), ramps, scales)
        return Instance(instance.kind, numbers | _flat(ramps))

    def _ramp(self, numbers: dict[str, Tensor], name: str) -> Ramp:
        slope = {"phi": "nu_1", "zeta": "nu_2", "gamma": "eta_1", "chi": "eta_2"}[name]
        star, plus, minus = (numbers[f"{name}.{field}"] for field in ("star", "plus", "minus"))
        plus, minus = plus**3, minus**3  # makes values close to 0 likely
        lengths = [numbers[f"{name}.{field}"].clamp(SHORTEST, LONGEST).exp() for field in ("m_plus", "m_minus")]
        if name == "chi":
            star = 0 * star  # a constant in ∇₂E has no effect
        if slope not in self.parts or (name == "phi" and not self.saturating):
            plus, minus = 0 * plus, 0 * minus
        elif not self.saturating:
            minus, lengths = -plus, [torch.full_like(m, FAR) for m in lengths]
        return Ramp(star, plus, minus, lengths[0], lengths[1])

    def _contracting(self, ramp: Ramp) -> Ramp:
        """Scale the ramp to sup |φ'| = q; for smooth targets (L ≤ 1 for all second derivatives) first make φ' ≥ 0."""
        if self.target.smooth:
            floor = ramp.lowest(DOUBLE).clamp(max=0.0)
            ramp = ramp.shifted(-floor)
        largest = DOUBLE.largest(torch.maximum(ramp.highest(DOUBLE), -ramp.lowest(DOUBLE)))
        return ramp.scaled((self.q / largest.clamp(min=1e-12))[:, None])

    def _at_most_one(self, instance: Instance, ramps: dict[str, Ramp], scales: Tensor) -> dict[str, Ramp]:
        """Scale E and ∂₂Φ so that η₁, η₂ and L_Φ are at most 1."""
        constants = instance.constants(self.target.ball)
        of_E = torch.maximum(constants["eta_1"], constants["eta_2"]).clamp(min=1e-9)
        E, Z = torch.sigmoid(scales[:, 0]) / of_E, torch.sigmoid(scales[:, 1]) / constants["L_Phi"].clamp(min=1e-9)
        scaled = {name: ramps[name].scaled(E[:, None]) for name in ("gamma", "chi")}
        return {**scaled, "zeta": ramps["zeta"].scaled(Z[:, None])}


def _flat(ramps: dict[str, Ramp]) -> dict[str, Tensor]:
    return {f"{name}.{field}": array for name, ramp in ramps.items() for field, array in vars(ramp).items()}
