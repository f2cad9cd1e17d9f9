"""Curves in the eigenvectors of ∂₁Φ against those that know nothing of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pieces import normal
from rivals import plain
from small import small

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import jacobian, rows, rows_outer, used
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves import cost, itd_backward, lambda_products
from boundcheck.numerics.curves.eigenbasis import Block, runs_of, spectrum_of
from boundcheck.numerics.curves.itd_eigenbasis import Modes, SummedItd, sums_of
from boundcheck.numerics.curves.itd_eigenbasis_matrices import Formed
from boundcheck.numerics.curves.sizes import fixed_steps, measure

T = 15
DYNAMICS = pytest.mark.parametrize("dynamics", ["gradient-descent", "heavy-ball", "nesterov"])
AFFINE = pytest.mark.parametrize("name", ["krr", "br", "hr"])


@DYNAMICS
@AFFINE
@torch.no_grad()
def test_modes_equal_the_wave(name: str, dynamics: str) -> None:
    """As cotangents, with ∂₂Φ formed, by a formula that sums over points, and by adjoints of every horizon."""
    problem = small(name, dynamics=dynamics)
    batch = batches.run(problem, Prepared(problem, problem.sample(3, seed=2)), T, constant=True)
    leaves = used(batch.prepared.leaves, rows(problem.phi_at), batch.w[:, :1])
    b = rows_outer(problem, batch.w, leaves.none()).w
    pull = batch.prepared.pull_back_rows
    expected = pull(leaves, itd_backward.itd(batch, b, leaves, 0, T))
    assert batch.spectrum is not None
    modes = Modes(batch, batch.spectrum, leaves)
    blocks = [pull(leaves, cotangents) for cotangents in modes.itd(b, 4)]
    assert [block.shape[1] for block in blocks] == [4, 4, 4, 3]
    scale = expected.abs().max()
    assert (torch.cat(blocks, dim=1) - expected).abs().max() <= 1e-12 * scale
    carried = Formed(modes).read(b, None).itd
    assert carried is not None
    assert (carried - expected).abs().max() <= 1e-12 * scale
    formulas = sums_of(modes)
    assert bool(formulas) == (name == "hr")
    if formulas:
        summed, parts = SummedItd(modes, formulas, b, 4), []
        for horizons in batches.pieces(0, T, 4):
            summed.prepare(horizons)
            parts.append(summed.block(horizons, slice(1, 2)))
        assert (torch.cat(parts, dim=1) - expected[1:2]).abs().max() <= 1e-12 * scale


@DYNAMICS
@AFFINE
@torch.no_grad()
def test_what_is_formed_is_read_off_at_w_t(name: str, dynamics: str) -> None:
    """With Nesterov's method Φ is evaluated elsewhere, and ∂₂Φᵀv is still that of w_t."""
    problem = small(name, dynamics=dynamics)
    batch = batches.run(problem, Prepared(problem, problem.sample(3, seed=2)), T, constant=True)
    leaves = used(batch.prepared.leaves, rows(problem.phi_at), batch.w[:, :1])
    v = normal(3, T, 2, problem.d)
    assert batch.spectrum is not None
    result = Formed(Modes(batch, batch.spectrum, leaves)).read(None, v)
    assert result.itd is None
    assert result.aid is not None
    expected = lambda_products.d2phi_T_v(batch, leaves, batch.w, v)
    assert (result.aid - expected).abs().max() <= 1e-11 * expected.abs().max()


@AFFINE
def test_points_that_are_not_needed_are_not_kept(name: str) -> None:
    """On BR ∂₂Φ is the same at every w, on HR there are fewer eigenspaces than coordinates."""
    problem = small(name)
    with torch.no_grad():
        batch = batches.run(problem, Prepared(problem, problem.sample(2, seed=2)), T, constant=True)
        assert batch.spectrum is not None
        leaves = used(batch.prepared.leaves, rows(problem.phi_at), batch.w[:, :1])
        points = Modes(batch, batch.spectrum, leaves).points.shape[1]
    assert points == {"krr": problem.d + 1, "br": 1, "hr": 1 + batch.spectrum.values.shape[-1]}[name]
    assert batch.spectrum.simple == (name == "krr")
    if name == "hr":
        assert points < problem.d


def test_spectrum_counts_what_differs_by_rounding_once() -> None:
    U = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).double()).Q
    values = torch.tensor([[0.5, 0.5, 0.5, -0.2, 0.9, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]).double()
    result = spectrum_of(U * values[:, None] @ U.T)
    assert result.values.shape == (2, 6)
    assert torch.allclose(result.values[0], torch.tensor([-0.2, 0.5, 0.9, 0, 0, 0]).double(), atol=1e-15)
    assert not result.simple
    spread = result.spread(result.values[:, None])[:, 0]
    assert torch.allclose(result.U * spread[:, None] @ result.U.mT, U * values[:, None] @ U.T, atol=1e-14)
    near = spectrum_of(torch.diag(torch.tensor([0.5, 0.5 + 1e-7, 0.9]).double())[None])
    assert near.simple  # as 10⁻⁷ is more than rounding
    v = torch.ones(2, 1, 6).double()
    assert torch.allclose(result.lengths(v)[0, 0] ** 2, torch.tensor([1, 3, 2, 0, 0, 0]).double())


def test_steps_that_depend_on_lam_are_not_frozen() -> None:
    for differentiate_step in (False, True):
        problem = small("krr", dynamics="heavy-ball", differentiate_step=differentiate_step)
        sizes = measure(problem, Prepared(problem, problem.lam[None]), T)
        assert sizes.eigenbasis == (not differentiate_step)
        z = problem.dynamics.start(problem.w0).expand(1, 1, -1)
        assert fixed_steps(problem, Prepared(problem, problem.lam[None]).leaves, z) == sizes.eigenbasis


@DYNAMICS
def test_every_method_on_repeated_eigenvalues(dynamics: str) -> None:
    problem = small("hr", dynamics=dynamics)
    methods = ["itd", "aid-fp", "aid-fp:3"]
    curves = bc.error_curves(problem, methods, t=T, algorithm="dense")
    expected = plain.error_curves(problem, problem.lam, curves.exact[0], T, methods)
    for method in methods:
        assert np.abs(curves[method][0] - expected[method].numpy()).max() <= 1e-11 * curves[method].max()


def affine(q: float) -> Problem:
    def phi(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return q * w + lam

    w0, lam = torch.ones(2).double(), torch.tensor([1.0, 2.0]).double()
    return Problem("affine", w0, lam, phi, lambda w, lam: (w * w).sum() / 2, symmetric=True, affine=True)


def test_divergence_stays_visible_in_eigenvectors() -> None:
    """q = 3: the error of ITD grows like 9ᵗ until it overflows, and says so."""
    curves = bc.error_curves(affine(3.0), ["itd", "aid-fp"], t=200, algorithm="dense")
    for method in curves:
        first = curves.diverged[method][0]
        assert first is not None
        assert 150 < first < 170  # 9ᵗ is past 10¹⁵⁴, and its square no number any more
        ratios = curves[method][0, 20:100] / curves[method][0, 19:99]
        assert np.allclose(ratios, 9, rtol=1e-3)


def test_iteration_at_the_edge_of_convergence() -> None:
    """q = −1: nothing converges, nothing overflows, and ITD follows its closed form."""
    curves = bc.error_curves(affine(-1.0), ["itd"], t=6, algorithm="dense")
    lam = np.array([1.0, 2.0])
    w, dw, expected = np.ones(2), 0.0, []
    for _ in range(6):
        w, dw = lam - w, 1 - dw
        expected.append(np.linalg.norm(dw * w - lam / 4))
    assert np.allclose(curves["itd"][0], expected, rtol=1e-13)


@pytest.mark.parametrize("which", [[0, 1, 2, 3], [0, 0, 1, 2], [0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 2, 2]])
def test_parts_in_eigenspaces_are_projections(which: list[int]) -> None:
    """With runs that are the same for both λ, and by scattering where they are not."""
    values = torch.tensor([0.1, 0.3, 0.5, 0.7], dtype=torch.float64)[which]
    U = torch.linalg.qr(normal(2, 4, 4)).Q
    other = values.clone()
    other[-1] = 0.9  # another multiplicity, perhaps, for the second λ
    b = normal(2, 3, 4, seed=1)
    for second in (values, other):
        J = U @ torch.diag_embed(torch.stack((values, second))) @ U.mT
        spectrum = spectrum_of(J)
        parts = spectrum.parts(b)
        assert torch.allclose(parts.sum(2), b, atol=1e-13)
        scaled = spectrum.values[:, None, :, None] * parts
        assert torch.allclose(parts @ J.mT[:, None], scaled, atol=1e-13)
    assert runs_of([*range(40), *[i // 2 for i in range(80, 160)]]) == ()  # too many


def test_runs() -> None:
    assert runs_of([0, 1, 2, 2, 3, 3, 4]) == (
        Block(slice(0, 2), slice(0, 2), True),
        Block(slice(2, 4), slice(2, 3), False),
        Block(slice(4, 6), slice(3, 4), False),
        Block(slice(6, 7), slice(4, 5), True),
    )


@AFFINE
def test_blocks_of_t_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One t at a time in everything that goes in pieces, with ITD by modes or carried along."""
    problem, methods = small(name), ["itd", "aid-fp", "aid-cg:3"]
    whole = bc.error_curves(problem, methods, t=T, samples=2, seed=1, algorithm="dense")
    monkeypatch.setattr(cost, "CACHE", 1)
    piecewise = bc.error_curves(problem, methods, t=T, samples=2, seed=1, algorithm="dense")
    for method in methods:
        assert np.allclose(piecewise[method], whole[method], rtol=1e-10, atol=1e-12 * whole[method].max())


@DYNAMICS
def test_what_dynamics_say_of_themselves(dynamics: str) -> None:
    """Where a step evaluates Φ, that older iterates move back by one place, and the adjoint at that point."""
    problem = small("lr", dynamics=dynamics)
    ready, step = problem.prepare(problem.lam), problem.dynamics
    z, v = normal(step.copies * problem.d), normal(step.copies * problem.d, seed=1)
    point = step.point(z, ready)
    assert step.sees_iterates == torch.equal(point, step.iterate(z)) == (dynamics != "nesterov")
    moved = problem.psi_at(z, ready)
    assert torch.equal(moved[problem.d :], z[: -problem.d or None][: len(moved) - problem.d])
    J = jacobian(lambda w: problem.phi_at(w, ready), point)
    expected = torch.func.vjp(lambda z: problem.psi_at(z, ready), z)[1](v)[0]
    assert torch.allclose(step.adjoint(lambda v: v @ J, v, ready), expected, rtol=1e-12, atol=1e-13)


@torch.no_grad()
def test_many_horizons_take_one_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small("krr")
    batch = batches.run(problem, Prepared(problem, problem.lam[None]), T, constant=True)
    leaves = used(batch.prepared.leaves, rows(problem.phi_at), batch.w[:, :1])
    b = rows_outer(problem, batch.w, leaves.none()).w
    assert batch.spectrum is not None
    modes, run, passes = Modes(batch, batch.spectrum, leaves), torch.autograd.grad, [0, 0]

    def of_t(able: bool) -> list[torch.Tensor]:
        def counted(*arguments, is_grads_batched=False, **options):  # type: ignore[no-untyped-def]
            if is_grads_batched and not able:
                raise RuntimeError("an operation of the user has no batched derivative")
            passes[able] += 1
            return run(*arguments, is_grads_batched=is_grads_batched, **options)

        monkeypatch.setattr(torch.autograd, "grad", counted)
        (cotangents,) = modes.itd(b, T)
        return list(cotangents)

    for together, one_by_one in zip(of_t(able=True), of_t(able=False), strict=True):
        assert (together - one_by_one).abs().max() <= 1e-12 * one_by_one.abs().max()
    assert passes == [T, 1]
