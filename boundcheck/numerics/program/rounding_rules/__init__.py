"""Rules of ball arithmetic: for each operation of PyTorch, an enclosure of its exact value on enclosed inputs.

A rule is one function, or one entry of a table. It takes the arguments of the operation, with balls instead of float
tensors; integer and boolean tensors stay as they are. It returns balls, and conditions or integers that are certain. It
returns None for a result about which it states nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boundcheck.numerics.program.rounding_rules import decisions, elementwise, linalg, losses, moves, products

RULES: dict[str, Callable[..., Any]] = (
    elementwise.RULES | decisions.RULES | moves.RULES | products.RULES | losses.RULES | linalg.RULES
)
