"""Rules of ball arithmetic: for each operation of PyTorch, an enclosure of its exact value on enclosed inputs.

One function, or one row of a table, is one rule, with the arguments of the operation: balls in the place of float
tensors, tensors of whole numbers and conditions as they are. A rule returns balls, conditions or whole numbers that are
sure, and None for what it says nothing of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boundcheck.numerics.program.rounding_rules import decisions, elementwise, linalg, losses, moves, products

RULES: dict[str, Callable[..., Any]] = (
    elementwise.RULES | decisions.RULES | moves.RULES | products.RULES | losses.RULES | linalg.RULES
)
