"""The lower level of a user's problem on minibatches, and the proof that it is the mean over single examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boundcheck.errors import InputError, UserCodeError
from boundcheck.numerics.bilevel import example_data, loss_gradient
from boundcheck.numerics.bilevel.example_data import ExampleData, Minibatching
from boundcheck.numerics.bilevel.finite_sum import FiniteSum, OnExamples
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.program.mean_over_rows import MeanProof, mean_over_rows

OfUser = Callable[..., Tensor]  # of w, the prepared values and, with data, a minibatch
POINTS = 3  # number of points at which values are compared if there is no proof
BESIDE = 0.1  # relative distance of these points from the start
MOST = 64  # the most examples that are evaluated one by one at each point
APART = 64  # the two values may differ by this many roundings for each example
SEED = 30
REMEDY = (
    "divide by the number of rows that it is given, as .mean() does; a sum must become a mean, a penalty must not be "
    "divided, and batch normalisation mixes examples (use module.eval())"
)


@dataclass(frozen=True, eq=False)
class LowerLevel:
    """The user's loss or map of (w, ready); with data, it has a minibatch as third argument."""

    of_user: OfUser
    name: str
    asked: Minibatching
    data: ExampleData | None

    @classmethod
    def of(cls, of_user: OfUser, name: str, asked: Minibatching, w0: Tensor) -> LowerLevel:
        """Read the data. Refuse data that cannot be used, and options of minibatches without data."""
        if asked.data is None:
            example_data.refuse_without_data(asked.batch, asked.replacement)
            return cls(of_user, name, asked, None)
        return cls(of_user, name, asked, example_data.read(asked.data, w0))

    @property
    def at(self) -> Callable[[Tensor, Ready], Tensor]:
        """The function on all examples."""
        data, of_user = self.data, self.of_user
        return of_user if data is None else lambda w, ready: of_user(w, ready, data.every)

    def minibatches(self, ready: Callable[[Tensor], Ready], w0: Tensor, lam: Tensor) -> Minibatches | None:
        """Return the function on minibatches, after a first call with each size; None without data."""
        if self.data is None:
            return None
        batch = example_data.batch_of(self.asked.batch, self.asked.replacement, self.data.examples)
        minibatches = Minibatches(self, self.data, batch, False, ready, w0, lam)
        if minibatches.proof(batch).doubt:
            twice = replace(minibatches, twice=True)
            if not twice.proof(batch).doubt or (twice.runs(1) and not minibatches.runs(1)):
                minibatches = twice
        for count in {1, batch}:
            minibatches.first_call(count)
        return minibatches


@dataclass(frozen=True, eq=False)
class Minibatches:
    """The user's function on some examples.

    With `twice`, a single example is passed as two equal rows, which does not change the mean. Functions with
    `squeeze()` and the like run a different program on one row, or fail.
    """

    lower: LowerLevel
    data: ExampleData
    batch: int
    twice: bool
    ready: Callable[[Tensor], Ready]
    w0: Tensor
    lam: Tensor

    def on(self, w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        """Evaluate the function on the examples with these indices."""
        if self.twice and indices.shape[-1] == 1:
            indices = torch.cat((indices, indices), -1)
        return self.lower.of_user(w, ready, self.data.some(indices))

    def gradient_step(
        self, alpha: Callable[[Ready], Tensor | float], given: Callable[[Ready], Ready] = lambda ready: ready
    ) -> OnExamples:
        """Return Φ̂ = w − α∇₁ℓ̂. `given` maps the prepared values to those that the loss reads."""

        def of_pair(w: Tensor, pair: tuple[Ready, Tensor]) -> Tensor:
            return self.on(w, *pair)

        slope = loss_gradient.gradient(of_pair)

        def phi_on(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
            w_next: Tensor = w - alpha(ready) * slope(w, (given(ready), indices))
            return w_next

        return phi_on

    def runs(self, count: int) -> bool:
        """Return whether the function can be called with this many examples."""
        try:
            self.first_call(count)
        except (InputError, UserCodeError):
            return False
        return True

    def first_call(self, count: int) -> None:
        """Call the function with this many examples. An error says how many they were."""
        try:
            self.on(self.w0, self.ready(self.lam), self._rows(count))
        except (InputError, UserCodeError) as error:
            raise type(error)(
                f"{error}; this call had a minibatch of {count} of {self.data.examples} examples as third argument; "
                "take all data of the examples from it"
            ) from error

    def _rows(self, count: int) -> Tensor:
        return torch.arange(count, device=self.w0.device) % self.data.examples

    def proof(self, batch: int) -> MeanProof:
        """Try to prove that the function on all examples, and on a minibatch, is the mean of its values on each."""

        def function(w: Tensor, lam: Tensor, *leaves: Tensor) -> Tensor:
            return self.lower.of_user(w, self.ready(lam), self.data.build(iter(leaves)))

        least = 2 if self.twice else 1
        sizes = {least, max(batch, least), self.data.examples}
        return mean_over_rows(function, self.w0, self.lam, self.data.leaves, sorted(sizes))

    def finite_sum(self, phi_on: OnExamples, inner_on: OnExamples | None, lam_in_step: bool = False) -> FiniteSum:
        """Return the finite sum of which Φ is the mean.

        Raises
        ------
        InputError
            If the function does not use the examples, or if there is no proof and the values are not means.
        """

        def prove(batch: int) -> MeanProof:
            proof = self.proof(batch)
            if not proof.uses_data:
                raise InputError(
                    f"{self.lower.name} does not use the minibatch, its third argument; take the examples from there"
                )
            if proof.doubt:
                self._compare(batch, phi_on, inner_on)
            return replace(proof, lam_apart=proof.lam_apart and not lam_in_step)

        proof, replacement = prove(self.batch), self.lower.asked.replacement
        return FiniteSum(
            self.data.examples, self.batch, replacement, phi_on, inner_on, proof.doubt, proof.lam_apart, None, prove
        )

    @torch.no_grad()
    def _compare(self, batch: int, phi_on: OnExamples, inner_on: OnExamples | None) -> None:
        """Refuse a function whose values at some points are not means. If they are means, this proves nothing."""
        generator = torch.Generator().manual_seed(SEED)
        n, name = self.data.examples, self.lower.name
        functions = [(name, inner_on), (f"the gradient step on {name}", phi_on)] if inner_on else [(name, phi_on)]
        for _ in range(POINTS):
            noise = torch.randn(len(self.w0), generator=generator, dtype=torch.float64).to(self.w0)
            w, ready = self.w0 + noise * BESIDE * (1 + self.w0.abs().mean()), self.ready(self.lam)
            indices = torch.randint(n, (min(batch, MOST),), generator=generator, device="cpu").to(self.w0.device)
            for what, function in functions:
                singles = torch.stack([function(w, ready, i[None]) for i in indices])
                self._refuse_random(what, function(w, ready, indices), function(w, ready, indices))
                value = function(w, ready, indices)
                self._refuse_other(what, value, singles.mean(0), singles, len(indices), "over each")
                rows, half = self._rows(n), -(-n // 2)
                parts = (rows[:half], rows[half:]) if n > 1 else (rows,)
                halves = torch.stack([function(w, ready, part) * (len(part) / n) for part in parts])
                full = function(w, ready, rows)
                self._refuse_other(what, full, halves.sum(0), halves, n, "over its two halves")

    @staticmethod
    def _refuse_random(what: str, first: Tensor, second: Tensor) -> None:
        if not torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
            worst = int((first - second).abs().nan_to_num(math.inf).argmax())
            one, two = float(first.reshape(-1)[worst]), float(second.reshape(-1)[worst])
            raise InputError(
                f"{what} is {one:.6g}, and {two:.6g} when it is "
                "called again with the same minibatch; its only noise may be the choice of examples, so draw no "
                "random numbers and keep no state in it"
            )

    def _refuse_other(self, what: str, value: Tensor, mean: Tensor, terms: Tensor, count: int, over: str) -> None:
        size = float(terms.abs().max() + value.abs().max())
        gap = (value - mean).abs()
        if not math.isfinite(size):  # outside of the domain of the function
            return
        if not float(gap.max()) <= APART * count * torch.finfo(value.dtype).eps * size:
            worst = int(gap.argmax())
            raise InputError(
                f"{what} is {float(value.reshape(-1)[worst]):.6g} on {count} examples and its mean {over} "
                f"{float(mean.reshape(-1)[worst]):.6g}, so it is not a mean over examples; {REMEDY}"
            )
