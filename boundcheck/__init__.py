"""boundcheck: does this hypergradient bound hold on my problem, how tight is it, and where does the proof lose?

The public names are loaded when they are first used: importing boundcheck imports neither sympy nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from boundcheck import problems
    from boundcheck.ball import Ball
    from boundcheck.compare.check import check
    from boundcheck.compare.check_stochastic import check_stochastic
    from boundcheck.compare.enclose import enclose
    from boundcheck.compare.guarantees import Plan
    from boundcheck.compare.plan import plan
    from boundcheck.compare.plan_stochastic import plan_stochastic
    from boundcheck.constants import Constant, Constants, Provenance
    from boundcheck.errors import (
        AssumptionError,
        BoundcheckError,
        DivergenceError,
        InputError,
        MissingConstantError,
        ToleranceError,
        UnknownNameError,
        UserCodeError,
    )
    from boundcheck.explanation import Contribution, Explanation
    from boundcheck.numerics.bilevel import dynamics
    from boundcheck.numerics.bilevel.closed_forms import ClosedForms, closed_form
    from boundcheck.numerics.bilevel.dynamics import Dynamics
    from boundcheck.numerics.bilevel.problem import Problem
    from boundcheck.numerics.bilevel.problem_types import Domain
    from boundcheck.numerics.curves.error_curves import Curves, error_curves
    from boundcheck.numerics.estimate.estimate_constants import estimate_constants
    from boundcheck.numerics.estimate.explain_constant import explain_constant
    from boundcheck.numerics.solvers.result import Hypergradient
    from boundcheck.problems.loading import load_problem
    from boundcheck.problems.parts.sparse_matrix import SparseMatrix
    from boundcheck.report.audit import Audit
    from boundcheck.report.compare_reports import compare_reports
    from boundcheck.report.comparison import Comparison
    from boundcheck.report.enclosure import Enclosure
    from boundcheck.report.minimum import Minimum, Trial
    from boundcheck.report.report import Report
    from boundcheck.report.stochastic_plan import StochasticPlan
    from boundcheck.report.stochastic_report import StochasticReport
    from boundcheck.report.verdict import Verdict
    from boundcheck.side import Side
    from boundcheck.step_schedule import StepSchedule
    from boundcheck.sweeps.result import Sweep
    from boundcheck.sweeps.row import SweepRow
    from boundcheck.sweeps.sweep import sweep
    from boundcheck.theory import step_sizes
    from boundcheck.theory.bound import Bound
    from boundcheck.theory.catalogue import bounds
    from boundcheck.theory.evaluation import BoundValues
    from boundcheck.trust import adapters
    from boundcheck.trust.assert_hypergradient import assert_hypergradient
    from boundcheck.trust.audit import audit
    from boundcheck.trust.follow import follow
    from boundcheck.trust.hypergradient import hypergradient
    from boundcheck.trust.minimise import minimise
    from boundcheck.trust.result import AccurateHypergradient
    from boundcheck.trust.watch import Watch
    from boundcheck.views.figures import report_figures as plot
    from boundcheck.worst_case.worst import Worst, worst

_MODULES = {
    "adapters": "boundcheck.trust.adapters",
    "dynamics": "boundcheck.numerics.bilevel.dynamics",
    "plot": "boundcheck.views.figures.report_figures",
    "problems": "boundcheck.problems",
    "step_sizes": "boundcheck.theory.step_sizes",
}

_HOME = {
    "AccurateHypergradient": "boundcheck.trust.result",
    "AssumptionError": "boundcheck.errors",
    "Audit": "boundcheck.report.audit",
    "Ball": "boundcheck.ball",
    "Bound": "boundcheck.theory.bound",
    "BoundValues": "boundcheck.theory.evaluation",
    "BoundcheckError": "boundcheck.errors",
    "ClosedForms": "boundcheck.numerics.bilevel.closed_forms",
    "Comparison": "boundcheck.report.comparison",
    "Constant": "boundcheck.constants",
    "Constants": "boundcheck.constants",
    "Contribution": "boundcheck.explanation",
    "Curves": "boundcheck.numerics.curves.error_curves",
    "DivergenceError": "boundcheck.errors",
    "Domain": "boundcheck.numerics.bilevel.problem_types",
    "Dynamics": "boundcheck.numerics.bilevel.dynamics",
    "Enclosure": "boundcheck.report.enclosure",
    "Explanation": "boundcheck.explanation",
    "Hypergradient": "boundcheck.numerics.solvers.result",
    "InputError": "boundcheck.errors",
    "Minimum": "boundcheck.report.minimum",
    "MissingConstantError": "boundcheck.errors",
    "Plan": "boundcheck.compare.guarantees",
    "Problem": "boundcheck.numerics.bilevel.problem",
    "Provenance": "boundcheck.constants",
    "Report": "boundcheck.report.report",
    "Side": "boundcheck.side",
    "SparseMatrix": "boundcheck.problems.parts.sparse_matrix",
    "StepSchedule": "boundcheck.step_schedule",
    "StochasticPlan": "boundcheck.report.stochastic_plan",
    "StochasticReport": "boundcheck.report.stochastic_report",
    "Sweep": "boundcheck.sweeps.result",
    "SweepRow": "boundcheck.sweeps.row",
    "ToleranceError": "boundcheck.errors",
    "Trial": "boundcheck.report.minimum",
    "UnknownNameError": "boundcheck.errors",
    "UserCodeError": "boundcheck.errors",
    "Verdict": "boundcheck.report.verdict",
    "Watch": "boundcheck.trust.watch",
    "Worst": "boundcheck.worst_case.worst",
    "assert_hypergradient": "boundcheck.trust.assert_hypergradient",
    "audit": "boundcheck.trust.audit",
    "bounds": "boundcheck.theory.catalogue",
    "check": "boundcheck.compare.check",
    "check_stochastic": "boundcheck.compare.check_stochastic",
    "closed_form": "boundcheck.numerics.bilevel.closed_forms",
    "compare_reports": "boundcheck.report.compare_reports",
    "enclose": "boundcheck.compare.enclose",
    "error_curves": "boundcheck.numerics.curves.error_curves",
    "estimate_constants": "boundcheck.numerics.estimate.estimate_constants",
    "explain_constant": "boundcheck.numerics.estimate.explain_constant",
    "follow": "boundcheck.trust.follow",
    "hypergradient": "boundcheck.trust.hypergradient",
    "load_problem": "boundcheck.problems.loading",
    "minimise": "boundcheck.trust.minimise",
    "plan": "boundcheck.compare.plan",
    "plan_stochastic": "boundcheck.compare.plan_stochastic",
    "sweep": "boundcheck.sweeps.sweep",
    "worst": "boundcheck.worst_case.worst",
}

__all__ = [
    "AccurateHypergradient",
    "AssumptionError",
    "Audit",
    "Ball",
    "Bound",
    "BoundValues",
    "BoundcheckError",
    "ClosedForms",
    "Comparison",
    "Constant",
    "Constants",
    "Contribution",
    "Curves",
    "DivergenceError",
    "Domain",
    "Dynamics",
    "Enclosure",
    "Explanation",
    "Hypergradient",
    "InputError",
    "Minimum",
    "MissingConstantError",
    "Plan",
    "Problem",
    "Provenance",
    "Report",
    "Side",
    "SparseMatrix",
    "StepSchedule",
    "StochasticPlan",
    "StochasticReport",
    "Sweep",
    "SweepRow",
    "ToleranceError",
    "Trial",
    "UnknownNameError",
    "UserCodeError",
    "Verdict",
    "Watch",
    "Worst",
    "__version__",
    "adapters",
    "assert_hypergradient",
    "audit",
    "bounds",
    "check",
    "check_stochastic",
    "closed_form",
    "compare_reports",
    "dynamics",
    "enclose",
    "error_curves",
    "estimate_constants",
    "explain_constant",
    "follow",
    "hypergradient",
    "load_problem",
    "minimise",
    "plan",
    "plan_stochastic",
    "plot",
    "problems",
    "step_sizes",
    "sweep",
    "worst",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'boundcheck' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
