"""Numbers in JSON, which has neither NaN nor infinity."""

from __future__ import annotations

import math
from typing import TypeVar

SCHEMA = 1  # of what commands print with `--json`, and of the reports that they write
Value = TypeVar("Value")


def finite(value: Value) -> Value | None:
    """A value as JSON has it: null for NaN and infinity.

    Examples
    --------
    >>> from boundcheck.json_numbers import finite
    >>> finite(0.5), finite(float("inf")), finite(float("nan")), finite("ridge"), finite(None)
    (0.5, None, None, 'ridge', None)
    """
    return None if isinstance(value, float) and not math.isfinite(value) else value
