"""Output of `boundcheck plan --method sid`: the steps, t, k and batch for a mean square error."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from boundcheck.views.terminal.console import Screen

if TYPE_CHECKING:
    from boundcheck.report.stochastic_plan import StochasticPlan

WIDTH = 80


def show(plan: StochasticPlan) -> None:
    """Print a plan.

    Parameters
    ----------
    plan : StochasticPlan
        The plan.
    """
    card, lines = plan.card(), []
    for line in card.text().splitlines():
        lines += [line] if line.startswith("  ") else textwrap.wrap(line, WIDTH) or [""]
    screen = Screen(highlight=False)
    for line in lines:
        screen.print(line, markup=False, soft_wrap=True)
