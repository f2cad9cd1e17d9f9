"""Import an optional library when it is needed, with an error that says how to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from boundcheck.errors import InputError


def library(name: str) -> Any:
    """Import a module of an optional library.

    Raises
    ------
    InputError
        If the library cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(
            f"{package} cannot be imported ({type(error).__name__}); install it with: pip install 'boundcheck[audit]'"
        ) from error
