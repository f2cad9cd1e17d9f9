"""The sizes of a problem that determine the costs of its curves, and costs that several algorithms share.

Arithmetic is counted in multiplications and additions of matrix products. A pass over a number in memory counts as
`PASS` of them. The factors are rough, because the choice matters only if the costs are very different.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from boundcheck.numerics.bilevel.derivatives import DENSE, rows, used
from boundcheck.numerics.bilevel.formulas import DataMatrix, Diagonal, OuterProducts, for_columns
from boundcheck.numerics.bilevel.prepared import Leaves, Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready

PASS = 10  # arithmetic that takes as long as one pass over a number in memory, on one core
FEW_DATA = 4  # use no dense matrices if d > FEW_DATA * rows of data
FORMULA_PASSES = 2  # passes over the state in a product with ∂₁Ψ by formula
AUTOGRAD_PASSES = 4  # passes over the state in a product with ∂₁Ψ by autograd
AUTOGRAD_MAPS = 2  # arithmetic of a product with ∂₁Ψ by autograd, in evaluations of Φ
WIDTHS = 6  # number of copies of the intermediate numbers of Φ in memory for a row of a batched product


class D1Formula(Enum):
    """The problem's formula for ∂₁Φᵀv."""

    NONE = auto()
    GENERAL = auto()
    DATA = auto()  # diag(diagonal) + Uᵀdiag(weight)U with rows of data U
    ISOTROPIC_DATA = auto()  # diagonal·I + weight·UᵀU with two numbers


class D2Formula(Enum):
    """The problem's formula for ∂₂Φᵀv."""

    NONE = auto()
    GENERAL = auto()
    DIAGONAL = auto()
    SUMMED = auto()  # outer products, which can be summed over points without forming each


@dataclass(frozen=True)
class ProblemSizes:
    """The length of the run, the dimension, and the size of a number."""

    T: int
    d: int
    element: int  # bytes of a number


@dataclass(frozen=True)
class MapSizes:
    """The map Φ and the dynamics."""

    phi: int  # arithmetic of one evaluation of Φ
    copies: int = 1  # number of iterates in a state
    d1: D1Formula = D1Formula.NONE
    data: int = 0  # number of rows of data in ∂₁Φ, if it has the form of a `DataMatrix`
    symmetric: bool = False  # whether ∂₁Φ is symmetric
    affine: bool = False  # whether ∂₁Φ is one matrix for each λ
    fixed_steps: bool = False  # whether steps depend on λ only through Φ


@dataclass(frozen=True)
class LamSizes:
    """The hyperparameters λ and the tensors ("leaves") that the problem prepares from them."""

    n: int
    leaves: int  # number of entries of all leaves
    largest_leaf: int  # number of entries of the largest leaf
    d2: D2Formula = D2Formula.NONE
    d2outer: bool = False  # whether the problem has a formula for ∇₂E


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine the costs for one λ."""

    problem: ProblemSizes
    map: MapSizes
    lam: LamSizes

    @property
    def state(self) -> int:
        """The length of a state z."""
        return self.problem.d * self.map.copies

    @property
    def width(self) -> int:
        """The approximate number of intermediate numbers of one Φ, such as one for each example of the data.

        A matrix product takes 2d operations for each number that it computes.
        """
        return self.map.phi // (2 * self.problem.d)

    @property
    def product_by_formula(self) -> bool:
        """Whether ∂₁Φ is symmetric and has a formula."""
        return self.map.d1 is not D1Formula.NONE and self.map.symmetric

    @property
    def lam_by_formula(self) -> bool:
        """Whether all derivatives by λ have formulas, which are called for one λ at a time."""
        return self.lam.d2 is not D2Formula.NONE and self.lam.d2outer

    @property
    def leaves_like_lam(self) -> bool:
        """Whether the leaves are λ itself, or vectors no longer than λ."""
        return self.lam.largest_leaf <= self.lam.n

    @property
    def few_data(self) -> bool:
        """Whether ∂₁Φ is a diagonal plus few data. Then neither λ nor the reference needs dense matrices."""
        is_data = self.map.d1 in (D1Formula.DATA, D1Formula.ISOTROPIC_DATA)
        is_few = is_data and self.map.data * FEW_DATA < self.problem.d
        return is_few and self.lam.d2 is not D2Formula.NONE and not self.map.affine

    @property
    def rank(self) -> int:
        """The rank of ∂₁Φ up to a multiple of I, if it is known from the formula; otherwise 0."""
        return self.map.data if self.map.d1 is D1Formula.ISOTROPIC_DATA else 0

    @property
    def shared_backward(self) -> bool:
        """Whether `itd_backward_shared` applies."""
        diagonal = self.lam.d2 is D2Formula.DIAGONAL
        return self.product_by_formula and diagonal and (self.map.copies == 1 or self.map.fixed_steps)

    @property
    def eigenbasis(self) -> bool:
        """Whether `itd_eigenbasis` applies."""
        return self.map.affine and self.map.symmetric and self.problem.d <= DENSE and self.map.fixed_steps


def measure(problem: Problem, prepared: Prepared, T: int) -> Sizes:
    """Return the sizes of T steps of a problem. `prepared` has one row, the λ."""
    tensors = prepared.leaves.tensors
    formula = for_columns(problem.d1phi_T_at)
    d1 = None if formula is None else formula(problem.w0, prepared.each[0])
    d2 = None if problem.d2phi_T_at is None else problem.d2phi_T_at(problem.w0[None], prepared.each[0])
    return Sizes(
        ProblemSizes(T=T, d=problem.d, element=problem.w0.element_size()),
        MapSizes(
            phi=_arithmetic_of_phi(problem, prepared),
            copies=problem.dynamics.copies,
            d1=_d1_formula(d1),
            data=len(d1.U) if isinstance(d1, DataMatrix) else 0,
            symmetric=problem.symmetric is True,
            affine=problem.affine,
            fixed_steps=fixed_steps(problem, prepared.leaves, problem.dynamics.start(problem.w0).expand(1, 1, -1)),
        ),
        LamSizes(
            n=problem.n,
            leaves=sum(leaf.numel() for leaf in tensors),
            largest_leaf=max((leaf.numel() for leaf in tensors), default=0),
            d2=_d2_formula(d2),
            d2outer=problem.d2outer_at is not None,
        ),
    )


def fixed_steps(problem: Problem, leaves: Leaves, z: Tensor) -> bool:
    """Return whether a step from z, of shape (λ, 1, state), depends on λ only through Φ, not through coefficients."""

    def coefficients(z: Tensor, ready: Ready) -> Tensor:
        return problem.dynamics.step(lambda w: w, z, ready)

    return not used(leaves, rows(coefficients), z).active


def _arithmetic_of_phi(problem: Problem, prepared: Prepared) -> int:
    """Return the arithmetic of one Φ at w_0, counted on two rows, because products with vectors are not counted."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rows(problem.phi_at)(problem.w0.expand(1, 2, -1), prepared.ready)
    return int(counter.get_total_flops()) // 2


def _d1_formula(d1: object) -> D1Formula:
    if isinstance(d1, DataMatrix):
        return D1Formula.ISOTROPIC_DATA if d1.isotropic else D1Formula.DATA
    return D1Formula.NONE if d1 is None else D1Formula.GENERAL


def _d2_formula(d2: object) -> D2Formula:
    if isinstance(d2, Diagonal):
        return D2Formula.DIAGONAL
    if isinstance(d2, OuterProducts):
        return D2Formula.SUMMED
    return D2Formula.NONE if d2 is None else D2Formula.GENERAL


def product(sizes: Sizes) -> int:
    """Return the arithmetic of one transposed product with ∂₁Ψ, by formula if there is one."""
    if sizes.product_by_formula:
        return sizes.map.phi + FORMULA_PASSES * PASS * sizes.state
    return autograd_product(sizes)


def autograd_product(sizes: Sizes) -> int:
    """Return the arithmetic of one transposed product with ∂₁Ψ by autograd."""
    return AUTOGRAD_MAPS * sizes.map.phi + AUTOGRAD_PASSES * PASS * sizes.state


def pull_back(sizes: Sizes) -> int:
    """Return the arithmetic of pulling one cotangent of the leaves back to λ."""
    return PASS * sizes.lam.n if sizes.leaves_like_lam else 2 * sizes.lam.leaves * sizes.lam.n
