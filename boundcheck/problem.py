"""The old path of `boundcheck.numerics.bilevel.problem`, kept for one release."""

from boundcheck.numerics.bilevel.problem import *  # noqa: F403
from boundcheck.numerics.bilevel.problem_types import *  # noqa: F403
