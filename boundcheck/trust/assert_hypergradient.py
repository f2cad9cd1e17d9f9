"""`assert_hypergradient`: a check for test suites, similar to `torch.autograd.gradcheck`."""

from __future__ import annotations

import math
from typing import Any

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.report.audit import Audit
from boundcheck.trust.audit import audit


def assert_hypergradient(
    problem: Problem | str,
    g: Any,
    rtol: float = 1e-2,
    atol: float = 0.0,
    *,
    w: Any = None,
    v: Any = None,
    lam: Any = None,
    raise_exception: bool = True,
) -> Audit | None:
    """Raise an AssertionError unless ‖g − ∇f(λ)‖ ≤ rtol·‖∇f(λ)‖ + atol.

    The test uses the upper bound on the error. So a g that passes is accurate if the reference is certified; if the
    bound is only an estimate, the message of the audit says so.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    g : Hypergradient, structure of the hyperparameters, flat tensor or array of shape (n,)
        The hypergradient.
    rtol : float
        The accepted relative error; 1e-2 by default.
    atol : float
        An accepted absolute error in addition; 0 by default. Give it if ∇f may be 0.
    w : structure of the parameters, or flat tensor of shape (d,), optional
        The inner solution from which g was computed.
    v : structure of the parameters, or flat tensor of shape (d,), optional
        The solution of the linear system from which g was computed.
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        The λ at which ∇f is compared; the problem's own λ by default.
    raise_exception : bool
        Whether to raise (the default) or to return None if g is not accurate enough.

    Returns
    -------
    Audit or None
        The audit; None if g is not accurate enough and nothing is raised.

    Raises
    ------
    AssertionError
        If g is not accurate enough, with the message of the audit.
    InputError
        If an argument cannot be used.
    DivergenceError
        If w(λ) cannot be computed, and so the reference cannot.
    UserCodeError
        If a function of the user raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.scalar(q=0.5)
    >>> audit = bc.assert_hypergradient(problem, bc.hypergradient(problem, "itd", t=50), rtol=1e-6)
    >>> audit.descent
    True
    """
    problem = require_problem(problem)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InputError(f"{name} = {value!r} is not a tolerance; give a number >= 0, as in {name}=1e-2")
    result = audit(problem, g, w, v, lam=lam)
    if float(result.error.upper) <= rtol * float(result.gradient_norm.lower) + atol:
        return result
    if not raise_exception:
        return None
    allowed = f"rtol = {rtol:g}" + (f" and atol = {atol:g}" if atol else "")
    raise AssertionError(f"{problem.name}: not within {allowed}. {result.message}")
