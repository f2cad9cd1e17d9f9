"""A theorem as an object: formula, assumptions, reference, and what can be computed from them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.constants import BallKind, Constant, Constants
from boundcheck.theory import codegen, typeset
from boundcheck.theory.arguments import prepare
from boundcheck.theory.assumptions import SPECTRUM, Assumption
from boundcheck.theory.call import Call
from boundcheck.theory.chain import Chain
from boundcheck.theory.coefficients import COEFFICIENTS
from boundcheck.theory.evaluation import BoundValues
from boundcheck.theory.iterations import Hump, Iterations, Split, solve
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.rates import Rate
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.reference import Reference
from boundcheck.theory.symbols import QUANTITIES, error, gap_t, rho, sigma, t

Number = float | int | Sequence[float] | Sequence[int] | np.ndarray


@dataclass(frozen=True)
class Condition:
    """`left` ≤ `right` (or < when `strict`), without which the theorem says nothing; `remedy` says what to do."""

    left: sp.Expr
    right: sp.Expr
    remedy: str
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Bound:
    """One theorem. `formula` is the only copy of its right-hand side; everything else is generated from it.

    `formula` may use shorthand that `where` defines: c₁, c₂, c₃ unless said otherwise. `defaults` says what stands for
    a symbol that is not given: the rate ρ(t) = q^t, or what the proof puts for a quantity that was not measured.

    The last three fields say what `check` has to know to compare the theorem with a run: `solver_rate` is σ(k) where
    the formula has it written out, so that the proof, which still speaks of σ, can be followed in numbers; `only_k` is
    the one k (or K) that the theorem is about; `not_run` says why no method here is the one it is about.
    """

    name: str
    title: str
    reference: Reference
    assumptions: tuple[Assumption, ...]
    formula: sp.Expr
    bounds: sp.Symbol = error
    methods: tuple[str, ...] = ()
    where: Mapping[sp.Symbol, sp.Expr] = field(default_factory=lambda: COEFFICIENTS)
    defaults: Mapping[sp.Symbol, sp.Expr] = field(default_factory=lambda: MappingProxyType({}))
    conditions: tuple[Condition, ...] = ()
    recursion: Recursion | None = None
    shape: Hump | Split | None = None
    chain: Chain | None = None
    t_min: int = 0
    takes_rates: bool = True  # rates by name are Euclidean
    solver_rate: Rate | None = None  # None where the formula leaves σ open, or has none
    only_k: int | None = None  # None where it holds for every k
    not_run: str = ""  # empty where a method here runs it

    def __repr__(self) -> str:
        return f"Bound({self.name!r}, {str(self.reference)!r})"

    @cached_property
    def primitive(self) -> sp.Expr:
        """The formula in the primitive constants, in the form that evaluates without cancellation."""
        return self.expand(self.formula)

    def expand(self, expression: sp.Expr) -> sp.Expr:
        """`expression` with the shorthand of `where` written out."""
        return _substitute(expression, tuple(self.where.items()), frozenset())

    @cached_property
    def expression(self) -> sp.Expr:
        """The right-hand side in the primitive constants, as plain sympy."""
        return self.primitive.doit()

    @cached_property
    def in_coefficients(self) -> sp.Expr | None:
        """The same in c₁, c₂, c₃, where the paper states it so."""
        return self.formula.doit() if self.formula.free_symbols & COEFFICIENTS.keys() else None

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """What has to be given when nothing optional is: the names left once `defaults` have been put in."""
        needed = set(self.resolved().free_symbols) | self.in_conditions
        if self.recursion:
            needed = (needed | self.recursion.free_symbols | {t}) - set(self.recursion.state)
        return tuple(name for name, quantity in QUANTITIES.items() if quantity.symbol in needed)

    @property
    def ball(self) -> BallKind:
        """Where its suprema are taken: on ‖w‖ ≤ 2D for theorems that start at 0, around w* for the others."""
        return BallKind.PAPER if any(a.key == "w_0 = 0" for a in self.assumptions) else BallKind.LOCAL

    @cached_property
    def in_conditions(self) -> frozenset[sp.Symbol]:
        """What has to be known to tell whether the theorem speaks."""
        sides = (side for condition in self.conditions for side in (condition.left, condition.right))
        return frozenset().union(*(side.free_symbols for side in sides)) - self.defaults.keys()

    def resolved(self, available: frozenset[str] = frozenset(), rates: tuple[Rate, ...] = ()) -> sp.Expr:
        """The formula with a default for every symbol that is not in `available`."""
        return self.substitute(self.primitive, available, rates)

    def substitute(self, expression: sp.Expr, available: frozenset[str], rates: tuple[Rate, ...] = ()) -> sp.Expr:
        """`expression` with `rates` put in, and a default for every symbol that is not in `available`."""
        defaults = {**self.defaults, **{rate.stands_for: self.expand(rate.expression) for rate in rates}}
        return _substitute(expression, tuple(defaults.items()), available - {rate.stands_for.name for rate in rates})

    @cached_property
    def kind(self) -> BoundKind:
        """When it can be told, by the symbols of its formula; the text of each kind equals it, as in "a priori"."""
        if gap_t in self.primitive.free_symbols:
            return BoundKind.ENCLOSURE
        if SPECTRUM in self.assumptions:
            return BoundKind.FROM_SPECTRUM
        state = {symbol.name for symbol in self.recursion.state} if self.recursion else set()
        observed = {name for name in self.symbols if QUANTITIES[name].kind == "observable"} - {"rho", "sigma"} - state
        return BoundKind.A_POSTERIORI if observed else BoundKind.A_PRIORI

    def mentions(self, symbol: sp.Symbol) -> bool:
        """Whether the symbol stands in the formula or in what may be put for one of its symbols."""
        return symbol in self._mentioned

    @cached_property
    def _mentioned(self) -> frozenset[sp.Symbol]:
        return frozenset().union(*(e.free_symbols for e in (self.primitive, *self.defaults.values())))

    def direction(self, name: str) -> int:
        """+1 if the bound grows with the symbol, −1 if it falls, 0 if it is not monotone in it."""
        return QUANTITIES[name].direction

    def evaluate(
        self,
        constants: Constants | Mapping[str, float | Constant],
        t: Number | None = None,
        k: Number | None = None,
        *,
        rigorous: bool = False,
        **given: Number | str | Constant,
    ) -> BoundValues:
        """The bound at every t and k (k = t unless given), broadcast together.

        `given` takes measured observables (``r_t=…``), a truncation ``K=…``, and rates by name
        (``rho="heavy-ball"``). With `rigorous`, values are computed in interval arithmetic and rounded up.
        """
        return self.call(constants, t, k, given).values(rigorous=rigorous)

    def iterations(
        self,
        constants: Constants | Mapping[str, float | Constant],
        eps: float,
        *,
        cost_t: float = 1.0,
        cost_k: float = 1.0,
        **given: Number | str | Constant,
    ) -> Iterations:
        """The smallest t, or the cheapest pair (t, k), at which the bound is at most `eps`."""
        return solve(self, constants, eps, cost_t, cost_k, given)

    def call(
        self,
        constants: Constants | Mapping[str, float | Constant],
        t: Any = None,
        k: Any = None,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> Call:
        """The inputs of one evaluation, checked."""
        return prepare(self, constants, {"t": t, "k": k, **given})

    def proof(self, given: frozenset[str]) -> Chain | None:
        """The chain to the bound as it is evaluated when only `given` is known: with its defaults as last links."""
        chain = self.chain
        pending = {symbol: value for symbol, value in self.defaults.items() if symbol.name not in given}
        while chain is not None and (missing := pending.keys() & chain.links[-1].formula.free_symbols):
            # first what stands in no other default, so that each is replaced once
            ordered = sorted(missing, key=str)  # the same proof in every run
            symbol = next(s for s in ordered if not any(s in pending[other].free_symbols for other in missing - {s}))
            value = pending[symbol]
            brought = (x for x in value.free_symbols if QUANTITIES[x.name].kind == "constant" or x in (rho, sigma))
            uses = tuple(sorted(x.name for x in brought))
            because = f"{QUANTITIES[symbol.name].meaning} is at most {value}"
            chain = chain.replacing(f"{symbol} a priori", {symbol: value}, because, uses)
        return chain

    def latex(self, *, coefficients: bool = True) -> str:
        """The statement as LaTeX, with its shorthand defined (or, if not `coefficients`, written out)."""
        return typeset.latex(self, coefficients=coefficients)

    def python(self) -> str:
        """The bound as the source of one standalone Python function, needing only the standard library."""
        return codegen.python(self)

    def javascript(self) -> str:
        """The bound as the source of one standalone JavaScript function."""
        return codegen.javascript(self)


@functools.lru_cache(maxsize=1024)
def _substitute(
    expression: sp.Expr, defaults: tuple[tuple[sp.Symbol, sp.Expr], ...], available: frozenset[str]
) -> sp.Expr:
    pending = {symbol: value for symbol, value in defaults if symbol.name not in available}
    while missing := pending.keys() & expression.free_symbols:
        expression = expression.subs({symbol: pending[symbol] for symbol in missing})
    return expression
