"""The equilibrium models: what they compute, from which images, for which seed and dtype, and what they refuse."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from equilibria import EPS, Make, fixed_point
from pieces import normal
from scipy.signal import correlate2d
from torch import Tensor
from torch.func import vmap

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel import devices
from boundcheck.problems import conv_equilibrium, equilibrium


def cut(lam: Tensor, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    sizes = [int(np.prod(shape)) for shape in shapes]
    assert sum(sizes) == len(lam)
    return [piece.reshape(shape).numpy() for piece, shape in zip(lam.split(sizes), shapes, strict=True)]


def loss(logits: np.ndarray, label: int) -> float:
    return float(np.log(np.exp(logits).sum()) - logits[label])


def assert_some_order(got: Tensor, one_by_one: list[np.ndarray]) -> None:
    """The rows are those of all images, in the random order in which the problem took them."""
    np.testing.assert_allclose(sorted(got.tolist()), sorted(x.tolist() for x in one_by_one), rtol=0, atol=EPS)


def test_formula(digits: SimpleNamespace) -> None:
    problem = equilibrium(mnist=True, size=3, hidden=4)
    A, B, c, theta, b = cut(problem.lam, (4, 4), (4, 784), (4,), (10, 4), (10,))
    w = normal(4)  # the same state for all, as the order of the images is random
    at = problem.phi(w.repeat(3), problem.lam).reshape(3, 4)
    expected = [np.tanh(A @ w.numpy() + B @ (image.reshape(-1) / 255) + c) for image in digits.train_images]
    assert_some_order(at, expected)
    mean = np.mean([loss(theta @ w.numpy() + b, label) for label in digits.train_labels])
    assert float(problem.outer(w.repeat(3), problem.lam)) == pytest.approx(mean, rel=EPS)


def pool(x: np.ndarray) -> np.ndarray:
    return np.maximum.reduce([x[0::2, 0::2], x[0::2, 1::2], x[1::2, 0::2], x[1::2, 1::2]])


@pytest.mark.parametrize(("padding", "boundary"), [("circular", "wrap"), ("zeros", "fill")])
def test_formula_with_convolutions(digits: SimpleNamespace, padding: str, boundary: str) -> None:
    problem = conv_equilibrium(mnist=True, size=3, hidden=2, padding=padding)
    K, K_in, c, theta, b = cut(problem.lam, (2, 2, 3, 3), (2, 1, 3, 3), (2,), (10, 2 * 7 * 7), (10,))
    w = normal(2, 14, 14)

    def star(kernel: np.ndarray, x: np.ndarray) -> np.ndarray:
        return correlate2d(x, kernel, mode="same", boundary=boundary)

    def phi(x: np.ndarray) -> np.ndarray:
        inner = [sum(star(K[o, i], w[i].numpy()) for i in range(2)) for o in range(2)]
        return np.stack([np.tanh(inner[o] + pool(star(K_in[o, 0], x)) + c[o]) for o in range(2)])

    at = problem.phi(w.reshape(-1).repeat(3), problem.lam).reshape(3, 2, 14, 14)
    assert_some_order(at.reshape(3, -1), [phi(x / 255).reshape(-1) for x in digits.train_images])
    logits = theta @ np.stack([pool(x) for x in w.numpy()]).reshape(-1) + b
    mean = np.mean([loss(logits, label) for label in digits.train_labels])
    assert float(problem.outer(w.reshape(-1).repeat(3), problem.lam)) == pytest.approx(mean, rel=EPS)


@pytest.mark.parametrize(("make", "weights", "states"), [(equilibrium, 784, 2), (conv_equilibrium, 9, 2 * 7 * 7)])
def test_labels_stay_with_their_images(digits: SimpleNamespace, make: Make, weights: int, states: int) -> None:
    """Image j is 100 j everywhere, and two of the three are taken.

    With K' = 1 (or B = 1) and c = 0, the drive of an example tells j. With rows of θ equal to 0, 1, …, 9 and b = 0,
    its part of ∇₁E at w = 0 is (4.5 − label)/2 for each of its (pooled) states.
    """
    digits.train_images = np.stack([np.full((28, 28), 100 * j, np.uint8) for j in range(3)])
    orders = set()
    for seed in range(12):
        problem = make(mnist=True, size=2, hidden=2, seed=seed)
        lam = torch.ones_like(problem.lam)
        lam[-10:] = 0
        lam[-10 - 10 * states : -10] = torch.arange(10.0).repeat_interleave(states)
        lam[-12 - 10 * states : -10 - 10 * states] = 0
        j = (problem.prepare(lam).drive.reshape(2, -1).amax(1) / (weights * 100 / 255)).round().int().tolist()
        slope = torch.func.grad(problem.outer)(problem.w0, lam).reshape(2, -1).sum(1)
        np.testing.assert_allclose(4.5 - 2 * slope / states, digits.train_labels[j], rtol=0, atol=EPS)
        orders.add(tuple(j))
    assert len(orders) >= 4  # of six, all as likely


@pytest.mark.skipif("BOUNDCHECK_DATA" not in os.environ, reason="BOUNDCHECK_DATA is not set")
@pytest.mark.parametrize("make", [equilibrium, conv_equilibrium])
def test_real_images(make: Make) -> None:
    pytest.importorskip("boundcheck.problems.parts.datasets")
    problem = make(mnist=True, size=30, hidden=3, norm=0.8)
    w = fixed_point(problem, problem.lam)
    assert problem.d == 30 * (3 if problem.name == "eqm" else 3 * 14 * 14)
    assert 0.5 < float(problem.outer(w, problem.lam)) < 5  # ten classes at chance: log 10 = 2.3
    assert not torch.equal(problem.prepare(problem.lam).drive[0], problem.prepare(problem.lam).drive[1])


def test_a_seed_means_the_same_problem(make: Make) -> None:
    first, again, other = make(seed=3), make(seed=3), make(seed=4)
    w = normal(first.d)
    assert torch.equal(first.phi(w, first.lam), again.phi(w, again.lam))
    assert torch.equal(first.sample(3), again.sample(3))
    assert torch.equal(first.sample(1)[0], first.lam)
    assert not torch.equal(first.sample(1, seed=1), first.sample(1, seed=2))
    assert not torch.equal(first.prepare(first.lam).drive, other.prepare(first.lam).drive)  # other data
    norms = vmap(first.contraction)(vmap(first.prepare)(first.sample(5)))
    torch.testing.assert_close(norms, torch.full_like(norms, 0.95), rtol=EPS, atol=0)
    for lam in first.sample(5):
        first.at(lam)


def test_float32(make: Make) -> None:
    """Sums of some tens of products of numbers around 1: single precision keeps five digits."""
    double, single = make(), make(dtype=torch.float32)
    w = normal(double.d)
    for function in ("phi", "outer"):
        exact = getattr(double, function)(w, double.lam)
        rounded = getattr(single, function)(w.float(), single.lam)
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded.double(), exact, rtol=1e-5, atol=1e-5)
    assert single.at(single.lam).dtype == torch.float32


def test_everything_is_on_the_device(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors without storage refuse to meet those of the CPU; to users such a device is refused."""
    monkeypatch.setattr(devices, "refuse_unless_usable", lambda device: None)
    problem = make(device="meta")
    assert problem.phi(problem.w0, problem.lam).device.type == "meta"
    assert problem.outer(problem.w0, problem.lam).device.type == "meta"


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (equilibrium, {"norm": 1.0}, "norm = 1.0 does not give a contraction; give 0 <= norm < 1"),
        (conv_equilibrium, {"norm": -0.5}, "norm = -0.5 does not give a contraction"),
        (equilibrium, {"norm": float("nan")}, "norm = nan does not give a contraction"),
        (equilibrium, {"size": 0}, "size = 0 is not a size"),
        (equilibrium, {"hidden": 0}, "hidden = 0 is not a size"),
        (conv_equilibrium, {"side": 6}, "side = 6 cannot be pooled twice"),
        (conv_equilibrium, {"side": 4}, "side = 4 cannot be pooled twice"),
        (equilibrium, {"mnist": True, "features": 5}, "features = 5 with mnist=True; MNIST fixes it"),
        (conv_equilibrium, {"mnist": True, "classes": 5}, "classes = 5 with mnist=True; MNIST fixes it"),
        (equilibrium, {"mnist": True, "size": 4}, "size = 4 with mnist=True, which has 3 training images"),
    ],
)
def test_refused(digits: SimpleNamespace, make: Make, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**options)


def test_unknown_padding() -> None:
    with pytest.raises(UnknownNameError, match="unknown padding 'zero'; did you mean zeros"):
        conv_equilibrium(padding="zero")
