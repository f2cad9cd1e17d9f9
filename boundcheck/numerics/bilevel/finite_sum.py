"""A lower level that is a mean over examples, Φ = (1/N) Σ_i Φ_i, and its minibatches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.program.mean_over_rows import MeanProof

OnExamples = Callable[[Tensor, Ready, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class FiniteSum:
    """A lower level that is a mean over N examples. Each evaluation draws a minibatch of them.

    Φ̂(w, λ, ζ) is the mean of Φ_i(w, λ) over the examples i of a minibatch ζ, and Φ its expectation.

    Attributes
    ----------
    examples : int
        The number N of examples.
    batch : int
        The number b of examples in a minibatch.
    replacement : bool
        Whether the examples of one minibatch are drawn with replacement. Minibatches are always independent.
    phi_on : callable (w, ready, indices) -> Tensor of shape (d,)
        The map on some examples: `indices` has shape (b,) and dtype int64. It can be differentiated and batched.
    inner_on : callable (w, ready, indices) -> Tensor of shape (), optional
        The loss on some examples, if Φ is a gradient step.
    doubt : str
        Why it is not proved that the map on several examples is the mean of the maps on each; empty if it is proved.
    lam_apart : bool
        Whether λ and the examples enter Φ in separate terms, so that ∂₂Φ̂ = ∂₂Φ. This is proved from the program, or
        from the formula of a built-in problem. False by default.
    slopes : callable (ready, centre, radius) -> Tensor of shape (N, 2), optional
        If Φ_i = w − α∇₁ℓ_i: for every example i, bounds on the smallest and the largest eigenvalue of ∇₁²ℓ_i, from
        below and from above, for every w within `radius` of `centre`.
    prove : callable (batch) -> MeanProof, optional
        Computes `doubt` and `lam_apart` for another size of minibatch. None if they hold for every size.
    """

    examples: int
    batch: int
    replacement: bool
    phi_on: OnExamples
    inner_on: OnExamples | None = None
    doubt: str = ""
    lam_apart: bool = False
    slopes: Callable[[Ready, Tensor, float], Tensor] | None = None
    prove: Callable[[int], MeanProof] | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"batch = {self.batch} is too small; give a whole number from 1")
        if not self.replacement and self.batch > self.examples:
            raise InputError(
                f"batch = {self.batch} > {self.examples} examples; give at most {self.examples}, or replacement=True"
            )

    @property
    def variance_factor(self) -> float:
        """The variance over minibatches divided by the variance over single examples."""
        if self.examples == 1:
            return 0.0
        if self.replacement:
            return 1 / self.batch
        return (self.examples - self.batch) / (self.batch * (self.examples - 1))

    def with_batch(self, batch: int, replacement: bool) -> FiniteSum:
        """Return the same sum with minibatches of another size or kind."""
        other = replace(self, batch=batch, replacement=replacement)
        if self.prove is None or batch == self.batch:
            return other
        proof = self.prove(batch)
        return replace(other, doubt=proof.doubt, lam_apart=proof.lam_apart)

    def reading(self, given: Callable[[Ready], Ready]) -> FiniteSum:
        """Return the same sum for another `prepare`. `given` maps its result to the `ready` of these functions."""
        phi, inner, slopes = self.phi_on, self.inner_on, self.slopes

        def phi_given(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
            return phi(w, given(ready), indices)

        return replace(
            self,
            phi_on=phi_given,
            inner_on=None if inner is None else lambda w, ready, indices: inner(w, given(ready), indices),
            slopes=None if slopes is None else lambda ready, centre, radius: slopes(given(ready), centre, radius),
        )

    def draw(self, generator: torch.Generator, count: int, device: torch.device) -> Tensor:
        """Draw `count` independent minibatches, as indices of shape (count, b). They are the same on every device."""
        if self.replacement:
            indices = torch.randint(self.examples, (count, self.batch), generator=generator, device="cpu")
        else:
            indices = _subsets(self.examples, self.batch, count, generator)
        return indices.to(device)


def _subsets(examples: int, batch: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw uniform subsets without replacement, one in each row, by Floyd's algorithm (Bentley and Floyd 1987).

    Each draw has one more candidate than the previous draw. If the drawn number is in the subset already, the new
    candidate is taken instead.
    """
    subsets = torch.empty(count, batch, dtype=torch.int64, device="cpu")
    for i, last in enumerate(range(examples - batch, examples)):
        new = torch.randint(last + 1, (count,), generator=generator, device="cpu")
        subsets[:, i] = torch.where((subsets[:, :i] == new[:, None]).any(dim=1), last, new)
    return subsets
