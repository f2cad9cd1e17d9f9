"""The old path of `boundcheck.theory.citation`, whose `Citation` was called `Reference`; kept for one release."""

from boundcheck.theory.citation import *  # noqa: F403
from boundcheck.theory.citation import Citation as Reference  # noqa: F401
