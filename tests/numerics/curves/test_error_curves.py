"""The curve engine against the plain per-t loop, the ways of computing ITD against each other, and its budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rivals import plain
from small import NAMES, small

import boundcheck as bc
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves import cost
from boundcheck.numerics.curves.sizes import LamSizes, MapSizes, ProblemSizes, Sizes, measure

T = 12

METHODS = ["itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10"]


def lams_of(problem: Problem) -> torch.Tensor:
    return problem.sample(3, seed=2)


@pytest.mark.parametrize("name", NAMES)
def test_itd_and_fp_equal_the_plain_loop(name: str) -> None:
    problem = small(name)
    lams = lams_of(problem)
    methods = ["itd", "aid-fp", "aid-fp:4"]
    curves = bc.error_curves(problem, methods, t=T, lam=lams)
    for i, lam in enumerate(lams):
        expected = plain.error_curves(problem, lam, curves.exact[i], T, methods)
        for method in methods:
            difference = np.abs(curves[method][i] - expected[method].numpy())
            assert difference.max() <= 1e-10 * (1 + float(curves.exact[i].norm())), method


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_at_the_sizes_of_the_paper(name: str) -> None:
    """10⁻¹⁰ relative to the largest error: on KRR and HR the hypergradients first grow to many times their limit."""
    problem = bc.load_problem(name)
    methods = ["itd", "aid-fp", "aid-fp:10"]
    curves = bc.error_curves(problem, methods, t=25)
    expected = plain.error_curves(problem, problem.lam, curves.exact[0], 25, methods)
    for method in methods:
        difference = np.abs(curves[method][0] - expected[method].numpy())
        assert difference.max() <= 1e-10 * curves[method].max(), method


@pytest.mark.parametrize("dynamics", ["gradient-descent", "heavy-ball", "nesterov"])
@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_every_dynamics(name: str, dynamics: str) -> None:
    problem = small(name, dynamics=dynamics, **({"differentiate_step": True} if name != "br" else {}))
    curves = bc.error_curves(problem, ["itd"], t=T)
    expected = plain.error_curves(problem, problem.lam, curves.exact[0], T, ["itd"])
    assert np.abs(curves["itd"][0] - expected["itd"].numpy()).max() <= 1e-10 * (1 + float(curves.exact.norm()))


@pytest.mark.parametrize("name", NAMES)
def test_ways_of_computing_itd_agree(name: str) -> None:
    problem = small(name)
    lams = lams_of(problem)
    result = {way: bc.error_curves(problem, ["itd"], t=T, lam=lams, algorithm=way) for way in cost.ALGORITHMS}
    scale = 1 + float(result["wavefront"].exact.norm())
    for way in cost.ALGORITHMS:
        assert result[way].algorithm == way
        assert np.abs(result[way]["itd"] - result["wavefront"]["itd"]).max() <= 1e-10 * scale


@pytest.mark.parametrize("name", NAMES)
def test_other_methods_equal_their_solvers(name: str) -> None:
    """CG amplifies rounding, so only few steps and well-conditioned problems can be compared iterate by iterate."""
    problem = small(name)
    methods = ["itd-truncated:3", "aid-cgn:2", *(["aid-cg:2"] if problem.symmetric else [])]
    curves = bc.error_curves(problem, methods, t=5)
    for method in methods:
        for t in (1, 3, 5):
            value = bc.hypergradient(problem, method, t=t).value
            expected = float((value - curves.exact[0]).norm())
            assert curves[method][0, t - 1] == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in NAMES if small(name).symmetric])
def test_cg_reaches_what_its_accuracy_allows(name: str) -> None:
    """After as many steps as unknowns the system is solved, and what is left is the error of w_t: that of exact v."""
    problem = small(name)
    d, t = problem.d, 40
    curves = bc.error_curves(problem, [f"aid-cg:{3 * d}", f"aid-cgn:{6 * d}"], t=t)
    w_t = bc.hypergradient(problem, "aid-fp", t=t, k=0).w
    prepared = Prepared(problem, problem.lam)
    from boundcheck.numerics.bilevel.derivatives import Linearisation, jacobian, outer_gradients

    J = jacobian(lambda w: problem.phi_at(w, prepared.ready), w_t)
    outer = outer_gradients(problem, w_t, prepared.leaves)
    v = torch.linalg.solve(torch.eye(d, dtype=w_t.dtype) - J.T, outer.w)
    at = Linearisation(problem.phi_at, w_t, prepared.ready, prepared.leaves)
    value = prepared.pull_back(tuple(a + b for a, b in zip(outer.lam, at.d2_T(v), strict=True)))
    expected = float((value - curves.exact[0]).norm())
    for method in curves:
        assert abs(curves[method][0, -1] - expected) <= 1e-8 * (1 + float(curves.exact.norm()))


def test_pieces_do_not_change_the_result() -> None:
    """However the work is cut to the memory, the curves are the same."""
    problem = small("lr")
    methods = ["itd", "aid-fp", "aid-cg", "aid-cgn", "aid-fp:30", "itd-truncated:4"]
    whole = bc.error_curves(problem, methods, t=20, samples=5, seed=1, algorithm="wavefront")
    seen = []
    for memory in (60_000, 120_000):
        pieces = bc.error_curves(
            problem, methods, t=20, samples=5, seed=1, algorithm="wavefront", memory=memory,
            progress=lambda what, done, of: seen.append((done, of)),
        )  # fmt: skip
        for method in methods:
            assert np.allclose(whole[method], pieces[method], rtol=1e-9, atol=1e-12)
    assert seen[0][1] > 1
    assert seen[-1][0] == seen[-1][1]


def test_the_choice_follows_the_cost() -> None:
    """As measured: forward for few hyperparameters, dense for long runs of small or affine problems."""

    def chosen(
        T: int, d: int, n: int, leaves: int, phi: int, samples: int = 1, *, itself: bool = True, modes: bool = False
    ) -> str | None:
        sizes = Sizes(
            ProblemSizes(T=T, d=d, element=8),
            MapSizes(phi=phi, affine=modes, symmetric=modes, fixed_steps=modes),
            LamSizes(n=n, leaves=leaves, largest_leaf=n if itself else n + 1),
        )
        assert sizes.eigenbasis == modes
        return cost.choose(sizes, samples, ["itd"], "auto", 1 << 30).algorithm

    assert chosen(500, 1000, 1, 1, 2_000_000) == "forward"
    assert chosen(200, 100, 100, 100, 20_000, samples=20) == "dense"  # LR by autograd: 0.74 s, forward 0.90, wave 1.59
    assert chosen(200, 200, 223, 333, 4_000, itself=False) == "wavefront"  # tanh equilibrium: 0.08 s, forward 0.56
    assert chosen(1100, 20, 400, 400, 1_000) == "dense"
    assert chosen(100, 200, 20_000, 20_000, 40_000, itself=False) == "wavefront"
    assert chosen(200, 200, 20_000, 20_000, 40_000, itself=False, modes=True) == "dense"


def test_lam_is_the_problems_own_given_or_drawn() -> None:
    problem = small("lr")
    own = bc.error_curves(problem, ["aid-fp"], t=3)
    assert torch.equal(own.lam, problem.lam[None])
    given = bc.error_curves(problem, ["aid-fp"], t=3, lam=problem.lam)
    assert np.array_equal(own["aid-fp"], given["aid-fp"])
    drawn = bc.error_curves(problem, ["aid-fp"], t=3, samples=4, seed=9)
    assert torch.equal(drawn.lam, problem.sample(4, seed=9))
    assert drawn["aid-fp"].shape == (4, 3)
    assert list(drawn.t) == [1, 2, 3]


def test_divergence_is_seen_as_such() -> None:
    """A curve that leaves the finite numbers says from which t on, and the others are not touched."""
    problem = bc.Problem.from_map(
        lambda w, lam: 40 * w + lam, lambda w, lam: w.sum(), torch.zeros(1).double(), torch.ones(1).double()
    )
    curves = bc.error_curves(problem, ["itd", "aid-fp:2"], t=300)
    first = curves.diverged["itd"][0]
    assert first is not None
    assert np.isfinite(curves["itd"][0, : first - 1]).all()
    assert not np.isfinite(curves["itd"][0, first - 1])
    assert f"'itd': {first}" in repr(curves)
    assert np.isfinite(curves["aid-fp:2"][0, :100]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": 0}, "t must be at least 1"),
        ({"t": -2}, "t must be at least 1"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"methods": []}, "methods is empty"),
        ({"methods": ["exact"]}, "leave it out"),
        ({"methods": ["itd:3"]}, "itd takes no k"),
        ({"algorithm": "sideways"}, "unknown algorithm 'sideways'"),
        ({"algorithm": None}, "unknown algorithm 'None'"),
        ({"lam": torch.ones(0, 8).double()}, "lam has no rows"),
        ({"lam": torch.ones(3)}, r"lam has shape \(3,\)"),
    ],
)
def test_bad_input_gets_one_clear_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message):
        bc.error_curves(small("br"), **{"methods": ["itd"], "t": 3, **options})
    with pytest.raises(bc.UnknownNameError, match="did you mean itd"):
        _ = bc.error_curves(small("br"), ["itd"], t=1)["idt"]


@pytest.mark.parametrize("algorithm", [*cost.ALGORITHMS, "auto"])
@pytest.mark.parametrize("symmetric", [None, True])
@pytest.mark.parametrize("through", ["a sum", "E alone", "Φ alone"])
def test_lam_may_act_through_a_sum_or_on_one_level_only(through: str, symmetric: bool | None, algorithm: str) -> None:
    """Then ∂₂Φᵀv is the same number in every place, or none at all."""

    def phi(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return 0.3 * torch.tanh(w) + {"a sum": lam.sum(), "E alone": 1.0, "Φ alone": lam}[through]

    def outer(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return (w * (lam if through == "E alone" else w)).sum() / 2

    lam = torch.tensor([1.0, 0.5, 2.0]).double()
    problem = Problem("small", torch.zeros(3).double(), lam, phi, outer, symmetric=symmetric)
    methods = ["itd", "aid-fp", "aid-fp:2", "itd-truncated:0", "itd-truncated:2"]
    curves = bc.error_curves(problem, methods, t=T, algorithm=algorithm)
    expected = plain.error_curves(problem, lam, curves.exact[0], T, methods[:3])
    for method in methods[:3]:
        assert np.abs(curves[method][0] - expected[method].numpy()).max() <= 1e-12
    for method in methods[3:]:
        value = bc.hypergradient(problem, method, t=T).value
        assert abs(curves[method][0, -1] - float((value - curves.exact[0]).norm())) <= 1e-12


def test_a_truncation_that_leaves_nothing() -> None:
    curves = bc.error_curves(small("lr"), ["itd-truncated:0"], t=T)
    direct = bc.hypergradient(small("lr"), "itd-truncated:0", t=T).value - curves.exact[0]
    assert curves["itd-truncated:0"][0, -1] == pytest.approx(float(direct.norm()), rel=1e-12)


def test_examples_of_the_data_count_in_the_budget() -> None:
    """20,000 examples for five weights: rows of a batched product are cut by what they make on the way."""
    problem = bc.problems.logistic_regression(features=5, size=20_000)
    for case in (problem, replace(problem, d1phi_T_at=None, d2phi_T_at=None)):
        sizes = measure(case, Prepared(case, case.lam[None]), 1000)
        assert 20_000 <= sizes.width <= 80_000
        schedule = cost.choose(sizes, 1, METHODS, "auto", 1 << 26)
        assert max(schedule.rows, schedule.basis) * sizes.width * 8 <= 1 << 26


def test_a_fixed_k_that_is_far_beyond_t() -> None:
    """In eigenvectors FP has come to rest there, and only what is asked for is kept."""
    problem = small("br")
    curves = bc.error_curves(problem, ["aid-fp:100000", "aid-cg:1000"], t=5)
    assert np.allclose(curves["aid-fp:100000"], curves["aid-cg:1000"], rtol=1e-9)


def test_a_problem_without_a_sampler_says_what_to_give() -> None:
    problem = bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: w.sum(), torch.zeros(2), torch.ones(2))
    with pytest.raises(bc.InputError, match="user has no sampler for lam; pass lam="):
        bc.error_curves(problem, t=3, samples=2)
    assert bc.error_curves(problem, ["aid-fp"], t=3)["aid-fp"].shape == (1, 3)
