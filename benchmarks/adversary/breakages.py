"""Ways to break boundcheck on purpose, and after how many problems the adversary notices each.

``PYTHONPATH=benchmarks python -m adversary.breakages --most 400``. A breakage replaces one name of the library; if the
name is gone, it says so instead of passing: find what took its place, and change the one line. A breakage is noticed at
the first problem with a false statement of which the library as it is says nothing false; an exception does not count,
as it may come from the breakage itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import torch

import boundcheck as bc

from .ask import ask

Change = Callable[[Any], Any]  # from what the name stands for to what takes its place


@dataclass(frozen=True)
class Breakage:
    """What is broken, in words, and the names that are replaced."""

    words: str
    changes: tuple[tuple[str, str, Change], ...]  # module, name in it, change
    call: str | None = None  # the only call that can show it, to save time


@contextmanager
def broken(breakage: Breakage) -> Iterator[None]:
    """The library with this breakage; AttributeError where a name is gone."""
    with ExitStack() as stack:
        for path, name, change in breakage.changes:
            *owner, last = name.split(".")
            place: Any = import_module(path)
            for part in owner:
                place = getattr(place, part)
            if not hasattr(place, last):
                raise AttributeError(
                    f"{path}.{name} is gone; adapt the breakage {breakage.words!r} to what replaced it"
                )
            original = getattr(place, last)
            setattr(place, last, change(original))
            stack.callback(setattr, place, last, original)
        yield


def _constants(change: Callable[[Any], Any]) -> Change:
    """On the constants of one ball, as they leave the estimator."""
    return lambda original: lambda *args, **kwargs: change(original(*args, **kwargs))


def _half_eta_1(found: Any) -> Any:
    return found.replace(replace(found["eta_1"], value=0.5 * found["eta_1"].value)) if "eta_1" in found else found


def _q_star_as_q(found: Any) -> Any:
    return found.replace(replace(found["q_star"], name="q"))


def _exact(original: Any) -> Any:
    def measure(*args: Any, **kwargs: Any) -> Any:
        return replace(original(*args, **kwargs), side=bc.Side.EXACT)

    return measure


def _without_residual(original: Any) -> Any:
    def distances(problem: Any, solution: Any, *args: Any) -> Any:
        w, w0 = solution.w[0], problem.w0
        for constant in original(problem, solution, *args):
            value = float(w.norm()) if constant.name == "D" else float((w0 - w).norm())
            yield replace(constant, value=value)

    return distances


def _no_floor(original: Any) -> Any:
    def curve(run: Any, *rest: Any) -> Any:
        return original(replace(run, floor=np.zeros_like(run.floor)), *rest)

    return curve


def _no_rounding(original: Any) -> Any:
    def of(problem: Any, found: Any) -> Any:
        computed = float(found.residual_w[0]), float(found.residual_v[0])
        return replace(original(problem, found), w=computed[0], v=computed[1], g=0.0, doubt="")

    return of


def _linear(original: Any) -> Any:
    return import_module(f"{NUMERICS}.program.polynomial_degree")._largest


def _confirmed(original: Any) -> Any:
    everything = import_module(f"{NUMERICS}.bilevel.derivative_check").Confirmation()
    return lambda *args, **kwargs: everything


def _too_large(original: Any) -> Any:
    return lambda plugs, run: original([(holder, name, 1.01 * tensor) for holder, name, tensor in plugs], run)


def _never(original: Any) -> Any:
    return lambda *args, **kwargs: False


def _always(original: Any) -> Any:
    yes = import_module(f"{COMPARE}.case").YES
    return lambda *args, **kwargs: yes


def _nothing(original: Any) -> Any:
    return lambda *args, **kwargs: None


NUMERICS, COMPARE = "boundcheck.numerics", "boundcheck.compare"
ESTIMATE = f"{NUMERICS}.estimate.estimate_constants"
BREAKAGES = (
    Breakage(
        "estimates from sampled points are called exact",
        ((f"{NUMERICS}.estimate.suprema", "measure", _exact),),
    ),
    Breakage("η₁ is half of what it is", ((ESTIMATE, "_on_ball", _constants(_half_eta_1)),)),
    Breakage("q* at one point is called q", ((ESTIMATE, "_on_ball", _constants(_q_star_as_q)),)),
    Breakage(
        "D and r_0 without the residual", ((f"{NUMERICS}.estimate.derived_constants", "distances", _without_residual),)
    ),
    Breakage(
        "a verdict knows no rounding",
        (("boundcheck.report.verdict", "excess", lambda original: lambda errors, values, floor: errors > values),),
        "check",
    ),
    Breakage("the floor is 0", ((f"{COMPARE}.judge", "curve", _no_floor),), "check"),
    Breakage(
        "an enclosure knows no rounding",
        ((f"{NUMERICS}.estimate.residual_bounds", "of", _no_rounding),),
        "enclose",
    ),
    Breakage(
        "a module's weights are swapped in a per cent too large",
        ((f"{NUMERICS}.program.torch_modules", "run_with", _too_large),),
    ),
    Breakage(
        "a problem is not looked at beforehand",
        (
            (f"{NUMERICS}.estimate.validate", "check", _confirmed),
            (f"{NUMERICS}.bilevel.derivative_check", "on_arrival", _nothing),
            (f"{NUMERICS}.bilevel.derivative_check", "at_solution", _confirmed),
        ),
    ),
    Breakage("every operation counts as linear", ((f"{NUMERICS}.program.polynomial_degree", "_anything", _linear),)),
    Breakage("claims are never refuted", ((f"{NUMERICS}.estimate.user_claims", "refuted", _never),)),
    Breakage(
        "every assumption is met",
        ((f"{COMPARE}.judge", "question", _always), (f"{COMPARE}.plan", "question", _always)),
        "plan",
    ),
)


def noticed(breakage: Breakage, most: int, seed: int = 0) -> tuple[int, str] | None:
    """The number of problems until the breakage shows, and the line that shows it; None if it never does."""
    for number in range(most):
        with broken(breakage):
            told = ask(number, seed, breakage.call).lies
        lies = [line for kind, line in told if kind != "exception"]
        if lies and not ask(number, seed, breakage.call).lies:
            return number + 1, lies[0]
    return None


def main() -> int:
    """A table; 1 where a breakage was not noticed."""
    parser = argparse.ArgumentParser(prog="adversary.breakages", description=__doc__)
    parser.add_argument("--most", type=int, default=400, help="problems to try for each breakage")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    missed = 0
    for breakage in BREAKAGES:
        found = noticed(breakage, chosen.most, chosen.seed)
        missed += found is None
        after = "never" if found is None else f"{found[0]:5d}"
        print(f"{after}  {breakage.words}" + ("" if found is None else f"\n           {found[1][:200]}"), flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
