"""The options `batch` and `replacement` of a problem whose lower level is a mean over examples."""

from __future__ import annotations

from typing import Any

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.example_data import batch_of
from boundcheck.numerics.bilevel.finite_sum import FiniteSum, OnExamples


def minibatches(
    examples: int, batch: int | None, replacement: bool, phi_on: OnExamples, inner_on: OnExamples, **known: Any
) -> FiniteSum | None:
    """Return the finite sum of a problem; None if no minibatches are requested.

    Raises
    ------
    InputError
        If `batch` cannot be used, or `replacement` is False without it.
    """
    if batch is None:
        if not replacement:
            raise InputError("replacement = False without minibatches; give batch= too")
        return None
    return FiniteSum(examples, batch_of(batch, replacement, examples), replacement, phi_on, inner_on, **known)
