"""Numbers for JSON, which has neither NaN nor infinity."""

from __future__ import annotations

import math
from typing import TypeVar

SCHEMA = 1  # the version of the output of `--json` and of the written reports
Value = TypeVar("Value")


def finite(value: Value) -> Value | None:
    """Return the value, or None for NaN and infinity, which JSON does not have.

    Examples
    --------
    >>> from boundcheck.json_numbers import finite
    >>> finite(0.5), finite(float("inf")), finite(float("nan")), finite("ridge"), finite(None)
    (0.5, None, None, 'ridge', None)
    """
    return None if isinstance(value, float) and not math.isfinite(value) else value
