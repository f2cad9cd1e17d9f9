"""The old path of `boundcheck.views.figures.report_figures`, kept for one release."""

from boundcheck.views.figures.report_figures import *  # noqa: F403
