"""Targets of the search: a bound of the catalogue, or a false claim, with its method.

The claims are statements that docs/errata.md shows to be wrong. They are here to show that the search refutes them.
Each claim is a bound of the catalogue in which constants or rates are replaced or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import sympy as sp

from boundcheck.ball import BallKind
from boundcheck.errors import AssumptionError, InputError, UnknownNameError
from boundcheck.theory.assumptions import P_NORM
from boundcheck.theory.bound import Bound
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.gradient_methods import HEAVY_BALL_MOMENTUM, HEAVY_BALL_STEP, NESTEROV_MOMENTUM, NESTEROV_STEP
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.rates import CONTRACTION, FIXED_POINT, HEAVY_BALL, Rate
from boundcheck.theory.symbols import QUANTITIES, L_Phi, L_Phi_star
from boundcheck.worst_case import formula, methods_on_instance
from boundcheck.worst_case.arithmetic import Array
from boundcheck.worst_case.instance import Instance, InstanceKind
from boundcheck.worst_case.methods_on_instance import InstanceRun

PARTS = ("nu_1", "nu_2", "eta_1", "eta_2", "L_Phi", "L_E")  # parts of an instance; the last two are ∂₂Φ(0) and ∇₁E(0)
MOMENTUM = {"heavy-ball": (HEAVY_BALL_STEP, HEAVY_BALL_MOMENTUM), "nesterov": (NESTEROV_STEP, NESTEROV_MOMENTUM)}


@dataclass(frozen=True, eq=False)
class Target:
    """An inequality error ≤ `expression`, and the kind of instances among which to search for a counterexample."""

    name: str
    bound: Bound
    method: str  # itd, itd-truncated, aid-fp, aid-cg, aid-cgn, any, exact, analytic, heavy-ball, nesterov, momentum-fp
    ball: str
    symmetric: bool = False
    value: bool = False
    smooth: bool = False  # one L ≤ 1 for all second derivatives
    without: frozenset[str] = frozenset()
    rates: tuple[Rate, ...] = ()
    given: frozenset[str] = frozenset()
    claim: str = ""  # the text of a false claim; empty for a bound of the catalogue
    puts: Mapping[sp.Symbol, sp.Expr] = field(default_factory=lambda: MappingProxyType({}))

    def kind(self, d: int) -> InstanceKind:
        return InstanceKind(d, self.symmetric or self.value, self.value)

    @property
    def takes_k(self) -> bool:
        return self.method in ("aid-fp", "aid-cg", "aid-cgn", "any", "itd-truncated", "momentum-fp")

    @property
    def frees_solvers(self) -> bool:
        return self.method in ("any", "exact")

    @property
    def tuned(self) -> bool:
        """Whether the method has momentum. Its κ is then free."""
        return self.method in ("heavy-ball", "nesterov", "momentum-fp")

    def expression(self, t: int, solves: int) -> sp.Expr:
        return formula.with_counts(
            formula.stated(self.bound, self.rates, self.given | {"K"}).subs(dict(self.puts)), t, solves
        )

    def outcome(self, instance: Instance, t: int, solves: int, *, split: bool = False) -> InstanceRun:
        """Run the method of the inequality."""
        if self.method in ("itd", "itd-truncated", "analytic"):
            return methods_on_instance.itd(instance, t, solves if self.method == "itd-truncated" else t, split=split)
        if self.frees_solvers:
            return methods_on_instance.any_solvers(instance, t, solves, solved=self.method == "exact", split=split)
        if self.tuned:
            name = "nesterov" if self.method == "nesterov" else "heavy-ball"
            values = self.constants(instance)
            alpha, beta = (formula.value(x, values, instance.ops) for x in MOMENTUM[name])
            iterated = methods_on_instance.momentum(instance, t, alpha, beta, nesterov=name == "nesterov", split=split)
            return (
                methods_on_instance.fixed_point(instance, iterated.x, solves, split=split)
                if self.method == "momentum-fp"
                else iterated
            )
        x = methods_on_instance.lower(instance, t)
        if self.method == "aid-fp":
            return methods_on_instance.fixed_point(instance, x, solves, split=split)
        return methods_on_instance.conjugate_gradient(instance, x, solves, normal=self.method == "aid-cgn", split=split)

    def error(self, instance: Instance, outcome: InstanceRun) -> Array:
        """Return the left-hand side of the inequality."""
        if self.method == "analytic":
            return abs(instance.change_of_grad_lam(outcome.x))
        if self.bound.bounds.name in ("dw", "du"):
            return instance.ops.norm(outcome.derivative_error)
        return methods_on_instance.error(instance, outcome)

    def constants(self, instance: Instance) -> dict[str, Array]:
        values = instance.constants(self.ball)
        if self.tuned:
            # for an interval that is wider than the spectrum; the spectrum is at the end where the method is slowest
            values["kappa"] = values["kappa"] * instance.numbers["kappa"][..., 0]
            if self.method == "nesterov":
                values["L"] = values["mu"] * values["kappa"]
            else:
                values["mu"] = values["L"] / values["kappa"]
            step = MOMENTUM["nesterov" if self.method == "nesterov" else "heavy-ball"][0]
            values["alpha"] = formula.value(step, values, instance.ops)
        if self.smooth:
            ops = instance.ops
            values["L"] = ops.maximum(
                ops.maximum(values["L"], values["L_Phi"]), ops.maximum(values["eta_1"], values["eta_2"])
            )
        return values

    def right(self, instance: Instance, outcome: InstanceRun, t: int, expression: sp.Expr) -> Array:
        """Return the value of the bound, or of an expression derived from it."""
        values = self.constants(instance)
        if self.given:
            ops, x = instance.ops, outcome.x
            values |= {"eps_w": ops.norm(x - instance.step(x)), "eps_v": outcome.residual}
            values |= {"Z_t": ops.norm(instance.d2phi(x)), "g_t": ops.norm(instance.grad_w(x))}
        if self.bound.recursion is not None:
            recursion = self.bound.recursion.on_one_ball
            names = [symbol.name for symbol in recursion.state]
            state = [formula.value(e, values, instance.ops) for e in recursion.start]
            for s in range(t):
                bound_values = {**values, **dict(zip(names, state, strict=True))}
                state = [
                    formula.value(e, bound_values, instance.ops) for e in (recursion.step if s else recursion.first)
                ]
            values |= dict(zip(names, state, strict=True))
        return formula.value(expression, values, instance.ops)


OBSERVED = frozenset({"eps_w", "eps_v", "Z_t", "g_t"})
CLAIMS: Mapping[str, str] = MappingProxyType(
    {
        "appB-aid": "appendix B: the bound for any pair of solvers holds with ‖∂₂Φ(w*)‖ in place of L_Φ (erratum 1)",
        "heavy-ball-2D": "the AID-FP bound holds for heavy ball with suprema over ‖w‖ ≤ 2D (erratum 3)",
    }
)
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: "its constants use a norm that depends on the method, which is not known for the searched problems"
            for name, bound in bounds.items()
            if P_NORM in bound.assumptions
        },
        **{
            name: "it bounds a mean over many runs of a stochastic method, and the search makes single runs"
            for name, bound in bounds.items()
            if bound.stochastic
        },
        **{
            name: "it needs quantities observed on a run, and the search measures residuals only"
            for name, bound in bounds.items()
            if bound.kind is not BoundKind.A_PRIORI
            and {n for n in bound.symbols if QUANTITIES[n].kind == "observable"} - OBSERVED
        },
    }
)


def names() -> tuple[str, ...]:
    """Return the names of all bounds and claims for which a search is possible."""
    return tuple(sorted((set(bounds) - set(REFUSED)) | set(CLAIMS)))


def target(name: str) -> Target:
    """Return the target of a bound or claim."""
    if name == "appB-aid":
        at_w_star = {L_Phi: L_Phi_star}
        return Target(
            name, bounds["aid-contraction"], "any", BallKind.PAPER, symmetric=True, rates=(CONTRACTION, FIXED_POINT),
            claim=CLAIMS[name], puts=at_w_star,
        )  # fmt: skip
    if name == "heavy-ball-2D":
        return Target(
            name, bounds["aid-fp"], "momentum-fp", BallKind.PAPER, symmetric=True, without=frozenset({"nu_1"}),
            rates=(HEAVY_BALL,), claim=CLAIMS[name],
        )  # fmt: skip
    if name in REFUSED:
        raise AssumptionError(f"{name} cannot be searched: {REFUSED[name]}; use boundcheck check instead")
    if name not in bounds:
        raise UnknownNameError.among("bound or claim", name, (*bounds, *CLAIMS))
    return _of_catalogue(bounds[name])


def _of_catalogue(bound: Bound) -> Target:
    keys = {assumption.key for assumption in bound.assumptions}
    free = {symbol.name for symbol in bound.primitive.free_symbols}
    method = _method(bound, keys)
    rates = tuple(r for r in (CONTRACTION, FIXED_POINT) if bound.mentions(r.stands_for) and method == "any")
    return Target(
        bound.name,
        bound,
        method,
        bound.ball,
        symmetric=bool(keys & {"symmetric", "gradient step", "quadratic"}),
        value="E = ℓ" in keys,
        smooth="smooth" in keys,
        without=frozenset({"nu_1"}) if "quadratic" in keys else frozenset(),
        rates=rates,
        given=OBSERVED if OBSERVED & free else frozenset(),
    )


def _method(bound: Bound, keys: set[str]) -> str:
    if not bound.methods:
        return "analytic"
    if "heavy ball" in keys or "Nesterov" in keys:
        return "heavy-ball" if "heavy ball" in keys else "nesterov"
    if len(bound.methods) > 1:
        return "any"
    return bound.methods[0]


def checked_parts(only: tuple[str, ...] | None, attacked: Target) -> frozenset[str]:
    """Return the parts that an instance may have, or raise if they cannot be used."""
    for part in only or ():
        if part not in PARTS:
            raise UnknownNameError.among("part of an instance", part, PARTS)
    parts = frozenset(only if only is not None else PARTS) - attacked.without
    if not parts & {"nu_2", "L_Phi"} and not parts & {"eta_2"}:
        raise InputError(f"only = {', '.join(sorted(parts)) or 'nothing'} leaves λ without effect; add nu_2 or L_Phi")
    return parts
