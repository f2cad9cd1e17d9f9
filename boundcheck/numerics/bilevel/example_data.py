"""The examples of a lower level that is a mean over examples: the user's `data`, and minibatches of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import flatten

BATCH = 10  # default number of examples in a minibatch
REMEDY = "give a tensor, or a tuple, list or dict of tensors, with one row for each example"


@dataclass(frozen=True, eq=False)
class Minibatching:
    """The arguments `data`, `batch` and `replacement` of `Problem.from_loss` and `Problem.from_map`."""

    data: Any
    batch: Any
    replacement: Any


@dataclass(frozen=True, eq=False)
class ExampleData:
    """The examples in the user's structure.

    Attributes
    ----------
    leaves : tuple of Tensor
        The tensors, in the order of `build`. Each has one row for each example.
    build : callable (iterator of Tensor) -> structure of tensors
        Builds the user's structure from its tensors.
    paths : tuple of str
        The place of each tensor in this structure, for messages.
    """

    leaves: tuple[Tensor, ...]
    build: flatten.Build
    paths: tuple[str, ...]

    @property
    def examples(self) -> int:
        """The number N of examples."""
        return len(self.leaves[0])

    @property
    def every(self) -> Any:
        """All examples, in the user's structure."""
        return self.build(iter(self.leaves))

    def some(self, indices: Tensor) -> Any:
        """Return the examples of a minibatch in the user's structure. `indices` has shape (b,)."""
        return self.build(iter([leaf[indices] for leaf in self.leaves]))


def read(data: Any, like: Tensor) -> ExampleData:
    """Read the user's `data`. `like` is the w of the problem.

    Raises
    ------
    InputError
        If `data` contains an object that is not a tensor; if the tensors have no rows or different numbers of rows; if
        their device or floating-point dtype is not that of the parameters; or if they have entries that are not finite.
    """
    pairs = list(_leaves(data, "data"))
    if not pairs:
        raise InputError(f"data holds no tensor; {REMEDY}")
    first, rows = pairs[0][0], len(pairs[0][1]) if pairs[0][1].dim() else 0
    for path, leaf in pairs:
        if leaf.dim() == 0:
            raise InputError(f"{path} is a single number; {REMEDY}")
        if len(leaf) != rows:
            raise InputError(f"{path} has {len(leaf)} rows and {first} {rows}; {REMEDY}")
        if leaf.device != like.device:
            raise InputError(f"{path} is on {leaf.device} and params on {like.device}; move the data there")
        if (leaf.is_floating_point() or leaf.is_complex()) and leaf.dtype != like.dtype:
            raise InputError(f"{path} has dtype {leaf.dtype} and params {like.dtype}; convert one of them")
        if leaf.requires_grad:
            raise InputError(
                f"{path} requires gradients; put it into hparams if it is a hyperparameter, or else .detach() it"
            )
        if leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
            raise InputError(f"{path} has entries that are not finite; remove NaN and infinity first")
    if rows == 0:
        raise InputError(f"{first} has no rows, so there is no example; {REMEDY}")
    return ExampleData(tuple(leaf for _, leaf in pairs), flatten.builder(data), tuple(path for path, _ in pairs))


def batch_of(batch: Any, replacement: Any, examples: int) -> int:
    """Return the number of examples in a minibatch: `batch`, or min(10, N) if it is None.

    Raises
    ------
    InputError
        If `batch` is not a whole number of at least 1, or if `replacement` is not a bool.
    """
    if not isinstance(replacement, bool):
        raise InputError(f"replacement = {replacement!r} is neither True nor False; give one of them")
    if batch is None:
        return min(BATCH, examples)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InputError(f"batch = {batch!r} is not a number of examples; give a whole number from 1")
    return batch


def refuse_without_data(batch: Any, replacement: Any) -> None:
    """Refuse options of minibatches for a problem without data."""
    for name, value, default in (("batch", batch, None), ("replacement", replacement, True)):
        if value is not default:
            raise InputError(f"{name} = {value!r} without data; give data= too, and a function that takes a minibatch")


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        if tree.layout != torch.strided:
            raise InputError(f"{path} is a sparse tensor; give X.to_dense()")
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from _leaves(value, f"{path}[{i}]")
    else:
        raise InputError(f"{path} is a {type(tree).__name__}; {REMEDY}")
