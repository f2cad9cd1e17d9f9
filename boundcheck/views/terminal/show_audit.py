"""Output of `boundcheck audit`, as text or JSON: the error of a hypergradient, and the wrong part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boundcheck import __version__
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.side import standing
from boundcheck.views.terminal.console import Screen

if TYPE_CHECKING:
    from boundcheck.report.audit import Audit
    from boundcheck.report.enclosure import Enclosure

DESCENT = {True: "yes", False: "no", None: "not known"}


def as_json(about: Mapping[str, Any], audit: Audit) -> dict[str, Any]:
    """Return the result as JSON, with None for infinity; `about` describes the problem."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "problem": dict(about),
        "relative_error": finite(audit.relative_error),
        "angle": audit.angle,
        "descent": audit.descent,
        "fault": audit.fault,
        "message": audit.message,
        "remedy": audit.remedy,
        "error": _ends(audit.error),
        "gradient_norm": _ends(audit.gradient_norm),
        "side": audit.error.side.value,
        "delta": audit.error.delta,
    }


def _ends(enclosure: Enclosure) -> dict[str, float | None]:
    return {"lower": finite(float(enclosure.lower)), "upper": finite(float(enclosure.upper))}


def show(about: Mapping[str, Any], audit: Audit, console: Console | None = None) -> None:
    """Print the message, and the numbers below it."""
    console = console or Screen(highlight=False)
    console.print(f"[bold]{about['name']}[/bold]  d = {about['dim']}, n = {about['hdim']}, {about['dtype']}")
    good = audit.fault is None and audit.descent is True
    console.print(Text(audit.message, style="" if good else "yellow"))
    console.print()
    table = Table(box=None, pad_edge=False, show_header=False)
    relative = f"{audit.relative_error:.3g}" if math.isfinite(audit.relative_error) else "∞, as ∇f may be 0"
    table.add_row("relative error", relative)
    table.add_row("angle", f"{audit.angle:.3g}°")
    table.add_row("−g is a descent direction", DESCENT[audit.descent])
    table.add_row("fault", audit.fault or "–")
    table.add_row("‖g − ∇f‖", f"{float(audit.error.lower):.6g} … {float(audit.error.upper):.6g}")
    table.add_row("‖∇f‖", f"{float(audit.gradient_norm.lower):.6g} … {float(audit.gradient_norm.upper):.6g}")
    table.add_row("these numbers are", standing(audit.error.side))
    console.print(table)
