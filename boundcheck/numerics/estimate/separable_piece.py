"""A part of a separable program at one λ and over one ball: its linear map and the ranges of its functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.elementary import Jet
from boundcheck.numerics.program.enclosure.intervals import Interval, point
from boundcheck.numerics.program.enclosure.log_sum_exp import softmax
from boundcheck.numerics.program.enclosure.special_rules import CUT_OFF
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.rounding_rules.ball import gamma
from boundcheck.numerics.program.separable.affine import Affine
from boundcheck.numerics.program.separable.terms import LogSums, Part

LOOSE = 1 + 1e-12  # more than the rounding of a few factors
THRESHOLD = 20  # the threshold of PyTorch's softplus


@dataclass(frozen=True, eq=False)
class Piece:
    """A part at one λ and over one ball.

    Attributes
    ----------
    z : Affine
        The linear map.
    soft : bool
        Whether φ is log-sum-exp over the last axis of z. Then there is one number for each group of entries.
    weight : Interval
        Σ aψ for each entry of z or each group.
    jet, at : Jet
        The ranges of φ, φ', φ'' and φ''' over the ball and at its centre; for log-sum-exp, φ' is the softmax.
    i, lam, slope : Tensor
        For each term with a ψ: the index of its entry or group, the index in λ, and a bound on |aψ' ∂u/∂λ|.
    """

    z: Affine
    soft: bool
    weight: Interval
    jet: Jet
    at: Jet
    i: Tensor
    lam: Tensor
    slope: Tensor

    def per_entry(self, x: Tensor) -> Tensor:
        """Expand a tensor with one number for each group to the entries of z."""
        x = x.reshape(self.z.shape[:-1] if self.soft else self.z.shape)
        return x.unsqueeze(-1).expand(self.z.shape) if self.soft else x

    @property
    def selects(self) -> bool:
        """Whether each entry of z depends on one entry of w."""
        return self.z.X is None and not self.soft

    def along(self, values: Tensor) -> Tensor:
        """Return the sums of non-negative values of terms over each entry or group, rounded up."""
        count = self.weight.lo.numel()
        sums = torch.zeros(count, dtype=torch.float64).index_add(0, self.i, values)
        return sums * (1 + gamma(len(values) + 2)) * LOOSE


def piece_of(part: Part, centre: Tensor, lam: Tensor, radius: float, notes: dict[str, None]) -> Piece:
    """Evaluate a part at λ and over the ball of this radius around the centre. Remarks are added to `notes`."""
    phi = part.phi
    assert phi is not None
    count = phi.shape.numel()
    psi = slope = None
    of_lam = torch.zeros(0, dtype=torch.long)
    if part.psi is not None and part.k is not None:
        u = part.psi.z
        jet = part.psi.chain.jets(u.around(lam, 0.0))
        value, first = (x.map(lambda t: t.expand(u.shape).reshape(-1)[part.k]) for x in jet[:2])
        psi = value
        if u.X is None:
            of_lam = u.select.reshape(-1)[part.k]
            slope = part.a.abs() * first.size * u.scale.abs().reshape(-1)[part.k] * LOOSE
        else:
            slope = torch.full_like(part.a, math.inf)
            of_lam = torch.zeros_like(part.k)
    terms = point(part.a) * psi if psi is not None else point(part.a)
    zeros = torch.zeros(count, dtype=torch.float64)
    mid, size = zeros.index_add(0, part.i, terms.mid), zeros.index_add(0, part.i, terms.size)
    rad = zeros.index_add(0, part.i, terms.rad) + (gamma(len(part.i) + 2) + 1e-12) * size
    shape = phi.shape
    weight = Interval((mid - rad).reshape(shape), (mid + rad).reshape(shape))
    box, at = phi.z.around(centre, radius), phi.z.around(centre, 0.0)
    if isinstance(phi, LogSums):
        jets = [(x, softmax(x), x, x) for x in (box, at)]
    else:
        shape = phi.z.shape
        for inner in phi.limits:
            if not bool((inner.jets(at)[0].hi <= THRESHOLD).all()):
                raise Declined(
                    f"aten.softplus beyond its threshold of {THRESHOLD} at the centre of the ball, where PyTorch "
                    "returns its argument; write -logsigmoid(-x)"
                )
            if not bool((inner.jets(box)[0].hi <= THRESHOLD).all()):
                notes[CUT_OFF] = None
        jets = [_expanded(phi.chain.jet(x), shape) for x in (box, at)]
    i = part.i if slope is not None else torch.zeros(0, dtype=torch.long)
    slope = torch.zeros(0, dtype=torch.float64) if slope is None else slope
    return Piece(phi.z, isinstance(phi, LogSums), weight, jets[0], jets[1], i, of_lam, slope)


def _expanded(jet: Jet, shape: torch.Size) -> Jet:
    a, b, c, d = (x.map(lambda t: t.expand(shape)) for x in jet)
    return a, b, c, d
