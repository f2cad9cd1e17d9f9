"""Problems whose lower level is a mean over examples: what users may bring, minibatches, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pieces import zeros
from scipy.stats import chi2
from torch import Tensor, nn

import boundcheck as bc
from boundcheck.errors import InputError, UserCodeError
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick

GENERATOR = torch.Generator().manual_seed(0)
X, X_VAL = (torch.randn(7, 4, generator=GENERATOR, dtype=torch.float64) for _ in range(2))
Y = torch.tensor([0, 2, 1, 1, 0, 2, 2])
LEVEL = 1e-4  # the chance that a test of a fixed seed refuses what is right


def penalty(W: Tensor, lam: Tensor) -> Tensor:
    return (lam.exp()[:, None] * W**2).sum() / 20


def inner(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(batch[0] @ W, batch[1]) + penalty(W, lam)


def outer(W: Tensor, lam: Tensor) -> Tensor:
    return F.cross_entropy(X_VAL @ W, Y)


def problem(function: Callable[..., Tensor] = inner, data: Any = (X, Y), batch: int | None = 3, **how: Any) -> Problem:
    return Problem.from_loss(
        function, outer, zeros(4, 3), zeros(4), data=data, batch=batch, **{"step_size": 0.3, **how}
    )


def with_module() -> Problem:
    model = nn.Linear(4, 1, dtype=torch.float64)
    nn.init.constant_(model.weight, 0.1)

    def inner(model: nn.Module, hparams: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        loss = F.binary_cross_entropy_with_logits(model(batch["X"]).squeeze(), batch["y"])
        return loss + (hparams["log"].exp() * model.weight**2).sum()

    return Problem.from_loss(
        inner, lambda model, hparams: model(X_VAL).square().mean(), model, {"log": zeros(4) - 2}, 0.2,
        data={"X": X, "y": (Y > 0).double()}, batch=2,
    )  # fmt: skip


def cleaning() -> Problem:
    """Weights of the examples, whose numbers are part of the data."""

    def inner(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        X, y, number = batch
        losses = F.cross_entropy(X @ W, y, reduction="none")
        return (torch.sigmoid(lam)[number] * losses).mean() + W.square().sum() / 20

    return Problem.from_loss(inner, outer, zeros(4, 3), zeros(7), 0.3, data=(X, Y, torch.arange(7)), batch=3)


def as_map() -> Problem:
    def fp_map(w: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        X, y = batch
        return w - 0.1 * (X.T @ (X @ w - y) / len(y) + lam.exp() * w)

    return Problem.from_map(
        fp_map, lambda w, lam: (X_VAL @ w).square().sum(), zeros(4), zeros(4), data=(X, Y.double()), batch=3
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "loss": problem,
    "default step": lambda: problem(step_size=None),
    "step of λ": lambda: problem(step_size=lambda lam: 1 / (1 + lam.exp().sum())),
    "differentiated step": lambda: problem(step_size=lambda lam: 1 / (1 + lam.exp().sum()), differentiate_step=True),
    "prepare": lambda: problem(lambda W, ready, batch: inner(W, ready["lam"], batch), prepare=lambda lam: {"lam": lam}),
    "momentum": lambda: problem(dynamics=bc.dynamics.constant("heavy-ball", 0.3, 0.3, 0.2)),
    "module": with_module,
    "cleaning": cleaning,
    "map": as_map,
}
APART = {"differentiated step": False, "cleaning": False}


def derivative_by_lam(problem: Problem, at: Callable[[Tensor, Any], Tensor], w: Tensor, lam: Tensor) -> Tensor:
    return torch.func.jacrev(lambda lam: at(w, problem.prepare(lam)))(lam)


@pytest.mark.parametrize("formulas", [False, True], ids=["", "quick"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_minibatch_is_unbiased(name: str, formulas: bool) -> None:
    """Φ, ∂₁Φ and ∂₂Φ are the means over single examples; so they are with the formulas that replace autograd."""
    theirs = PROBLEMS[name]()
    given = quick(theirs) if formulas else theirs
    assert (given is theirs) is not formulas
    sums = given.finite_sum
    assert sums is not None
    assert (sums.doubt, sums.lam_apart) == ("", APART.get(name, True))
    w, lam = (
        given.w0 + torch.linspace(-0.5, 0.4, given.d).double(),
        given.lam + torch.linspace(-1, 0.3, given.n).double(),
    )
    ready, each = given.prepare(lam), torch.arange(7)[:, None]

    def close(some: Tensor, whole: Tensor) -> None:
        torch.testing.assert_close(some, whole, rtol=1e-12, atol=1e-13)

    phi = torch.func.vmap(sums.phi_on, (None, None, 0))(w, ready, each)
    close(phi.mean(0), given.phi_at(w, ready))
    close(sums.phi_on(w, ready, each[1:4, 0]), phi[1:4].mean(0))
    by_w = torch.func.vmap(torch.func.jacrev(sums.phi_on), (None, None, 0))(w, ready, each)
    close(by_w.mean(0), torch.func.jacrev(given.phi_at)(w, ready))
    by_lam = [derivative_by_lam(given, lambda w, ready, i=i: sums.phi_on(w, ready, i), w, lam) for i in each]
    close(torch.stack(by_lam).mean(0), derivative_by_lam(theirs, theirs.phi_at, w, lam))
    if sums.lam_apart:
        close(by_lam[3], by_lam[0])
    else:
        assert (by_lam[3] - by_lam[0]).norm() > 1e-3
    if sums.inner_on is not None:
        losses = torch.stack([sums.inner_on(w, ready, i) for i in each])
        close(losses.mean(), theirs.inner_at(w, theirs.prepare(lam)))


def test_deterministic_methods_see_all_examples() -> None:
    whole = Problem.from_loss(lambda W, lam: inner(W, lam, (X, Y)), outer, zeros(4, 3), zeros(4), 0.3)
    for method in ("itd", "aid-cg"):
        assert torch.equal(bc.hypergradient(problem(), method, 5).value, bc.hypergradient(whole, method, 5).value)


def test_a_problem_says_its_minibatches() -> None:
    given = problem()
    assert "3 of 7 examples" in repr(given)
    assert {k: given.about()[k] for k in ("examples", "batch", "replacement")} == {
        "examples": 7, "batch": 3, "replacement": True,
    }  # fmt: skip
    other = given.with_batch(5, replacement=False)
    assert (other.finite_sum.batch, other.finite_sum.replacement, given.finite_sum.batch) == (5, False, 3)
    assert problem(batch=None).finite_sum.batch == 7
    assert problem(data=(X.repeat(2, 1), Y.repeat(2)), batch=None).finite_sum.batch == 10


def test_noise_that_is_no_choice_of_examples_is_named() -> None:
    def noisy(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return inner(W + 0.1 * torch.randn_like(W), lam, batch)

    with pytest.raises(InputError, match=r"when it is called again with the same minibatch.*draw no random numbers"):
        problem(noisy)


def test_another_size_is_proved_again() -> None:
    def branches(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return inner(W, lam, batch) * (1.1 if len(batch[0]) == 5 else 1.0)

    assert problem(branches).with_batch(2).finite_sum.doubt == ""
    with pytest.raises(InputError, match=r"on 5 examples .* is not a mean over examples; divide"):
        problem(branches).with_batch(5)


def test_float32() -> None:
    def single(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(batch[0] @ W, batch[1]) + penalty(W, lam)

    start = torch.zeros(4, 3)
    given = Problem.from_loss(
        single, lambda W, lam: F.cross_entropy(X_VAL.float() @ W, Y), start, start[:, 0], 0.3, data=(X.float(), Y)
    )
    value = given.finite_sum.phi_on(given.w0, given.prepare(given.lam), torch.tensor([1, 1, 4]))
    assert value.dtype == torch.float32


def not_proved(W: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
    return (batch[0] @ W).sort(0)[0].square().mean() + penalty(W, lam)  # a mean, of numbers in another order


def test_what_is_not_proved_is_compared() -> None:
    assert "aten.sort" in problem(not_proved).finite_sum.doubt


REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "sum": (lambda W, lam, b: inner(W, lam, b) * len(b[1]), r"inner_loss is .* on 3 examples and its mean over each"),
    "penalty divided": (
        lambda W, lam, b: F.cross_entropy(b[0] @ W, b[1]) + penalty(W, lam) / len(b[1]),
        "penalty must not be divided",
    ),
    "batch normalisation": (
        lambda W, lam, b: F.cross_entropy(F.batch_norm(b[0] @ W, None, None, training=True), b[1]) + penalty(W, lam),
        r"batch normalisation mixes examples",
    ),
    "centred": (lambda W, lam, b: ((z := b[0] @ W) - z.mean(0)).square().mean() + penalty(W, lam), "not a mean"),
    "first": (lambda W, lam, b: (b[0] @ W)[0].square().sum() + penalty(W, lam), "not a mean over examples"),
    "not used": (lambda W, lam, b: inner(W, lam, (X, Y)), "does not use the minibatch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_mean_is_refused(name: str) -> None:
    function, why = REFUSED[name]
    with pytest.raises(InputError, match=why):
        problem(function)


def test_data_from_elsewhere_is_refused() -> None:
    with pytest.raises(UserCodeError, match=r"minibatch of . of 7 examples as third argument"):
        problem(lambda W, lam, batch: inner(W, lam, (batch[0], Y)))


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "rows": ({"data": (X, Y[:5])}, r"data\[1\] has 5 rows and data\[0\] 7"),
    "no rows": ({"data": {"X": X[:0], "y": Y[:0]}}, r"data\['X'\] has no rows"),
    "nothing": ({"data": ()}, "data holds no tensor"),
    "number": ({"data": (X, torch.tensor(1.0))}, r"data\[1\] is a single number"),
    "no tensor": ({"data": (X, [1, 2])}, r"data\[1\]\[0\] is a int"),
    "sparse": ({"data": X.to_sparse()}, r"data is a sparse tensor; give X.to_dense"),
    "dtype": ({"data": (X.float(), Y)}, r"data\[0\] has dtype torch.float32 and params torch.float64"),
    "device": ({"data": (X.to("meta"), Y)}, r"data\[0\] is on meta and params on cpu"),
    "gradients": ({"data": (X.clone().requires_grad_(), Y)}, r"data\[0\] requires gradients"),
    "NaN": ({"data": (X / 0, Y)}, r"data\[0\] has entries that are not finite"),
    "no examples": ({"data": None}, r"batch = 3 without data"),
    "neither": ({"data": None, "batch": None, "replacement": False}, r"replacement = False without data"),
    "batch of 0": ({"batch": 0}, r"batch = 0 is not a number of examples"),
    "batch of True": ({"batch": True}, r"batch = True is not a number"),
    "too many": ({"batch": 8, "replacement": False}, r"batch = 8 > 7 examples"),
    "replacement": ({"replacement": "yes"}, r"replacement = 'yes' is neither"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(name: str) -> None:
    options, why = BAD_DATA[name]
    with pytest.raises(InputError, match=why):
        problem(**options)


def test_a_problem_without_examples_has_no_minibatches() -> None:
    with pytest.raises(InputError, match="scalar: its lower level is not a mean over examples; give data="):
        bc.problems.scalar().with_batch(1)


def sums(batch: int, replacement: bool, examples: int = 7) -> FiniteSum:
    return FiniteSum(examples, batch, replacement, lambda w, ready, indices: w)


@pytest.mark.parametrize("replacement", [True, False])
def test_draws(replacement: bool) -> None:
    """The same from a seed; each pair of places, or each set, is as likely. Only sets matter to a mean."""
    given, count = sums(3, replacement), 8000
    drawn, again = (given.draw(torch.Generator().manual_seed(1), count, torch.device("cpu")) for _ in range(2))
    assert torch.equal(drawn, again)
    assert not torch.equal(drawn, given.draw(torch.Generator().manual_seed(2), count, torch.device("cpu")))
    if replacement:
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert fits(torch.bincount(drawn[:, one] * 7 + drawn[:, other], minlength=49), 49)
        return
    ordered = drawn.sort(1)[0]
    assert bool((ordered.diff() > 0).all())
    numbers = (ordered * torch.tensor([49, 7, 1])).sum(1)
    sets = [49 * i + 7 * j + k for i, j, k in combinations(range(7), 3)]
    assert fits(torch.bincount(numbers, minlength=343)[sets], 35)


def fits(counts: Tensor, cells: int) -> bool:
    """χ² at the level above."""
    expected = counts.sum() / cells
    return float(((counts - expected) ** 2 / expected).sum()) < chi2.ppf(1 - LEVEL / 8, cells - 1)


@pytest.mark.parametrize(("batch", "replacement"), [(2, True), (3, True), (2, False), (3, False), (5, False)])
def test_variance_factor(batch: int, replacement: bool) -> None:
    """The variance of the mean of a minibatch, over all minibatches, by that of one example."""
    values = X[:5, 0]
    every = list(product(range(5), repeat=batch) if replacement else combinations(range(5), batch))
    means = torch.stack([values[list(some)].mean() for some in every])
    factor = sums(batch, replacement, 5).variance_factor
    assert float(means.var(correction=0)) == pytest.approx(
        factor * float(values.var(correction=0)), rel=1e-10, abs=1e-15
    )


def test_one_example_has_no_noise() -> None:
    assert sums(2, True, 1).variance_factor == 0
