"""Which entries of an input each entry of a tensor may depend on, and what that says of its second derivative.

Let every entry y_e depend on one block I(e) of w and one block J(e) of λ alone. With β_e ≥ ‖D²y_e‖ and unit u, a, b,

    Σ_e u_e D²y_e(a, b) ≤ (Σ_e β_e² ‖a_I(e)‖² ‖b_J(e)‖²)^½ ≤ max over pairs (I, J) of (Σ_{e of the pair} β_e²)^½,

as Σ_I Σ_J ‖a_I‖²‖b_J‖² = 1. In a layer of many examples each pair of an example and a row of weights has one entry.
"""

from __future__ import annotations

import math

import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from boundcheck.numerics.program.enclosure.bilinear import Bilinear
from boundcheck.numerics.program.enclosure.elementwise import Elementwise
from boundcheck.numerics.program.enclosure.intervals import UP
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.log_sum_exp import LogSumExp
from boundcheck.numerics.program.enclosure.normalised import Normalised
from boundcheck.numerics.program.enclosure.scalar import values_before
from boundcheck.numerics.program.enclosure.value import Pair, Value, rounding

MOST_ENTRIES = 25_000_000  # of what one tensor depends on


def norm_by_blocks(value: Value, pair: Pair, bends: Tensor) -> float:
    """At least the norm of the second derivative of a tensor, from the blocks of inputs that its entries depend on.

    `bends` holds the norms of its entries; or how far from a point v the derivatives of entries move: what holds for
    the derivative along the way from v to w holds for that as well.
    """
    if not bool(bends.isfinite().all()):
        return math.inf
    groups = torch.zeros(bends.numel(), dtype=torch.long)
    for slot in dict.fromkeys(pair):
        labels = _blocks(value, slot)
        if labels is None:
            return math.inf
        groups = groups * (int(labels.max()) + 1) + labels
    groups = torch.unique(groups, return_inverse=True)[1]
    squares = torch.zeros(int(groups.max()) + 1, dtype=torch.float64).index_add(0, groups, bends.reshape(-1) ** 2)
    return math.sqrt(float(squares.max())) * (UP + rounding(bends.numel()))


def _blocks(value: Value, slot: str) -> Tensor | None:
    """For each entry the number of the block that it depends on; blocks share nothing. None if that is too large."""
    sets = depends_on(value, slot)
    if sets is None:
        return None
    inputs, entries = sets.flatten(1).nonzero().unbind(1)
    k, count = len(sets), value.box.lo.numel()
    graph = coo_matrix((torch.ones(len(inputs)).numpy(), (inputs.numpy(), k + entries.numpy())), (k + count, k + count))
    return torch.from_numpy(connected_components(graph, directed=False)[1][k:]).long()


def depends_on(value: Value, slot: str) -> Tensor | None:
    """Shape (k, *x.shape): may an entry of x depend on an entry of the input? For all w and λ. None if too large."""
    k = value.slopes[slot].F.shape[0] if slot in value.slopes else 0
    sets: dict[int, Tensor] = {}
    with torch.no_grad():
        for x in values_before(value):
            if slot not in x.slopes:
                sets[id(x)] = torch.zeros((), dtype=torch.bool).expand(k, *x.shape)
            elif k * x.box.lo.numel() > MOST_ENTRIES:
                return None
            elif x.rule is None:
                sets[id(x)] = x.slopes[slot].F != 0
            else:
                sets[id(x)] = _through(x, [sets[id(y)] for y in x.rule.inputs])
    return sets[id(value)]


def _through(x: Value, sets: list[Tensor]) -> Tensor:
    """What a result depends on, from what is read; with a rule that is not listed, on everything that it reads."""
    rule = x.rule
    if isinstance(rule, Elementwise):
        return sets[0]
    if isinstance(rule, Linear):
        return torch.vmap(rule.size)(*(s.double() for s in sets)) != 0
    if isinstance(rule, Bilinear):
        B = rule.B
        p, q = (torch.ones(y.shape, dtype=torch.float64) for y in rule.inputs)
        of_p, of_q = (s.double() for s in sets)
        return (torch.vmap(lambda s: B(s, q))(of_p) + torch.vmap(lambda s: B(p, s))(of_q)) != 0
    if isinstance(rule, LogSumExp | Normalised):
        joined = sets[0].any(-1, keepdim=True)
        return joined[..., 0] if isinstance(rule, LogSumExp) else joined.expand_as(sets[0])
    every = torch.stack([s.flatten(1).any(1) for s in sets]).any(0)
    return every.reshape(-1, *[1] * len(x.shape)).expand(len(every), *x.shape)
