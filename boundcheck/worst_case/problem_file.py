"""Write a worst instance as a problem file: plain Python with the numbers, for `boundcheck check` and for people."""

from __future__ import annotations

import json
import os
from pathlib import Path

from boundcheck.atomic_write import Results, sole_use
from boundcheck.theory import step_sizes
from boundcheck.worst_case.instance import RAMPS
from boundcheck.worst_case.problem_file_text import (
    BODY,
    FUNCTIONS,
    HEAD,
    INNER,
    OUTER,
    OWN_RUN,
    SIZE_OF_ELL,
    SIZE_OF_GAMMA,
)
from boundcheck.worst_case.target import checked_parts
from boundcheck.worst_case.worst import Worst

FIELDS = ("star", "plus", "minus", "m_plus", "m_minus")
RUNS = {"itd": "itd", "heavy-ball": "itd", "nesterov": "itd"}  # other methods have their own name, with k
OWN = "any", "exact", "analytic", "momentum-fp"  # methods that `boundcheck check` does not have


def command(worst: Worst) -> str:
    """Return the command that finds the instance."""
    family = worst.found.family
    words = ["boundcheck worst", worst.bound, f"--q {family.q!r}", f"--t {worst.t}"]
    words += [f"--k {worst.k}"] if worst.k is not None else []
    words += [f"--dim {max(worst.by_dim)}", f"--seed {worst.seed}"]
    if frozenset(worst.parts) != checked_parts(None, worst.target):
        words.append(f"--only {','.join(worst.parts)}")
    return " ".join(words + ([] if family.saturating else ["--linear"]))


def check_command(worst: Worst, file: str = "worst.py") -> str | None:
    """Return the command of `boundcheck check` for the file; None if `check` cannot run it."""
    method = worst.target.method
    if (
        worst.t == 0
        or method in OWN
        or worst.target.claim
        or worst.target.smooth
        or worst.target.bound.bounds.name != "error"
    ):
        return None
    name = RUNS.get(method, f"{method}:{worst.k}")
    return f"boundcheck check {file}:problem --method {name} --t {worst.t} --bound {worst.bound}"


def source(worst: Worst) -> str:
    """Return the text of the file."""
    target, numbers = worst.target, worst.numbers()
    kind, ex = target.kind(worst.dim), worst.exact
    runs = check_command(worst)
    how = f"`{runs}` shows its inverse at t = {worst.t}." if runs else _why_not(worst)
    angles = {name: numbers.get(name, []) for name in ("U", "U_Z", "V_Z", "V_g", "e")}
    ramps = "\n".join(
        f"{name.upper()} = " + ", ".join(f"vector({_list(numbers[f'{name}.{field}'])})" for field in FIELDS)
        for name in RAMPS
    )
    tuned = target.method in ("heavy-ball", "nesterov")
    text = HEAD.format(
        title=f"{target.bound.title}: {target.claim or target.bound.reference}.",
        command=command(worst), ratio=ex.digits("ratio"), error=ex.digits("error"), bound=ex.digits("bound"), how=how,
        outer_text="l(w, lam), the lower-level loss" if kind.value else "sum Gamma(V_g x) + lam chi(e x)",
        d=worst.dim, q=worst.found.family.q, t=worst.t, k=worst.k, w_star=f"({_list(numbers['w_star'])})", ramps=ramps,
    )  # fmt: skip
    text += BODY
    text += f"U, V_Z, V_g = rotation({_list(angles['U'])}), rotation({_list(angles['V_Z'])}), "
    text += f"rotation({_list(angles['V_g'])})\n"
    text += (
        "U_Z = V_Z.T  # so that Phi is a gradient step\n"
        if kind.symmetric
        else f"U_Z = rotation({_list(angles['U_Z'])})\n"
    )
    text += f"E = rotation({_list(angles['e'])})[0]\n"
    c = ex.constants
    mu, L = (repr(c["mu"]), repr(c["L"])) if tuned else ("1 - ENDS.max()", "1 - ENDS.min()")
    spectrum = f', "alpha": 1.0, "grad_alpha": 0.0, "mu": {mu}, "L": {L}, "kappa": ({L}) / ({mu})'
    of_E = '"eta_1": 1 - ENDS.min(), "eta_2": size(ZETA, reach(V_Z, region))'
    of_E = of_E if kind.value else '"eta_1": slope(GAMMA), "eta_2": slope(CHI)'
    dynamics = "GRADIENT_DESCENT" if kind.symmetric else "FIXED_POINT"
    if tuned:
        dynamics = f'constant("{target.method}", 1.0, {c["alpha"]!r}, {_beta(worst)!r})'
    more = "\n    inner_at=inner,\n    frozen_step=True," if kind.symmetric else ""
    more += "\n    value_function=True," if kind.value else ""
    text += FUNCTIONS.format(
        inner=INNER if kind.symmetric else "",
        outer="return inner(w, lam)" if kind.value else OUTER,
        everywhere=spectrum if kind.symmetric else "",
        on=f", {of_E}" + (', "hat_rho_1": slope(PHI), "hat_rho_2": slope(ZETA)' if kind.symmetric else ""),
        L_E=SIZE_OF_ELL if kind.value else SIZE_OF_GAMMA,
        name=worst.bound, more=f"{more}\n    dynamics=bc.dynamics.{dynamics},", symmetric=kind.symmetric,
    )  # fmt: skip
    return text + (_own_run(worst, numbers) if target.method in ("any", "exact", "momentum-fp") else "")


def _list(values: list[float]) -> str:
    return ", ".join(repr(value) for value in values)


def _beta(worst: Worst) -> float:
    make = step_sizes.nesterov if worst.target.method == "nesterov" else step_sizes.heavy_ball
    constants = worst.exact.constants
    return make(constants["mu"], constants["L"]).beta


def _why_not(worst: Worst) -> str:
    if worst.target.method in ("any", "exact", "momentum-fp"):
        return "No method of `boundcheck check` makes these iterates, so the file carries its own run: execute it."
    return "`boundcheck check` does not judge this bound; the numbers above are from the search."


def _own_run(worst: Worst, numbers: dict[str, list[float]]) -> str:
    method = worst.target.method
    if method == "momentum-fp":
        c = worst.exact.constants
        a, b = c["alpha"], _beta(worst)
        title = f"AID-FP after T steps of heavy ball, tuned to [{c['mu']:.6g}, {c['L']:.6g}]."
        iterate = (
            f"w = old = problem.w0\n    for _ in range(T):\n        w, old = w + {b!r} * (w - old) - {a!r} * "
            "(w - phi(w, lam)), w"
        )
        solve = "A, Z, b, c = linearised(w)\n    v = 0 * b\n    for _ in range(K):\n        v = v - A.T @ v + b"
    else:
        title = "Iterates that the theorem allows: at distance Q^T |w*| from w*, and Q^K |v_t| from v_t."
        iterate = f"u, s = vector({_list(numbers['u'])}), vector({_list(numbers['s'])})\n    "
        iterate += "w = W_STAR + Q**T * W_STAR.norm() * u / u.norm()"
        solve = "pass  # solved exactly" if method == "exact" else "v = v + Q**K * v.norm() * s / s.norm()"
    return OWN_RUN.format(what=title, iterate=iterate, solve=solve, bound=worst.exact.digits("bound"))


def save(worst: Worst, directory: str | os.PathLike[str] | Results) -> list[Path]:
    """Write worst.py and worst.json to `directory`, both or none."""
    texts = {"worst.py": source(worst), "worst.json": json.dumps(worst.to_json(), ensure_ascii=False, allow_nan=False)}
    with sole_use(directory) as results:
        return results.write({name: text.encode() for name, text in texts.items()})
