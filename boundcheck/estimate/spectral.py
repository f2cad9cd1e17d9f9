"""The old path of `boundcheck.numerics.estimate.lanczos`, kept for one release."""

from boundcheck.numerics.estimate.lanczos import *  # noqa: F403
