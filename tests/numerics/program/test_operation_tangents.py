"""Derivatives through what stops autograd, against the derivative of the same function without the stop."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.program import operation_tangents
from boundcheck.numerics.program.finite_differences import Line

D = torch.float64
A = torch.tensor([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.7, 0.1, 3.0]], dtype=D)
x = torch.tensor([0.3, -1.2, 0.8], dtype=D)
u = torch.tensor([1.0, 0.4, -0.7], dtype=D)


class WrongBackward(torch.autograd.Function):
    """sin with 1/2 as its derivative."""

    @staticmethod
    def forward(ctx, x):
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        return g / 2


def without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.sin(x)


def in_place(x: Tensor) -> Tensor:
    y = x.clone().detach()
    y.mul_(2)
    y[1:].add_(x[:2])
    return torch.sin(y)


def in_place_plainly(x: Tensor) -> Tensor:
    return torch.sin(2 * x + torch.cat((torch.zeros(1, dtype=D), x[:2])))


def slope_of_stopped(x: Tensor) -> Tensor:
    return torch.func.grad(lambda z: (z.detach() * z.sin() * z).sum())(x)


STOPPED = {
    "detach": (lambda x: torch.sin(x).detach(), torch.sin),
    ".data": (lambda x: torch.sin(x.data) + x, lambda x: torch.sin(x) + x),
    "no_grad": (without_grad, torch.sin),
    "wrong backward": (WrongBackward.apply, torch.sin),
    "in place": (in_place, in_place_plainly),
    "solve": (lambda x: torch.linalg.solve(A + x.detach().diag(), x), lambda x: torch.linalg.solve(A + x.diag(), x)),
    "a gradient": (slope_of_stopped, lambda x: x * x.sin() + x * x * x.cos()),
    "vmap": (lambda x: torch.vmap(lambda z: z.sin().detach() * z)(x), lambda x: x.sin() * x),
    "transposed": (lambda x: (x.detach()[:, None] * x).t() @ x, lambda x: (x[:, None] * x).t() @ x),
}


@pytest.mark.parametrize("name", STOPPED)
def test_derivatives_are_seen_through_every_stop(name):
    stopped, plain = STOPPED[name]
    torch.testing.assert_close(operation_tangents.derivative(stopped, x, u), torch.func.jvp(plain, (x,), (u,))[1])


@pytest.mark.parametrize(
    "function", [lambda x: x * x[0].item(), lambda x: x + torch.from_numpy(x.detach().numpy()).sin()]
)
def test_nothing_is_said_where_numbers_leave_pytorch(function):
    assert operation_tangents.derivative(function, x, u) is None


def test_nothing_is_said_where_memory_is_read_as_another_dtype():
    """The real parts of complex numbers lie in the memory of these."""
    assert operation_tangents.derivative(lambda x: torch.view_as_real(torch.complex(x, x) ** 2)[:, 1], x, u) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_weak_stop_gradient_in_the_outer_loss_is_refused(dtype, share):
    """Of one part in twenty, beside a loss of far larger values, which hide it from finite differences."""

    def outer(w, lam):
        return 1e4 + (w**2).sum() + lam.sum() + share * torch.sin(lam).sum().detach()

    with pytest.raises(bc.UserCodeError, match="outer_loss by hparams"):
        bc.Problem.from_map(
            lambda w, lam: 0.5 * w + lam, outer, torch.zeros(2, dtype=dtype), torch.ones(2, dtype=dtype)
        )


def test_a_stop_gradient_is_seen_where_numbers_are_coarse():
    """At w = 1e5 in float32 the numbers are 0.008 apart, and finite differences do not see sin(w)."""
    start, lam = torch.tensor([-1.1e5]), torch.tensor([-0.41])

    def phi(w, lam):
        return 0.136 * w + 0.1 * torch.sin(w).detach() + lam

    with pytest.raises(bc.UserCodeError, match="fp_map by params"):
        bc.Problem.from_map(phi, lambda w, lam: (w**2).sum(), start, lam)


def test_a_stop_gradient_that_changes_nothing_is_accepted():
    """The largest entry is taken off before exp and added again: its derivative cancels, detached or not."""

    def outer(w, lam):
        top = w.max().detach()
        return top + (w - top).exp().sum().log() + (lam**2).sum()

    bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, outer, torch.zeros(3, dtype=D), torch.ones(3, dtype=D))


def test_a_step_size_that_is_frozen_by_hand_is_accepted():
    """Φ = w − α(λ)∇ℓ with α detached has the right derivative at w(λ), where ∇ℓ = 0."""

    def phi(w, lam):
        alpha = 1 / (2 + lam.exp().max()).detach()
        return w - alpha * (A.T @ (A @ w - 1) / 4 + lam.exp() * w)

    problem = bc.Problem.from_map(phi, lambda w, lam: (w**2).sum(), torch.zeros(3, dtype=D), torch.zeros(3, dtype=D))
    assert bc.hypergradient(problem, "itd", t=200).value.norm() > 0


def test_an_iteration_that_stopped_early_leaves_the_derivative_unconfirmed():
    """Newton's square root with a hand-written backward is right up to what the iteration left: a doubt, no refusal."""

    class Root(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            for _ in range(4):
                y = (y + x / y) / 2
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g / (2 * ctx.saved_tensors[0])

    value, start = Root.apply, torch.tensor([5.0, 4.0, 3.5], dtype=D)
    line = operation_tangents.Line(
        value, lambda x, c: torch.autograd.functional.vjp(value, x, c)[1], start, u, torch.ones(3, dtype=D)
    )
    outcome = operation_tangents.compare(line)
    assert outcome.verdict == "open"
    assert "differ by" in outcome.reason


def test_terms_that_cancel_leave_rounding_which_refutes_nothing():
    """∂f is in proportion to w and c to 1/|w|, so that nothing is left but rounding, of which autograd has another."""
    w = torch.tensor([0.3, 1.7], dtype=D)
    c = torch.tensor([1 / 0.3, -1 / 1.7], dtype=D)
    rounding = 1e-17  # of a sum of two terms of size 1
    line = Line(
        lambda s: s * w, lambda s, c: (c @ w)[None] + rounding, torch.ones(1, dtype=D), torch.ones(1, dtype=D), c
    )
    assert operation_tangents.compare(line).verdict == "agrees"
    stopped = replace(line, gradient=lambda s, c: (c @ w + 1e-3 * c[0])[None])
    assert operation_tangents.compare(stopped).verdict == "refutes"


def share(small: float, wrong: float) -> Line:
    """f = s₀ + small·s₁, where autograd has `wrong` times the second derivative."""
    weights = torch.tensor([1.0, small], dtype=D)
    seen = torch.tensor([1.0, small * wrong], dtype=D)
    one = torch.ones(2, dtype=D)
    return Line(lambda s: s @ weights, lambda s, c: c * seen, one, one, torch.ones(1, dtype=D))


@pytest.mark.parametrize("small", [1e-3, 1e-6, 1e-10])
def test_an_entry_is_seen_beside_one_that_is_much_steeper(small):
    assert operation_tangents.compare(share(small, 1.0)).verdict == "agrees"
    assert operation_tangents.compare(share(small, 0.5)).verdict == "refutes"


def test_an_entry_that_may_be_rounding_refutes_nothing():
    """As where λ enters by (λ + s) − s."""
    assert operation_tangents.compare(share(1e-15, 0.9)).verdict == "agrees"


def test_a_value_is_seen_beside_one_that_is_much_steeper():
    weights, seen = torch.tensor([1.0, 1e-6], dtype=D), torch.tensor([1.0, 5e-7], dtype=D)
    one = torch.ones(1, dtype=D)
    line = Line(lambda s: s * weights, lambda s, c: (c @ seen)[None], one, one, torch.ones(2, dtype=D))
    assert operation_tangents.compare(line).verdict == "refutes"


def test_shares_that_are_not_finite_are_left_alone():
    assert operation_tangents.compare(share(1e-3, float("inf"))).verdict != "refutes"


def test_a_derivative_that_cancels_inside_is_rounding():
    """∂₂Φ = w + s with s = −w* at w*: what is left of it is rounding, the same wherever λ is."""
    for q in torch.linspace(0.5, 0.99, 25, dtype=D).tolist():
        s = -1 / (1 - q)
        zero = torch.zeros(1, dtype=D)
        bc.Problem.from_map(lambda w, lam, q=q, s=s: (q + lam) * w + 1 + s * lam, lambda w, lam: w.sum(), zero, zero)


def test_a_backward_pass_that_leaves_out_results_is_followed() -> None:
    """The derivative of a layer norm gives None for the weights that there are not."""
    w, lam = torch.tensor([0.3, -0.2, 0.5], dtype=D), torch.tensor(1.0, dtype=D)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return (torch.nn.functional.layer_norm(w, (3,)) * A[0]).sum() + 10 * lam * (w**2).sum()

    problem = bc.Problem.from_loss(inner, lambda w, lam: (w**2).sum(), w, lam, 0.01)
    assert problem.d == 3
