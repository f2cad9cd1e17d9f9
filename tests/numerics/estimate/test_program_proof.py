"""Constants that a program proves, where they were below the truth once."""

import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.step_constant import step_constant
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds


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


def test_what_proofs_share_is_of_the_numbers_as_they_are_now() -> None:
    """Bounds at a point are kept for the next proof, until data or λ are written into."""
    X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return ((X @ w) ** 2).sum() + (lam * w**2).sum()

    w, lam = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    problem = bc.Problem.from_loss(inner, lambda w, lam: ((X @ w) ** 2).sum(), w, lam, 0.01)

    def largest() -> float:
        bounds = ProgramProof.of(problem).lower_bounds(w, 0.0)
        assert isinstance(bounds, ScalarBounds)
        H = 2 * X.T @ X + 2 * torch.diag(problem.lam)
        assert abs(bounds.largest - float(torch.linalg.eigvalsh(H)[-1])) < 1e-9
        return bounds.largest

    first = largest()
    assert ProgramProof.of(problem).lower_bounds(w, 0.0) is ProgramProof.of(problem).lower_bounds(w, 0.0)
    X[0, 0] = 7.0
    second = largest()
    problem.lam[0] = 9.0
    assert first < second < largest()


def test_what_depends_on_lam_only_is_enclosed_once() -> None:
    X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return ((torch.exp(X * lam) @ w) ** 2).sum() + w.exp().sum()

    w = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_loss(lambda w, lam: ((w - lam) ** 2).sum(), outer, w, w + 0.3, 0.1)
    proof = ProgramProof.of(problem)
    bounds = [proof.outer_bounds(centre, radius) for centre, radius in ((w, 0.5), (w + 1, 0.25), (w + 1, 0.0))]
    values = [x for x in bounds[0].over.enclosures.values if x.rule is not None]
    assert [value.name for value in values if "w" not in value.slopes] == ["mul", "exp"]
    for own, centre, radius in zip(bounds, (w, w + 1, w + 1), (0.5, 0.25, 0.0), strict=True):
        shared = [x.name for x in own.over.enclosures.values if "w" not in x.slopes and any(x is y for y in values)]
        assert shared == ["mul", "exp"]
        assert proof.outer is not None
        alone = ScalarBounds(proof.outer, centre, problem.lam, radius)
        for name in ("smallest", "largest", "gradient", "cross", "third", "third_cross"):
            assert getattr(own, name) == getattr(alone, name), name
