"""The lower level of a user's problem on all examples and on a minibatch, and whether one is the mean of the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from boundcheck.numerics.bilevel import example_data, loss_gradient
from boundcheck.numerics.bilevel.example_data import Asked, ExampleData
from boundcheck.numerics.bilevel.finite_sum import FiniteSum, OnExamples
from boundcheck.numerics.bilevel.problem_types import Ready

OfUser = Callable[..., Tensor]  # of w, what is prepared from λ, and with data a minibatch


@dataclass(frozen=True, eq=False)
class LowerLevel:
    """The user's loss or map as a function of (w, ready), and where there are examples of some of them.

    Attributes
    ----------
    at : callable (w, ready) -> Tensor
        On all examples.
    on : callable (w, ready, indices) -> Tensor
        On some; only called where there is `data`.
    """

    at: Callable[[Tensor, Ready], Tensor]
    on: OnExamples
    of_user: OfUser
    name: str
    data: ExampleData | None
    asked: Asked

    def finite_sum(
        self, phi_on: OnExamples, inner_on: OnExamples | None, ready: Callable[[Tensor], Ready], w0: Tensor, lam: Tensor
    ) -> FiniteSum | None:
        """The mean over examples that Φ is; None without data."""
        if self.data is None:
            return None
        examples = self.data.examples
        batch = example_data.batch_of(self.asked.batch, self.asked.replacement, examples)
        return FiniteSum(examples, batch, self.asked.replacement, phi_on, inner_on, doubt="not proved yet")


def lower_level(of_user: OfUser, name: str, asked: Asked, w0: Tensor) -> LowerLevel:
    """The user's function on all examples and on some, or as it is where there is no data.

    Raises
    ------
    InputError
        If the data cannot be used, or there are options of minibatches without data.
    """
    if asked.data is None:
        example_data.refuse_without_data(asked.batch, asked.replacement)
        return LowerLevel(of_user, _no_examples, of_user, name, None, asked)
    data = example_data.read(asked.data, w0)

    def at(w: Tensor, ready: Ready) -> Tensor:
        return of_user(w, ready, data.every)

    def on(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        return of_user(w, ready, data.some(indices))

    return LowerLevel(at, on, of_user, name, data, asked)


def _no_examples(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
    raise TypeError("there are no examples")


def slope(inner_on: OnExamples) -> OnExamples:
    """∇₁ℓ̂ on some examples."""

    def of_pair(w: Tensor, pair: Any) -> Tensor:
        return inner_on(w, *pair)

    gradient = loss_gradient.gradient(of_pair)
    return lambda w, ready, indices: gradient(w, (ready, indices))
