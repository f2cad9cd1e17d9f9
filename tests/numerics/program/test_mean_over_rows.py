"""A minibatch gives the mean over its examples: proved of programs that are such means, and of no other."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from boundcheck.numerics.program.mean_over_rows import MeanProof, mean_over_rows
from boundcheck.numerics.program.row_rules import RULES

N, B = 7, 3
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(N, 4, generator=GENERATOR, dtype=torch.float64)
Y = torch.tensor([0, 2, 1, 1, 0, 2, 2])
T = torch.randn(N, generator=GENERATOR, dtype=torch.float64)
NUMBER = torch.arange(N)
W, LAM = (torch.randn(size, generator=GENERATOR, dtype=torch.float64) for size in (12, N))
Function = Callable[..., Tensor]
weights = torch.ones(3, dtype=torch.float64)
layers = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.LayerNorm(5), nn.Dropout(0.5)).double().eval()


def scores(w: Tensor, X: Tensor) -> Tensor:
    return X @ w.view(4, 3)


def margins(w: Tensor, X: Tensor) -> Tensor:
    return X @ w[:4]


def penalty(w: Tensor, lam: Tensor) -> Tensor:
    return (lam[:4].exp()[:, None] * w.view(4, 3) ** 2).sum() / 2


MEANS: dict[str, Function] = {  # of w, λ, X, classes, targets and the numbers of the examples
    "cross-entropy": lambda w, lam, X, y, t, i: F.cross_entropy(scores(w, X), y) + penalty(w, lam),
    "squares": lambda w, lam, X, y, t, i: F.mse_loss(margins(w, X), t) + penalty(w, lam),
    "log-sigmoid": lambda w, lam, X, y, t, i: -F.logsigmoid(t * margins(w, X)).mean() + penalty(w, lam),
    "divided by len": lambda w, lam, X, y, t, i: F.softplus(t * margins(w, X)).sum() / len(t) + penalty(w, lam),
    "times 1/len": lambda w, lam, X, y, t, i: (1 / len(t)) * (margins(w, X) - t).square().sum() + penalty(w, lam),
    "penalty inside": lambda w, lam, X, y, t, i: (margins(w, X).sum() + len(t) * penalty(w, lam)) / len(t),
    "dot": lambda w, lam, X, y, t, i: margins(w, X).dot(t) / X.shape[0] + penalty(w, lam),
    "binary": lambda w, lam, X, y, t, i: F.binary_cross_entropy_with_logits(margins(w, X), (t > 0).double()),
    "linear": lambda w, lam, X, y, t, i: F.cross_entropy(F.linear(X, w.view(3, 4), lam[:3]), y),
    "layers": lambda w, lam, X, y, t, i: (layers(X * w[:4]) ** 2).mean() + penalty(w, lam),
    "fixed statistics": lambda w, lam, X, y, t, i: F.batch_norm(scores(w, X), weights, weights).square().mean(),
    "convolution": lambda w, lam, X, y, t, i: F.conv1d(X[:, None], w.view(3, 1, 4)).tanh().mean(),
    "transposed": lambda w, lam, X, y, t, i: (w.view(3, 4) @ X.T).T.exp().mean(0).sum(),
    "chosen scores": lambda w, lam, X, y, t, i: -scores(w, X).log_softmax(1)[torch.arange(len(y)), y].mean(),
    "gathered": lambda w, lam, X, y, t, i: -scores(w, X).log_softmax(1).gather(1, y[:, None]).mean(),
    "flat rows": lambda w, lam, X, y, t, i: F.cross_entropy(
        (X[:, :, None] * w[:3]).reshape(-1, 3), (X > 0).long().view(-1)
    ),
    "weighted classes": lambda w, lam, X, y, t, i: F.cross_entropy(
        scores(w, X), y, 2 * weights, reduction="none"
    ).mean(),
    "hyper-cleaning": lambda w, lam, X, y, t, i: (
        torch.sigmoid(lam)[i] * F.cross_entropy(scores(w, X), y, reduction="none")
    ).mean(),
    "map": lambda w, lam, X, y, t, i: w - 0.1 * torch.cat((X.T @ (margins(w, X) - t) / len(t), lam, w[:1])),
    "ones": lambda w, lam, X, y, t, i: margins(w, X) @ torch.ones(len(X), dtype=X.dtype) / len(X),
}  # fmt: skip
OTHERS: dict[str, tuple[Function, str]] = {
    "sum": (lambda w, lam, X, y, t, i: margins(w, X).square().sum(), "divide by their number"),
    "sum and penalty": (lambda w, lam, X, y, t, i: margins(w, X).sum() + penalty(w, lam), "not divided"),
    "penalty divided": (lambda w, lam, X, y, t, i: margins(w, X).mean() + penalty(w, lam) / len(t), "aten.add"),
    "function of a mean": (lambda w, lam, X, y, t, i: margins(w, X).mean().exp(), "aten.exp.*not linear"),
    "square of a mean": (lambda w, lam, X, y, t, i: (z := margins(w, X).mean()) * z, "aten.mul"),
    "centred": (lambda w, lam, X, y, t, i: ((z := margins(w, X)) - z.mean(0)).square().mean(), "aten.sub: it mixes"),
    "sorted": (lambda w, lam, X, y, t, i: margins(w, X).sort()[0].mean(), "aten.sort: it mixes"),
    "first example": (lambda w, lam, X, y, t, i: margins(w, X)[0] ** 2, "some of the examples"),
    "all but one": (lambda w, lam, X, y, t, i: margins(w, X)[:-1].mean(), "examples"),
    "softmax over examples": (lambda w, lam, X, y, t, i: margins(w, X).softmax(0) @ t, "aten._softmax: it mixes"),
    "largest": (lambda w, lam, X, y, t, i: margins(w, X).max(), "aten.max: it mixes"),
    "gram matrix": (lambda w, lam, X, y, t, i: (X * w[:4] @ X.T).mean(), "different axes"),
    "outer product by mistake": (lambda w, lam, X, y, t, i: (scores(w, X)[:, :1] * t).mean(), "different axes"),
    "own numbers": (lambda w, lam, X, y, t, i: (margins(w, X) * torch.arange(len(X))).mean(), "not the same for every"),
    "two branches": (lambda w, lam, X, y, t, i: margins(w, X).mean() * (2 if len(X) > B else 1), "the number 2"),
    "other operations": (
        lambda w, lam, X, y, t, i: margins(w, X).mean() + (w.sum() if len(X) > B else 0.0), "operations change"
    ),
    "class weights": (lambda w, lam, X, y, t, i: F.cross_entropy(scores(w, X), y, weights), "weights of the classes"),
    "ignored class": (lambda w, lam, X, y, t, i: F.cross_entropy(scores(w, X), y, ignore_index=2), "of class 2"),
    "weights of the minibatch": (
        lambda w, lam, X, y, t, i: F.cross_entropy(scores(w, X), y, X[:, :3].mean(0), reduction="none").mean(),
        "enter the weights of its classes",
    ),
    "weights of the minibatch, summed": (
        lambda w, lam, X, y, t, i: F.cross_entropy(scores(w, X), y, X[:, :3].mean(0), reduction="sum") / len(y),
        "enter the weights of its classes",
    ),
    "weights by their number": (
        lambda w, lam, X, y, t, i: F.cross_entropy(scores(w, X), y, weights / len(y), reduction="none").mean(),
        "changes with the number",
    ),
    "detached": (lambda w, lam, X, y, t, i: (margins(w, X).detach() * margins(w, X)).mean(), "detach"),
    "entry for each": (lambda w, lam, X, y, t, i: margins(w, X), "entry for each"),
    "by value": (lambda w, lam, X, y, t, i: scores(w, X)[y == 1].mean(), "shape depends|index"),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_means(name: str) -> None:
    """What is proved is also true: the value is the mean of those of single examples."""
    function = MEANS[name]
    assert mean_over_rows(function, W, LAM, (X, Y, T, NUMBER), (1, B, N)).doubt == ""
    for rows in (torch.arange(N), torch.tensor([4, 1, 4])):
        value = function(W, LAM, X[rows], Y[rows], T[rows], rows)
        each = [function(W, LAM, X[[i]], Y[[i]], T[[i]], rows.new_tensor([i])) for i in rows.tolist()]
        torch.testing.assert_close(torch.stack(each).mean(0), value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    function, why = OTHERS[name]
    doubt = mean_over_rows(function, W, LAM, (X, Y, T, NUMBER), (1, B, N)).doubt
    assert re.search(why, doubt), doubt


def test_a_doubt_names_the_operation_and_the_line() -> None:
    doubt = mean_over_rows(OTHERS["sorted"][0], W, LAM, (X, Y, T, NUMBER), (1, B, N)).doubt
    assert re.search(r"aten.sort: .*test_mean_over_rows.py:\d+", doubt)


def test_a_rule_that_leaves_out_a_tensor_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "add", lambda step: step.value("self").kind)
    function = lambda w, lam, X, y, t, i: margins(w, X).mean() + w[0]  # noqa: E731
    assert "aten.add: its other has no rule" in mean_over_rows(function, W, LAM, (X, Y, T, NUMBER), (1, B, N)).doubt


def test_batch_statistics() -> None:
    """They need two examples at least; fixed ones are among the means."""
    function = lambda w, lam, X: F.batch_norm(scores(w, X), None, None, training=True).square().mean()  # noqa: E731
    assert "module.eval()" in mean_over_rows(function, W, LAM, (X,), (2, B, N)).doubt


def test_nothing_is_concluded_for_other_sizes() -> None:
    """A function that changes at five examples is a mean at 1 and 3, and is not one at 1, 3 and 7."""

    def function(w: Tensor, lam: Tensor, X: Tensor) -> Tensor:
        return (margins(w, X) ** 2).mean() * (1.0 if len(X) < 5 else 2.0)

    assert mean_over_rows(function, W, LAM, (X[:B],), (1, B)).doubt == ""
    assert "the number 2" in mean_over_rows(function, W, LAM, (X,), (1, B, N)).doubt


def test_a_function_without_examples_says_so() -> None:
    assert not mean_over_rows(lambda w, lam, X: w.sum() + lam.sum(), W, LAM, (X,), (1, B, N)).uses_data
    assert mean_over_rows(lambda w, lam, X: (X @ w[:4]).mean(), W, LAM, (X,), (1, B, N)).uses_data


APART: dict[str, tuple[Function, bool]] = {
    "penalty": (MEANS["cross-entropy"], True),
    "penalty with a factor of w": (lambda w, lam, X, y, t, i: w[0] * (margins(w, X).mean() + lam.sum()), True),
    "halved": (lambda w, lam, X, y, t, i: (margins(w, X).mean() + penalty(w, lam)) / 2, True),
    "map": (MEANS["map"], True),
    "offset": (MEANS["linear"], False),
    "weights of examples": (MEANS["hyper-cleaning"], False),
    "factor of λ": (lambda w, lam, X, y, t, i: lam[0] * margins(w, X).mean(), False),
    "factor of both": (lambda w, lam, X, y, t, i: lam[0] * (margins(w, X).mean() + lam.sum()), False),
    "divided by λ": (lambda w, lam, X, y, t, i: (margins(w, X).mean() + lam[1]) / lam[0], False),
    "λ inside": (lambda w, lam, X, y, t, i: (margins(w, X) + lam[0]).square().mean(), False),
}


@pytest.mark.parametrize("name", APART)
def test_lam_apart(name: str) -> None:
    """What is proved is also true: the mixed derivative is that of all examples."""
    function, apart = APART[name]
    assert mean_over_rows(function, W, LAM, (X, Y, T, NUMBER), (1, B, N)).lam_apart is apart

    def mixed(rows: Tensor) -> Tensor:
        def slope(lam: Tensor) -> Tensor:
            at = lambda w: function(w, lam, X[rows], Y[rows], T[rows], rows)  # noqa: E731
            return torch.func.jacrev(at)(W) if name != "map" else at(W)

        return torch.func.jacrev(slope)(LAM)

    same = torch.allclose(mixed(NUMBER), mixed(NUMBER[2:4]), rtol=1e-12, atol=1e-12)
    assert same is apart


def _proof(loss: Callable[..., Tensor], lam: Tensor) -> MeanProof:
    generator = torch.Generator().manual_seed(0)
    X, clean = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    return mean_over_rows(loss, torch.zeros(3, dtype=torch.float64), lam, (X, clean), (1, 2, 6))


@pytest.mark.parametrize(
    "loss",
    [
        lambda w, lam, X, clean: (((clean if len(X) == 6 else X) @ w) ** 2).mean() + lam.sum(),
        lambda w, lam, X, clean: ((X @ w) ** 2).mean() + (lam[0] if len(X) == 6 else lam[1]).exp() * (w * w).sum(),
        lambda w, lam, X, clean: ((X @ w) ** 2).mean() + (w.sum() / lam[0] if len(X) == 6 else lam[0] / w.sum()),
        lambda w, lam, X, clean: ((X @ w) ** 2).mean().to(torch.bfloat16).double(),
    ],
    ids=["other data", "other hyperparameter", "operands swapped", "rounded mean"],
)
def test_another_function_for_another_number_of_examples(loss: Callable[..., Tensor]) -> None:
    assert _proof(loss, torch.ones(2, dtype=torch.float64)).doubt


def test_an_embedding_whose_derivative_counts_is_no_mean() -> None:
    indices = torch.tensor([0, 0, 1, 2, 2, 2])

    def doubt(**options: bool) -> str:
        def loss(w: Tensor, lam: Tensor, i: Tensor) -> Tensor:
            return torch.nn.functional.embedding(i, w.reshape(3, 1), **options).square().mean() + lam.sum()

        start = torch.ones(3, dtype=torch.float64)
        return mean_over_rows(loss, start, start[:1], (indices,), (1, 2, 6)).doubt

    assert doubt() == ""
    assert "counts how often" in doubt(scale_grad_by_freq=True)
