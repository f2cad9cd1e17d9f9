"""The recorded programs of a problem's functions. They are compared with the functions and updated on changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.recorded_program import Declined, Program
from boundcheck.numerics.program.replay import differs
from boundcheck.numerics.program.same_program import Snapshot

AtPoints = dict[str, list[tuple[Tensor, ScalarBounds | MapBounds]]]  # by level, points with the bounds at them


@dataclass(frozen=True, eq=False)
class Shared:
    """Results that proofs of the same programs share at one λ. Apart from w and λ, the programs contain all numbers."""

    lam: list[Tensor] = field(default_factory=list)  # at most one
    at: AtPoints = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)  # other results, by a key that they depend on

    def at_lam(self, lam: Tensor) -> Shared:
        """Return this object, and clear it first if its results belong to another λ."""
        if not (self.lam and torch.equal(self.lam[0], lam)):
            self.at.clear()
            self.known.clear()
            self.lam[:] = [lam.detach().clone()]
        return self


@dataclass(frozen=True, eq=False)
class RecordedFunctions:
    """The programs of a problem by level ("lower", "outer"), copies of their data, and why a program is missing."""

    programs: dict[str, Program]
    snapshots: dict[str, Snapshot]
    declined: dict[str, str]
    shared: Shared = field(default_factory=Shared)


def functions(problem: Problem) -> dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]]:
    """Return for each level the user's name of the function, and the function of w and λ."""
    has_loss = problem.inner_at is not None and problem.step_at is not None
    lower = problem.inner_at if has_loss and problem.inner_at is not None else problem.phi_at

    def of_both(function: Callable[[Tensor, Ready], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda w, lam: function(w, problem.prepare(lam))

    return {
        "lower": ("inner_loss" if has_loss else "the map", of_both(lower)),
        "outer": ("outer_loss", of_both(problem.outer_at)),
    }


@lru_cache(maxsize=16)
def recorded_functions(problem: Problem) -> RecordedFunctions:
    programs, snapshots, declined = {}, {}, {}
    for level, (name, function) in functions(problem).items():
        try:
            programs[level] = capture(function, problem.w0, problem.lam, EXPANSIONS)
        except Declined as why:
            declined[level] = f"{name}: {why}"
            continue
        if reason := _difference(problem, level, programs[level]):
            declined[level] = f"{name}: {reason}"
            del programs[level]
            continue
        try:
            snapshots[level] = Snapshot.of(programs[level], sparse=True)
        except Declined as why:  # without a snapshot, changes of the function could not be noticed
            declined[level] = f"{name}: {why}"
            del programs[level]
    return RecordedFunctions(programs, snapshots, declined)


def has_changed(problem: Problem, level: str, recorded: RecordedFunctions) -> bool:
    """Return whether the function of a level has changed, by recording it again and comparing all numbers."""
    snapshot = recorded.snapshots[level]
    try:
        now = capture(functions(problem)[level][1], problem.w0, problem.lam, EXPANSIONS)
    except Declined:
        return True
    return not snapshot.is_of(now)


def _difference(problem: Problem, level: str, program: Program) -> str:
    """Say how a program differs from its function at some points; empty if it does not."""
    try:
        return differs(program, functions(problem)[level][1], problem.w0, problem.lam)
    except Exception as error:  # away from w_0, the user's code may raise any error
        return " ".join(str(error).split())[:200]
