"""What the search finds by itself, from random starts; and what it writes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from command import Command, boundcheck

from boundcheck import AssumptionError, InputError, UnknownNameError, Worst, check, load_problem, worst
from boundcheck.worst_case import confirm
from boundcheck.worst_case.maps import map_of, together
from boundcheck.worst_case.problem_file import check_command, save
from boundcheck.worst_case.search import SearchEffort

__all__ = ["boundcheck"]
SMALL = SearchEffort(starts=32, steps=40, rounds=2, generations=30, population=40)
TINY = SearchEffort(starts=12, steps=8, rounds=1, generations=4, population=16)


def small(bound: str, t: int = 5, k: int | None = None, **options: object) -> Worst:
    return worst(bound, t=t, k=k, dim=1, effort=SMALL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("t", "k"), [(1, 3), (6, 2)])
def test_the_local_bounds_are_attained(t: int, k: int, seed: int) -> None:
    assert small("itd-local", t, seed=seed).ratio == pytest.approx(1, abs=1e-3)
    assert small("aid-fp-local", t, k, seed=seed).ratio == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("t", "q"), [(1, 0.9), (4, 0.9), (3, 0.5)])
def test_the_known_ratios_where_nothing_saturates(t: int, q: float) -> None:
    """On Φ = λw + b with E = w: error D(q^t/(1−q) + tq^(t−1)), and L_Φ = 2D in the bound."""
    only = {"only": ("nu_2", "L_E"), "saturating": False, "q": q}
    left, slow = q**t / (1 - q), t * q ** (t - 1)
    assert small("itd", t, **only).ratio == pytest.approx((left + slow) / (2 * left + slow), abs=1e-3)
    expected = (2 - q**t) / (3 - q**t)  # AID-FP at k = t
    assert small("aid-fp", t, t, **only).ratio == pytest.approx(expected, abs=1e-3)
    if (t, q) == (1, 0.9):
        assert (left + slow) / (2 * left + slow) == pytest.approx(0.526, abs=5e-4)


def test_saturation_attains_the_bounds_of_the_paper_with_the_nu_2_term() -> None:
    for result in (small("itd", only=("nu_2", "L_E")), small("aid-fp", k=5, only=("nu_2", "L_E"))):
        assert result.ratio == pytest.approx(1, abs=1e-3)
        share = {term.name: term.share for term in result.exact.terms}
        assert share["nu_2"] > 0.2  # W is at least ν₂D/(1−q), so it cannot be all of the bound
        assert not result.refuted


def test_both_false_claims_are_refuted() -> None:
    aid = small("appB-aid", 1, 1, seed=3)
    assert aid.refuted
    assert aid.ratio == pytest.approx(1.9, abs=0.01)  # 1 + q^k, as ∂₂Φ(w*) → 0
    heavy = small("heavy-ball-2D", 20, 20)
    assert heavy.refuted
    assert heavy.ratio > 3


def test_the_winner_in_50_digits_agrees_with_doubles() -> None:
    for name in ("itd", "aid-cg", "heavy-ball", "aid", "itd-recursive", "ji-itd", "aid-posteriori", "aid-cgn"):
        result = worst(name, t=3, dim=2, effort=TINY)
        assert result.ratio == pytest.approx(result.found.ratio, rel=1e-9), name
        assert len(result.exact.digits("ratio")) > 20 or result.ratio == 1


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second, other = (worst("itd", t=3, dim=2, seed=seed, effort=TINY) for seed in (5, 5, 6))
    assert first.numbers() == second.numbers()
    assert first.numbers() != other.numbers()


@pytest.mark.parametrize(
    ("name", "method"),
    [("itd", "itd"), ("aid-fp", "aid-fp:3"), ("aid-cg", "aid-cg:1"), ("itd-gd", "itd"), ("heavy-ball", "itd"),
     ("nesterov", "itd"), ("itd-local", "itd"), ("ablin-automatic", "itd"), ("itd-truncated", "itd-truncated:3")],
)  # fmt: skip
def test_check_gives_the_ratio_of_the_saved_file(name: str, method: str, tmp_path: Path) -> None:
    k = {"aid-cg": 1}.get(name, 3) if method != "itd" else None
    result = worst(name, t=5, k=k, dim=2, effort=TINY)
    save(result, tmp_path)
    assert f"--method {method} " in str(check_command(result))
    report = check(load_problem(f"{tmp_path / 'worst.py'}:problem"), [method], 5, bounds=[name])
    judged = report.curves[method].bounds[name]
    assert judged.verdict.value == "holds"
    assert 1 / judged.tightness[0, -1] == pytest.approx(result.ratio, rel=1e-9)


@pytest.mark.parametrize("name", ["aid-contraction", "ghadimi-wang", "appB-aid", "heavy-ball-2D"])
def test_a_file_with_its_own_run_gives_the_same_error(name: str, tmp_path: Path) -> None:
    result = worst(name, t=4, dim=2, effort=TINY)
    save(result, tmp_path)
    assert runpy.run_path(str(tmp_path / "worst.py"))["run"]() == pytest.approx(float(result.exact.error), rel=1e-9)
    kept = json.loads((tmp_path / "worst.json").read_text(encoding="utf-8"))
    assert kept["exact"]["error"] == result.exact.digits("error")


def test_terms_add_up_to_the_bound_and_to_the_error() -> None:
    for name in ("itd", "aid-cg-chebyshev", "aid-fp"):  # the rate of CG has powers that must not be multiplied out
        result = worst(name, t=4, dim=2, effort=TINY)
        assert all(term.share >= 0 for term in result.exact.terms)
        assert sum(term.share for term in result.exact.terms) == pytest.approx(1)
        assert sum(term.share * (term.attained or 0) for term in result.exact.terms) == pytest.approx(result.ratio)


def test_eta_1_and_the_unfinished_derivative_are_not_attained_together() -> None:
    """w' and w_t' − w' have opposite signs, so ∇₁E(w*) exceeds ∇₁E(w_t): L_E is lost where η₁ is gained."""
    subsets = (("nu_2", "L_E"), ("L_Phi", "L_E", "eta_1"))
    result = {one.parts: one for one in together("itd", t=2, quick=True, subsets=subsets)}
    assert result["nu_2", "L_E"].ratio == pytest.approx(1, abs=1e-3)
    assert result["L_Phi", "L_E", "eta_1"].ratio < 0.98
    assert all(term.share > 0.09 for term in result["L_Phi", "L_E", "eta_1"].terms if term.name in ("eta_1", "rest"))


def test_a_map_has_every_place_and_can_be_drawn(tmp_path: Path) -> None:
    from boundcheck.views.figures import canvas, tightness_map

    options = {"only": ("nu_2", "L_E"), "saturating": False, "quick": True}
    for bound, ks in (("itd", (None,)), ("aid-fp", (2,))):
        result = map_of(bound, (0.5,), (1, 2), (2,), **options)  # type: ignore[arg-type]
        assert result.ks == ks
        assert json.loads(json.dumps(result.to_json()))["bound"] == bound
        assert f"{result.ratio(0.5, 2, ks[0]):.4f}" in result.markdown()
        assert canvas.save(tightness_map.tightness_map(result), tmp_path / "map.png").stat().st_size > 1000


def test_an_interrupt_returns_the_best_so_far() -> None:
    def stop(what: str, done: int, of: int) -> None:
        if what.endswith("evolution"):
            raise KeyboardInterrupt

    result = worst("itd", t=3, dim=1, effort=TINY, progress=stop)
    assert result.found.interrupted
    assert 0.3 < result.ratio <= 1


def test_an_interrupt_of_the_first_climb_does_so_too() -> None:
    def stop(what: str, done: int, of: int) -> None:
        if what.endswith("ascent") and done > 3:
            raise KeyboardInterrupt

    result = worst("itd", t=3, dim=1, effort=TINY, progress=stop)
    assert result.found.interrupted
    assert result.ratio > 0.1  # random rows have 10⁻⁵ and less


@pytest.mark.parametrize("name", ["aid-cg", "aid-cgn"])
def test_rounding_after_the_last_step_of_cg_refutes_nothing(name: str) -> None:
    """At q = 0.05 and t = k = 60 the bound is 10⁻⁷⁸, of which 50 digits of v see nothing."""
    result = worst(name, q=0.05, t=60, k=60, dim=1, effort=TINY)
    assert not result.refuted
    assert result.ratio <= 1


def test_t_0_is_searched_but_not_drawn() -> None:
    result = worst("itd", t=0, dim=1, effort=TINY)
    assert result.ratio <= 1
    assert check_command(result) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": 1.0}, "q must be between 0 and 1"),
        ({"t": -1}, "t must be at least 0"),
        ({"t": 10**6}, "t must be at most"),
        ({"k": 3}, "itd does not depend on k"),
        ({"dim": 0}, "dim must be from 1 to"),
        ({"only": ("nu_1",)}, "leaves λ without effect"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_input_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        worst("itd", **options)  # type: ignore[arg-type]


def test_unknown_and_unattackable_names() -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        worst("itd-lokal")
    with pytest.raises(UnknownNameError, match="part of an instance"):
        worst("itd", only=("nu_3",))
    with pytest.raises(AssumptionError, match="a norm that depends on the method"):
        worst("itd-weighted")


def test_the_command(boundcheck: Command, tmp_path: Path) -> None:
    ran = boundcheck("worst", "appB-aid", "--quick", "--t", "1", "--k", "1", "--dim", "1", "--out", str(tmp_path))
    assert ran.returncode == 1
    assert "refuted: error/bound = 1.8" in ran.stdout or "refuted: error/bound = 1.9" in ran.stdout
    assert (tmp_path / "worst.py").exists()
    ran = boundcheck("worst", "itd", "--quick", "--t", "1", "--dim", "1", "--json")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["ratio"] == pytest.approx(1, abs=1e-3)
    for arguments, code in (
        (("itd", "--q", "2"), 2),
        (("nothing",), 2),
        (("itd-weighted",), 3),
        (("itd", "--k", "3"), 2),
    ):
        ran = boundcheck("worst", *arguments)
        assert ran.returncode == code
        assert ran.stderr.count("\n") == 1


def test_a_ratio_of_1_is_no_refutation() -> None:
    """Φ = qw + λ and E = w: error and bound are the same number, and 50 digits do not make one the larger."""
    result = small("itd", only=("L_Phi", "L_E"))
    assert confirm.of_row(result.found.family, result.found.raw, 5, 5).refutes is False
    assert result.ratio == pytest.approx(1, abs=1e-6)
