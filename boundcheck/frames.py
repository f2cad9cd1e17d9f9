"""Pandas tables. Pandas is imported only when a table is created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from boundcheck.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(columns: Mapping[str, Sequence[Any]]) -> DataFrame:
    """Return a DataFrame of columns of the same length.

    Raises
    ------
    InputError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas, which is not installed; pip install 'boundcheck[frames]'") from None
    return pandas.DataFrame({name: list(values) for name, values in columns.items()})
