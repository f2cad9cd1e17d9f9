"""The entries of an input on which each entry of a tensor may depend, and a bound of its second derivative.

Let every entry y_e depend only on one block I(e) of w and one block J(e) of λ. With β_e ≥ ‖D²y_e‖ and unit u, a, b,

    Σ_e u_e D²y_e(a, b) ≤ (Σ_e β_e² ‖a_I(e)‖² ‖b_J(e)‖²)^½ ≤ max over pairs (I, J) of (Σ_{e of the pair} β_e²)^½,

as Σ_I Σ_J ‖a_I‖²‖b_J‖² = 1. In a layer with many examples, each pair of an example and a row of weights has one entry.
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

MOST_ENTRIES = 25_000_000  # largest number of pairs of an input entry and a tensor entry


def norm_by_blocks(value: Value, pair: Pair, bends: Tensor) -> float:
    """Return an upper bound of the norm of a second derivative, from the blocks on which the entries depend.

    `bends` holds the norms of the second derivatives of the entries. It may also hold bounds of the change
    ‖J_e(w) − J_e(v)‖/‖w − v‖ of their derivatives from a point v, to which the same argument applies.
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
    """Return the number of the block on which each entry depends; blocks are disjoint. None if it is too costly."""
    sets = depends_on(value, slot)
    if sets is None:
        return None
    inputs, entries = sets.flatten(1).nonzero().unbind(1)
    k, count = len(sets), value.box.lo.numel()
    graph = coo_matrix((torch.ones(len(inputs)).numpy(), (inputs.numpy(), k + entries.numpy())), (k + count, k + count))
    return torch.from_numpy(connected_components(graph, directed=False)[1][k:]).long()


def depends_on(value: Value, slot: str) -> Tensor | None:
    """Return a mask of shape (k, *x.shape): may an entry of x depend on an entry of the input, for any w and λ?

    None if the mask is too large.
    """
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
    """Return the mask of a result from the masks of the rule's inputs. For other rules, all entries are combined."""
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
        of_group = sets[0].any(-1, keepdim=True)
        return of_group[..., 0] if isinstance(rule, LogSumExp) else of_group.expand_as(sets[0])
    of_any = torch.stack([s.flatten(1).any(1) for s in sets]).any(0)
    return of_any.reshape(-1, *[1] * len(x.shape)).expand(len(of_any), *x.shape)
