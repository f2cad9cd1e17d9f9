"""Figures of a report: each function returns a figure, and `save` writes it.

`bc.plot` is the public name. This file, the old path of `boundcheck.views.figures.report_figures`, is kept for one
release.
"""

from boundcheck.views.figures.report_figures import *  # noqa: F403
