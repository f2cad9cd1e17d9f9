"""The names of the methods, deterministic and random ones, and the notation `aid-cg:10` for a fixed k."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from boundcheck.errors import InputError, UnknownNameError

METHODS = {
    "itd": "differentiate through t lower-level iterations",
    "itd-truncated": "differentiate through the last K of t iterations",
    "aid-fp": "implicit differentiation, linear system by k fixed-point iterations",
    "aid-cg": "implicit differentiation, linear system by k steps of conjugate gradient",
    "aid-cgn": "implicit differentiation, k steps of conjugate gradient on the normal equations",
    "exact": "implicit differentiation, linear system solved exactly",
}

RANDOM_METHODS = {
    "sid": "implicit differentiation on minibatches, linear system by k stochastic fixed-point iterations",
    "neumann": "implicit differentiation on minibatches, linear system by a Neumann series of random length below k",
}


def default_methods(symmetric: bool | None) -> tuple[str, ...]:
    """Return the methods of the paper; if ∂₁Φ is known not to be symmetric, with CG on the normal equations.

    Parameters
    ----------
    symmetric : bool or None
        Whether ∂₁Φ is symmetric; None if this is not known.
    """
    return ("itd", "aid-fp", "aid-cgn" if symmetric is False else "aid-cg")


def unrolls(name: str) -> bool:
    """Return whether a method, such as `itd` or `itd-truncated:10`, differentiates through its iterations."""
    return name.partition(":")[0] in ("itd", "itd-truncated")


@dataclass(frozen=True)
class Method:
    """A method and its k: fixed, or None for k = t."""

    name: str
    k: int | None = None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}:{self.k}"

    @property
    def is_random(self) -> bool:
        """Whether the method draws minibatches. Its error is then a random number."""
        return self.name in RANDOM_METHODS

    @property
    def unrolls(self) -> bool:
        """Whether the method differentiates through its iterations. Other methods solve a linear system."""
        return unrolls(self.name)

    def steps(self, t: int) -> int:
        """Return the k for this t; itd-truncated can differentiate through at most t steps."""
        if self.k is None:
            return t
        return min(self.k, t) if self.name == "itd-truncated" else self.k


def parse(text: str) -> Method:
    """Return the method of a text such as `aid-cg` or `aid-cg:10`."""
    name, colon, k = str(text).partition(":")
    if name not in METHODS and name not in RANDOM_METHODS:
        raise UnknownNameError.among("method", name, (*METHODS, *RANDOM_METHODS))
    if not colon:
        if name == "itd-truncated":
            raise InputError("itd-truncated needs the number of steps to differentiate through; write itd-truncated:10")
        return Method(name)
    if name in ("itd", "exact"):
        raise InputError(f"{name} takes no k; write {name}" + (" or itd-truncated:K" if name == "itd" else ""))
    if not k.isdecimal():
        raise InputError(f"k = {k!r} in {text!r} is not a number of steps; write for example {name}:10")
    return Method(name, int(k))


def refuse_random(method: Method, remedy: str) -> None:
    """Raise InputError for a method that draws minibatches."""
    if method.is_random:
        raise InputError(f"{method} draws minibatches, so its error is a random number; {remedy}")


def count(value: object, name: str, least: int = 0) -> int:
    """Return a number of steps as int; InputError unless it is an integer (also of numpy) of at least `least`."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < least:
        words = f"at least {least}" if type(value) is int else f"a whole number, at least {least}"
        raise InputError(f"{name} must be {words} (got {value!r})")
    return number
