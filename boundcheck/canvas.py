"""The old paths of `boundcheck.views.figures.canvas` and `legends`, kept for one release."""

from boundcheck.views.figures.canvas import *  # noqa: F403
from boundcheck.views.figures.legends import *  # noqa: F403
