"""Constants that a program proves, where they were below the truth once."""

import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.step_constant import step_constant


def test_the_rounding_of_a_step_is_in_the_constants() -> None:
    """α = (λ + 10⁶) − 10⁶ is 5·10⁻¹¹ too large, which still counts as exact, and 1 − αμ was too small."""

    def inner_loss(w: Tensor, lam: Tensor) -> Tensor:
        return (w**2).sum() / 2 + lam.exp().sum() * w.sum()

    problem = bc.Problem.from_loss(
        inner_loss, inner_loss, torch.zeros(2, dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64),
        lambda lam: (lam.sum() + 1e6) - 1e6,
    )  # fmt: skip
    alpha = step_constant(problem)
    assert alpha is not None
    assert alpha.side.value == "exact"
    assert alpha.value > 0.3
    proved = {c.name: c for c in ProgramProof.of(problem).on(Region("0", problem.w0, 1.0), alpha)}
    assert proved["q"].value >= 1 - float(torch.tensor(0.3, dtype=torch.float64))


def test_constants_are_those_of_the_function_as_it_is_now() -> None:
    """A bend far from the start, and data that are written into: no point next to w_0 would show either."""
    cap, X = 10.0, torch.diag(torch.tensor([1e4, 1.0], dtype=torch.float32))

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return ((X @ w) ** 2).sum() + (lam.exp() * w**2).sum() + (torch.relu(w - cap) ** 3).sum()

    zeros = torch.zeros(2, dtype=torch.float32)
    problem = bc.Problem.from_loss(inner, lambda w, lam: ((w - 1) ** 2).sum(), zeros, zeros, 1e-9)
    before = ProgramProof.of(problem)
    assert ProgramProof.of(problem).lower is before.lower
    X[1, 1] = 2.0
    changed = ProgramProof.of(problem)
    assert changed.lower is not before.lower
    cap = 9.0
    assert ProgramProof.of(problem).lower is not changed.lower
