"""Audits against the truth: ``PYTHONPATH=benchmarks python benchmarks/audit_truth.py --problems 1000``.

Problems of the adversary with 70 digits beside them. Of each, one hypergradient is audited: right, random, of few
steps, or with a planted fault. Asked are: is the error between its ends, are the relative error and the angle large
enough, is what is said of descent true, and is the fault that is named the one that was planted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from adversary.ask import _in_time
from adversary.case import Case
from adversary.exact import mp, norm
from adversary.generate import case_of

import boundcheck as bc

PROVED = {bc.Side.EXACT, bc.Side.UPPER}
UNITS = 64  # of rounding: what g loses when the exact vector is stored
PLANTS = ("right", "random", "beside", "itd", "aid-fp", "sign", "implicit sign", "direct", "twice", "implicit twice")
NAMES = {  # the faults that are right for what was planted
    "right": {None}, "random": {None}, "beside": {None}, "itd": {"inner", "linear-solve"},
    "aid-fp": {"inner", "linear-solve"}, "sign": {"sign"}, "implicit sign": {"sign"}, "direct": {"direct-term"},
    "twice": {"scale"}, "implicit twice": {"scale"},
}  # fmt: skip


@dataclass
class Tally:
    """What was said, and what of it was false."""

    asked: Counter[str] = field(default_factory=Counter)
    named: Counter[tuple[str, str]] = field(default_factory=Counter)  # planted and named
    reasons: Counter[str] = field(default_factory=Counter)  # of refusals
    judged: Counter[str] = field(default_factory=Counter)
    lies: list[str] = field(default_factory=list)
    accusations: list[str] = field(default_factory=list)

    def join(self, other: Tally) -> None:
        self.asked += other.asked
        self.named += other.named
        self.reasons += other.reasons
        self.judged += other.judged
        self.lies += other.lies
        self.accusations += other.accusations

    def text(self) -> str:
        lines = [f"{sum(self.asked.values())} problems: " + ", ".join(f"{n} {what}" for what, n in self.asked.items())]
        lines += [f"{n:6d} {what}" for what, n in self.judged.items()]
        lines += [f"{n:6d} refused: {why}" for why, n in self.reasons.most_common()]
        for plant in PLANTS:
            of = {named: n for (planted, named), n in self.named.items() if planted == plant}
            lines.append(f"{plant:15s} " + ", ".join(f"{named} {n}" for named, n in sorted(of.items())))
        lines += [f"{len(self.lies)} false statements", *self.lies]
        lines += [f"{len(self.accusations)} faults with another name than what was planted", *self.accusations]
        return "\n".join(lines)


def vector_of(case: Case, problem: bc.Problem, plant: str, rng: Random) -> Any:
    """The vector to audit, from exact arithmetic but for runs of methods; None where there is no such fault."""
    exact = case.exact
    G = exact.gradient
    direct = exact.d2outer(exact.w_star)
    implicit = [a - b for a, b in zip(G, direct, strict=True)]
    small = mp.mpf(10) ** -3
    if plant in ("implicit sign", "direct", "implicit twice") and not (
        norm(direct) > small * norm(implicit) and norm(implicit) > small * norm(direct)
    ):
        return None
    if plant in ("itd", "aid-fp"):
        return bc.hypergradient(problem, plant, t=rng.choice([2, 5, 12])).value.tolist()
    size = norm(G) or mp.mpf(1)
    noise = [mp.mpf(rng.gauss(0, 1)) * size for _ in G]
    share = mp.mpf(10) ** rng.choice([-6, -3, -1])
    return {
        "right": lambda: G,
        "random": lambda: noise,
        "beside": lambda: [a + share * b for a, b in zip(G, noise, strict=True)],
        "sign": lambda: [-a for a in G],
        "implicit sign": lambda: [a - b for a, b in zip(direct, implicit, strict=True)],
        "direct": lambda: implicit,
        "twice": lambda: [2 * a for a in G],
        "implicit twice": lambda: [a + 2 * b for a, b in zip(direct, implicit, strict=True)],
    }[plant]()


def audit_one(number: int, seed: int, tally: Tally) -> None:
    """One problem, one vector, one audit."""
    rng = Random(f"{seed}-{number}-audit")
    plant = rng.choice(PLANTS)
    try:
        with _in_time():
            case = case_of(number, seed)
            if case.misspelt or case.undefined or case.vacuous or case.exact.w_star is None:
                tally.asked["without a truth"] += 1
                return
            torch.manual_seed(number)
            problem = case.problem()
            g = vector_of(case, problem, plant, rng)
            if g is None:  # a part that is 0 has no sign
                plant = "beside"
                g = vector_of(case, problem, plant, rng)
            value = torch.tensor([float(x) for x in g], dtype=case.dtype)
            found = bc.audit(problem, value)
    except bc.BoundcheckError as why:
        tally.asked["refused"] += 1
        tally.reasons[(str(why).partition(": ")[2] or str(why))[:40]] += 1
        if isinstance(why, bc.AssumptionError):
            tally.lies.append(f"#{number} {plant}: refused a legal problem: {why}")
        return
    except TimeoutError:
        tally.asked["too long"] += 1
        return
    except ZeroDivisionError:
        tally.asked["without a truth"] += 1
        return
    tally.asked["answered"] += 1
    judge(case, plant, value, found, tally)


def judge(case: Case, plant: str, g: torch.Tensor, found: bc.Audit, tally: Tally) -> None:
    """Compare with the truth."""
    G, entries = case.exact.gradient, [mp.mpf(x) for x in g.tolist()]
    error, size, length = case.exact.error(entries), norm(G), norm(entries)
    inner = mp.fdot(entries, G)
    where = f"#{case.number} {plant}"
    proved = found.error.side in PROVED
    slack = 1 + mp.mpf(10) ** -12
    statements = {"error": found.error.lower <= error * slack and error <= found.error.upper * slack}
    if found.relative_error < float("inf"):
        statements["relative error"] = error <= found.relative_error * size * slack
    if length > 0 and size > 0:
        # the angle by the distance of unit vectors: accurate for small ones
        apart = norm([a / length - b / size for a, b in zip(entries, G, strict=True)])
        angle = mp.degrees(2 * mp.asin(min(apart / 2, mp.mpf(1))))
        statements["angle"] = angle <= found.angle * slack + mp.mpf(10) ** -13
    if found.descent is not None:
        statements["descent"] = (inner > 0) is found.descent or (inner == 0 and not found.descent)
    for what, true in statements.items():
        tally.judged[f"{what}, {'proved' if proved else 'estimated'}"] += 1
        if not true and proved:
            tally.lies.append(f"{where}: {what} is false: {found.message} truth {float(error):.6g}, {float(size):.6g}")
        elif not true:
            tally.judged[f"{what}, estimated, false"] += 1
    if len(found.message.splitlines()) != 1:
        tally.lies.append(f"{where}: a message of several lines")
    tally.named[plant, str(found.fault)] += 1
    if found.fault is not None and found.fault not in NAMES[plant]:
        tally.accusations.append(f"{where}: {found.fault}: {found.message} | {case}")


def _piece(job: tuple[range, int]) -> Tally:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tally = Tally()
    for number in job[0]:
        audit_one(number, job[1], tally)
    return tally


def run(numbers: range, seed: int = 0, jobs: int = 1) -> Tally:
    """All of these problems; in this process if there is one job."""
    pieces = [(numbers[i : i + 20], seed) for i in range(0, len(numbers), 20)]
    tally = Tally()
    if jobs == 1:
        for piece in pieces:
            tally.join(_piece(piece))
        return tally
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for one in pool.imap_unordered(_piece, pieces):
            tally.join(one)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where a false statement was found."""
    parser = argparse.ArgumentParser(prog="audit_truth", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.perf_counter()
    tally = run(range(chosen.first, chosen.first + chosen.problems), chosen.seed, chosen.jobs)
    print(tally.text())
    print(f"{time.perf_counter() - start:.0f} s")
    return int(bool(tally.lies))


if __name__ == "__main__":
    sys.exit(main())
