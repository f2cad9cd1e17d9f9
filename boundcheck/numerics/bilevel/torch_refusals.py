"""One-line errors with a remedy for operations that PyTorch cannot differentiate or cannot run in batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from boundcheck.errors import BoundcheckError, UserCodeError
from boundcheck.numerics.bilevel.user_functions import SPARSE, raised

Given = ParamSpec("Given")
Result = TypeVar("Result")
REMEDIES = {  # by a part of PyTorch's message
    "parse": SPARSE,  # matches "Sparse" and "sparse"
    "vmap": "write that operation with simpler ones, and out of place; boundcheck runs functions in batches",
    "derivative for": "write that operation with simpler ones, which have second derivatives",
    "forward AD": "write that operation with simpler ones, which have derivatives in forward mode",
}


def in_words(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Decorate a function so that PyTorch's refusals of a user's operations become a UserCodeError."""

    @wraps(function)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except BoundcheckError:
            raise
        except (RuntimeError, NotImplementedError) as error:
            if not any(sign in str(error) for sign in REMEDIES):
                raise
            raise UserCodeError(f"a derivative of one of your functions {raised(error, REMEDIES)}") from error

    return run
