"""A proof as an ordered list of inequalities, from the measured error to the bound.

Each link replaces one measured quantity by its bound in the proof, so the product of the slacks
value_i / value_{i−1} is bound / error. On a concrete problem the slacks show where the proof is loose. A slack
below 1 shows which assumption or constant is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp

from boundcheck.errors import InputError, MissingConstantError
from boundcheck.theory.coefficients import COEFFICIENTS, GRADIENT_DESCENT
from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.lemmas import W_BOUND
from boundcheck.theory.symbols import (
    QUANTITIES,
    D,
    L_Phi,
    L_Phi_star,
    W,
    dE_1,
    dE_2,
    dY,
    dZ,
    eta_1,
    eta_2,
    g_star,
    g_t,
    gap,
    nu_1,
    nu_2,
    q,
    r_0,
    r_t,
)


@dataclass(frozen=True)
class Link:
    """One inequality of a proof.

    Attributes
    ----------
    name : str
        The name in traces.
    formula : sympy.Expr
        The right-hand side.
    because : str
        The justification.
    uses : tuple of str
        The constants that this inequality introduces; a wrong one makes it fail.
    """

    name: str
    formula: sp.Expr
    because: str
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChainValues:
    """An evaluated chain: `values[i]` after link i, `slacks[i] = values[i] / values[i−1]`, `slacks[0] = 1`."""

    links: tuple[Link, ...]
    values: np.ndarray
    slacks: np.ndarray


@dataclass(frozen=True)
class Chain:
    """A proof as an ordered list of inequalities, from the measured error to the bound.

    Attributes
    ----------
    links : tuple of Link
        The inequalities; the first is the measured quantity itself.
    """

    links: tuple[Link, ...]

    @classmethod
    def from_measured(cls, symbol: sp.Symbol) -> Chain:
        """Start a proof with a measured quantity.

        Parameters
        ----------
        symbol : sympy.Symbol
            The quantity, such as the error.

        Returns
        -------
        Chain
            A chain with one link.
        """
        return cls((Link("measured", symbol, QUANTITIES[symbol.name].meaning),))

    def to(self, name: str, formula: sp.Expr, because: str, uses: tuple[str, ...] = ()) -> Chain:
        """Add a link with a new formula.

        Parameters
        ----------
        name : str
            The name of the link.
        formula : sympy.Expr
            The right-hand side.
        because : str
            The justification.
        uses : tuple of str
            The constants that the link introduces; none by default.

        Returns
        -------
        Chain
            The longer proof.
        """
        return Chain((*self.links, Link(name, formula, because, uses)))

    def replacing(
        self, name: str, replacements: Mapping[sp.Symbol, sp.Expr], because: str, uses: tuple[str, ...] = ()
    ) -> Chain:
        """Add a link that replaces symbols of the last formula by their bounds.

        Parameters
        ----------
        name : str
            The name of the link.
        replacements : mapping from sympy.Symbol to sympy.Expr
            The bound on each symbol.
        because : str
            The justification.
        uses : tuple of str
            The constants that the link introduces; none by default.

        Returns
        -------
        Chain
            The longer proof.
        """
        return self.to(name, self.links[-1].formula.subs(replacements, simultaneous=True), because, uses)

    def with_lipschitz_derivatives(self) -> Chain:
        """Add a link that bounds every difference between values at w_t and at w* by a Lipschitz constant times r_t.

        Returns
        -------
        Chain
            The longer proof.
        """
        return self.replacing(
            "Lipschitz derivatives",
            {dE_2: eta_2 * r_t, dE_1: eta_1 * r_t, dZ: nu_2 * r_t, dY: nu_1 * r_t},
            "Assumptions 1(iii) and 1(iv)",
            ("nu_1", "nu_2", "eta_1", "eta_2"),
        )

    def with_gradient_near_solution(self) -> Chain:
        """Add a link that bounds ‖∇₁E(w_t)‖ by its value at w* and r_t.

        Returns
        -------
        Chain
            The longer proof.
        """
        return self.replacing("∇₁E near w*", {g_t: g_star + eta_1 * r_t}, "Assumption 1(iv)", ("g_star", "eta_1"))

    def with_paper_constants(self) -> Chain:
        """Add the last three links of the proofs of ITD and AID-FP.

        Returns
        -------
        Chain
            The longer proof.
        """
        return (
            self.replacing("‖w'‖", {W: W_BOUND}, "Lemma 2.2, and w' = (I−∂₁Φ)⁻¹∂₂Φ at w*", ("L_Phi_star", "q"))
            .replacing("∂₂Φ on the ball", {L_Phi_star: L_Phi}, "Lemma 2.1: ‖∂₂Φ(w*)‖ ≤ L_Φ", ("L_Phi",))
            .replacing("start", {r_0: D}, "w_0 = 0, so r_0 = ‖w(λ)‖ ≤ D", ("D",))
        )

    def with_gradient_step(self) -> Chain:
        """Add the last links of these proofs for Φ = w − α(λ)∇₁ℓ, `appB`.

        The constants are those of a gradient step, and L_Φ is needed at w* only.

        Returns
        -------
        Chain
            The longer proof.
        """
        forms = {1 - q: GRADIENT_DESCENT[gap], **{x: GRADIENT_DESCENT[x] for x in (q, nu_1, nu_2)}}
        at_w_star = W_BOUND.subs(L_Phi_star, GRADIENT_DESCENT[L_Phi])
        return (
            self.replacing("‖w'‖", {W: at_w_star}, "w' = (I−∂₁Φ)⁻¹∂₂Φ and ∂₂Φ = −α∇²₂₁ℓ at w*", ("L_ell", "q"))
            .replacing("start", {r_0: D}, "w_0 = 0, so r_0 = ‖w(λ)‖ ≤ D", ("D",))
            .specialised(forms)
        )

    def specialised(self, forms: Mapping[sp.Expr, sp.Expr]) -> Chain:
        """Replace constants in every link.

        Parameters
        ----------
        forms : mapping from sympy.Expr to sympy.Expr
            The expression that replaces each constant.

        Returns
        -------
        Chain
            A chain with the same number of links.
        """
        made_of = {str(x): tuple(sorted(s.name for s in form.free_symbols)) for x, form in forms.items()}

        def same(link: Link) -> Link:
            uses = dict.fromkeys(name for used in link.uses for name in made_of.get(used, (used,)))
            return replace(link, formula=link.formula.subs(forms, simultaneous=True), uses=tuple(uses))

        return Chain(tuple(same(link) for link in self.links))

    @cached_property
    def formulas(self) -> tuple[sp.Expr, ...]:
        """The right-hand sides in the primitive constants."""
        return tuple(link.formula.subs(COEFFICIENTS) for link in self.links)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols of the chain, in the order of the vocabulary."""
        needed = {symbol.name for formula in self.formulas for symbol in formula.free_symbols}
        return tuple(name for name in QUANTITIES if name in needed)

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of the quantities that have to be measured on a run."""
        return tuple(name for name in self.symbols if QUANTITIES[name].kind == "observable")

    def evaluate(self, values: Mapping[str, np.ndarray | float]) -> ChainValues:
        """Evaluate every link.

        Parameters
        ----------
        values : mapping from str to float or ndarray
            The constants and the observables by name, as numbers or as arrays over t.

        Returns
        -------
        ChainValues
            The value after each link, and the slacks; 0/0 counts as slack 1.

        Raises
        ------
        MissingConstantError
            If a value is missing.
        InputError
            If a value is out of its range, or shapes do not broadcast.
        """
        missing = [name for name in self.symbols if name not in values]
        if missing:
            raise MissingConstantError(
                f"the chain needs {missing[0]} ({QUANTITIES[missing[0]].meaning}); missing: {', '.join(missing)}"
            )
        arrays = {name: np.asarray(values[name], float) for name in self.symbols}
        for name, array in arrays.items():
            for extreme in (array.min(), array.max()) if array.size else ():
                QUANTITIES[name].check(float(extreme))
        try:
            np.broadcast_shapes(*(array.shape for array in arrays.values()))
        except ValueError:
            listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items() if array.ndim)
            raise InputError(f"shapes do not fit together: {listed}; give arrays that broadcast") from None
        stack = np.stack([evaluate(formula, arrays) for formula in self.formulas])
        previous = np.concatenate([stack[:1], stack[:-1]])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slacks = np.where((stack == 0) & (previous == 0), 1.0, stack / previous)
        slacks[0] = 1.0
        return ChainValues(self.links, stack, slacks)
