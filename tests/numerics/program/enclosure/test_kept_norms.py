"""Results that are kept: used again for the same numbers only, and dropped at the end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure import forms, kept_norms
from boundcheck.numerics.program.enclosure.forms import Trilinear, trilinear_norm
from boundcheck.numerics.program.enclosure.intervals import point
from boundcheck.numerics.program.enclosure.kept_norms import kept, norms_kept


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def a_part(slack: float = 0.0) -> Trilinear:
    return Trilinear(point(normal(1, 9)), normal(2, 9, 1, 4), normal(3, 9, 1, 5), normal(4, 9, 1, 3), slack)


class Calls:
    """Counts the calls of a function of numbers."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, x: Tensor) -> float:
        self.count += 1
        return float(x.prod())


def test_the_same_numbers_are_asked_about_once_and_others_are_not_mistaken_for_them() -> None:
    calls, x = Calls(), torch.tensor([1.0, 2.0, 4.0])
    with norms_kept():
        for _ in range(3):
            assert kept("product", (x.clone(),), lambda: calls(x)) == 8
        assert calls.count == 1
        y = torch.tensor([3.0, 2.0, 2.0])  # with the same sum
        assert kept("product", (y,), lambda: calls(y)) == 12
        assert kept("product", (x, None), lambda: calls(x)) == 8
        assert kept("another", (x,), lambda: -calls(x)) == -8
        assert calls.count == 4


def test_nothing_is_kept_outside_of_the_block() -> None:
    calls, x = Calls(), torch.tensor([1.0, 2.0])
    for _ in range(2):
        with norms_kept(), norms_kept():
            kept("product", (x,), lambda: calls(x))
        kept("product", (x,), lambda: calls(x))
    assert calls.count == 4


def test_what_was_used_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_norms, "MOST_NUMBERS", 5)
    calls, some = Calls(), [torch.tensor([1.0, float(i)]) for i in range(3)]
    with norms_kept():
        for i in (0, 1, 0, 2, 0):
            kept("product", (some[i],), lambda i=i: calls(some[i]))
        assert calls.count == 3
        kept("product", (some[1],), lambda: calls(some[1]))
        assert calls.count == 4


def test_a_form_that_differs_by_its_slack_has_the_same_norm_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    norms, compute = [], forms._without_slack
    alone, wider = trilinear_norm([a_part()]), trilinear_norm([a_part(2.0)])
    monkeypatch.setattr(forms, "_without_slack", lambda parts: norms.append(compute(parts)) or norms[-1])
    with norms_kept():
        assert trilinear_norm([a_part()]) == alone
        assert trilinear_norm([a_part(2.0)]) == wider == pytest.approx(alone + 2)
    assert len(norms) == 1
