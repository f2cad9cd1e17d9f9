"""A theorem as an object: its formula, assumptions and reference, with methods that evaluate and print it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy as sp

from boundcheck.ball import BallKind
from boundcheck.constants import Constant, Constants
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory import codegen, typeset
from boundcheck.theory.arguments import prepare
from boundcheck.theory.assumptions import SPECTRUM, Assumption
from boundcheck.theory.call import Call
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import Citation
from boundcheck.theory.coefficients import COEFFICIENTS
from boundcheck.theory.condition import Condition
from boundcheck.theory.defaults import insert_defaults, proof_with_defaults
from boundcheck.theory.evaluation import BoundValues
from boundcheck.theory.iterations import Hump, Iterations, Split, solve
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.rates import Rate
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import MEANS, QUANTITIES, error, gap_t, t

RATES_OF_SOLVERS = frozenset(("rho", "sigma", "mse_w", "mse_v"))  # known before a run

Number = float | int | Sequence[float] | Sequence[int] | np.ndarray


@dataclass(frozen=True, eq=False)
class Bound:
    """One theorem: a bound, its assumptions and its reference.

    `formula` is the only copy of the right-hand side; everything else is generated from it.

    Attributes
    ----------
    name : str
        The name in the catalogue, such as "aid-fp".
    title : str
        The bound in words.
    reference : Citation
        The paper, the number of the theorem, and its LaTeX label.
    assumptions : tuple of Assumption
        The assumptions of the theorem.
    formula : sympy.Expr
        The right-hand side. It may use the shorthand of `where`.
    bounds : sympy.Symbol
        The quantity that is bounded; by default the error of the hypergradient.
    methods : tuple of str
        The methods to which the theorem applies; none by default.
    where : mapping from sympy.Symbol to sympy.Expr
        The shorthand of the formula: c₁, c₂ and c₃ by default.
    defaults : mapping from sympy.Symbol to sympy.Expr
        The default of a symbol that is not given: the rate ρ(t) = q^t, or the bound that the proof uses for a quantity
        that was not measured.
    conditions : tuple of Condition
        Inequalities that the theorem requires.
    recursion : Recursion or None
        The recursion over t that computes the bound; None if the formula is closed.
    shape : Hump, Split or None
        The form of the bound, if t and k can be found in closed form.
    chain : Chain or None
        The proof, if it is encoded.
    t_min : int
        The least t for which the theorem holds; 0 by default.
    takes_rates : bool
        Whether rates can be given by name; True by default. Named rates are in the Euclidean norm.
    solver_rate : Rate or None
        σ(k), if the formula contains it written out; traces of the proof need it.
    only_k : int or None
        The only k (or K) for which the theorem holds; None if it holds for every k.
    not_run : str
        Why `check` runs no method to which the theorem applies; empty if it does.
    """

    name: str
    title: str
    reference: Citation
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
    takes_rates: bool = True
    solver_rate: Rate | None = None
    only_k: int | None = None
    not_run: str = ""

    def __repr__(self) -> str:
        return f"Bound({self.name!r}, {str(self.reference)!r})"

    @cached_property
    def primitive(self) -> sp.Expr:
        """The formula in the primitive constants, written so that its evaluation does not cancel."""
        return self.expand(self.formula)

    def expand(self, expression: sp.Expr) -> sp.Expr:
        """Replace the shorthand of `where` by its definition.

        Parameters
        ----------
        expression : sympy.Expr
            Any expression in the symbols of the bound.

        Returns
        -------
        sympy.Expr
            The expression in the primitive constants.
        """
        return insert_defaults(expression, tuple(self.where.items()), frozenset())

    @cached_property
    def expression(self) -> sp.Expr:
        """The right-hand side in the primitive constants, as plain sympy."""
        return self.primitive.doit()

    @cached_property
    def in_coefficients(self) -> sp.Expr | None:
        """The right-hand side in c₁, c₂, c₃, if the paper states it in them; None otherwise."""
        return self.formula.doit() if self.formula.free_symbols & COEFFICIENTS.keys() else None

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The names of the required symbols, if nothing optional is given."""
        needed = set(self.resolved().free_symbols) | self.in_conditions
        if self.recursion:
            needed = (needed | self.recursion.free_symbols | {t}) - set(self.recursion.state)
        return tuple(name for name, quantity in QUANTITIES.items() if quantity.symbol in needed)

    @property
    def ball(self) -> BallKind:
        """The ball on which the suprema of the theorem are taken.

        "paper", ‖w‖ ≤ 2D, for theorems that start at 0; "local", around w*, for the others.
        """
        return BallKind.PAPER if any(a.key == "w_0 = 0" for a in self.assumptions) else BallKind.LOCAL

    @property
    def stochastic(self) -> bool:
        """Whether the theorem bounds a mean over the draws of a stochastic method, such as E‖∇̂f−∇f‖²."""
        return self.bounds in MEANS

    @property
    def shrinks(self) -> bool:
        """Whether the bound uses the values of constants on smaller balls (`Constant.on_smaller`) if they are known.

        Generated code and the sliders of the page have one value for each constant, and so one ball for all radii.
        """
        return self.recursion is not None and self.recursion.shrinking is not None

    @cached_property
    def in_conditions(self) -> frozenset[sp.Symbol]:
        """The symbols that the conditions of the theorem need, if nothing optional is given."""
        return self.needed_by_conditions()

    def needed_by_conditions(
        self, available: frozenset[str] = frozenset(), rates: tuple[Rate, ...] = ()
    ) -> frozenset[sp.Symbol]:
        """The symbols that the conditions of the theorem need.

        Parameters
        ----------
        available : frozenset of str
            The names that will be given; they keep their symbols.
        rates : tuple of Rate
            Rates to insert, such as the rate of heavy ball; none by default.

        Returns
        -------
        frozenset of sympy.Symbol
            The symbols.
        """
        sides = (side for condition in self.conditions for side in (condition.left, condition.right))
        return frozenset().union(*(self.substitute(side, available, rates).free_symbols for side in sides))

    def resolved(self, available: frozenset[str] = frozenset(), rates: tuple[Rate, ...] = ()) -> sp.Expr:
        """The formula with a default for every symbol that will not be given.

        Parameters
        ----------
        available : frozenset of str
            The names that will be given; they keep their symbols.
        rates : tuple of Rate
            Rates to insert, such as the rate of heavy ball; none by default.

        Returns
        -------
        sympy.Expr
            The expression in the available symbols.
        """
        return self.substitute(self.primitive, available, rates)

    def substitute(self, expression: sp.Expr, available: frozenset[str], rates: tuple[Rate, ...] = ()) -> sp.Expr:
        """Insert rates into an expression, and a default for every symbol that will not be given.

        Parameters
        ----------
        expression : sympy.Expr
            Any expression in the symbols of the bound.
        available : frozenset of str
            The names that will be given; they keep their symbols.
        rates : tuple of Rate
            Rates to insert, such as the rate of heavy ball; none by default.

        Returns
        -------
        sympy.Expr
            The expression in the available symbols.
        """
        defaults = {**self.defaults, **{rate.stands_for: self.expand(rate.expression) for rate in rates}}
        return insert_defaults(
            expression, tuple(defaults.items()), available - {rate.stands_for.name for rate in rates}
        )

    @cached_property
    def kind(self) -> BoundKind:
        """When the bound can be computed: "a priori", "a priori, from the spectrum", "a posteriori" or "enclosure".

        "a priori" bounds are known before a run; they may need constants at w*: W, g*, r_0. "a priori, from the
        spectrum" needs all eigenvectors of ∂₁Φ, "a posteriori" needs the run, and "enclosure" needs a better solution.
        """
        if gap_t in self.primitive.free_symbols:
            return BoundKind.ENCLOSURE
        if SPECTRUM in self.assumptions:
            return BoundKind.FROM_SPECTRUM
        state = {symbol.name for symbol in self.recursion.state} if self.recursion else set()
        observed = {name for name in self.symbols if QUANTITIES[name].kind == "observable"} - RATES_OF_SOLVERS - state
        return BoundKind.A_POSTERIORI if observed else BoundKind.A_PRIORI

    def mentions(self, symbol: sp.Symbol) -> bool:
        """Whether a symbol occurs in the formula or in a default of one of its symbols.

        Parameters
        ----------
        symbol : sympy.Symbol
            The symbol.

        Returns
        -------
        bool
            True if the symbol occurs.
        """
        return symbol in self._mentioned

    @cached_property
    def _mentioned(self) -> frozenset[sp.Symbol]:
        return frozenset().union(*(e.free_symbols for e in (self.primitive, *self.defaults.values())))

    def direction(self, name: str) -> int:
        """Whether the bound grows or falls with a symbol.

        Parameters
        ----------
        name : str
            The name of the symbol, such as "q".

        Returns
        -------
        int
            +1 if the bound grows with the symbol, −1 if it falls, 0 if it is not monotone in the symbol.
        """
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
        """Evaluate the bound at every t and k.

        Parameters
        ----------
        constants : Constants, or mapping from str to float or Constant
            The constants by name. Bare numbers count as exact. Constants that the bound does not need are ignored.
        t : int or array of int, optional
            The lower-level steps; required if the bound depends on t.
        k : int or array of int, optional
            The steps of the linear solver; `t` by default. t, k and the other arrays broadcast.
        rigorous : bool
            Whether to compute in interval arithmetic and round up; False by default.
        **given : float, array, str or Constant
            Further inputs: measured observables (``r_t=…``), a truncation (``K=…``), and rates by name
            (``rho="heavy-ball"``). `symbols` lists the required names.

        Returns
        -------
        BoundValues
            `.values` and their side.

        Raises
        ------
        MissingConstantError
            If a constant that the bound needs is missing.
        UnknownNameError
            If there is no such symbol or rate.
        InputError
            If a value is out of its range, or shapes do not broadcast.
        AssumptionError
            If an assumption of the theorem fails for these values, such as q < 1.

        Examples
        --------
        >>> import boundcheck as bc
        >>> constants = dict(q=0.5, D=1.0, nu_1=0.0, nu_2=1.0, eta_1=0.0, eta_2=0.0, L_E=1.0, L_Phi=2.0)
        >>> bc.bounds["itd"].evaluate(constants, t=[1, 2, 3]).values
        array([3.  , 2.  , 1.25])
        """
        return self.call(constants, t, k, given).values(rigorous=rigorous)

    def iterations(
        self,
        constants: Constants | Mapping[str, float | Constant],
        eps: float,
        *,
        cost_t: float = 1.0,
        cost_k: float = 1.0,
        steps: StepSchedule | None = None,
        steps_v: StepSchedule | None = None,
        **given: Number | str | Constant,
    ) -> Iterations:
        """Find the smallest t, or the cheapest pair (t, k), at which the bound is at most an accuracy.

        A bound that takes ρ_t and σ_k, such as "sid-orthogonal", needs the steps of both iterations. The result is then
        the smallest t = k. ρ and σ are each the smaller of the recursions of "stochastic-recursive" and "sgd-convex"
        along these steps. With the σ₁ and σ₂ that follow from V*, m₁ and q, Theorems 4.1 and 4.2 give no smaller ones.

        Parameters
        ----------
        constants : Constants, or mapping from str to float or Constant
            The constants by name. Bare numbers count as exact. Constants that the bound does not need are ignored.
        eps : float
            The accuracy, at least 1e-300.
        cost_t : float
            The cost of a lower-level step, positive; 1 by default.
        cost_k : float
            The cost of a step of the linear solver, positive; 1 by default.
        steps : StepSchedule, optional
            The steps for w, if the bound takes ρ_t and σ_k.
        steps_v : StepSchedule, optional
            The steps for v; `steps` by default.
        **given : float, array, str or Constant
            Further inputs: measured observables (``r_t=…``), a truncation (``K=…``), and rates by name
            (``rho="heavy-ball"``). `symbols` lists the required names.

        Returns
        -------
        Iterations
            t, k, the bound there, and the cost.

        Raises
        ------
        MissingConstantError
            If a constant that the bound needs is missing.
        UnknownNameError
            If there is no such symbol or rate.
        InputError
            If a value is out of its range, if the bound has no t or k, or if it is above `eps` for all t and k.
        AssumptionError
            If an assumption of the theorem fails for these values, such as q < 1.

        Examples
        --------
        >>> import boundcheck as bc
        >>> known = dict(q=0.5, m_1=0.1, m_2=0.0, V_star=0.1, mse_0=1.0, L_E=1.0, L_Phi_star=1.0)
        >>> known |= dict(nu_1=0.0, nu_2=0.0, eta_1=0.0, eta_2=1.0)
        >>> needed = bc.bounds["sid-orthogonal"].iterations(known, eps=0.1, steps=bc.StepSchedule.decreasing(4, 20))
        >>> needed.t, needed.k
        (66, 66)
        """
        return solve(self, constants, eps, cost_t, cost_k, steps, steps_v, given)

    def call(
        self,
        constants: Constants | Mapping[str, float | Constant],
        t: Any = None,
        k: Any = None,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> Call:
        """Gather the inputs of one evaluation and check them.

        Parameters
        ----------
        constants : Constants, or mapping from str to float or Constant
            The constants by name. Bare numbers count as exact. Constants that the bound does not need are ignored.
        t : int or array of int, optional
            The lower-level steps.
        k : int or array of int, optional
            The steps of the linear solver; `t` by default.
        given : mapping from str to object
            Further inputs, as for `evaluate`; none by default.

        Returns
        -------
        Call
            The evaluation; its `values()` computes the bound.

        Raises
        ------
        MissingConstantError
            If a constant that the bound needs is missing.
        UnknownNameError
            If there is no such symbol or rate.
        InputError
            If a value is out of its range, or shapes do not broadcast.
        AssumptionError
            If a constant violates an assumption, such as q < 1. The conditions of the theorem are checked by
            `values()`.
        """
        return prepare(self, constants, {"t": t, "k": k, **given})

    def proof(self, given: frozenset[str]) -> Chain | None:
        """The proof of the bound as it is evaluated; the last links insert the defaults.

        Parameters
        ----------
        given : frozenset of str
            The names of the symbols that have a value.

        Returns
        -------
        Chain or None
            None if the proof is not encoded.
        """
        if self.chain is None:
            return None
        known = frozenset(symbol.name for symbol in self.defaults) & given
        if known not in self._proofs:
            self._proofs[known] = proof_with_defaults(self.chain, self.defaults, known)
        return self._proofs[known]

    @cached_property
    def _proofs(self) -> dict[frozenset[str], Chain]:
        """The proofs so far, by the names of the defaults that are not needed."""
        return {}

    def latex(self, *, coefficients: bool = True) -> str:
        """The statement as LaTeX.

        Parameters
        ----------
        coefficients : bool
            Whether to keep the shorthand c₁, c₂, c₃ and append its definition (the default), or to write it out.

        Returns
        -------
        str
            The formula.
        """
        return typeset.latex(self, coefficients=coefficients)

    def python(self) -> str:
        """The bound as a standalone Python function that needs only the standard library.

        Returns
        -------
        str
            The source of the function.
        """
        return codegen.python(self)

    def javascript(self) -> str:
        """The bound as a standalone JavaScript function.

        Returns
        -------
        str
            The source of the function.
        """
        return codegen.javascript(self)
