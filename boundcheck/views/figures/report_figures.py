"""Figures of a report, for papers. Each function returns a Figure, and `save` writes it; no display is needed."""

from __future__ import annotations

from boundcheck.views.figures.canvas import save
from boundcheck.views.figures.constants_figure import constants
from boundcheck.views.figures.drawn_bounds import chosen
from boundcheck.views.figures.error_figure import errors
from boundcheck.views.figures.method_style import (
    style_of,
)
from boundcheck.views.figures.proof_figure import trace, trace_over_t, waterfall
from boundcheck.views.figures.run_figure import along_run
from boundcheck.views.figures.tightness_figure import tightness

__all__ = [
    "along_run", "chosen", "constants", "errors", "save", "style_of", "tightness", "trace", "trace_over_t", "waterfall",
]  # fmt: skip
