"""One line for each audit, as in the tables of docs/case_studies.md."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch

import boundcheck as bc


def title(text: str, *packages: str) -> None:
    """The example, and the versions it was run with."""
    versions = [f"{package} {version(package)}" for package in packages]
    print(f"\n{text}\n{', '.join([*versions, f'torch {torch.__version__}', f'boundcheck {bc.__version__}'])}")
    print(f"{'setting':56} {'off by':>9} {'angle':>9}  −g descends")


def row(setting: str, problem: bc.Problem, g: Any, w: Any = None) -> None:
    """How far off g is, and whether −g is a descent direction; what is not proved says so."""
    result = bc.audit(problem, g, w)
    off, angle = f"{100 * result.relative_error:.2g} %", f"{result.angle:.2g}°"
    if result.relative_error >= 1:
        off, angle = f"{100 * result.relative_error:.0f} %", f"{result.angle:.0f}°"
    if not problem.checked(g, "g").any():
        angle = "–"  # 0 has no direction
    descends = {True: "yes", False: "no", None: "not known"}[result.descent]
    print(f"{setting:56} {off:>9} {angle:>9}  {descends}{'' if result.proved else ' (estimate)'}")
