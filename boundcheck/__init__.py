"""boundcheck: does this hypergradient bound hold on my problem, how tight is it, and where does the proof lose?

The public names, loaded when first used: importing boundcheck imports neither sympy nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from boundcheck import problems
    from boundcheck.attack.worst import Worst, worst
    from boundcheck.compare.check import check
    from boundcheck.compare.curves import Curves, error_curves
    from boundcheck.compare.enclosure import Enclosure, enclose
    from boundcheck.compare.plan import Plan, plan
    from boundcheck.compare.report import Report
    from boundcheck.compare.verdict import Verdict
    from boundcheck.constants import Ball, Constant, Constants, Provenance, Side
    from boundcheck.dynamics import Dynamics
    from boundcheck.errors import (
        AssumptionError,
        BoundcheckError,
        DivergenceError,
        InputError,
        MissingConstantError,
        UnknownNameError,
        UserCodeError,
    )
    from boundcheck.estimate.all import estimate_constants
    from boundcheck.loading import load_problem
    from boundcheck.problem import Domain, Problem
    from boundcheck.solvers.hypergradient import hypergradient
    from boundcheck.solvers.result import Hypergradient
    from boundcheck.theory.bound import Bound
    from boundcheck.theory.catalogue import bounds
    from boundcheck.theory.evaluation import BoundValues

_HOME = {
    "AssumptionError": "boundcheck.errors",
    "Ball": "boundcheck.constants",
    "Bound": "boundcheck.theory.bound",
    "BoundValues": "boundcheck.theory.evaluation",
    "BoundcheckError": "boundcheck.errors",
    "Constant": "boundcheck.constants",
    "Constants": "boundcheck.constants",
    "Curves": "boundcheck.compare.curves",
    "DivergenceError": "boundcheck.errors",
    "Domain": "boundcheck.problem",
    "Dynamics": "boundcheck.dynamics",
    "Enclosure": "boundcheck.compare.enclosure",
    "Hypergradient": "boundcheck.solvers.result",
    "InputError": "boundcheck.errors",
    "MissingConstantError": "boundcheck.errors",
    "Plan": "boundcheck.compare.plan",
    "Problem": "boundcheck.problem",
    "Provenance": "boundcheck.constants",
    "Report": "boundcheck.compare.report",
    "Side": "boundcheck.constants",
    "UnknownNameError": "boundcheck.errors",
    "UserCodeError": "boundcheck.errors",
    "Verdict": "boundcheck.compare.verdict",
    "Worst": "boundcheck.attack.worst",
    "bounds": "boundcheck.theory.catalogue",
    "check": "boundcheck.compare.check",
    "enclose": "boundcheck.compare.enclosure",
    "error_curves": "boundcheck.compare.curves",
    "estimate_constants": "boundcheck.estimate.all",
    "hypergradient": "boundcheck.solvers.hypergradient",
    "load_problem": "boundcheck.loading",
    "plan": "boundcheck.compare.plan",
    "worst": "boundcheck.attack.worst",
}

__all__ = [
    "AssumptionError",
    "Ball",
    "Bound",
    "BoundValues",
    "BoundcheckError",
    "Constant",
    "Constants",
    "Curves",
    "DivergenceError",
    "Domain",
    "Dynamics",
    "Enclosure",
    "Hypergradient",
    "InputError",
    "MissingConstantError",
    "Plan",
    "Problem",
    "Provenance",
    "Report",
    "Side",
    "UnknownNameError",
    "UserCodeError",
    "Verdict",
    "Worst",
    "__version__",
    "bounds",
    "check",
    "enclose",
    "error_curves",
    "estimate_constants",
    "hypergradient",
    "load_problem",
    "plan",
    "problems",
    "worst",
]


def __getattr__(name: str) -> Any:
    if name == "problems":
        return import_module("boundcheck.problems")
    if name not in _HOME:
        raise AttributeError(f"module 'boundcheck' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
