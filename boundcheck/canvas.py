"""The old path of `boundcheck.views.figures.canvas`, kept for one release."""

from boundcheck.views.figures.canvas import *  # noqa: F403
