"""A link of a proof that makes the value smaller gets a sentence that says why: in a proof no link may."""

from __future__ import annotations

from io import StringIO

import pytest
from figure_parts import falling
from rich.console import Console

from boundcheck.report.report import Report
from boundcheck.views.terminal import show_details


def shown(report: Report) -> str:
    console = Console(width=160, color_system=None, record=True, file=StringIO())
    show_details.show(report, console)
    return " ".join(console.export_text().split())


@pytest.mark.parametrize("broken", [False, True])
def test_a_link_with_slack_below_1_gets_a_sentence(broken: bool) -> None:
    text = shown(falling(broken))
    why = "is too small, as an estimate from below may be" if broken else "that is rounding"
    assert text.count("lowers the value") == 1
    assert "lowers the value (×0.9169): " in text
    assert why in text


def test_a_proof_that_holds_gets_none() -> None:
    assert "lowers the value" not in shown(falling(slack=1.0))
