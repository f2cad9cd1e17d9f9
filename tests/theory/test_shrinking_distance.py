"""The distance to w* on shrinking balls: attained, exact away from edges, and a factor for every point."""

from __future__ import annotations

import numpy as np
import pytest
from test_shrinking import RADII, Q, T, table

import boundcheck as bc


def folded(w: float) -> float:
    """The odd map whose derivative at w is Q on the ball that |w| is in."""
    ends = (0.0, *reversed(RADII), 1.0)
    slopes = tuple(reversed(Q))
    pieces = zip(slopes, ends[:-1], ends[1:], strict=True)
    return float(np.sign(w)) * sum(slope * (min(abs(w), high) - low) for slope, low, high in pieces if abs(w) > low)


def iterates(w: float, steps: int) -> list[float]:
    path = [w]
    for _ in range(steps):
        path.append(folded(path[-1]))
    return path


@pytest.mark.parametrize("start", [1.0, 0.61, 0.35, 0.005])
def test_the_distance_is_attained_by_a_map_of_one_variable(start: float) -> None:
    """With η₂ = 1 and all else 0 the bound is R_t, and R_t is |w_t|."""
    constants = {"q": table("q", Q), "nu_1": 1e9, "q_star": 0.2, "r_0": start, "eta_2": 1.0}
    zeros = dict.fromkeys(("nu_2", "eta_1", "W", "g_star", "L_Phi_star"), 0.0)
    values = bc.bounds["itd-shrinking"].evaluate({**constants, **zeros}, T).values
    np.testing.assert_allclose(values, iterates(start, len(T) - 1), rtol=1e-7)  # a ball counts from 1e-9 inside it


def test_the_distance_is_exact_where_no_iterate_is_at_an_edge() -> None:
    constants = {"q": table("q", Q), "nu_1": 1e9, "q_star": 0.2, "r_0": 0.987, "eta_2": 1.0}
    zeros = dict.fromkeys(("nu_2", "eta_1", "W", "g_star", "L_Phi_star"), 0.0)
    values = bc.bounds["itd-shrinking"].evaluate({**constants, **zeros}, T).values
    np.testing.assert_allclose(values, iterates(0.987, len(T) - 1), rtol=1e-13)


def test_every_point_of_a_ball_comes_closer_by_a_factor() -> None:
    """Outside of a ball the points on its edge count with their factor, and the way from there with q."""
    q = bc.Constant("q", 0.9, towards=((0.7, 0.5), (0.2, 0.25)))
    c = {"q": q, "nu_1": 1e9, "q_star": 0.2, "r_0": 1.0, "eta_2": 1.0}
    zeros = dict.fromkeys(("nu_2", "eta_1", "W", "g_star", "L_Phi_star"), 0.0)
    R = [1.0, 0.7 * 0.5 + 0.3 * 0.9, 0.31, 0.2 * 0.25 + 0.11 * 0.9, 0.149 / 4, 0.149 / 16]
    for rigorous in (False, True):
        values = bc.bounds["itd-shrinking"].evaluate({**c, **zeros}, range(len(R)), rigorous=rigorous).values
        np.testing.assert_allclose(values, R, rtol=1e-13)
