"""What a watch says of wrong input, and of a failure inside a loop that goes on."""

from __future__ import annotations

import math

import pytest
import ridge_loop as ridge
import torch
from ridge_loop import ZERO
from test_watch import STEPS

import boundcheck as bc


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("w", torch.zeros(3, dtype=torch.float64), "w has shape"),
        ("g", torch.full((4,), math.nan, dtype=torch.float64), "g has entries that are not finite"),
        ("lam", torch.zeros(4), "lam is torch.float32 on cpu"),
        ("g", None, "g is a NoneType"),
    ],
)
def test_wrong_input_is_one_clear_line(name: str, value: object, says: str) -> None:
    given = {"lam": STEPS[0].lam, "w": STEPS[0].w, "g": STEPS[0].g, name: value}
    watch = bc.Watch(ridge.problem())
    with pytest.raises(bc.InputError) as caught:
        watch(given["lam"], given["w"], given["g"])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(watch.trace) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"every": 0}, "every = 0 is too small"),
        ({"rtol": -1.0}, "rtol = -1.0 is not a relative error"),
        ({"callback": 3}, "callback = 3 cannot be called"),
        ({"t": -1}, "t must be at least 0"),
        ({"method": "magic"}, "magic"),
    ],
)
def test_wrong_options(options: dict, says: str) -> None:
    with pytest.raises((bc.InputError, bc.UnknownNameError), match=says):
        bc.Watch(ridge.problem(), **options)


def test_a_failure_inside_is_a_row_and_the_loop_goes_on() -> None:
    fails = [False]

    def outer(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        if fails[0]:
            raise ValueError("no data\nhere")
        return ridge.outer_loss(w, lam)

    problem = bc.Problem.from_loss(ridge.inner_loss, outer, ZERO, ridge.START, step_size=ridge.ALPHA)
    watch = bc.Watch(problem, t=5)
    rows = []
    for i, step in enumerate(STEPS[:4]):
        fails[0] = i == 1
        rows.append(watch(step.lam, step.w, step.g))
    assert rows[1].accuracy is None
    assert "no data here" in rows[1].why
    assert rows[0].proved
    assert rows[2].proved
    assert rows[3].proved
    assert rows[2].estimate is None
    assert rows[2].bound.proved
    assert math.isnan(rows[2].decrease)
    assert rows[1].to_dict().keys() >= {"step", "proved", "seconds"}
    assert ",no data here" not in watch.trace.to_csv().splitlines()[1]


def test_a_lam_outside_of_its_domain_is_a_row() -> None:
    low = bc.Domain("every entry of lam is < -2", lambda lam: (lam < -2).all())
    problem = bc.Problem.from_loss(
        ridge.inner_loss, ridge.outer_loss, ZERO, ridge.START - 2, step_size=ridge.ALPHA, domain=low
    )
    row = bc.Watch(problem)(STEPS[0].lam, STEPS[0].w, STEPS[0].g)
    assert row.accuracy is None
    assert "lam is outside its domain: every entry of lam is < -2" in row.why


def test_a_random_loss_is_told_not_proved() -> None:
    def inner(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return ridge.inner_loss(w, lam) + 1e-3 * torch.randn(4, dtype=torch.float64) @ w

    torch.manual_seed(0)
    problem = bc.Problem.from_loss(inner, ridge.outer_loss, ZERO, ridge.START, step_size=ridge.ALPHA)
    before = torch.get_rng_state()
    row = bc.Watch(problem)(STEPS[0].lam, STEPS[0].w, STEPS[0].g)
    assert torch.equal(before, torch.get_rng_state())
    assert not row.proved
    assert row.why
