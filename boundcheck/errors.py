"""The errors of boundcheck. Every message has the name, the value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BoundcheckError(Exception):
    """Base class of all errors that boundcheck raises on purpose; the text is one line."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class InputError(BoundcheckError, ValueError):
    """A value that cannot be used: wrong sign, not a number, not an integer, not positive."""


class MissingConstantError(BoundcheckError, LookupError):
    """A bound needs constants that were not given; `names` has their names."""

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class AssumptionError(BoundcheckError):
    """An assumption of the theorem fails for these values, so the bound does not apply."""


class UnknownNameError(BoundcheckError, KeyError):
    """A name is not in the catalogue in which it was looked up."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Return the error for an unknown name, with the closest known names as the remedy.

        Parameters
        ----------
        kind : str
            The kind of object that was looked up, such as "bound".
        name : str
            The unknown name.
        known : iterable of str
            The known names.

        Returns
        -------
        UnknownNameError
            The error, which the caller raises.
        """
        known = sorted(known)
        close = difflib.get_close_matches(name, known, n=3)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known) or 'none'}"
        return cls(f"unknown {kind} {name!r}; {remedy}")


class DivergenceError(BoundcheckError, ArithmeticError):
    """An iteration produced a value that is not finite, or did not converge."""


class ToleranceError(DivergenceError):
    """A tolerance was not reached; `best` is the best hypergradient so far, with bounds on its error."""

    def __init__(self, message: str, best: object = None) -> None:
        super().__init__(message)
        self.best = best


class UserCodeError(BoundcheckError, RuntimeError):
    """A function of the user raised an error; the original error is the `__cause__`."""


class InterruptedRunError(BoundcheckError):
    """The user stopped a command with Ctrl-C; the text says which files were written before."""
