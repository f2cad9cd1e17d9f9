"""Require that every assumption of every bound has a check, or a reason why it is always met."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from boundcheck.errors import UnknownNameError
from boundcheck.theory.bound import Bound


def require_checks(bounds: Iterable[Bound], known: Collection[str]) -> None:
    """Raise UnknownNameError for an assumption whose key is not in `known`, the keys with a check or a reason."""
    for bound in bounds:
        for assumption in bound.assumptions:
            if assumption.key not in known:
                raise UnknownNameError.among(f"assumption of {bound.name}", assumption.key, known)
