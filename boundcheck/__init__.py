"""boundcheck: does this hypergradient bound hold on my problem, how tight is it, and where does the proof lose?

The public names, loaded when first used: importing boundcheck imports neither sympy nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from boundcheck.constants import Ball, Constant, Constants, Provenance, Side
    from boundcheck.errors import AssumptionError, BoundcheckError, InputError, MissingConstantError, UnknownNameError
    from boundcheck.theory.bound import Bound
    from boundcheck.theory.catalogue import bounds
    from boundcheck.theory.evaluation import BoundValues

_HOME = {
    "AssumptionError": "boundcheck.errors",
    "Ball": "boundcheck.constants",
    "Bound": "boundcheck.theory.bound",
    "BoundValues": "boundcheck.theory.evaluation",
    "BoundcheckError": "boundcheck.errors",
    "Constant": "boundcheck.constants",
    "Constants": "boundcheck.constants",
    "InputError": "boundcheck.errors",
    "MissingConstantError": "boundcheck.errors",
    "Provenance": "boundcheck.constants",
    "Side": "boundcheck.constants",
    "UnknownNameError": "boundcheck.errors",
    "bounds": "boundcheck.theory.catalogue",
}

__all__ = [
    "AssumptionError",
    "Ball",
    "Bound",
    "BoundValues",
    "BoundcheckError",
    "Constant",
    "Constants",
    "InputError",
    "MissingConstantError",
    "Provenance",
    "Side",
    "UnknownNameError",
    "__version__",
    "bounds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'boundcheck' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
