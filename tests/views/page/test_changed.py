"""Verdicts are about measured constants: none is left standing beside a slider that was moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_scripts import SET, SETTLED, VALUES

import boundcheck as bc
from boundcheck.views.page import report_data

LINES = """() => Object.fromEntries([...document.querySelectorAll("tr[data-row]")].map(e =>
  [e.dataset.row, [e.querySelector(".ratio").textContent, e.querySelector(".verdict").textContent]]))"""
VERDICTS = """() => Object.fromEntries([...document.querySelectorAll("#verdicts > .scroll tbody tr")].map(e =>
  [e.cells[0].textContent + "/" + e.cells[1].textContent, [e.cells[2].textContent, e.classList.contains("moved")]]))"""
WITH = "with these sliders: "


def moved(tab: Any, places: dict[str, int]) -> dict[str, list[str]]:
    """(bound/error, verdict) of every row after sliders were moved."""
    tab.evaluate(SET, places)
    tab.evaluate(SETTLED)
    lines: dict[str, list[str]] = tab.evaluate(LINES)
    return lines


def test_a_moved_constant_suspends_the_verdicts_of_its_bounds(visit: Any, report_file: Path, report: bc.Report) -> None:
    tab = visit(report_file)
    before, banner, verdicts = moved(tab, {"t": 20}), tab.inner_text("#verdict"), tab.evaluate(VERDICTS)
    assert verdicts == {row: [verdict, False] for row, (_, verdict) in before.items()}
    assert report.verdict.value in banner
    assert tab.get_attribute("#verdict", "class") == "good"
    of_q = {f"{row.method}/{row.bound.name}" for row in report_data.rows(report) if "q" in row.controls.values()}
    for place, word in ((0, "below"), (1000, "above")):  # q = 0, and close to 1
        lines = moved(tab, {"q": place})
        assert lines["itd/itd"][1] == f"{WITH}{word} the error"
        for row, (ratio, verdict) in lines.items():
            if row not in of_q:
                assert [ratio, verdict] == before[row]
            elif ratio == "–":
                assert verdict in (f"{WITH}says nothing", f"{WITH}not compared")
            else:
                assert verdict == f"{WITH}{'below' if float(ratio[1:].split('×')[0]) < 1 else 'above'} the error"
        assert tab.evaluate(VERDICTS) == {
            row: [f"{verdict} at t = 20" if row in of_q else verdict, row in of_q]
            for row, (_, verdict) in lines.items()
        }
        message, below = (
            tab.inner_text("#verdict"),
            sum(verdict.endswith("below the error") for _, verdict in lines.values()),
        )
        assert message.startswith("constants changed: the verdicts below are not about these values.")
        assert f"With these sliders, {below} of {len(of_q)} bounds" in message
        assert "holds" not in message
        assert tab.get_attribute("#verdict", "class") == "moved"
        assert tab.get_attribute("#answer", "class") == "moved"
        assert "no verdict is about these values" in tab.text_content("#constants-hint")
    assert tab.text_content("#suspended button") == "Back to the measured values"
    tab.click("#suspended button")
    tab.evaluate(SETTLED)
    assert (tab.evaluate(LINES), tab.evaluate(VERDICTS)) == (before, verdicts)
    assert tab.get_attribute("#answer", "class") == ""
    assert tab.inner_text("#verdict") == banner
    assert tab.get_attribute("#verdict", "class") == "good"
    assert tab.evaluate("document.activeElement.id") == "reset"


@pytest.mark.parametrize("way", ["field", "tie"])
def test_typing_or_tying_is_a_change_too(visit: Any, report_file: Path, way: str) -> None:
    tab = visit(report_file)
    before = tab.evaluate(LINES)
    if way == "field":
        tab.fill("input[aria-label^='D:'][type=number]", "1e-9")
    else:
        tab.check("#tie")
    tab.evaluate(SETTLED)
    assert tab.is_visible("#suspended")
    assert any(verdict.startswith(WITH) for _, verdict in tab.evaluate(LINES).values())
    tab.click("#reset")
    tab.evaluate(SETTLED)
    assert not tab.is_visible("#suspended")
    assert tab.evaluate(LINES) == before


def test_t_and_k_are_no_constants(visit: Any, report_file: Path) -> None:
    """The verdict stays; an error of another k than the run's is not compared with the bound."""
    tab = visit(report_file)
    before = moved(tab, {"t": 20})
    lines = moved(tab, {"t": 7})
    assert [verdict for _, verdict in lines.values()] == [verdict for _, verdict in before.values()]
    moved(tab, {"t": 20})
    tab.uncheck("#follow")
    tab.evaluate(SETTLED)  # until then the slider of k is disabled
    lines = moved(tab, {"k": 3})
    assert not tab.is_visible("#suspended")
    assert [verdict for _, verdict in lines.values()] == [verdict for _, verdict in before.values()]
    assert lines["aid-fp/aid-fp"][0] == "–"
    assert lines["itd/itd"] == before["itd/itd"]
    lines = moved(tab, {"q": 0})
    assert lines["aid-fp/aid-fp"][1] == f"{WITH}not compared"


def test_errors_that_are_rounding_are_not_compared(visit: Any, tmp_path: Path) -> None:
    """No ratio below 1 stands beside `holds` where the error is at the floor."""
    report = bc.check(bc.problems.scalar(q=0.5), ["itd"], t=80)
    report.page(tmp_path / "long.html")
    compared = np.isfinite([bound.tightness[0] for bound in report.curve("itd").applicable.values()]).any(axis=0)
    assert 1 < compared.sum() < 80
    tab = visit(tmp_path / "long.html")
    last = int(np.flatnonzero(compared)[-1]) + 1
    assert report.curve("itd").errors[0, last] > 0  # though rounding
    for t in (last, last + 1):
        lines = moved(tab, {"t": t})
        assert any(ratio != "–" for ratio, _ in lines.values()) == compared[t - 1], t


def test_a_number_outside_of_its_domain_is_refused_in_words(visit: Any, theory_file: Path) -> None:
    """The message stays when the field is left, which then shows what counts; the next number that counts ends it."""
    tab = visit(theory_file)
    tab.uncheck("#follow")
    tab.evaluate(SETTLED)
    for label, silly, words in (
        ("q", "2", " must be a number at least 0 and below 1 (got 2). The curves keep "),
        ("q", "-1", "(got -1)"),
        ("q", "", "(got nothing)"),
        ("q", "1e", "(got not a number)"),
        ("kappa", "0.5", "a number at least 1 (got 0.5)"),
        ("t", "0", "a whole number from 1 to 100 (got 0)"),
        ("t", "1.5", "a whole number from 1 to 100"),
        ("k", "", "a whole number from 0 to 100"),
    ):
        field = tab.locator(f"#c-{label}").locator("xpath=../input[@type='number']")
        complaint = tab.locator(f"#c-{label}").locator("xpath=../span[@role='alert']")
        before, shown = tab.evaluate(VALUES), field.input_value()
        if silly == "1e":
            field.select_text()
            field.press_sequentially(silly, delay=0)  # what cannot be filled in can be typed
        else:
            field.fill(silly)
        tab.evaluate(SETTLED)
        assert words in complaint.text_content()
        assert field.get_attribute("aria-invalid") == "true"
        assert tab.evaluate(VALUES) == before
        field.blur()
        tab.evaluate(SETTLED)
        assert complaint.is_visible()
        assert field.input_value() == shown
        field.fill("3" if label != "q" else "0.3")
        tab.evaluate(SETTLED)
        assert not complaint.is_visible()
