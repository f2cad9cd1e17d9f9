"""The door: what users bring (tensors, lists, tuples, dicts, an `nn.Module`) to flat vectors and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from boundcheck.errors import InputError


@dataclass(frozen=True)
class Layout:
    """How a flat vector is cut into pieces, and what is built from the pieces."""

    paths: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    build: Callable[[Iterator[Tensor]], Any]

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def unflatten(self, flat: Tensor) -> Any:
        """The user's structure from a flat vector."""
        if len(self.shapes) == 1:
            return self.build(iter((flat.reshape(self.shapes[0]),)))
        sizes = [math.prod(shape) for shape in self.shapes]
        pieces = (piece.reshape(shape) for piece, shape in zip(torch.split(flat, sizes), self.shapes, strict=True))
        return self.build(pieces)

    def flatten(self, tree: Any, name: str) -> Tensor:
        """The flat vector of a structure that must be of this layout."""
        leaves = dict(_leaves(tree, "", name))
        if set(leaves) == set(self.paths):
            leaves = {path: leaves[path] for path in self.paths}  # the keys of a dict in whatever order
        if tuple(leaves) != self.paths or tuple(leaf.shape for leaf in leaves.values()) != self.shapes:
            wanted = dict(zip(self.paths, self.shapes, strict=True))
            raise InputError(f"{name} has {_shapes(leaves)}; give {_shapes(wanted)}")
        return _join(list(leaves.values()))


@dataclass(frozen=True)
class Functional:
    """An `nn.Module` with other parameters plugged in: what a user's loss receives in the module's place."""

    module: nn.Module
    values: dict[str, Tensor]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(self.module, self.values, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """A parameter, or a submodule with its share of the parameters; of anything else, the module's own."""
        if name in self.values:
            return self.values[name]
        inside = {k.removeprefix(f"{name}."): v for k, v in self.values.items() if k.startswith(f"{name}.")}
        found = getattr(self.module, name)
        return Functional(found, inside) if isinstance(found, nn.Module) else found

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.values.items()

    def parameters(self) -> Iterator[Tensor]:
        yield from self.values.values()


def read(tree: Any, name: str) -> tuple[Layout, Tensor]:
    """The layout of what a user brought and its values as one flat, detached vector."""
    leaves = dict(_leaves(tree, "", name))
    if not leaves:
        raise InputError(f"{name} holds no tensor; give a tensor, a list, tuple or dict of tensors, or an nn.Module")
    first = next(iter(leaves))
    for path, leaf in leaves.items():
        if leaf.dtype not in (torch.float32, torch.float64):
            raise InputError(f"{name}{path} has dtype {leaf.dtype}; give float32 or float64")
        if leaf.dtype != leaves[first].dtype:
            raise InputError(
                f"{name}{path} has dtype {leaf.dtype} and {name}{first} {leaves[first].dtype}; use one dtype"
            )
        if leaf.device != leaves[first].device:
            raise InputError(
                f"{name}{path} is on {leaf.device} and {name}{first} on {leaves[first].device}; move all to one device"
            )
        if leaf.numel() and not bool(torch.isfinite(leaf.detach()).all()):
            raise InputError(f"{name}{path} has entries that are not finite; remove NaN and infinity first")
    if isinstance(tree, nn.Module):
        for path, part in tree.named_modules():
            if part.training and isinstance(part, nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm):
                raise InputError(
                    f"{name}: {path or 'the module'} is a {type(part).__name__} in training mode, so that "
                    f"a step is no function of its parameters; call .eval() on the module first"
                )
    layout = Layout(tuple(leaves), tuple(leaf.shape for leaf in leaves.values()), _builder(tree))
    if layout.size == 0:
        raise InputError(f"{name} has no entries: {_shapes(leaves)}; give at least one number")
    return layout, _join([leaf.detach() for leaf in leaves.values()]).clone()


def _join(leaves: Sequence[Tensor]) -> Tensor:
    return leaves[0].reshape(-1) if len(leaves) == 1 else torch.cat([leaf.reshape(-1) for leaf in leaves])


def _shapes(leaves: dict[str, Any]) -> str:
    """The shape of a single tensor, or of each with where it is."""
    shapes = {path: tuple(getattr(leaf, "shape", leaf)) for path, leaf in leaves.items()}
    if list(shapes) == [""]:
        return f"shape {shapes['']}"
    return ", ".join(f"{path}: {shape}" for path, shape in shapes.items()) or "no tensor"


def _leaves(tree: Any, path: str, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in `tree` with where they are; `name` is what the user calls the whole."""
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, nn.Module | Functional):
        for parameter, value in tree.named_parameters():
            yield f"{path}.{parameter}", value
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}[{key!r}]", name)
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from _leaves(value, f"{path}[{i}]", name)
    else:
        raise InputError(
            f"{name}{path} is a {type(tree).__name__}; give a tensor, a list, tuple or dict of tensors, or an nn.Module"
        )


def _builder(tree: Any) -> Callable[[Iterator[Tensor]], Any]:
    """A function that rebuilds `tree` from its leaves, in the order of `_leaves`."""
    if isinstance(tree, Tensor):
        return lambda leaves: next(leaves)
    if isinstance(tree, nn.Module):
        names = [name for name, _ in tree.named_parameters()]
        return lambda leaves: Functional(tree, {name: next(leaves) for name in names})
    if isinstance(tree, dict):
        inside = {key: _builder(value) for key, value in tree.items()}
        return lambda leaves: {key: build(leaves) for key, build in inside.items()}
    parts = [_builder(value) for value in tree]
    if isinstance(tree, list):
        return lambda leaves: [build(leaves) for build in parts]
    make = type(tree)._make if hasattr(tree, "_make") else tuple  # a named tuple stays one
    return lambda leaves: make(build(leaves) for build in parts)
