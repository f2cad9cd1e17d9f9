"""A file of a user with mistakes in it, one in each function; the lines are counted in `test_bad_inputs.py`."""

TEXT = """
import numpy as np
import torch
import boundcheck as bc

X = torch.eye(3).double() + 0.5
y = torch.arange(3.0).double()
W, L = torch.zeros(3).double(), torch.zeros(3).double()


def inner(w, lam):
    return ((X @ w - y) ** 2).sum() / 2 + (lam.exp() * w**2).sum() / 2


def outer(w, lam):
    return ((w - 1) ** 2).sum()


def make(loss=inner, upper=outer, params=W, hparams=L, **rest):
    return bc.Problem.from_loss(loss, upper, params, hparams, **rest)


problem = bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, outer, W, L)
number = 3
nothing = lambda: None


def options(size=3, scale: float = 1.0, flag: bool = False, kind: str = "a", count: "int | None" = None):
    return problem


def divides():
    return 1 / 0


def undefined():
    return make(lambda w, lam: inner(w, lam) + missing)


def shapes():
    return make(lambda w, lam: (X @ w).reshape(2, 2).sum())


def item():
    return make(lambda w, lam: inner(w, lam).item())


def array():
    return make(lambda w, lam: inner(w, lam) + float(np.sum(w.detach().numpy())))


def branch():
    return make(lambda w, lam: inner(w, lam) if w.sum() > 0 else 2 * inner(w, lam))


def random():
    return make(lambda w, lam: inner(w, lam) + torch.rand(()).double() * w.sum())


def detached():
    return make(lambda w, lam: inner(w.detach(), lam))


def without_lam():
    return make(lambda w, lam: inner(w, 0 * L))


def vector():
    return make(lambda w, lam: w * lam)


def nan():
    return make(lambda w, lam: inner(w, lam) * torch.nan)


def upper_nan():
    return make(upper=lambda w, lam: outer(w, lam) / 0)


def half():
    return make(params=W.half())


def mixed():
    return make(params=W.float())


def whole():
    return make(params=W.long())


def empty():
    return make(params={})


def infinite():
    return make(params=W + torch.inf)


def concave():
    return make(lambda w, lam: -inner(w, lam))


def negative_step():
    return make(step_size=-1.0)


def csr():
    sparse = X.to_sparse_csr()
    return make(lambda w, lam: ((sparse @ w - y) ** 2).sum() + inner(w, lam))


def sparse_mm():
    sparse = X.to_sparse()
    return make(lambda w, lam: ((torch.sparse.mm(sparse, w[:, None])[:, 0] - y) ** 2).sum() + inner(w, lam))


def singular():
    return bc.Problem.from_map(lambda w, lam: w + 0 * lam, outer, W, L)


def expansive():
    return bc.Problem.from_map(lambda w, lam: 1.5 * w + lam, outer, W + 1, L + 1)


def turned():
    R = torch.tensor([[0.0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0.5]]).double()
    return bc.Problem.from_map(lambda w, lam: R @ w + lam, outer, W, L, symmetric=False)
"""
