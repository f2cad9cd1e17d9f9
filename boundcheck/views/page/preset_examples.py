"""Examples for a page without a problem. Each one sets the sliders and the bounds that are shown."""

from __future__ import annotations

from typing import Any

STORIES: list[dict[str, Any]] = [
    {
        "name": "The hump",
        "text": "The ITD bound contains t·qᵗ, so it rises before it falls. The AID-FP bound with k = t has a geometric "
        "sum instead of t and stays below it. Move q: the maximum is near t = 1/(1−q) and grows like 1/(1−q)².",
        "set": {"q": 0.95, "nu_1": 1.0, "nu_2": 1.0, "L": 1.0},
        "show": ["itd/itd", "aid-fp/aid-fp", "aid-cg/aid-cg"],
        "select": "itd/itd",
        "t": 20,
        "k": None,
    },
    {
        "name": "Ill conditioned",
        "text": "When q is close to 1, the linear system decides. A fixed-point step reduces its error by the factor "
        "q, a step of conjugate gradient by (√κ−1)/(√κ+1). Here k is fixed, so the curves level off at the error of "
        "the linear system. Move k to see it.",
        "set": {"q": 0.99},
        "show": ["aid-fp/aid-fp", "aid-cg/aid-cg", "aid-cg/aid-cg-chebyshev", "aid-cg/aid-cg-energy"],
        "select": "aid-cg/aid-cg",
        "t": 60,
        "k": 40,
    },
    {
        "name": "A quadratic",
        "text": "On a quadratic, ν₁ = 0. The hump can still come from ν₂ alone. Set ν₂ to 1: the hump is gone. Set ν₂ "
        "to 0: ITD is as good as AID-FP.",
        "set": {"q": 0.95, "nu_1": 0.0, "nu_2": 10.0},
        "show": ["itd/itd", "itd/itd-quadratic", "aid-fp/aid-fp"],
        "select": "itd/itd-quadratic",
        "t": 20,
        "k": None,
    },
    {
        "name": "Local constants",
        "text": "The paper's constants are suprema over the ball ‖w‖ ≤ 2D. The same proofs give smaller bounds with "
        "values at the solution, ‖w'‖ and ‖∇₁E(w*)‖, and with the distance r₀ from the start to the solution.",
        "set": {"q": 0.95, "W": 2.0, "g_star": 0.5, "r_0": 0.5},
        "show": ["itd/itd", "itd/itd-local", "itd/itd-recursive", "aid-fp/aid-fp", "aid-fp/aid-fp-local"],
        "select": "itd/itd-local",
        "t": 20,
        "k": None,
    },
]
