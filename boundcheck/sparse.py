"""The old path of `boundcheck.problems.parts.sparse_matrix`, kept for one release."""

from boundcheck.problems.parts.sparse_matrix import *  # noqa: F403
