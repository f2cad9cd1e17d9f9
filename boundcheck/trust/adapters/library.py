"""Another library, imported when it is needed; where it is missing, the error says how to get it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from boundcheck.errors import InputError


def library(name: str) -> Any:
    """The module of another library.

    Raises
    ------
    InputError
        If it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(
            f"{package} cannot be imported ({type(error).__name__}); install it with: pip install 'boundcheck[audit]'"
        ) from error
