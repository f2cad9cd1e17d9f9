"""Small problems with minibatches as a stranger writes them, and what is true of their examples, by brute force."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import jacrev, vmap

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem

D = torch.float64
EXAMPLES, FEATURES = 6, 3


def _data() -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(3)
    X = torch.randn(EXAMPLES, FEATURES, generator=g, dtype=D)
    return X, torch.randn(EXAMPLES, generator=g, dtype=D), torch.arange(EXAMPLES) % 3


def _outer(w: Tensor, lam: Tensor) -> Tensor:
    return ((w - 0.3) ** 2).sum() + w.sum()


@cache
def problem(name: str, batch: int = 2, replacement: bool = True) -> Problem:
    """One of `NAMES`."""
    X, y, label = _data()
    start, lam = torch.zeros(FEATURES, dtype=D), torch.full((FEATURES,), -1.0, dtype=D)
    options = {"batch": batch, "replacement": replacement}
    if name == "ridge":

        def ridge(w: Tensor, lam: Tensor, rows: tuple[Tensor, Tensor]) -> Tensor:
            return F.mse_loss(rows[0] @ w, rows[1]) / 2 + (lam.exp() * w**2).sum() / 2

        return bc.Problem.from_loss(ridge, _outer, start, lam, data=(X, y), **options)
    if name == "lr":

        def lr(w: Tensor, lam: Tensor, rows: tuple[Tensor, Tensor]) -> Tensor:
            margins = rows[1].sign() * (rows[0] @ w)
            return F.softplus(-margins).mean() + (lam.exp() * w**2).sum() / 2

        return bc.Problem.from_loss(lr, _outer, start, lam, data=(X, y), **options)
    if name == "multinomial":

        def multinomial(W: Tensor, lam: Tensor, rows: tuple[Tensor, Tensor]) -> Tensor:
            return F.cross_entropy(rows[0] @ W, rows[1]) + lam.exp() * (W**2).sum() / 2

        W, one = torch.zeros(FEATURES, 3, dtype=D), torch.tensor(-1.0, dtype=D)
        return bc.Problem.from_loss(multinomial, _outer, W, one, data=(X, label), **options)
    if name == "cleaning":

        def cleaning(W: Tensor, lam: Tensor, rows: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            losses = F.cross_entropy(rows[0] @ W, rows[1], reduction="none")
            return (torch.sigmoid(lam)[rows[2]] * losses).mean() + 0.1 * (W**2).sum()

        W, own = torch.zeros(FEATURES, 3, dtype=D), torch.linspace(-1, 1, EXAMPLES, dtype=D)
        rows = (X, label, torch.arange(EXAMPLES))
        return bc.Problem.from_loss(cleaning, _outer, W, own, data=rows, **options)
    A = 0.25 * torch.randn(EXAMPLES, FEATURES, FEATURES, generator=torch.Generator().manual_seed(4), dtype=D)
    if name == "tanh":

        def tanh(w: Tensor, lam: Tensor, rows: Tensor) -> Tensor:
            return torch.tanh(rows @ w + lam).mean(0)

        return bc.Problem.from_map(tanh, _outer, start, lam / 2, data=A, **options)

    def apart(w: Tensor, lam: Tensor, rows: Tensor) -> Tensor:
        return 0.5 * torch.tanh(rows @ w + 1).mean(0) + lam / 4

    return bc.Problem.from_map(apart, _outer, start, lam / 2, data=A, **options)


LOSSES = ("ridge", "lr", "multinomial", "cleaning")
NAMES = (*LOSSES, "tanh", "apart")


def phi(p: Problem, w: Tensor, index: Tensor, lam: Tensor | None = None) -> Tensor:
    """Φ̂ on some examples."""
    assert p.finite_sum is not None
    return p.finite_sum.phi_on(w, p.prepare(p.lam if lam is None else lam), index)


def of_every(p: Problem, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Φ_i(w), ∂₁Φ_i and ∂₂Φ_i for every example; with rows of w, for each of them."""
    rows = torch.arange(EXAMPLES)[:, None]
    maps = lambda w, lam: vmap(lambda row: phi(p, w, row, lam))(rows)  # noqa: E731
    every = lambda w: (maps(w, p.lam), jacrev(maps, 0)(w, p.lam), jacrev(maps, 1)(w, p.lam))  # noqa: E731
    values, by_w, by_lam = vmap(every)(w) if w.dim() == 2 else every(w)
    return values.detach(), by_w.detach(), by_lam.detach()


def spread(J: Tensor, *, both: bool = False) -> float:
    """The largest λmax of the mean of (J_i − J)(J_i − J)ᵀ over the points; the larger of both orders if asked."""
    J = J - J.mean(-3, keepdim=True)
    left = float(torch.linalg.eigvalsh((J @ J.mT).mean(-3)).max())
    return max(left, float(torch.linalg.eigvalsh((J.mT @ J).mean(-3)).max())) if both else left


def points(centre: Tensor, radius: float, count: int, seed: int = 0) -> Tensor:
    """The centre and points of the ball, half of them on its sphere."""
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(count, len(centre), generator=g, dtype=D)
    u = u / u.norm(dim=1, keepdim=True)
    u[count // 2 :] *= torch.rand(count - count // 2, 1, generator=g, dtype=D)
    return torch.cat((centre[None], centre + radius * u))


def minibatches(batch: int, replacement: bool) -> Tensor:
    """All of them, each as often as it is drawn."""
    every = product(range(EXAMPLES), repeat=batch) if replacement else combinations(range(EXAMPLES), batch)
    return torch.tensor(list(every))


def of_minibatches(p: Problem, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Φ̂, ∂₁Φ̂ and ∂₂Φ̂ of every minibatch, as means over its examples."""
    assert p.finite_sum is not None
    index = minibatches(p.finite_sum.batch, p.finite_sum.replacement)
    values, by_w, by_lam = (x[index].mean(1) for x in of_every(p, w))
    assert torch.allclose(vmap(lambda row: phi(p, w, row))(index), values, rtol=0, atol=1e-13)
    return values, by_w, by_lam
