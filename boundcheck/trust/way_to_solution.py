"""Does the lower level lead from its own iterates to a w that Newton's method found?

A Newton step may jump to another fixed point. Where steps of Φ approach w in the Euclidean norm, ⟨x − Φ(x), x − w⟩ > 0.
A point x between an iterate of Φ and w at which this is false shows that Φ does not lead straight to w.
"""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem

PLACES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)  # of the way
RESTS = 1e3  # units of rounding: a way that is shorter than this part of w is none


def leads_to(problem: Problem, prepared: Prepared, w_before: Tensor, w: Tensor) -> bool:
    """Do steps of Φ lead from `w_before`, an iterate of the lower level, towards w, at some points of the way?"""
    way = w - w_before
    if not float(way.norm()) > RESTS * torch.finfo(w.dtype).eps * float(w.norm()):
        return True
    with torch.no_grad():
        points = (w_before + place * way for place in PLACES)
        return all(float((x - problem.phi_at(x, prepared.ready)) @ way) < 0 for x in points)
