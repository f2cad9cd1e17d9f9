"""Checks the twenty problems and says what is proved: ``PYTHONPATH=benchmarks python -m user_code [name …]``.

A row has the best verdict, how many bounds hold of those that apply, and CPU seconds; below it are the constants that
are not proved, with the reason.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

import boundcheck as bc
from user_code import equilibria, linear_models, networks

T = 100
PROBLEMS: tuple[Callable[[], bc.Problem], ...] = (
    linear_models.logistic, linear_models.ridge, linear_models.elastic_net, linear_models.multinomial,
    linear_models.cleaning, linear_models.groups, linear_models.distillation, linear_models.kernel_ridge,
    linear_models.poisson, linear_models.huber, linear_models.quantile, networks.factorisation, networks.proximal,
    networks.ridge_head, networks.network, networks.normalised_network, networks.in_place,
    equilibria.deep_equilibrium, equilibria.normalised_equilibrium, equilibria.convolutional_equilibrium,
)  # fmt: skip


def reasons(report: bc.Report) -> dict[str, list[str]]:
    """Why constants are not proved, with their names."""
    every: dict[str, list[str]] = {}
    for constants in report.constants.values():
        for constant in constants.values():
            why = constant.provenance.no_proof
            if why and constant.name not in every.setdefault(why, []):
                every[why].append(constant.name)
    return every


def reason(report: bc.Report) -> str:
    """Why no bound holds, in one line; empty if there is no more to say than the list of constants."""
    q = report.constants["local"]["q"]
    if q.is_safe or q.value < 1:
        return ""
    return f"‖∂₁Φ‖ = {q.value:.3g} at a point of the ball around w*, so the map is no contraction on it"


def holding(report: bc.Report) -> list[str]:
    """The bounds that hold, for one method or another."""
    return sorted({bound for (_, bound), verdict in report.verdicts.items() if verdict is bc.Verdict.HOLDS})


def main() -> None:
    torch.set_num_threads(1)
    asked = [make for make in PROBLEMS if make.__name__ in sys.argv[1:] or len(sys.argv) == 1]
    count = 0
    print(f"{'problem':28s} {'best verdict':14s} {'hold':>4s} {'apply':>5s} {'CPU s':>6s}")
    for make in asked:
        start = time.process_time()
        try:
            report = bc.check(make(), t=T)
        except Exception as error:  # one that is no BoundcheckError is a bug
            print(f"{make.__name__:28s} {type(error).__name__}: {error}", flush=True)
            continue
        applied = [verdict for verdict in report.verdicts.values() if verdict is not bc.Verdict.NOT_APPLICABLE]
        order = list(bc.Verdict)
        best = min(applied, key=order.index, default=bc.Verdict.NOT_APPLICABLE)
        count += best is bc.Verdict.HOLDS
        hold = sum(verdict is bc.Verdict.HOLDS for verdict in applied)
        spent = time.process_time() - start
        print(f"{make.__name__:28s} {best.value:14s} {hold:4d} {len(applied):5d} {spent:6.1f}", flush=True)
        if hold:
            print(f"    hold: {', '.join(holding(report))}")
        elif why := reason(report):
            print(f"    reason: {why}")
        for why, names in reasons(report).items():
            print(f"    {', '.join(names)}: {why}")
    print(f"{count} of {len(asked)} say holds")


if __name__ == "__main__":
    main()
