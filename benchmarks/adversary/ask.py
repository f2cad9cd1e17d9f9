"""One problem, one call of the library, and what of its answer is false."""

from __future__ import annotations

import contextlib
import io
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

import boundcheck as bc

from . import judge
from .case import Case
from .generate import case_of
from .judge import Lie

CALLS = {"hypergradient": 25, "estimate_constants": 30, "enclose": 25, "check": 13, "plan": 7}
BUDGET = 12  # products for each constant
LONGEST = 30  # seconds of work that a problem may take
METHODS = ("itd", "aid-fp", "aid-cg")
BOUNDS = {  # one of the paper and the local ones, for each method: all would take the time of ten problems
    "itd": ("itd", "itd-local", "itd-recursive"),
    "aid-fp": ("aid-fp", "aid-fp-local", "aid-posteriori"),
    "aid-cg": ("aid-cg", "aid-cg-local", "aid-certificate"),
}
EXPECTED = ("`torch.jit.script` is deprecated",)  # from inside torch, when forward mode is first used


@dataclass(frozen=True)
class Answer:
    """What came of one problem."""

    number: int
    kinds: tuple[str, ...]
    call: str
    legal: bool
    refusal: str  # the message, or nothing
    lies: tuple[tuple[str, str], ...]  # kind and line
    seconds: float
    judged: Counter[str]  # statements that were compared with the truth, by kind


def ask(number: int, seed: int = 0, call: str | None = None) -> Answer:
    """Make problem `number`, put one question about it, and judge the answer."""
    start = time.process_time()
    try:
        with _in_time():
            case = case_of(number, seed)
    except TimeoutError:
        told = ("too long", f"too long: problem {number} of seed {seed} cannot be made in {LONGEST} s")
        return Answer(number, (), "none", False, "", (told,), time.process_time() - start, Counter())
    return ask_of(case, Random(f"{seed}-{number}-call"), call)


def ask_of(case: Case, rng: Random, call: str | None = None) -> Answer:
    """The same of any case."""
    start = time.process_time()
    chosen = call or rng.choices(list(CALLS), list(CALLS.values()))[0]
    if chosen == "plan" and call is None and "slow" in case.kinds and rng.random() < 0.9:
        chosen = "enclose"  # millions of steps take seconds to plan
    method = rng.choice(METHODS)
    if method == "aid-cg" and case.lopsided and rng.random() < 0.7:  # mostly to be refused, so not too often
        method = "aid-fp"
    legal = case.legal and not (method == "aid-cg" and case.lopsided)
    refusal, lies, before = "", [], Counter(judge.JUDGED)
    said = io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(said), _in_time():
        warnings.simplefilter("always")
        try:
            lies += list(_put(case, chosen, method, rng))
        except bc.BoundcheckError as why:
            refusal = str(why) or "refused without a word"
        except TimeoutError:
            lies.append(Lie("too long", case, f"{chosen} took more than {LONGEST} s"))
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            lies.append(Lie("exception", case, f"{chosen}: {type(error).__name__}: {text}"))
    if "\n" in refusal:
        lies.append(Lie("message of several lines", case, " ".join(refusal.split())[:200]))
    for warning in warned:
        if not str(warning.message).startswith(EXPECTED):
            lies.append(Lie("warning", case, f"{chosen}: {str(warning.message)[:200]}"))
    if said.getvalue():
        lies.append(Lie("stderr", case, f"{chosen}: {said.getvalue()[:200]}"))
    told = tuple(dict.fromkeys((lie.kind, str(lie)) for lie in lies))
    took, judged = time.process_time() - start, judge.JUDGED - before
    return Answer(case.number, case.kinds, chosen, legal, refusal, told, took, judged)


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """A TimeoutError after `LONGEST` seconds of work, and again and again if somebody catches it."""

    def ring(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, LONGEST, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _put(case: Case, call: str, method: str, rng: Random) -> Iterator[Lie]:
    torch.manual_seed(case.number)
    problem = case.problem()
    if case.misspelt:
        yield Lie("misspelt claim accepted", case, f"known = {dict(case.claims)}")
        return
    yield from {
        "hypergradient": _hypergradient,
        "estimate_constants": _constants,
        "enclose": _enclose,
        "check": _check,
        "plan": _plan,
    }[call](case, problem, method, rng)


def _hypergradient(case: Case, problem: bc.Problem, method: str, rng: Random) -> Iterator[Lie]:
    method = "exact" if rng.random() < 0.25 else method
    t = rng.choice([3, 10, 25])
    found = bc.hypergradient(problem, method, t=t)
    yield from judge.derivative(case, method, t, found.value.tolist())


def _constants(case: Case, problem: bc.Problem, method: str, rng: Random) -> Iterator[Lie]:
    ball = rng.choice(["paper", "local"])
    found = bc.estimate_constants(problem, ball=ball, budget=BUDGET)
    if case.undefined:
        yield Lie("undefined", case, "constants of what is no function")
        return
    yield from judge.constants(case, found, ball)


def _enclose(case: Case, problem: bc.Problem, method: str, rng: Random) -> Iterator[Lie]:
    method = "exact" if rng.random() < 0.25 else method
    if rng.random() < 0.25:
        g: Any = torch.tensor([rng.gauss(0, 1) for _ in case.lam], dtype=case.dtype)
    else:
        g = bc.hypergradient(problem, method, t=rng.choice([2, 8, 30])).value
    found = bc.enclose(problem, g, budget=BUDGET)
    if case.undefined:
        if found.side in judge.PROVED:
            yield Lie("undefined", case, "an enclosure for what is no function")
        return
    yield from judge.enclosure(case, g.tolist(), found)


def _check(case: Case, problem: bc.Problem, method: str, rng: Random) -> Iterator[Lie]:
    bounds = BOUNDS[method] if rng.random() < 0.9 else None
    found = bc.check(problem, [method], t=rng.choice([3, 8, 20]), bounds=bounds, budget=BUDGET, proofs=bounds is None)
    yield from judge.report(case, found, problem)


def _plan(case: Case, problem: bc.Problem, method: str, rng: Random) -> Iterator[Lie]:
    size = 1.0
    if case.exact.w_star is not None and not case.undefined:
        size = float(case.exact.error([0.0] * len(case.lam))) or 1.0
    eps = size * rng.choice([0.5, 0.1, 1e-2, 1e-4, 1e-25])
    brief = "slow" not in case.kinds  # else a run takes a minute, and is right to
    yield from judge.plan(case, bc.plan(problem, eps=eps, methods=[method], budget=BUDGET, run=brief))
