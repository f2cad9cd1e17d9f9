"""Conversion between the user's structures (tensors, lists, tuples, dicts, `nn.Module`s) and flat vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from boundcheck.errors import InputError
from boundcheck.numerics.program import torch_modules as modules
from boundcheck.numerics.program.torch_modules import Place, Plug

Build = Callable[[Iterator[Tensor]], Any]


@dataclass(frozen=True)
class Layout:
    """How a flat vector is cut into pieces, and how the user's structure is built from them.

    In the result of `build`, a dict of its pieces by name replaces a module. In the result of `build_for_call`, the
    module itself is there, and the pieces are its parameters, at `places`, while a user's function runs.
    """

    paths: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    build: Build
    build_for_call: Build | None = None  # None if there is no module; then `build` is used
    places: tuple[tuple[Place, ...], ...] = ()  # for each piece; empty if the piece belongs to no module
    spare: frozenset[str] = frozenset()  # parameters of modules that are frozen, or already pieces at another path
    tree: Any = field(default=None, repr=False, compare=False)  # the user's structure

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def unflatten(self, flat: Tensor) -> Any:
        """Build the user's structure from a flat vector, with a dict of parameters for each module."""
        return self.build(iter(self._pieces(flat)))

    def open(self, flat: Tensor) -> tuple[Any, list[Plug]]:
        """Return the argument for a user's function, and the parameters to put into modules while it runs."""
        pieces = self._pieces(flat)
        if self.build_for_call is None:
            return self.build(iter(pieces)), []
        return self.build_for_call(iter(pieces)), modules.plugs(pieces, self.places)

    def flatten(self, tree: Any, name: str) -> Tensor:
        """Return the flat vector of a structure with this layout.

        A module may be replaced by a dict of its parameters by name, or by a list of them.
        """
        leaves = {path: leaf for path, leaf in _leaves(tree, "", name, self.tree) if path not in self.spare}
        if set(leaves) == set(self.paths):
            leaves = {path: leaves[path] for path in self.paths}  # the keys of a dict may have any order
        if tuple(leaves) != self.paths or tuple(leaf.shape for leaf in leaves.values()) != self.shapes:
            wanted = dict(zip(self.paths, self.shapes, strict=True))
            raise InputError(f"{name} has {_shapes(leaves)}; give {_shapes(wanted)}")
        return _join(list(leaves.values()))

    def _pieces(self, flat: Tensor) -> Sequence[Tensor]:
        if len(self.shapes) == 1:
            return (flat if flat.shape == self.shapes[0] else flat.reshape(self.shapes[0]),)
        sizes = [math.prod(shape) for shape in self.shapes]
        return [piece.reshape(shape) for piece, shape in zip(torch.split(flat, sizes), self.shapes, strict=True)]

    def originals(self) -> dict[str, Tensor]:
        """Return the tensors of the user's structure, by path."""
        leaves = dict(_leaves(self.tree, "", ""))
        return {path: leaves[path] for path in self.paths}

    def modules(self) -> list[tuple[str, nn.Module]]:
        """Return the modules of the user's structure, each with its path."""
        return list(_modules(self.tree, ""))


def read(tree: Any, name: str) -> tuple[Layout, Tensor]:
    """Return the layout of a user's structure, and its values as one flat, detached vector.

    The pieces of a module are its parameters, each counted once even if it is used several times. Parameters with
    requires_grad=False are constants.
    """
    nested_modules = list(_modules(tree, ""))
    for path, module in nested_modules:
        modules.refuse_unusable(module, f"{name}{path}")
    all_leaves = dict(_leaves(tree, "", name))
    tied = modules.tied([module for _, module in nested_modules])
    spare = _spare(nested_modules, all_leaves)
    leaves = {path: leaf for path, leaf in all_leaves.items() if path not in spare}
    if not leaves and nested_modules:
        raise InputError(
            f"{name}: no parameter of the module requires gradients; call .requires_grad_() on some of them"
        )
    if not leaves:
        raise InputError(f"{name} holds no tensor; give a tensor, a list, tuple or dict of tensors, or an nn.Module")
    _check(leaves, name)
    layout = Layout(
        paths=tuple(leaves),
        shapes=tuple(leaf.shape for leaf in leaves.values()),
        build=_builder(tree, "", spare, call=False),
        build_for_call=_builder(tree, "", spare, call=True) if nested_modules else None,
        places=tuple(tied.get(id(leaf), ()) for leaf in leaves.values()) if nested_modules else (),
        spare=spare,
        tree=tree,
    )
    if layout.size == 0:
        raise InputError(f"{name} has no entries: {_shapes(leaves)}; give at least one number")
    return layout, _join([leaf.detach() for leaf in leaves.values()]).clone()


def _check(leaves: dict[str, Tensor], name: str) -> None:
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


def _spare(nested_modules: list[tuple[str, nn.Module]], all_leaves: dict[str, Tensor]) -> frozenset[str]:
    """Return the parameters of modules that are frozen or have another path already."""
    inside = {
        f"{path}.{name}": parameter for path, module in nested_modules for name, parameter in module.named_parameters()
    }
    used_ids = {id(leaf) for path, leaf in all_leaves.items() if path not in inside}
    spare = set()
    for path, parameter in inside.items():
        if not parameter.requires_grad or id(parameter) in used_ids:
            spare.add(path)
        used_ids.add(id(parameter))
    return frozenset(spare)


def _join(leaves: Sequence[Tensor]) -> Tensor:
    if len(leaves) > 1:
        return torch.cat([leaf.reshape(-1) for leaf in leaves])
    return leaves[0] if leaves[0].dim() == 1 else leaves[0].reshape(-1)


def _shapes(leaves: dict[str, Any]) -> str:
    """Describe the shape of a single tensor, or the path and shape of each tensor."""
    shapes = {path: tuple(getattr(leaf, "shape", leaf)) for path, leaf in leaves.items()}
    if list(shapes) == [""]:
        return f"shape {shapes['']}"
    return ", ".join(f"{path}: {shape}" for path, shape in shapes.items()) or "no tensor"


def _leaves(tree: Any, path: str, name: str, like: Any = None) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in `tree` with their paths. `name` is the user's name for the whole structure.

    If `like` has a module at some place, a dict or list in `tree` may replace it, with its parameters.
    """
    if isinstance(tree, Tensor):
        if tree.layout is not torch.strided:
            raise InputError(f"{name}{path} is a sparse tensor; give a dense one, as .to_dense() returns")
        yield path, tree
    elif isinstance(tree, nn.Module):
        for parameter, value in tree.named_parameters():
            yield f"{path}.{parameter}", value
    elif isinstance(like, nn.Module) and isinstance(tree, dict | list | tuple):
        for parameter, value in (tree if isinstance(tree, dict) else modules.by_name(like, tree)).items():
            yield from _leaves(value, f"{path}.{parameter}", name)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}[{key!r}]", name, like.get(key) if isinstance(like, dict) else None)
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            has_item = isinstance(like, list | tuple) and i < len(like)
            yield from _leaves(value, f"{path}[{i}]", name, like[i] if has_item else None)
    else:
        raise InputError(
            f"{name}{path} is a {type(tree).__name__}; give a tensor, a list, tuple or dict of tensors, or an nn.Module"
        )


def _modules(tree: Any, path: str) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(tree, nn.Module):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _modules(value, f"{path}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from _modules(value, f"{path}[{i}]")


def builder(tree: Any) -> Build:
    """Return a function that rebuilds `tree`, a structure without modules, from its tensors in their order."""
    return _builder(tree, "", frozenset(), call=False)


def _builder(tree: Any, path: str, spare: frozenset[str], call: bool) -> Build:
    """Return a function that rebuilds `tree` from its leaves, in the order of `_leaves`.

    With `call`, a module is returned itself; otherwise as a dict of its parameters.
    """
    if isinstance(tree, Tensor):
        return lambda leaves: next(leaves)
    if isinstance(tree, nn.Module):
        names = [name for name, _ in tree.named_parameters() if f"{path}.{name}" not in spare]
        if call:
            return lambda leaves: (tree, [next(leaves) for _ in names])[0]
        return lambda leaves: {name: next(leaves) for name in names}
    if isinstance(tree, dict):
        inside = {key: _builder(value, f"{path}[{key!r}]", spare, call) for key, value in tree.items()}
        return lambda leaves: {key: build(leaves) for key, build in inside.items()}
    parts = [_builder(value, f"{path}[{i}]", spare, call) for i, value in enumerate(tree)]
    if isinstance(tree, list):
        return lambda leaves: [build(leaves) for build in parts]
    make = type(tree)._make if hasattr(tree, "_make") else tuple  # a named tuple stays one
    return lambda leaves: make(build(leaves) for build in parts)
