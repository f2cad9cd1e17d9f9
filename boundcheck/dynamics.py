"""The iterations that produce w_t from Φ: gradient descent, heavy ball, Nesterov.

`bc.dynamics` is the public name. This file, the old path of `boundcheck.numerics.bilevel.dynamics`, is kept for one
release.
"""

from boundcheck.numerics.bilevel.dynamics import *  # noqa: F403
