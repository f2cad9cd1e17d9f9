"""The table of docs/constants.md: bound / best value found, at the paper's sizes. Run it from the repository's root.

    python tests/numerics/estimate/ratios.py

Parkinson is the real data where they are found (see docs/numerics.md).
"""

from __future__ import annotations

from ascent import Ascent, regions

from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.problems import CATALOGUE

COLUMNS = ("L_E", "L_Phi", "nu_1", "nu_2", "eta_1", "eta_2")
LETTERS = {"L_E": "L_E", "L_Phi": "L_Φ", "nu_1": "ν₁", "nu_2": "ν₂", "eta_1": "η₁", "eta_2": "η₂"}


def table(seed: int = 0, names: tuple[str, ...] = ("lr", "krr", "br", "hr", "parkinson")) -> str:
    """Rows of problems, steps and balls; 0 where the constant is 0, exactly."""
    lines = ["| problem | step | ball | D | " + " | ".join(LETTERS[name] for name in COLUMNS) + " |"]
    lines += ["|---|---|---|" + "---|" * (1 + len(COLUMNS))]
    for name in names:
        for differentiate_step in (False, True):
            problem = CATALOGUE[name].make(seed=seed, differentiate_step=differentiate_step)
            assert isinstance(problem.known, ClosedForms)
            at = Ascent.of(problem)
            D = next(c.value for c in problem.known.everywhere(problem.lam) if c.name == "D")
            for ball, region in regions(at.w_star, D).items():
                known = {c.name: c.value for c in problem.known.on(problem.lam, region)}
                ratios = [f"{known[k] / at.best(k, region):.2f}" if known[k] else "0" for k in COLUMNS]
                step = "differentiated" if differentiate_step else "frozen"
                first = f"| {name} | {step} | {ball} | {D / float(at.w_star.norm()):.2f} | "
                lines.append(first + " | ".join(ratios) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
