"""Adapters that turn the objects of other libraries into a `Problem` and a hypergradient: `bc.adapters.hypertorch`, …

A library is imported only when an adapter that needs it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boundcheck.trust.adapters import hypertorch, jaxopt, torchdeq, torchopt
    from boundcheck.trust.adapters.numpy_arrays import from_numpy

LIBRARIES = ("hypertorch", "jaxopt", "torchdeq", "torchopt")

__all__ = ["from_numpy", "hypertorch", "jaxopt", "torchdeq", "torchopt"]


def __getattr__(name: str) -> Any:
    if name in LIBRARIES:
        return import_module(f"boundcheck.trust.adapters.{name}")
    if name == "from_numpy":
        return import_module("boundcheck.trust.adapters.numpy_arrays").from_numpy
    raise AttributeError(f"module 'boundcheck.adapters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
