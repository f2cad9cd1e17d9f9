"""Tightness in exact rationals: Φ = λw + b at λ = q with E = w makes the local bounds equalities for every t and k."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
import sympy as sp

import boundcheck as bc
from boundcheck.theory.bound import Bound

LAST = 200
INSTANCES = [(Fraction(9, 10), Fraction(1)), (Fraction(1, 3), Fraction(7, 2)), (Fraction(0), Fraction(2))]


def rational(bound: Bound, constants: dict[str, Fraction]) -> Callable[[int, int], Fraction]:
    """(t, k) ↦ the bound in exact rational arithmetic."""
    resolved = bound.resolved(frozenset(constants)).doit()
    names = (*constants, "t", "k")
    by_name = {symbol.name: symbol for symbol in resolved.free_symbols}
    function = sp.lambdify([by_name.get(name, sp.Dummy()) for name in names], resolved, modules="math")
    return lambda t, k: Fraction(function(*constants.values(), t, k))


def local_constants(q: Fraction, b: Fraction) -> dict[str, Fraction]:
    """w* = b/(1−q), w' = w*/(1−q); ∂₂Φ = w, so ν₂ = 1; ∇₁E = 1; everything from w_0 = 0."""
    w_star = b / (1 - q)
    zero = Fraction(0)
    return {
        "q": q, "nu_1": zero, "nu_2": Fraction(1), "eta_1": zero, "eta_2": zero,
        "r_0": w_star, "W": w_star / (1 - q), "g_star": Fraction(1),
    }  # fmt: skip


@pytest.mark.parametrize(("q", "b"), INSTANCES)
def test_itd_local_is_attained(q: Fraction, b: Fraction) -> None:
    bound = rational(bc.bounds["itd-local"], local_constants(q, b))
    w, w_prime, true = Fraction(0), Fraction(0), b / (1 - q) ** 2
    for t in range(LAST + 1):
        assert abs(w_prime - true) == bound(t, t)
        w, w_prime = q * w + b, q * w_prime + w


@pytest.mark.parametrize(("q", "b"), INSTANCES)
def test_aid_fp_local_is_attained(q: Fraction, b: Fraction) -> None:
    """∇̂f = w_t v_k with v_k = 1 + q + … + q^(k−1): every t and k up to 200 on a grid of lines."""
    bound = rational(bc.bounds["aid-fp-local"], local_constants(q, b))
    true = b / (1 - q) ** 2
    w = Fraction(0)
    for t in range(LAST + 1):
        v = Fraction(0)
        for k in range(LAST + 1):
            if t % 10 == 0 or k % 10 == 0 or t == k:
                assert abs(w * v - true) == bound(t, k)
            v = q * v + 1
        w = q * w + b


def paper_constants(q: Fraction, b: Fraction) -> dict[str, Fraction]:
    """The same on the paper's ball ‖w‖ ≤ 2D, where ∂₂Φ = w makes L_Φ twice what it is at w*."""
    w_star = b / (1 - q)
    return local_constants(q, b) | {"D": w_star, "L_E": Fraction(1), "L_Phi": 2 * w_star}


def test_the_papers_itd_bound_tends_to_the_error() -> None:
    """error/bound is 10/19 = .526 at t = 1 (q = 0.9) and rises to 1: t q^(t−1) is attained, the doubled L_Φ fades."""
    q, b = Fraction(9, 10), Fraction(1)
    bound, error = (rational(bc.bounds[x], paper_constants(q, b)) for x in ("itd", "itd-local"))
    ratios = [error(t, t) / bound(t, t) for t in range(1, LAST + 1)]
    assert ratios[0] == Fraction(10, 19)
    assert ratios == sorted(ratios)
    assert 1 - error(10**4, 1) / bound(10**4, 1) < Fraction(1, 1000)


def test_the_papers_aid_fp_bound_at_k_equal_t_tends_to_two_thirds() -> None:
    """error/bound → 2/3 at k = t; with t far ahead of k it comes down to ½."""
    q, b = Fraction(9, 10), Fraction(1)
    bound, error = (rational(bc.bounds[x], paper_constants(q, b)) for x in ("aid-fp", "aid-fp-local"))
    assert abs(error(LAST, LAST) / bound(LAST, LAST) - Fraction(2, 3)) < Fraction(1, 10**8)
    ratios = [error(t, k) / bound(t, k) for t in (1, 20, LAST) for k in (0, 1, 20, LAST)]
    assert all(ratio >= Fraction(1, 2) for ratio in ratios)
    assert error(LAST, 1) / bound(LAST, 1) - Fraction(1, 2) < Fraction(1, 10**6)
