"""Decide which bounds apply to a run, by checking every assumption of a theorem on the problem.

`CHECKS` has a function for each assumption that a problem may fail. `BY_CONSTRUCTION` has the assumptions that every
run meets, with the reason. If an assumption is in neither, importing this module fails. `stochastic_bounds.py` does the
same for bounds on means over random draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from boundcheck.ball import BallKind
from boundcheck.compare.case import YES, AssumptionAnswer, Case, frozen
from boundcheck.compare.certificate import residual_is_enough
from boundcheck.compare.reasons import know
from boundcheck.compare.require_checks import require_checks
from boundcheck.methods import Method, unrolls
from boundcheck.numerics.bilevel.derivatives import DENSE
from boundcheck.side import Side
from boundcheck.theory.bound import Bound
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.symbols import sigma


def _unless(fails: bool, why: str) -> AssumptionAnswer:
    return AssumptionAnswer(why) if fails else YES


def _at_zero(case: Case) -> AssumptionAnswer:
    start = float(case.problem.w0.norm())
    return _unless(start > 0, f"w_0 is not 0 (‖w_0‖ = {start:.3g}); only its local form may apply")


def _plain(case: Case) -> AssumptionAnswer:
    name = case.problem.dynamics.name
    return _unless(not case.plain, f"applies only to plain iteration of Φ; this problem uses {name}")


def _lower_rate(case: Case) -> AssumptionAnswer:
    """Check that a rate ρ(t) of the lower-level iterates is proved."""
    name = case.problem.dynamics.name
    why = f"no rate ρ(t) is proved for {name} on this problem (only for optimal steps on a quadratic loss)"
    return _unless(not case.plain and (case.momentum is None or not case.constant_hessian), why)


def _quadratic(case: Case) -> AssumptionAnswer:
    return _unless(not case.quadratic, "ℓ(·, λ) is not known to be quadratic with a frozen step size")


def _gradient_step(case: Case) -> AssumptionAnswer:
    if not case.gradient_step:
        return AssumptionAnswer("Φ is not a gradient step on a loss that was given")
    known = "grad_alpha" in case.constants[BallKind.LOCAL]
    return _unless(not known, f"the step size α(λ) is differentiated, and ‖∇α‖ is not known; {know('grad_alpha')}")


def _steps(name: str) -> Callable[[Case], AssumptionAnswer]:
    def check(case: Case) -> AssumptionAnswer:
        fits = case.momentum is not None and case.momentum.name == name
        return _unless(
            not fits, f"applies only to {name} with optimal steps; this problem uses {case.problem.dynamics.name}"
        )

    return check


def _weighted(case: Case) -> AssumptionAnswer:
    return _unless(
        case.momentum is None or not case.quadratic, "applies only to optimally tuned momentum on a quadratic loss"
    )


def _residual(case: Case) -> AssumptionAnswer:
    why = "‖w − w*‖ ≤ ε_w/μ_λ is not known: Φ is neither a contraction with μ_λ ≤ 1 − q, nor a gradient step"
    return _unless(not residual_is_enough(case.problem, case.constants[BallKind.LOCAL]), why)


def _spectrum(case: Case) -> AssumptionAnswer:
    if case.problem.d > DENSE:
        return AssumptionAnswer(f"d = {case.problem.d} > {DENSE}, and it needs all eigenvectors of ∂₁Φ")
    nu_1 = case.constants[BallKind.LOCAL].get("nu_1")
    flat = nu_1 is not None and nu_1.value == 0 and nu_1.side is Side.EXACT
    if not (flat and case.problem.symmetric and frozen(case.problem)):
        return AssumptionAnswer("∂₁Φ is not known to be one symmetric matrix, with frozen step sizes")
    return _unless(not case.problem.affine, "∂₁Φ is not known to depend on λ only")


def _smooth(case: Case) -> AssumptionAnswer:
    """Check for gradient descent with a step that does not depend on λ; then ∂₂Φ = −α∇²₂₁ℓ."""
    if not case.plain:
        return _plain(case)
    slope = case.constants[BallKind.LOCAL].get("grad_alpha")
    fixed = slope is not None and slope.value == 0 and slope.side is Side.EXACT
    return _unless(not fixed, "applies only to a step size that does not depend on λ, and α(λ) is differentiated")


CHECKS: Mapping[str, Callable[[Case], AssumptionAnswer]] = {
    "w_0 = 0": _at_zero,
    "local": _plain,
    "shrinking": _plain,
    "local-peak": _lower_rate,
    "3(ii)": _lower_rate,
    "quadratic": _quadratic,
    "gradient step": _gradient_step,
    "symmetric": lambda case: case.symmetric,
    "heavy ball": _steps("heavy-ball"),
    "Nesterov": _steps("nesterov"),
    "E = ℓ": lambda case: case.value_function,
    "P-norm": _weighted,
    "residual": _residual,
    "spectrum": _spectrum,
    "smooth": _smooth,
    "segment": lambda case: AssumptionAnswer("applies to a run over several λ, as bc.follow makes it; λ is fixed here"),
}
BY_CONSTRUCTION: Mapping[str, str] = {
    "1(i)": "w* is the fixed point that the reference computes; it is the only one on a ball where q < 1",
    "1(ii)": "the reference solves a system with I − ∂₁Φ(w*), and refuses a singular one",
    "1(iii)": "ν₁ and ν₂ are among the constants, and their sides decide the side of the bound",
    "1(iv)": "η₁ and η₂ are among the constants, and their sides decide the side of the bound",
    "2": "q is among the constants, and a q ≥ 1 is refused",
    "3(i)": "μ_λ is among the constants, and must be positive",
    "3(iii)": "σ(k) is the rate of the solver that was run, from v_0 = 0",
    "w_0' = 0": "w_0 is a tensor of numbers, which do not depend on λ",
    "v_0 = 0": "every linear solver that is compared starts at 0",
    "ball": "the bound is evaluated only at the t where w_t is in the ball of its constants",
    "certified": "ε_g is among the constants, and its side is the side of the enclosure",
}


require_checks(
    (bound for bound in catalogue.values() if not bound.stochastic),
    (*CHECKS, *BY_CONSTRUCTION),
)


def _other_k(bound_k: int, method: Method) -> AssumptionAnswer:
    about = "one step" if bound_k == 1 else f"{bound_k} steps"
    does = "differentiates through" if method.unrolls else "solves with"
    return AssumptionAnswer(f"applies to {about} only, and {method} {does} {'t' if method.k is None else method.k}")


def question(bound: Bound, method: Method, case: Case) -> AssumptionAnswer:
    """Whether the bound applies to this method on this problem."""
    if bound.not_run:
        return AssumptionAnswer(bound.not_run)
    if bound.only_k is not None and method.k != bound.only_k:
        return _other_k(bound.only_k, method)
    conjugate = method.name == "aid-cg"
    if conjugate and case.symmetric.refusal:
        return case.symmetric
    unrolled = any(unrolls(m) for m in bound.methods)
    contracts = any(a.key == "2" for a in bound.assumptions)
    if unrolled and contracts and not case.plain:
        return _plain(case)
    answers = [CHECKS[a.key](case) for a in bound.assumptions if a.key in CHECKS]
    answers += [case.symmetric] if conjugate and bound.mentions(sigma) else []  # the rate of CG needs symmetry
    refusals = [answer for answer in answers if answer.refusal]
    doubts = [answer for answer in answers if answer.doubt]
    return next(iter(refusals + doubts), YES)


def shrinking(bounds: Iterable[Bound], methods: Iterable[Method]) -> bool:
    """Whether one of the bounds on these methods uses constants on smaller balls."""
    names = {method.name for method in methods}
    return any(bound.shrinks and names & set(bound.methods) for bound in bounds)
