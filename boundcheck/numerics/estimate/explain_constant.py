"""`explain_constant`: what each operation of the user's functions contributes to a constant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from boundcheck.ball import BALLS, BallKind
from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.explanation import Contribution, Explanation
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.estimate.anchor import Anchor
from boundcheck.numerics.estimate.estimate_constants import estimate_constants
from boundcheck.numerics.estimate.program_proof import MOST_LAM, SMALLEST, ProgramProof
from boundcheck.numerics.program.enclosure import map_contributions, scalar_contributions
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.enclosure.scalar_contributions import Calm
from boundcheck.numerics.program.enclosure.value import LAM, Pair, W
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.solvers.reference import reference
from boundcheck.progress import Progress
from boundcheck.side import Side


@dataclass(frozen=True)
class _ProgramBound:
    """The bound of a program that a constant is computed from.

    `quantity` is an attribute of the bounds, and `words` describes it. `by_step` says whether the constant is α times
    the bound, and `by_lam` whether the bound is about a derivative by λ.
    """

    quantity: str
    words: str
    by_step: bool = False
    by_lam: bool = False


OF_LOSS = {
    "mu": _ProgramBound("smallest", "the smallest eigenvalue of ∇²₁ℓ"),
    "L": _ProgramBound("largest", "the largest eigenvalue of ∇²₁ℓ"),
    "nu_1": _ProgramBound("third", "α‖D³ℓ‖ by w", by_step=True),
    "L_Phi": _ProgramBound("cross", "α‖∇²₂₁ℓ‖", by_step=True, by_lam=True),
    "nu_2": _ProgramBound("third_cross", "α‖D³ℓ‖ by w twice and λ once", by_step=True, by_lam=True),
    "hat_rho_1": _ProgramBound("third", "‖D³ℓ‖ by w"),
    "hat_rho_2": _ProgramBound("third_cross", "‖D³ℓ‖ by w twice and λ once", by_lam=True),
}
OF_MAP = {
    "q": _ProgramBound("slope", "‖∂₁Φ‖"),
    "nu_1": _ProgramBound("bend", "the norm of the derivative of ∂₁Φ by w"),
    "L_Phi": _ProgramBound("lam_slope", "‖∂₂Φ‖", by_lam=True),
    "nu_2": _ProgramBound("lam_bend", "the norm of the derivative of ∂₂Φ by w", by_lam=True),
}
OF_OUTER = {
    "L_E": _ProgramBound("gradient", "‖∇₁E‖"),
    "eta_1": _ProgramBound("hessian", "‖∇²₁E‖"),
    "eta_2": _ProgramBound("cross", "‖∇²₁₂E‖", by_lam=True),
}
MOST_ON_PAGE = 300  # if d is at most this, a page explains all constants, which takes seconds
EXPLAINED = ("q", "mu", "L", "nu_1", "nu_2", "L_Phi", "L_E", "eta_1", "eta_2", "hat_rho_1", "hat_rho_2")
NO_ROWS = "there are too many unknowns for matrices, so the constant is proved from sums of the loss, not by operation"
PAIRS: dict[str, Pair] = {"bend": (W, W), "lam_bend": (W, LAM)}
FROM_W_STAR = "the constant bounds the difference of the derivative from its value at w*, which is less than the rows"
FOLLOWS = {
    "kappa": "κ follows from other constants; explain L and mu, or q",
    "mu_inv": "μ_λ follows from other constants; explain mu, or q",
    "D": "D is the size of the solution, and not a bound over a ball",
    "r_0": "r_0 is the distance from the start to the solution, and not a bound over a ball",
    "q_star": "q_star is a norm at w* only; explain q for the ball",
    "L_Phi_star": "L_Phi_star is a norm at w* only; explain L_Phi for the ball",
    "g_star": "g_star is a norm at w* only; explain L_E for the ball",
}


@on_few_threads
def explain_constant(
    problem: Problem | str,
    name: str,
    *,
    ball: str = BallKind.PAPER.value,
    constants: Constants | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Explain what each operation of your functions contributes to a constant.

    Each operation on each line is bounded separately over the ball. The values need not add up to the constant, because
    the norm of a sum is at most the sum of the norms.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name that `load_problem` accepts.
    name : str
        The constant: "q", "mu", "L", "nu_1", "nu_2", "L_Phi", "L_E", "eta_1", "eta_2", "hat_rho_1" or "hat_rho_2". For
        any other constant of the problem, a remark says where it comes from.
    ball : {"paper", "local"}
        The ball, as in `estimate_constants`; "paper" by default.
    constants : Constants, optional
        The result of `estimate_constants` for the same problem and ball. It is computed if not given.
    progress : callable (what, done, of) -> None, optional
        Called with a description of the current stage, the amount done and the total.

    Returns
    -------
    Explanation
        Its `contributions` are sorted, the largest first. Each has the operation, the line of your code, the value and
        a note. If your functions could not be analysed, `no_proof` names the operation or line that is the cause.

    Raises
    ------
    UnknownNameError
        If `ball` is not the name of a ball, or the problem has no constant of this name.
    InputError
        If `constants` is not a `Constants` object.
    DivergenceError
        If w(λ) cannot be found.
    UserCodeError
        If a function of the user raises an error, or autograd's derivatives of it are wrong.

    Examples
    --------
    >>> import boundcheck as bc
    >>> import torch
    >>> def inner(w, lam):
    ...     return torch.nn.functional.softplus(w).sum() + ((w - lam) ** 2).sum()
    >>> def outer(w, lam):
    ...     return w @ w
    >>> w, lam = torch.zeros(2).double(), torch.ones(2).double()
    >>> problem = bc.Problem.from_loss(inner, outer, w, lam, 0.3)
    >>> explanation = bc.explain_constant(problem, "mu")
    >>> for part in explanation.contributions:
    ...     print(part.operation, round(part.value, 2))
    pow 2.0
    softplus 0.11
    """
    problem = require_problem(problem)
    if ball not in BALLS:
        raise UnknownNameError.among("ball", ball, BALLS)
    if constants is None:
        constants = estimate_constants(problem, ball=ball, progress=progress)
    elif not isinstance(constants, Constants):
        raise InputError(f"constants is a {type(constants).__name__}; give what estimate_constants returned")
    return explain_constants(problem, constants, [name], ball)[name]


@on_few_threads
def explain_constants(
    problem: Problem, constants: Constants, names: Iterable[str], ball: str
) -> dict[str, Explanation]:
    """Explain several constants on one ball. The functions are analysed only once."""
    selected = [constants[name] for name in names]
    if not selected:
        return {}
    w_star = reference(problem, problem.lam[None]).w[0]
    off = max(0.0, constants["r_0"].value - float((problem.w0 - w_star).norm()))
    derivation = _Derivation(
        ProgramProof.of(problem),
        _region(constants, ball, w_star, off),
        constants.get("alpha"),
        Anchor(w_star, off) if constants["r_0"].side in (Side.UPPER, Side.EXACT) else None,
    )
    return {constant.name: derivation.of(constant) for constant in selected}


def explain_report(problem: Problem, constants: Mapping[str, Constants]) -> dict[str, dict[str, Explanation]]:
    """Explain all constants of a report, by ball and name. The result is empty for large problems and closed forms."""
    if isinstance(problem.known, ClosedForms) or problem.d > MOST_ON_PAGE:
        return {}
    return {
        ball: explain_constants(problem, on_ball, [name for name in EXPLAINED if name in on_ball], ball)
        for ball, on_ball in constants.items()
    }


def _region(constants: Constants, ball: str, w_star: torch.Tensor, off: float) -> Region:
    """Return the ball on which constants were proved; if none was, the ball by its definition."""
    by_program = [c.provenance.ball for c in constants.values() if c.provenance.reference == "program"]
    radius = next((x.radius for x in by_program if x is not None), None)
    if ball == BallKind.PAPER:
        return Region("0", torch.zeros_like(w_star), 2 * constants["D"].value if radius is None else radius)
    return Region("w_star", w_star, constants["r_0"].value + off if radius is None else radius)


@dataclass(frozen=True, eq=False)
class _Derivation:
    """Explains the constants of a problem on a region. Bounds are stored, because several constants share them."""

    proof: ProgramProof
    region: Region
    alpha: Constant | None
    solution: Anchor | None

    def of(self, constant: Constant) -> Explanation:
        plain = Explanation(constant, no_proof=constant.provenance.no_proof)
        name = constant.name
        try:
            if name in EXPLAINED and self._without_matrices("outer" if name in OF_OUTER else "lower"):
                return replace(plain, remark=NO_ROWS)
            if name in OF_OUTER:
                return self._of_outer(plain, OF_OUTER[name])
            if self.proof.has_loss and name == "q":
                return self._of_contraction(plain)
            table = OF_LOSS if self.proof.has_loss else OF_MAP
            if name in table:
                return self._of_lower(plain, table[name])
        except Declined as why:
            return replace(plain, no_proof=constant.provenance.no_proof or str(why))
        return replace(plain, remark=FOLLOWS.get(name, f"{name} does not come from operations over a ball"))

    def _without_matrices(self, level: str) -> bool:
        return self.proof.separable(level, self.region.point, self.region.radius) is not None

    def _of_lower(self, plain: Explanation, bound: _ProgramBound) -> Explanation:
        problem = self.proof.problem
        if bound.by_lam and problem.n > MOST_LAM:
            return plain
        bounds = self._lower
        if isinstance(bounds, MapBounds):
            at_centre = self._lower_at_centre
            assert isinstance(at_centre, MapBounds)
            rows = map_contributions.contributions(bounds, at_centre, bound.quantity)
            value: float = getattr(bounds, bound.quantity)
            if bound.quantity in PAIRS:
                value = self.proof.moves(bounds, self.region, self.solution, PAIRS[bound.quantity])
            remark = FROM_W_STAR if value < getattr(bounds, bound.quantity) else ""
            return self._explanation(plain, bound.words, value, rows, remark)
        factor = 1.0
        if bound.by_step:
            if self.alpha is None:
                return plain
            factor = self.alpha.value
        rows = scalar_contributions.contributions(bounds, bound.quantity, factor)
        value = factor * getattr(bounds, bound.quantity)
        remark = ""
        if bound.quantity == "third" and math.isinf(value):
            value = factor * self.proof.third(bounds, self.region, self.solution)
            remark = FROM_W_STAR if math.isfinite(value) else ""
        words = f"{bound.words} (α = {factor:.4g})" if bound.by_step else bound.words
        return self._explanation(plain, words, value, rows, remark)

    def _of_contraction(self, plain: Explanation) -> Explanation:
        """Explain q of a gradient step, which is 1 − αμ or αL − 1."""
        if self.alpha is None:
            return plain
        bounds, a = self._lower, self.alpha.value
        assert isinstance(bounds, ScalarBounds)
        by_mu, by_L = 1 - a * bounds.smallest, a * bounds.largest - 1
        symbol, formula = ("mu", "1 − αμ") if by_mu >= by_L else ("L", "αL − 1")
        explained = self._of_lower(plain, OF_LOSS[symbol])
        remark = f"q = max(1 − αμ, αL − 1) = {formula} with α = {a:.4g}, so the rows are those of {symbol}"
        return replace(explained, remark=remark)

    def _of_outer(self, plain: Explanation, bound: _ProgramBound) -> Explanation:
        if bound.by_lam and self.proof.problem.n > MOST_LAM:
            return plain
        bounds, calm = self._outer, None
        value: float = getattr(bounds, bound.quantity)
        if bound.quantity != "gradient" and self.solution is not None:
            at_centre = self.proof.outer_bounds(self.solution.w, 0.0)
            calm = Calm(at_centre, self.solution.mean_distance(self.region))
            slope = bounds.third if bound.quantity == "hessian" else bounds.third_cross
            value = min(value, getattr(at_centre, bound.quantity) + calm.mean * slope)
        rows = scalar_contributions.contributions(bounds, bound.quantity, calm=calm)
        return self._explanation(plain, bound.words, value, rows)

    def _explanation(
        self, plain: Explanation, words: str, value: float, rows: Sequence[Contribution], remark: str = ""
    ) -> Explanation:
        value = 0.0 if abs(value) <= SMALLEST else value
        parts = tuple(rows)
        return replace(plain, ball=self.region.ball, quantity=words, value=value, contributions=parts, remark=remark)

    @cached_property
    def _lower(self) -> ScalarBounds | MapBounds:
        return self.proof.lower_bounds(self.region.point, self.region.radius)

    @cached_property
    def _lower_at_centre(self) -> ScalarBounds | MapBounds:
        return self.proof.lower_bounds(self.region.point, 0.0)

    @cached_property
    def _outer(self) -> ScalarBounds:
        return self.proof.outer_bounds(self.region.point, self.region.radius)
