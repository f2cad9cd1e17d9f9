"""The old path of `boundcheck.numerics.bilevel.dynamics`, kept for one release."""

from boundcheck.numerics.bilevel.dynamics import *  # noqa: F403
