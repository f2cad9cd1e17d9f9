"""Random programs against what is proved of them: ``python benchmarks/soundness.py --programs 100000 --log FILE``.

Each program is recorded, enclosed over its ball and compared with samples of the ball (`sampled_derivatives.py`). A
line of the log is one program, so that a run can be stopped and started again; the report is of the whole log.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from random_programs import random_program
from sampled_derivatives import Judge

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.replay import differs

SHOWN = 10  # programs with false statements


def ask(seed: int) -> dict[str, Any]:
    """One program: what is false, why it was declined, how tight the bounds are."""
    program = random_program(seed)
    answer: dict[str, Any] = {"seed": seed, "operations": len(program.steps), "radius": program.radius}
    try:
        recorded = capture(program, program.w, program.lam, EXPANSIONS)
        if reason := differs(recorded, program, program.w, program.lam):
            return {**answer, "declined": reason}
        verdict = Judge(recorded, program.w, program.lam, program.radius, seed=seed).judge(program.scalar)
    except Declined as declined:
        return {**answer, "declined": str(declined).partition(", random_programs.py")[0]}
    except Exception as error:  # an error is a defect too, and the run goes on
        return {**answer, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    if verdict.false:
        answer["false"] = verdict.false
    return {**answer, "ratios": {name: float(f"{ratio:.4g}") for name, ratio in verdict.ratios.items()}}


def report(answers: list[dict[str, Any]]) -> str:
    """What came of all programs."""
    false = [a for a in answers if a.get("false")]
    errors = [a for a in answers if a.get("error")]
    declined = Counter(a["declined"] for a in answers if a.get("declined"))
    lines = [f"{len(answers)} programs, {len(false)} with false statements, {len(errors)} errors"]
    lines += [f"  seed {a['seed']}: {'; '.join(a['false'][:3])}" for a in false[:SHOWN]]
    lines += [f"  seed {a['seed']}: {a['error']}" for a in errors[:SHOWN]]
    lines.append(f"declined: {sum(declined.values())}")
    lines += [f"  {count:6d}  {why}" for why, count in declined.most_common(12)]
    by_name: dict[tuple[str, str], list[float]] = defaultdict(list)
    for answer in answers:
        size = "r < 1e-4" if answer["radius"] < 1e-4 else "r < 0.1" if answer["radius"] < 0.1 else "r ≥ 0.1"
        for name, ratio in answer.get("ratios", {}).items():
            by_name[name, size].append(ratio)
    lines.append("proved over best sampled: median, 9 of 10 below, share that is infinite")
    for (name, size), ratios in sorted(by_name.items()):
        ratios.sort()
        infinite = sum(ratio == float("inf") for ratio in ratios) / len(ratios)
        lines.append(
            f"  {name:12s} {size:8s} {median(ratios):10.4g} {ratios[9 * len(ratios) // 10]:10.4g} {infinite:6.1%}"
        )
    return "\n".join(lines)


def read(log: Path) -> list[dict[str, Any]]:
    """The answers in a log; a last line that was cut off is left out."""
    answers = []
    for line in log.read_text().splitlines() if log.exists() else []:
        try:
            answers.append(json.loads(line))
        except ValueError:
            continue
    return answers


def main() -> None:
    """Run what the log does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path("soundness.log"))
    chosen = parser.parse_args()
    done = {answer["seed"] for answer in read(chosen.log)}
    seeds = [s for s in range(chosen.first, chosen.first + chosen.programs) if s not in done]
    start, false = time.perf_counter(), 0
    with chosen.log.open("a") as log, multiprocessing.Pool(chosen.jobs, torch.set_num_threads, (1,)) as pool:
        for count, answer in enumerate(pool.imap_unordered(ask, seeds, chunksize=4), 1):
            log.write(json.dumps(answer) + "\n")
            log.flush()
            false += bool(answer.get("false") or answer.get("error"))
            if count % 20 == 0 or count == len(seeds):
                pace = (time.perf_counter() - start) / count
                print(f"\r{count}/{len(seeds)}  {false} false  {pace:.2f} s each", end="", flush=True)
    print()
    print(report(read(chosen.log)))


if __name__ == "__main__":
    main()
