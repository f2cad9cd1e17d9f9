"""The sliders of a page: symbol, meaning, scale and range of each constant, and constants that follow from others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import sympy as sp

from boundcheck.theory.codegen import javascript_of
from boundcheck.theory.gradient_methods import ALPHA_STAR
from boundcheck.theory.rates import S_NORMAL
from boundcheck.theory.symbols import QUANTITIES, STOCHASTIC, WEIGHTED, L, alpha, kappa, mu, mu_inv, q
from boundcheck.theory.typeset import expression_latex
from boundcheck.views.page.rows import Row

AT_W_STAR = ("q_star", "L_Phi_star", "mu_inv", "r_0", "W", "g_star")
OF_A_STEP = ("mu", "L", "alpha", "grad_alpha", "hat_rho_1", "hat_rho_2", "L_ell")
FIRST = ("q", "kappa")
GROUPS = {
    "contraction": "Contraction",
    "ball": "Constants on the ball",
    "solution": "At and near the solution",
    "step": "Gradient step",
    "weighted": "Momentum, in a weighted norm",
    "noise": "Noise and steps of stochastic iterations",
    "run": "From a run or from the spectrum",
}
# Values for a page without a problem, with a clear hump t·qᵗ of ITD; all conditions hold.
USUAL = {"q": 0.95, "q_star": 0.9, "q_P": 0.95, "W": 2.0, "g_star": 0.5, "eps_w": 1e-4, "eps_v": 1e-4, "A_t_inv": 10.0}
USUAL |= {"newton_t": 1e-3, "solve_error": 1e-3, "gap_t": 1e-3, "eps_g": 1e-6}
USUAL |= {"m_1": 0.01, "m_2": 0.01, "V_star": 0.01, "sigma_1_grad": 0.01, "eta": 0.1, "beta": 25.0, "gamma": 1e5}
USUAL |= {"mse_w": 0.01, "mse_v": 0.01}
DECADES = 3  # the range of a slider on both sides of a value
DEEPEST = 6  # the least 1 − q of the slider of q is 10 to minus this power

# κ, μ and α of optimally tuned gradient descent, from q and L
TIES: Mapping[str, sp.Expr] = {
    "kappa": sp.solve(sp.Eq(q, S_NORMAL), kappa)[0],
    "mu_inv": 1 - q,
    "mu": L / kappa,
    "alpha": ALPHA_STAR,
}
BACK = S_NORMAL  # q from κ


def usual(names: Iterable[str]) -> dict[str, float]:
    """Return the initial values of sliders, in the order of the vocabulary."""
    wanted = set(names)
    values = {name: USUAL.get(name, 1.0) for name in QUANTITIES if name in wanted}
    numbers: dict[sp.Symbol, float] = {q: values["q"], L: values.get("L", 1.0)}
    for symbol in (kappa, mu_inv, mu, alpha):
        numbers[symbol] = float(TIES[symbol.name].subs(numbers))
    return values | {s.name: x for s, x in numbers.items() if s.name in wanted}


def _group(name: str) -> str:
    if name in FIRST:
        return "contraction"
    if name in AT_W_STAR:
        return "solution"
    if name in OF_A_STEP:
        return "step"
    if name in {quantity.name for quantity in STOCHASTIC} | {"mse_w", "mse_v"}:
        return "noise"
    if QUANTITIES[name].kind == "observable" or name == "eps_g":
        return "run"
    return "weighted" if name in {quantity.name for quantity in WEIGHTED} else "ball"


def control(key: str, value: float, note: str = "", side: str = "") -> dict[str, Any]:
    """Return the data of a slider. `key` is the name of a symbol, followed by the ball if its values differ."""
    name = key.partition("@")[0]
    quantity = QUANTITIES[name]
    scale = {"key": key, "scale": "log", "low": -DECADES, "high": DECADES, "zero": not quantity.low_open, "base": 0.0}
    if quantity.high == 1.0:
        scale |= {"scale": "gap", "low": 0, "high": max(4, DEEPEST if value > 1 - 1e-4 else 4)}
    elif quantity.low == 1.0:
        scale |= {"low": 0, "high": max(4, _decade(value) + 1), "zero": False}
    elif value > 0:
        scale |= {"low": _decade(value) - DECADES, "high": _decade(value) + DECADES}
    about = {"name": name, "latex": quantity.latex, "meaning": quantity.meaning, "note": note, "side": side}
    return {**scale, **about, "group": _group(name), "value": value, "least": quantity.low, "below": _top(name)}


def _decade(value: float) -> int:
    return round(math.log10(value))


def _top(name: str) -> float | None:
    high = QUANTITIES[name].high
    return high if math.isfinite(high) else None


def theory(rows: Iterable[Row]) -> list[dict[str, Any]]:
    names = {name for row in rows for name in row.controls}
    return [control(name, value) for name, value in usual(names).items()]


def tie() -> str:
    """Return the relation between q and κ in LaTeX."""
    return f"{expression_latex(q)} = {expression_latex(BACK)}"


def source() -> str:
    """Return the JavaScript of the constants that follow from others."""
    functions = {f"tied_{name}": expression for name, expression in TIES.items()} | {"q_from_kappa": BACK}
    text = "".join(javascript_of(name, expression) for name, expression in functions.items())
    table = ", ".join(f'"{name}": tied_{name}' for name in TIES)
    return f'{text}const TIES = {{{table}}};\nconst BACK = {{"kappa": {{to: "q", by: q_from_kappa}}}};\n'
