"""Test whether the lower level leads from its own iterates to a w that Newton's method has reached.

A Newton step may jump to another fixed point. If steps of Φ approach w in the Euclidean norm, ⟨x − Φ(x), x − w⟩ > 0. If
this is false at a point x between an iterate of Φ and w, then Φ does not lead straight to w.
"""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem

PLACES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)  # the points to test, as fractions of the way
RESTS = 1e3  # a way shorter than this many rounding units of w counts as 0


def leads_to(problem: Problem, prepared: Prepared, w_before: Tensor, w: Tensor) -> bool:
    """Whether steps of Φ lead from `w_before`, an iterate of the lower level, towards w at all tested points."""
    way = w - w_before
    if not float(way.norm()) > RESTS * torch.finfo(w.dtype).eps * float(w.norm()):
        return True
    with torch.no_grad():
        points = (w_before + place * way for place in PLACES)
        return all(float((x - problem.phi_at(x, prepared.ready)) @ way) < 0 for x in points)
