"""Hypergradients to a tolerance against a truth of 70 digits: ``python benchmarks/tolerance_truth.py --problems 1000``.

The problems are those of the adversary. What is proved must be true: the error lies between its two ends and within the
tolerance, the angle is not larger than said, and a descent direction is one. Of estimates the calibration is shown: the
quantiles of estimate/error.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import warnings
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from adversary import log
from adversary.generate import case_of
from adversary.log import Chunk

import boundcheck as bc

SLACK = 1e-12  # relative: this judge computes norms of the truth in float64
TOLERANCES = (0.5, 0.1, 1e-2, 1e-4)
SEED = 0  # of the adversary's problems
PIECE = 20  # problems in a line of the log
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass
class Tally:
    """What came of all problems."""

    problems: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)
    calibration: list[float] = field(default_factory=list)  # estimate/error of g where it is not proved
    of_proved: list[float] = field(default_factory=list)  # upper/error where it is

    def join(self, other: Tally) -> None:
        """Add another one."""
        self.problems += other.problems
        self.kinds.update(other.kinds)
        self.false += other.false
        self.calibration += other.calibration
        self.of_proved += other.of_proved

    def to_json(self) -> dict[str, Any]:
        """As a line of a log."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Tally:
        """From a line of a log."""
        values = {part.name: given[part.name] for part in fields(cls)}
        return cls(**{**values, "kinds": Counter(values["kinds"])})


def ask(number: int) -> Tally:
    """One problem."""
    tally, rng = Tally(1), Random(f"tolerance-{number}")
    case = case_of(number, SEED)
    rtol, prove = rng.choice(TOLERANCES), rng.random() < 0.8
    torch.manual_seed(number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            g = bc.hypergradient(case.problem(), rtol=rtol, prove=prove)
    except bc.BoundcheckError as why:
        tally.kinds[f"refused: {type(why).__name__}"] += 1
        if "\n" in str(why):
            tally.false.append(f"#{number}: a message of several lines")
        return tally
    except Exception as error:
        tally.false.append(f"#{number}: {type(error).__name__}: {' '.join(str(error).split())[:150]}")
        return tally
    if case.undefined:
        tally.kinds["no function"] += 1
        if g.how == "proved":
            tally.false.append(f"#{number}: proved of what is not a function")
        return tally
    if case.exact.w_star is None:  # steps of Φ do not come to rest, so that the truth knows no fixed point
        tally.kinds["no truth"] += 1
        return tally
    tally.kinds[g.how] += 1
    error = float(case.exact.error(g.value.tolist()))
    if not math.isfinite(error):
        tally.kinds["no truth"] += 1
        return tally
    if g.how != "proved":
        if error > 1e-12 * float(g.value.norm()) and float(g.error.upper) > 0:
            tally.calibration.append(float(g.error.upper) / error)
        return tally
    if error > 0:
        tally.of_proved.append(float(g.error.upper) / error)
    tally.false += [f"#{number}: {line}" for line in _false(g, rtol, error, np.array(case.exact.gradient, float))]
    return tally


def _false(g: bc.AccurateHypergradient, rtol: float, error: float, truth: np.ndarray) -> list[str]:
    lower, upper, size = float(g.error.lower), float(g.error.upper), float(np.linalg.norm(truth))
    lines = []
    if not lower * (1 - SLACK) <= error <= upper * (1 + SLACK):
        lines.append(f"error {error:.6g} is not in [{lower:.6g}, {upper:.6g}]")
    if error > rtol * size * (1 + SLACK):
        lines.append(f"error {error:.6g} > rtol·‖∇f‖ = {rtol * size:.6g}")
    if error > g.relative_error * size * (1 + SLACK):
        lines.append(f"relative error {error / size:.6g} > {g.relative_error:.6g}")
    inner = float(g.value.double().numpy() @ truth)
    if g.descent is not None and inner and g.descent is not (inner > 0):
        lines.append(f"descent is {g.descent}, and ⟨g, ∇f⟩ = {inner:.3g}")
    unit = g.value.double().numpy() / max(float(g.value.double().norm()), 1e-300)
    angle = (
        2 * math.degrees(math.atan2(*(float(np.linalg.norm(unit + s * truth / size)) for s in (-1, 1)))) if size else 0
    )
    if angle > g.angle + 1e-6:
        lines.append(f"angle {angle:.6g}° > {g.angle:.6g}°")
    return lines


def _single_thread() -> None:
    torch.set_num_threads(1)


def _piece(numbers: range) -> tuple[range, Tally]:
    tally = Tally()
    for number in numbers:
        tally.join(ask(number))
    return numbers, tally


def run(first: int, problems: int, jobs: int, path: Path | None = None) -> Tally:
    """Problems number `first` … on several processes; of those in the log at `path` only what the log says."""
    code, total, size = log.code(), Tally(), 1 if path is None else PIECE
    numbers = range(first, first + problems)
    before = log.read(path, Tally) if path is not None else []
    for chunk in before:
        if chunk.seed == SEED:
            total.join(chunk.tally)
    with multiprocessing.get_context("spawn").Pool(jobs, _single_thread) as pool:
        for piece, tally in pool.imap_unordered(_piece, log.left(before, numbers, SEED, size)):
            if path is not None:
                log.append(path, Chunk(SEED, piece.start, code, tally))
            total.join(tally)
            for line in tally.false:
                print(line, flush=True)
            if total.problems % 500 == 0:
                print(f"{total.problems} problems, {len(total.false)} false", flush=True)
    return total


def main() -> int:
    """The command line; 1 where something false was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", type=Path, help="what is done is written there, and not done again")
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    tally = run(chosen.first, chosen.problems, chosen.jobs, chosen.log)
    print(f"{tally.problems} problems, {len(tally.false)} false; {dict(tally.kinds.most_common())}")
    for name, values in (("estimate/error", tally.calibration), ("proved upper end/error", tally.of_proved)):
        if values:
            quantiles = ", ".join(f"{q:.0%} {np.quantile(values, q):.3g}" for q in QUANTILES)
            print(f"{name} of {len(values)}: {quantiles}")
    return int(bool(tally.false))


if __name__ == "__main__":
    raise SystemExit(main())
