"""When a bound can be computed: before a run, from the spectrum, from a run, or from a better solution."""

from __future__ import annotations

from enum import Enum

from boundcheck.errors import InputError


class BoundKind(str, Enum):
    """When the right-hand side of a bound is known.

    A priori bounds may need constants at w*: W, g*, r_0.
    """

    A_PRIORI = "a priori"  # before a run, from constants
    FROM_SPECTRUM = "a priori, from the spectrum"  # before a run, from all eigenvectors of ∂₁Φ
    A_POSTERIORI = "a posteriori"  # from quantities measured on a run
    ENCLOSURE = "enclosure"  # from a better solution

    __str__ = str.__str__

    @classmethod
    def parse(cls, kind: BoundKind | str) -> BoundKind:
        """Convert a `BoundKind` or its text, such as ``"a priori"``, to a `BoundKind`."""
        try:
            return cls(kind)
        except ValueError:
            known = ", ".join(repr(known.value) for known in cls)
            raise InputError(f"kind = {kind!r} is not a kind of bound; use one of {known}") from None
