"""What a reader sees first: the answer, a line for each method, what the words mean, and the verdict on a phone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from page_scripts import SETTLED

import boundcheck as bc
from boundcheck.methods import METHODS
from boundcheck.report.summary import Course
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side, in_words, standing
from boundcheck.views import page
from boundcheck.views.page import answer, colours, glossary, report_data

CELLS = """id => [...document.querySelectorAll(`#${id} > .scroll tbody tr`)].map(e =>
  Object.fromEntries([...e.cells].map(c => [c.dataset.head, c.innerText])))"""
OUTSIDE = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility()).map(e =>
  [e.textContent, e.getBoundingClientRect()]).filter(([text, box]) =>
  text === "" || box.width === 0 || box.left < 0 || box.right > innerWidth).map(([text]) => text)"""
LABEL = re.compile(r"\b(lm|lem|thm|th|eq|ass):|\beq2020|\b(boundSolver|boundFixed|appB)\b")


@pytest.fixture(scope="module")
def diverging() -> bc.Report:
    """One weight and a step with q = 1.5: no a priori bound applies, and those from the spectrum hold."""
    problem = bc.Problem.from_loss(
        lambda w, lam: (lam.exp() * w * w).sum() / 2 - w.sum(),
        lambda w, lam: ((w - 3) ** 2).sum() / 2,
        torch.zeros(1).double(),
        torch.zeros(1).double(),
        step_size=2.5,
        name="diverging",
    )
    return bc.check(problem, ["itd", "aid-fp"], t=6)


def value(text: str) -> float:
    """Of a number as the page writes it: 35.3 or 2.57×10⁻⁴."""
    return float(text.replace("×10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def test_the_answer_is_above_the_chart(visit: Any, report_file: Path, report: bc.Report) -> None:
    tab = visit(report_file)
    summary = report.summary
    assert summary.verdict_sentence in tab.text_content("#sentence")
    lines = tab.evaluate(CELLS, "answer")
    for line, method in zip(lines, summary.methods, strict=True):
        assert line["method"].startswith(f"{method.method} t = {method.t}")
        assert method.relative_error is not None
        assert value(line["relative error"].split("%")[0]) == pytest.approx(100 * method.relative_error, rel=1e-2)
        assert method.known in line["relative error"]
        assert method.angle is not None
        small = line["angle"] == "below 0.01°"
        assert small == (method.angle < 0.01)
        assert small or value(line["angle"].strip("≤ °")) == pytest.approx(method.angle, rel=1e-2)
        assert line["descent direction"] == {True: "yes", False: "no", None: "not known"}[method.descent]
        assert line["run"] == method.course.value
        assert method.best is not None
        assert method.best.grade is not None
        for word in (method.best.name, method.best.known, method.best.kind, method.best.grade.value):
            assert word in line["best bound"]
    boxes = [tab.locator(name).bounding_box() for name in ("#verdict", "#answer", "#chart")]
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[1]["y"] + boxes[1]["height"] <= boxes[2]["y"]
    tab.locator("#answer button", has_text="aid-fp").click()
    tab.evaluate(SETTLED)
    assert tab.text_content("#methods [aria-checked=true]") == "aid-fp"


def test_the_verdict_is_in_view_on_a_phone(visit: Any, report_file: Path) -> None:
    tab = visit(report_file, 390, 844)
    for table, cell in (("#tables", "tr[data-row] td.verdict span"), ("#verdicts", ".cards td[data-head=verdict]")):
        assert tab.locator(f"{table} {cell}").count() > 5
        assert tab.evaluate(OUTSIDE, f"{table} {cell}") == []
    assert tab.evaluate(OUTSIDE, "#answer td") == []
    assert tab.evaluate("document.querySelector('tr[data-row] th').nextElementSibling.className") == "verdict"
    bottom = tab.locator("#verdict").bounding_box()
    assert bottom["y"] + bottom["height"] < 844


def test_a_problem_without_sliders_says_why_and_what_to_do(visit: Any, diverging: bc.Report, tmp_path: Path) -> None:
    diverging.page(tmp_path / "diverging.html")
    tab = visit(tmp_path / "diverging.html")
    text = tab.inner_text("#constants")
    assert "There are no sliders." in text
    assert "no such bound applies to this problem" in text
    assert "itd, itd-local, aid-fp" in text
    assert "q = 1.5" in text
    assert tab.is_visible("#next")
    assert tab.locator("#no-sliders a[href='#next']").count() == 1
    assert not tab.is_visible("#reset")
    assert "diverging: itd, aid-fp" in tab.inner_text("#verdict")
    assert tab.get_attribute("#verdict", "class") == "doubt"  # though every bound that applies holds
    assert {line["run"] for line in tab.evaluate(CELLS, "answer")} == {"diverges"}
    text = (tmp_path / "diverging.html").read_text(encoding="utf-8")
    without_advice = re.sub(r'"next":\[[^]]*\]', '"next":[]', text)
    assert without_advice != text
    (tmp_path / "no-advice.html").write_text(without_advice, encoding="utf-8")
    tab = visit(tmp_path / "no-advice.html")
    assert not tab.is_visible("#next")
    assert diverging.summary.step_sentence in tab.inner_text("#no-sliders")


def test_a_problem_with_sliders_needs_no_reason(diverging: bc.Report) -> None:
    rows = report_data.rows(diverging)
    assert answer.why_no_sliders(diverging, rows)
    assert answer.why_no_sliders(diverging, [replace(rows[0], controls={"q": "q"}), *rows[1:]]) == []


def test_a_report_without_accuracies_bounds_or_trust_has_a_first_screen(
    visit: Any, report: bc.Report, tmp_path: Path
) -> None:
    """No accuracies, as in versions before 0.2; a method without bounds; a constant that was given wrong."""
    curves = {name: replace(curve, last=None) for name, curve in report.curves.items()}
    curves["itd"] = replace(curves["itd"], bounds={})
    D = report.constants["local"]["D"]
    wrong = replace(D, provenance=replace(D.provenance, refuted="given as 1, but is larger"))
    constants = {ball: some.replace(wrong) for ball, some in report.constants.items()}
    replace(report, curves=curves, gradient_norms=(), constants=constants).page(tmp_path / "old.html")
    tab = visit(tmp_path / "old.html")
    for line in tab.evaluate(CELLS, "answer"):
        assert line["relative error"].startswith("not known")
        assert line["angle"] == line["descent direction"] == "not known"
    assert "not used: D was given as 1, but is larger" in tab.inner_text("#verdict")
    tab.locator("#answer button", has_text="itd").click()
    tab.evaluate(SETTLED)
    assert "No bound applies to itd on this problem." in tab.inner_text("#tables")


def test_words_are_explained_in_a_part_that_is_folded(visit: Any, theory_file: Path) -> None:
    tab = visit(theory_file)
    assert not tab.is_visible("#help dl >> nth=0")
    tab.click("#help summary")
    terms = tab.locator("#help dt").all_inner_texts()
    assert {"Φ", "E", "λ", "w", "g", "ITD", "AID", "FP", "CG", "q", "κ"} <= set(terms)
    assert {verdict.value for verdict in Verdict} <= set(terms)
    assert {standing(side) for side in Side} | {course.value for course in Course} <= set(terms)


def test_the_glossary_names_every_method() -> None:
    text = " ".join((*glossary.METHODS, *glossary.METHODS.values())).lower()
    for method in METHODS:
        assert method in text or method in ("itd-truncated", "exact"), method


def test_every_method_has_a_colour_that_no_bound_has() -> None:
    methods = colours.of_methods([*METHODS, "aid-cg:10", "new"])
    assert methods.pop("aid-cg:10") == methods["aid-cg"]
    for ground in (0, 1):
        mine = [pair[ground] for pair in (*methods.values(), *colours.BOUNDS)]
        assert len(set(mine)) == len(mine)


def strings(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for key, value in data.items() if key != "code" for text in strings(value)]
    if isinstance(data, (list, tuple)):
        return [text for value in data for text in strings(value)]
    return [data] if isinstance(data, str) else []


@pytest.mark.parametrize("which", ["theory", "report"])
def test_no_label_of_a_paper_is_on_a_page(report: bc.Report, which: str) -> None:
    data, _ = page._content(report if which == "report" else None, 20, {})
    assert [text for text in strings(data) if LABEL.search(text)] == []


def test_the_page_uses_the_one_vocabulary(report: bc.Report) -> None:
    data, _ = page._content(report, 20, {})
    constants = {(entry["name"], entry["value"]): entry["side"] for entry in data["report"]["constants"]}
    for some in report.constants.values():
        for constant in some.values():
            if (constant.name, constant.value) in constants:
                assert constants[constant.name, constant.value] == in_words(constant.side, constant.name)
    for curve in data["report"]["curves"]:
        for name, bound in curve["bounds"].items():
            side = report.curve(curve["method"]).bounds[name].side
            assert (bound["known"], bound["side"]) == (standing(side), in_words(side))
    words = {word for control in data["controls"] if (word := control["side"])}
    assert words <= {in_words(side, name) for side in Side for name in ("q", "mu", "alpha")}
    assert "proved lower bound" in {entry["side"] for entry in data["report"]["constants"]}  # of μ
