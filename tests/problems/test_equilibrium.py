"""The equilibrium models, plain and with convolutions: what they compute, that they contract, their derivatives."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.signal import correlate2d
from torch import Tensor
from torch.func import vjp, vmap

import boundcheck
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.problem import Problem
from boundcheck.problems import conv_equilibrium, equilibrium
from boundcheck.problems.conv_equilibrium import projection as conv_projection
from boundcheck.problems.equilibrium import projection
from boundcheck.products import Linearisation, jacobian, rows

Make = Callable[..., Problem]

CASES = {
    "eqm": lambda **options: equilibrium(**options),
    "circular": lambda **options: conv_equilibrium(padding="circular", **options),
    "zeros": lambda **options: conv_equilibrium(padding="zeros", **options),
}
TINY = {  # d = 6 and 16: small enough for finite differences of everything
    "eqm": {"size": 2, "hidden": 3, "features": 2},
    "circular": {"size": 1, "hidden": 1},
    "zeros": {"size": 1, "hidden": 1},
}
# Sums of at most 100 products of numbers below 10, of which two orders of summation differ by far less than this
EPS = 1e-12


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(case: str) -> Make:
    return CASES[case]


@pytest.fixture
def tiny(case: str) -> Problem:
    return CASES[case](**TINY[case])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fixed_point(problem: Problem, lam: Tensor) -> Tensor:
    """Iterates until ‖w − w(λ)‖ ≤ 1e-13, by the residual and q."""
    ready = problem.prepare(lam)
    q, w = problem.contraction(ready), problem.w0
    while (step := (after := problem.phi_at(w, ready)) - w).norm() > 1e-13 * (1 - q):
        w = w + step
    return after


# what they compute


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Three images in the place of MNIST's."""
    rng = np.random.default_rng(0)
    images = SimpleNamespace(
        train_images=rng.integers(0, 256, (3, 28, 28)).astype(np.uint8), train_labels=np.array([7, 0, 9], np.uint8)
    )
    fake = SimpleNamespace(mnist=lambda: images)
    monkeypatch.setitem(sys.modules, "boundcheck.data", fake)
    monkeypatch.setattr(boundcheck, "data", fake, raising=False)
    return images


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
    pytest.importorskip("boundcheck.data")
    problem = make(mnist=True, size=30, hidden=3, norm=0.8)
    w = fixed_point(problem, problem.lam)
    assert problem.d == 30 * (3 if problem.name == "eqm" else 3 * 14 * 14)
    assert 0.5 < float(problem.outer(w, problem.lam)) < 5  # ten classes at chance: log 10 = 2.3
    assert not torch.equal(problem.prepare(problem.lam).drive[0], problem.prepare(problem.lam).drive[1])


# they contract


def without_drive(problem: Problem) -> Tensor:
    """λ with B (or K') and c at zero, so that tanh is met where it is steepest."""
    lam = problem.lam.clone()
    lam[linear(problem) :] = 0
    return lam


def linear(problem: Problem) -> int:
    """How many entries of λ are A or K."""
    ready = problem.prepare(problem.lam)
    return ready[0].numel()


@pytest.mark.parametrize("norm", [0.3, 0.95])
def test_contraction(make: Make, case: str, norm: float) -> None:
    problem = make(norm=norm)
    for lam in (problem.lam, without_drive(problem)):
        ready = problem.prepare(lam)
        assert float(problem.contraction(ready)) == pytest.approx(norm, rel=EPS)
        for seed in range(20):
            u, v = (10 ** (1 - seed / 5)) * normal(2, problem.d, seed=seed)
            gap = (problem.phi_at(u, ready) - problem.phi_at(v, ready)).norm()
            assert gap <= norm * (u - v).norm() * (1 + EPS)


@pytest.mark.parametrize("seed", range(3))
def test_the_constant_is_met(make: Make, case: str, seed: int) -> None:
    """Near w = 0 without drive, Φ is A w (or K ⋆ w): along its top singular vector it shrinks by exactly q.

    tanh z = z − z³/3 + …, so states of size 1e-4 lose a fraction below 1e-8. Zero padding makes the norm smaller.
    """
    problem = make(seed=seed, size=2)
    ready = problem.prepare(without_drive(problem))
    J = jacobian(lambda w: problem.phi_at(w, ready), problem.w0)
    _, S, Vh = torch.linalg.svd(J)
    ratio = float(problem.phi_at(1e-4 * Vh[0], ready).norm() / 1e-4)
    assert ratio == pytest.approx(float(S[0]), rel=1e-8)
    assert ratio == pytest.approx(0.95, rel=1e-8) if case != "zeros" else 0.7 * 0.95 < ratio <= 0.95


def test_fixed_point(make: Make) -> None:
    problem = make(norm=0.9)
    ready, w = problem.prepare(problem.lam), problem.w0
    w_star = fixed_point(problem, problem.lam)
    for _ in range(20):
        after = problem.phi_at(w, ready)
        assert (after - w_star).norm() <= 0.9 * (w - w_star).norm() + 1e-12
        w = after
    assert w_star.norm() > 1
    assert (problem.phi_at(w_star, ready) - w_star).norm() < 1e-13


def test_jacobian_is_block_diagonal_and_not_symmetric(make: Make) -> None:
    problem = make(size=3)
    ready = problem.prepare(problem.lam)
    J = jacobian(lambda w: problem.phi_at(w, ready), normal(problem.d))
    blocks = J.reshape(3, problem.d // 3, 3, problem.d // 3)
    for i in range(3):
        for j in range(3):
            assert blocks[i, :, j].any() == (i == j)
    assert problem.symmetric is False
    assert (J - J.T).norm() > 0.1 * J.norm()


# derivatives


def test_derivatives_by_finite_differences(tiny: Problem) -> None:
    w, lam = normal(tiny.d).requires_grad_(), tiny.lam.clone().requires_grad_()
    assert torch.autograd.gradcheck(tiny.phi, (w, lam))
    assert torch.autograd.gradcheck(tiny.outer, (w, lam))
    assert torch.autograd.gradgradcheck(tiny.phi, (w, lam), fast_mode=True)
    assert torch.autograd.gradgradcheck(tiny.outer, (w, lam), fast_mode=True)


def test_hypergradient_by_finite_differences(tiny: Problem) -> None:
    """∇f = ∇₂E + ∂₂Φᵀ(I − ∂₁Φᵀ)⁻¹∇₁E against central differences of f(λ) = E(w(λ), λ), of error O(1e-10)."""
    lam, w = tiny.lam, fixed_point(tiny, tiny.lam)
    Y = jacobian(lambda w: tiny.phi(w, lam), w)
    grad_w, grad_lam = vjp(tiny.outer, w, lam)[1](torch.ones((), dtype=w.dtype))
    v = torch.linalg.solve(torch.eye(tiny.d, dtype=w.dtype) - Y.T, grad_w)
    gradient = grad_lam + vjp(lambda lam: tiny.phi(w, lam), lam)[1](v)[0]

    def f(lam: Tensor) -> Tensor:
        return tiny.outer(fixed_point(tiny, lam), lam)

    for seed in range(3):
        step = 1e-5 * normal(tiny.n, seed=seed)
        assert float(f(lam + step) - f(lam - step)) / 2e-5 == pytest.approx(float(gradient @ step) / 1e-5, abs=1e-8)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own, inside jvp
def test_forward_products(make: Make) -> None:
    problem = make()
    ready = problem.prepare(problem.lam)
    w, u, v = normal(3, problem.d)
    at = Linearisation(problem.phi_at, w, ready)
    _, forward = torch.func.jvp(lambda w: problem.phi_at(w, ready), (w,), (u,))
    torch.testing.assert_close(at.d1(u), forward, rtol=EPS, atol=EPS)
    assert float(v @ at.d1(u)) == pytest.approx(float(at.d1_T(v) @ u), rel=1e-10)


def test_ties_of_equal_states_do_not_matter(digits: SimpleNamespace) -> None:
    """On a black image max-pooling meets nothing but ties: ∇₁E is a matter of convention, the hypergradient is not.

    The problem gives the derivative to the first of equal entries, `amax` gives equal shares.
    """
    digits.train_images[:] = 0
    problem = conv_equilibrium(mnist=True, size=1, hidden=2)
    lam = problem.lam.clone().requires_grad_()
    ready, w = problem.prepare(lam), problem.w0
    for _ in range(30):
        w = problem.phi_at(w, ready)
    logits = w.reshape(2, 7, 2, 7, 2).amax((2, 4)).reshape(1, -1) @ ready.theta.T + ready.b
    label = int(torch.func.grad(lambda b: problem.outer_at(w, ready._replace(b=b)))(ready.b).argmin())
    shared = torch.logsumexp(logits, -1)[0] - logits[0, label]
    first = problem.outer_at(w, ready)
    by_first, by_share = (torch.autograd.grad(E, (w, lam), retain_graph=True) for E in (first, shared))
    torch.testing.assert_close(first, shared, rtol=EPS, atol=0)
    assert (by_first[0] - by_share[0]).norm() > 0.1 * by_first[0].norm()
    torch.testing.assert_close(by_first[1], by_share[1], rtol=EPS, atol=EPS)


# batches


def test_batches_are_the_loop(make: Make) -> None:
    problem = make()
    lams, w, v = problem.sample(2, seed=5), normal(2, 3, problem.d), normal(2, 3, problem.d, seed=1)
    ready = vmap(problem.prepare)(lams)

    def loop(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        return torch.stack([torch.stack([function(w[i, j], lams[i], v[i, j]) for j in range(3)]) for i in range(2)])

    def close(got: Tensor, function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        torch.testing.assert_close(got, loop(function), rtol=EPS, atol=EPS)

    def pulled(w: Tensor, lam: Tensor, v: Tensor) -> Tensor:
        """∂₂Φᵀ v."""
        result: Tensor = vjp(lambda lam: problem.phi(w, lam), lam)[1](v)[0]
        return result

    close(rows(problem.phi_at)(w, ready), lambda w, lam, v: problem.phi(w, lam))
    close(rows(problem.outer_at)(w, ready), lambda w, lam, v: problem.outer(w, lam))
    close(vmap(vmap(pulled, in_dims=(0, None, 0)))(w, lams, v), pulled)
    batch = Linearisation(rows(problem.phi_at), w, ready)
    close(batch.d1_T(v), lambda w, lam, v: Linearisation(problem.phi, w, lam).d1_T(v))
    close(batch.d1(v), lambda w, lam, v: Linearisation(problem.phi, w, lam).d1(v))
    slopes = Linearisation(rows(problem.outer_at), w, ready).d1_T(torch.ones(2, 3, dtype=w.dtype))
    close(slopes, lambda w, lam, v: Linearisation(problem.outer, w, lam).d1_T(torch.ones((), dtype=w.dtype)))
    torch.testing.assert_close(
        vmap(problem.contraction)(ready),
        torch.stack([problem.contraction(problem.prepare(lam)) for lam in lams]),
        rtol=EPS,
        atol=0,
    )


# λ, seeds, dtypes


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


def test_everything_is_on_the_device(make: Make) -> None:
    """Tensors without storage refuse to meet those of the CPU."""
    problem = make(device="meta")
    assert problem.phi(problem.w0, problem.lam).device.type == "meta"
    assert problem.outer(problem.w0, problem.lam).device.type == "meta"


def test_domain(make: Make, case: str) -> None:
    problem = make()
    with pytest.raises(InputError, match=r"lam is outside its domain: .*(is|has norm) below 1; choose lam inside it"):
        problem.at(1.06 * problem.lam)  # 1.06 · 0.95 > 1
    project = projection(10, 0.9) if case == "eqm" else conv_projection(2, 8, 0.9, case)
    lam = project(3 * problem.lam)
    inside = problem.at(lam)
    assert float(inside.contraction(inside.prepare(lam))) == pytest.approx(0.9, rel=EPS)
    assert torch.equal(lam[linear(problem) :], 3 * problem.lam[linear(problem) :])
    torch.testing.assert_close(project(lam), lam, rtol=EPS, atol=EPS)
    small = 0.5 * problem.lam
    assert torch.equal(project(small), small)


def test_zero_padding_needs_the_larger_torus() -> None:
    """On states of side 6 the taps −0.6, 0, 1 have norm 0.98 with circular padding and 1.02 with zeros."""
    circular, zeros = (
        conv_equilibrium(padding=padding, size=1, hidden=1, side=12) for padding in ("circular", "zeros")
    )
    lam = without_drive(zeros)
    lam[:9] = 0
    lam[3:6] = torch.tensor([-0.6, 0.0, 1.0])
    lam[:9] *= 0.98 / circular.contraction(circular.prepare(lam))

    def norm(lam: Tensor) -> float:
        ready = zeros.prepare(lam)
        return float(torch.linalg.matrix_norm(jacobian(lambda w: zeros.phi_at(w, ready), zeros.w0), ord=2))

    circular.at(lam)
    assert norm(lam) == pytest.approx(1.0237, abs=1e-4)
    with pytest.raises(InputError, match="on a torus of side 7 has norm below 1"):
        zeros.at(lam)
    assert norm(conv_projection(1, 12, 0.999, "zeros")(lam)) <= 0.999
    assert norm(conv_projection(1, 12, 0.999, "circular")(lam)) > 1


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (equilibrium, {"norm": 1.0}, "norm = 1.0 gives no contraction; give 0 <= norm < 1"),
        (conv_equilibrium, {"norm": -0.5}, "norm = -0.5 gives no contraction"),
        (equilibrium, {"norm": float("nan")}, "norm = nan gives no contraction"),
        (equilibrium, {"size": 0}, "size = 0 is no size"),
        (equilibrium, {"hidden": 0}, "hidden = 0 is no size"),
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
