"""The catalogue of theorems: every file in `bounds/` is one, listed by its file name and imported on first access."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from boundcheck.errors import UnknownNameError
from boundcheck.theory import bounds as package

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound


class Catalogue(Mapping[str, "Bound"]):
    """``bounds["aid-fp"]`` is the `BOUND` of ``bounds/aid_fp.py``."""

    def __init__(self) -> None:
        self._modules = {
            module.name.replace("_", "-"): f"{package.__name__}.{module.name}"
            for module in pkgutil.iter_modules(package.__path__)
        }

    def __getitem__(self, name: str) -> Bound:
        if name not in self._modules:
            raise UnknownNameError.among("bound", str(name), self._modules)
        bound: Bound = import_module(self._modules[name]).BOUND
        return bound

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __repr__(self) -> str:
        return f"Catalogue({', '.join(self)})"


bounds = Catalogue()
"""The mapping of names to theorems, as in `bounds["itd"]`."""
