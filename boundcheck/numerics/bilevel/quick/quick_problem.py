"""A user's problem with formulas in place of autograd, if its program has a known form.

The functions are recorded. Values that depend on λ only are computed once for each λ. If the loss is a sum of functions
of linear maps of w, Φ and its derivatives are computed by formulas. At every use, the functions are recorded again and
all numbers of the programs are compared. If a function has changed, its formulas are derived again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel import program_degree
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT, Dynamics
from boundcheck.numerics.bilevel.formulas import D2Outer
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.bilevel.quick import lam_functions, step_functions
from boundcheck.numerics.bilevel.quick.agreement import differs_at_first
from boundcheck.numerics.bilevel.quick.gradient_step import Assembly
from boundcheck.numerics.bilevel.quick.recorded_gradient import (
    gradient_step,
    recorded,
    recorded_products,
    slope_function,
)
from boundcheck.numerics.bilevel.quick.slots import Slots
from boundcheck.numerics.program.recognise.algebra import Algebra, Total, total
from boundcheck.numerics.program.recognise.expression import Expression
from boundcheck.numerics.program.recognise.interpreter import Interpreter
from boundcheck.numerics.program.recognise.stage import Stage, Unknown
from boundcheck.numerics.program.recognise.staged_program import StagedProgram
from boundcheck.numerics.program.recorded_program import Declined, Program
from boundcheck.numerics.program.same_program import Snapshot

LOG = logging.getLogger("boundcheck")
MATRIX_PRODUCTS = frozenset(("mv", "mm", "matmul", "dot", "bmm"))


def quick(problem: Problem) -> Problem:
    """Return the problem with formulas for its present functions, or the problem itself if there are none."""
    if problem.w_layout is None or problem.d1phi_T_at is not None or problem.d2phi_T_at is not None:
        return problem  # a built-in problem, or one with formulas of its own
    functions = _FunctionsOf.of(problem)
    derived = _derived(functions)
    if derived is None:
        return problem
    if not derived.is_of(problem):
        LOG.debug("%s: its functions have changed; recorded again", problem.name)
        _derived.cache_clear()
        derived = _derived(functions)
        if derived is None or not derived.is_of(problem):
            return problem
    return derived.at(problem)


def _first_line(compare: Callable[[], str]) -> str:
    """Return the difference as one line. Errors count too: of the user's code, or of an operation without a rule."""
    try:
        return compare()
    except Exception as error:
        return " ".join(str(error).split())[:200] or type(error).__name__


@dataclass(frozen=True, eq=False)
class _FunctionsOf:
    """The functions of a problem, as a key. Problems that differ only in λ have the same formulas."""

    functions: tuple[Any, ...]
    sizes: tuple[Any, ...]
    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> _FunctionsOf:
        functions = (
            problem.phi_at, problem.outer_at, problem.inner_at, problem.prepare, problem.step_at, problem.dynamics,
        )  # fmt: skip
        sizes = (
            problem.d, problem.n, problem.dtype, problem.device, problem.frozen_step, problem.finite_sum is None,
        )  # fmt: skip
        return cls(functions, sizes, problem)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _FunctionsOf) or self.sizes != other.sizes:
            return False
        return all(x is y for x, y in zip(self.functions, other.functions, strict=True))

    def __hash__(self) -> int:
        return hash((self.sizes, *map(id, self.functions)))


@dataclass(frozen=True, eq=False)
class _Derived:
    """The fields of a problem with formulas, and the programs from which they were derived."""

    fields: dict[str, Any]
    programs: tuple[Snapshot, Snapshot]

    def is_of(self, problem: Problem) -> bool:
        """Return whether the present functions of the problem are those that were recorded."""
        try:
            now = [recorded(problem, function) for function in (_lower(problem), problem.outer_at)]
        except Declined:
            return False
        return all(snapshot.is_of(program) for snapshot, program in zip(self.programs, now, strict=True))

    def at(self, problem: Problem) -> Problem:
        return replace(problem, **self.fields, **_minibatches(problem))


@lru_cache(maxsize=16)
def _derived(functions: _FunctionsOf) -> _Derived | None:
    problem = functions.problem
    for formulas in (True, False):
        try:
            lower, outer = (recorded(problem, function) for function in (_lower(problem), problem.outer_at))
            programs = Snapshot.of(lower), Snapshot.of(outer)
            fields = _fields(problem, lower, outer, formulas) | {"affine": program_degree.is_affine(problem)}
            quick = replace(problem, **fields)
            if reason := _first_line(partial(differs_at_first, problem, quick)):
                raise Unknown(reason)
            return _Derived(fields, programs)
        except Exception as why:  # without formulas, the user's functions are used
            LOG.debug("%s: no formulas%s, as %s", problem.name, "" if formulas else " at all", why)
    return None


@torch.no_grad()
def _fields(problem: Problem, program: Program, outer: Program, formulas: bool) -> dict[str, Any]:
    lower, step = _lower(problem), _StepSize.of(problem)
    stage = Stage(problem.lam, step.example, step.varies)
    stage.follow(Algebra(stage, problem.lam, exact=True))
    slots = Slots(stage)
    fields: dict[str, Any] = {"outer_at": StagedProgram(outer, stage).function(slots.slot)}
    if lower is problem.phi_at:
        fields |= {"phi_at": StagedProgram(program, stage).function(slots.slot)}
    elif formulas:
        fields |= _by_formula(problem, program, stage, slots) | {"inner_at": None}
        fields |= {"d2outer_at": _outer_by_formula(problem, outer, stage, slots)}
    else:
        slope_at = slope_function(problem, lower, program, stage, slots)
        fields |= {"phi_at": gradient_step(slope_at, stage.alpha, slots), "inner_at": None}
    fields |= _prepared(problem, stage, slots, step)
    if fields.get("d1phi_T_at") is None:
        fields["d1phi_T_at"] = recorded_products(problem, fields["phi_at"], fields["prepare"], len(slots.held))
    return fields


def _lower(problem: Problem) -> Callable[[Tensor, Ready], Tensor]:
    """Return the loss of the lower level, or its map if there is no loss."""
    return problem.phi_at if problem.inner_at is None or problem.step_at is None else problem.inner_at


def _by_formula(problem: Problem, program: Program, stage: Stage, slots: Slots) -> dict[str, Any]:
    algebra = Algebra(stage, problem.w0)
    loss = Interpreter(algebra).output(program)
    if not isinstance(loss, Expression | Total):
        raise Unknown("the loss does not depend on w")
    step = Assembly(algebra).of(total(loss))
    return {
        "phi_at": step_functions.phi(step, problem.d, slots),
        "d1phi_T_at": step_functions.d1phi_T(step, slots),
        "d2phi_T_at": lam_functions.d2phi_T(step, stage, problem.d, slots),
    }


def _outer_by_formula(problem: Problem, program: Program, stage: Stage, slots: Slots) -> D2Outer | None:
    if _joins_lam_otherwise(program):
        return None
    try:
        loss = Interpreter(Algebra(stage, problem.w0)).output(program)
    except Unknown:
        return None
    if not isinstance(loss, Expression | Total):
        return None
    return lam_functions.d2outer(total(loss), stage, problem.d, slots)


def _joins_lam_otherwise(program: Program) -> bool:
    """Return whether a value of λ alone is combined with a value of w other than in a matrix product.

    The recognised sum drops terms that do not depend on w, so a term of λ alone would be missing in ∇₂E.
    """
    of_w, of_lam = {0}, {1}
    for number, operation in enumerate(program.operations):
        nodes = {ref.node for ref in operation.refs()}
        if nodes & of_w:
            of_w.add(number)
            if nodes & of_lam and operation.name not in MATRIX_PRODUCTS:
                return True
        elif nodes & of_lam:
            of_lam.add(number)
    return program.output.node in of_lam


@dataclass(frozen=True, eq=False)
class _StepSize:
    """The step α of Φ = w − α∇₁ℓ. `varies` is None for a number, otherwise whether α is differentiated."""

    example: Tensor
    varies: bool | None

    @classmethod
    def of(cls, problem: Problem) -> _StepSize:
        value = 1.0 if problem.step_at is None else problem.step_at(problem.prepare(problem.lam))
        if isinstance(value, Tensor):
            return cls(value.detach().to(problem.w0), problem.frozen_step is not True)
        return cls(torch.tensor(value, dtype=problem.dtype, device=problem.device), None)


def _prepared(problem: Problem, stage: Stage, slots: Slots, step: _StepSize) -> dict[str, Any]:
    """Return the fields `prepare` and `dynamics`. The dynamics read the result of the user's own `prepare`."""
    own_dynamics = problem.dynamics.step is FIXED_POINT.step
    plain = own_dynamics and problem.finite_sum is None
    if not slots.held:
        slots.read(stage.lam)
    run = stage.function([held for held, _ in slots.held])
    fixed = [is_fixed for _, is_fixed in slots.held]
    step_at, user_prepare, example = problem.step_at, problem.prepare, step.example

    def prepare(lam: Tensor) -> tuple[Any, ...]:
        given = None if plain and step.varies is None else user_prepare(lam)
        alpha = example if step.varies is None or step_at is None else torch.as_tensor(step_at(given)).to(lam)
        values = tuple(x.detach() if is_fixed else x for x, is_fixed in zip(run(lam, alpha), fixed, strict=True))
        return values if plain else (*values, given)

    dynamics = problem.dynamics if own_dynamics else _reading_last(problem.dynamics)
    return {"prepare": prepare, "dynamics": dynamics, "step_at": None}


def _minibatches(problem: Problem) -> dict[str, Any]:
    """Return the map on minibatches, which reads the result of the user's own `prepare`, as a field of the problem."""
    if problem.finite_sum is None:
        return {}
    return {"finite_sum": problem.finite_sum.reading(lambda ready: ready[-1])}


def _reading_last(dynamics: Dynamics) -> Dynamics:
    """Return the same dynamics for a tuple whose last entry is the result of the user's `prepare`."""
    coefficients = dynamics.coefficients
    return replace(
        dynamics,
        step=lambda phi, z, ready: dynamics.step(phi, z, ready[-1]),
        adjoint=lambda d1phi_T, v, ready: dynamics.adjoint(d1phi_T, v, ready[-1]),
        coefficients=None if coefficients is None else lambda ready: coefficients(ready[-1]),
    )
