"""The values that a problem prepares from λ: leaves for differentiation, and their derivatives by λ in both modes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten  # the same trees as in vmap

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready

Cotangents = tuple[Tensor, ...]  # one for each leaf that depends on λ


@dataclass(frozen=True, eq=False)
class Leaves:
    """The tensors of prepared values, the indices of those that depend on λ, and the structure of the values."""

    flat: tuple[Tensor, ...]
    spec: TreeSpec
    active: tuple[int, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The leaves that depend on λ."""
        return tuple(self.flat[i] for i in self.active)

    def none(self) -> Leaves:
        """Return the same leaves, none of them active."""
        return Leaves(self.flat, self.spec, ())

    def at(self, i: int) -> Ready:
        """Return the values that were prepared for the i-th of several λ."""
        return tree_unflatten([leaf[i] for leaf in self.flat], self.spec)

    def for_columns(self) -> Ready:
        """Return the values for several λ, with two axes at the end: for λ, and for the columns of each λ."""
        return tree_unflatten([leaf.movedim(0, -1).unsqueeze(-1) for leaf in self.flat], self.spec)

    def for_points(self) -> Ready:
        """Return the values for one λ, with an axis at the end for several points."""
        return tree_unflatten([leaf.unsqueeze(-1) for leaf in self.flat], self.spec)

    def ready(self, tensors: tuple[Tensor, ...] = ()) -> Ready:
        """Return the prepared values. If given, `tensors` replace the leaves that depend on λ."""
        flat = list(self.flat)
        for i, tensor in zip(self.active, tensors, strict=False):
            flat[i] = tensor
        return tree_unflatten(flat, self.spec)


class Prepared:
    """The values that a problem prepares for one λ, or for each row of a matrix of λ, with their derivatives by λ.

    `prepare` runs once. `ready` is detached from λ. Cotangents of its leaves are pulled back through the stored graph.
    """

    def __init__(self, problem: Problem, lam: Tensor) -> None:
        self._lam = lam.detach().requires_grad_()
        with torch.enable_grad():
            prepare = problem.prepare if lam.dim() == 1 else vmap(problem.prepare)
            flat, spec = tree_flatten(prepare(self._lam))
        if stray := [leaf for leaf in flat if not isinstance(leaf, Tensor)]:
            raise InputError(f"{problem.name}: prepare returned a {type(stray[0]).__name__}; return tensors only")
        active = tuple(i for i, leaf in enumerate(flat) if leaf.requires_grad)
        self._with_graph = {i: flat[i] for i in active}
        self.leaves = Leaves(tuple(leaf.detach() for leaf in flat), spec, active)
        self.ready: Ready = self.leaves.ready()
        self._each: list[Ready] = []

    def pull_back(self, cotangents: Cotangents) -> Tensor:
        """Pull cotangents with the shapes of the leaves back to a cotangent with the shape of λ."""
        if not cotangents:
            return torch.zeros_like(self._lam.detach())
        return self._pull(self.leaves, cotangents, batched=False)

    @property
    def each(self) -> list[Ready]:
        """The prepared values of each λ, as a list."""
        if not self._each:
            self._each = [self.leaves.at(i) for i in range(len(self._lam))]
        return self._each

    @property
    def lams(self) -> Tensor:
        """The rows of λ for which the values were prepared."""
        return self._lam.detach()

    def pull_back_rows(self, leaves: Leaves, cotangents: Cotangents) -> Tensor:
        """Pull cotangents of shape (λ, rows, …), one for each of `leaves`, back to cotangents of shape (λ, rows, n)."""
        if not cotangents:
            return self.lams.new_zeros(len(self.lams), 1, self.lams.shape[-1])
        return self._pull(leaves, tuple(v.transpose(0, 1) for v in cotangents), batched=True).transpose(0, 1)

    def push_forward(self, i: int) -> Cotangents:
        """Return the derivative of the leaves by the i-th entry of λ, or of each λ for rows."""
        return self.along(self._unit(i))

    def along(self, direction: Tensor) -> Cotangents:
        """Return the derivative of the leaves in a direction with the shape of λ."""
        return self._push(self.leaves, direction, batched=False)

    def push_forward_rows(self, leaves: Leaves, start: int, stop: int) -> Cotangents:
        """Return the derivatives of `leaves` by the entries start … stop − 1 of λ, of shape (stop − start, λ, …)."""
        return self._push(leaves, torch.stack([self._unit(i) for i in range(start, stop)]), batched=True)

    def push_rows(self, leaves: Leaves, directions: Tensor) -> Cotangents:
        """Return the derivatives of `leaves` along directions of shape (λ, rows, n): `pull_back_rows` transposed."""
        return tuple(x.transpose(0, 1) for x in self._push(leaves, directions.transpose(0, 1), batched=True))

    def _unit(self, i: int) -> Tensor:
        direction = torch.zeros_like(self._lam)
        direction[..., i] = 1
        return direction

    def _push(self, leaves: Leaves, directions: Tensor, batched: bool) -> Cotangents:
        """Return the derivative of the linear map that pulls cotangents c back (a double transposed product)."""
        if not leaves.active:
            return ()
        with torch.enable_grad():
            outputs = [self._with_graph[i] for i in leaves.active]
            c = [torch.zeros_like(leaf, requires_grad=True) for leaf in outputs]
            pulled = torch.autograd.grad(outputs, self._lam, c, create_graph=True)[0]
        return torch.autograd.grad(pulled, c, directions, is_grads_batched=batched, materialize_grads=True)

    def _pull(self, leaves: Leaves, cotangents: Cotangents, batched: bool) -> Tensor:
        outputs = [self._with_graph[i] for i in leaves.active]
        if len(outputs) == 1 and outputs[0] is self._lam:
            return cotangents[0]
        return torch.autograd.grad(
            outputs, self._lam, cotangents, retain_graph=True, materialize_grads=True, is_grads_batched=batched
        )[0]
