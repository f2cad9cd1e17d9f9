"""Search for a schedule, constant first and decreasing later, that makes a recursion small after t steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boundcheck.step_schedule import StepSchedule

FASTER = (1.0, 1.25, 1.5, 2.0, 3.0, 4.5)  # values of β(1−q): 1 for the slowest decrease; larger values are safer
LONGEST = 20_000  # steps that are computed one by one; longer runs get the schedule for this many

After = Callable[[np.ndarray, np.ndarray], np.ndarray]


def best_schedule(
    greedy: np.ndarray, gap: float, t: int, start: float, after: After, longer: bool, switches: int = 36
) -> StepSchedule:
    """Return the schedule with the least ρ_t on a grid of schedules.

    Parameters
    ----------
    greedy : ndarray of shape (t,)
        The steps that minimise every next ρ.
    gap : float
        The relative decrease of ‖w−w*‖ in a full step without noise, 1−q or αμ: steps of β/i are about 1/(gap·i).
    t : int
        The number of steps.
    start : float
        ρ_0.
    after : callable (ρ, η) -> ndarray
        The next ρ for every schedule.
    longer : bool
        Whether the run has more than t steps; then steps have to decrease at the end.
    switches : int
        How many numbers of constant steps to try.

    Returns
    -------
    StepSchedule
        The steps.
    """
    tried = [steps for steps in _schedules(greedy, gap, t, switches) if not longer or steps.switch is not None]
    return tried[int(np.argmin(_at_end(tried, t, start, after)))]


def _schedules(greedy: np.ndarray, gap: float, t: int, count: int) -> list[StepSchedule]:
    """Constant schedules, and for each switch: constant steps near the best steps before it, then β/(γ+i)."""
    switches = np.unique(np.concatenate([[0], np.geomspace(1, t, count).astype(int)]))
    tried = [StepSchedule.constant(float(eta)) for eta in (greedy[0], greedy[-1], greedy.mean())]
    for switch in switches[switches < t]:
        before = {float(greedy[0]), float(greedy[: switch + 1].mean()), float(greedy[switch])}
        for eta in before if switch else {0.0}:
            for scale in FASTER:
                beta = scale / gap
                tried.append(StepSchedule(eta, int(switch), beta, max(beta / float(greedy[switch]), beta)))
    return tried


def _at_end(tried: list[StepSchedule], t: int, start: float, after: After) -> np.ndarray:
    """ρ_t of every schedule."""
    eta, beta, gamma = (np.array([getattr(s, name) for s in tried]) for name in ("eta", "beta", "gamma"))
    switch = np.array([np.inf if s.switch is None else s.switch for s in tried])
    offset = np.where(np.isinf(switch), 1.0, gamma - np.where(np.isinf(switch), 0.0, switch))
    rho = np.full(len(tried), start)
    for i in range(t):
        with np.errstate(divide="ignore"):
            step = np.where(i < switch, eta, beta / (offset + i))
        rho = after(rho, step)
    return rho
