"""What to look at first on a page without a problem: each story sets sliders and the bounds that are shown."""

from __future__ import annotations

from typing import Any

STORIES: list[dict[str, Any]] = [
    {
        "name": "The hump",
        "text": "ITD carries t·qᵗ, so its bound climbs before it falls; AID-FP with k = t has a geometric sum in place "
        "of t and stays below. Move q: the top is near t = 1/(1−q) and grows like 1/(1−q)².",
        "set": {"q": 0.95, "nu_1": 1.0, "nu_2": 1.0, "L": 1.0},
        "show": ["itd/itd", "aid-fp/aid-fp", "aid-cg/aid-cg"],
        "select": "itd/itd",
        "t": 20,
        "k": None,
    },
    {
        "name": "Ill conditioned",
        "text": "Near q = 1 the linear system decides: fixed-point steps shrink its error by q, conjugate gradient by "
        "(√κ−1)/(√κ+1). With k fixed, what is left is the unsolved system: move k.",
        "set": {"q": 0.99},
        "show": ["aid-fp/aid-fp", "aid-cg/aid-cg", "aid-cg/aid-cg-chebyshev", "aid-cg/aid-cg-energy"],
        "select": "aid-cg/aid-cg",
        "t": 60,
        "k": 40,
    },
    {
        "name": "A quadratic",
        "text": "On a quadratic ν₁ = 0. The hump can stay, through ν₂ alone: set ν₂ to 1 and it is gone, to 0 and ITD "
        "is as good as AID-FP.",
        "set": {"q": 0.95, "nu_1": 0.0, "nu_2": 10.0},
        "show": ["itd/itd", "itd/itd-quadratic", "aid-fp/aid-fp"],
        "select": "itd/itd-quadratic",
        "t": 20,
        "k": None,
    },
    {
        "name": "Local constants",
        "text": "The paper takes suprema over the ball ‖w‖ ≤ 2D. With what holds at the solution, ‖w'‖ and ‖∇₁E(w*)‖, "
        "and the distance r₀ of the start, the same proofs give less.",
        "set": {"q": 0.95, "W": 2.0, "g_star": 0.5, "r_0": 0.5},
        "show": ["itd/itd", "itd/itd-local", "itd/itd-recursive", "aid-fp/aid-fp", "aid-fp/aid-fp-local"],
        "select": "itd/itd-local",
        "t": 20,
        "k": None,
    },
]
