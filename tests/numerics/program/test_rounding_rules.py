"""Every rule: what PyTorch computes from any point of the balls lies in the rule's ball, which is hardly larger."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pieces import normal
from rule_cases import CALLS, ELSEWHERE
from torch import Tensor
from torch.utils._pytree import tree_map

from boundcheck.numerics.program.rounding_rules import RULES
from boundcheck.numerics.program.rounding_rules.ball import Ball, Refusal, point
from boundcheck.numerics.program.rounding_rules.linalg import matrix_of

RADIUS, SAMPLES = 1e-6, 40
# arguments that are functions of others: e^(−|x|) as a buffer, and distances
TRUTH = {
    "log_sigmoid_backward": lambda grad, x, buffer: grad * torch.sigmoid(-x),
    "_cdist_backward": lambda grad, x, y, p, away: torch.einsum("ij,ijk->ik", grad / away, x[:, None] - y),
}
ROOM = 300  # how much wider than what samples show a rule may be: entries meet in products and sums of up to 30 terms


def is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def as_balls(arguments: Any) -> Any:
    return tree_map(lambda x: Ball(x, RADIUS * (0.1 + x.abs())) if is_float(x) else x, arguments)


def somewhere(arguments: Any, seed: int) -> Any:
    """A point of the balls: corners and the inside in turn, symmetric matrices too."""
    generator = torch.Generator().manual_seed(seed)

    def move(x: Any) -> Any:
        if not is_float(x):
            return x
        xi = 2 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1
        return x + RADIUS * (0.1 + x.abs()) * (xi.sign() if seed % 2 else xi)

    return tree_map(move, arguments)


def results(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple | list) else [x]


@pytest.mark.parametrize("name", CALLS)
def test_any_point_of_the_balls_goes_into_the_ball(name: str) -> None:
    op = TRUTH.get(name) or getattr(torch.ops.aten, name)
    for args, kwargs in CALLS[name]:
        balls = as_balls((args, kwargs))
        ours = results(RULES[name](*balls[0], **balls[1]))
        widest = [torch.zeros_like(x.rad.expand(x.shape)) if isinstance(x, Ball) else None for x in ours]
        for seed in range(SAMPLES):
            moved = somewhere((args, kwargs), seed)
            theirs = results(op(*moved[0], **moved[1]))
            for i, (sure, there) in enumerate(zip(ours, theirs, strict=True)):
                if isinstance(sure, Ball):
                    away = (there - sure.mid).abs()
                    assert sure.shape == there.shape
                    # PyTorch's own result is only right to rounding, of the size of the numbers on the way
                    assert bool((away <= sure.rad + 1e-13 * (1 + there.abs())).all()), (args, i)
                    widest[i] = torch.maximum(widest[i], away)
                elif sure is not None:
                    assert torch.equal(sure, there), (args, i)
        for sure, wide in zip(ours, widest, strict=True):
            if isinstance(sure, Ball) and bool(wide.any()):
                assert bool((wide > 1e-11).any()), "a radius of 0 would pass"
                assert float(sure.rad.norm()) <= ROOM * float(wide.norm()), "uselessly wide"


def test_every_rule_has_a_call() -> None:
    assert set(CALLS) | ELSEWHERE == set(RULES)


@pytest.mark.parametrize("name", ["gt", "ge", "lt", "le", "eq", "ne", "sign", "floor", "ceil", "argmax", "sort"])
def test_what_a_ball_does_not_decide_is_refused(name: str) -> None:
    wide = Ball(torch.zeros(3, dtype=torch.float64), torch.full((3,), 1e-3, dtype=torch.float64))
    arguments = (wide, wide) if name in ("gt", "ge", "lt", "le", "eq", "ne") else (wide,)
    with pytest.raises(Refusal, match=r"rounding alone decides|equal entries"):
        RULES[name](*arguments)


def test_lu_factors_belong_to_a_matrix_or_its_transpose() -> None:
    A = normal(3, 3) + 3 * torch.eye(3, dtype=torch.float64)
    for of in (A, A.T):
        assert torch.equal(matrix_of(point(A), *torch.linalg.lu_factor(of)).matrix.mid, of)
    with pytest.raises(Refusal, match="another matrix"):
        matrix_of(point(A), *torch.linalg.lu_factor(2 * A))
