"""The page in a real browser: values as in the library, keyboard, proofs, no message, nothing that overlaps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figure_parts import falling
from page_scripts import CONSTANTS, SET, SETTLED, VALUES
from small import small

import boundcheck as bc
from boundcheck.theory.rates import SOLVER_RATES
from boundcheck.theory.symbols import rho, sigma
from boundcheck.views.page import rows

OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll("input, button, select, summary")]
    .filter(e => e.checkVisibility() && e.getBoundingClientRect().width > 0)
    .map(e => [e.id || e.textContent || e.getAttribute("aria-label"), e.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([a, x], i) => boxes.slice(i + 1).forEach(([b, y]) => {
    const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left);
    const high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
    if (wide > 1 && high > 1) found.push([a, b]);
  }));
  return found;
}"""
NAMELESS = """() => [...document.querySelectorAll("input, button, select")].filter(e =>
  !(e.getAttribute("aria-label") || e.textContent.trim()
    || (e.labels && [...e.labels].some(l => l.textContent.trim()))))
  .map(e => e.outerHTML)"""
FORMULAS = """() => {
  const data = JSON.parse(document.getElementById("data").textContent), bad = [];
  const texts = [data.tie, ...data.controls.map(c => c.latex)];
  const links = x => x.flatMap(link => [link.formula, ...link.uses.map(([latex]) => latex)]);
  for (const b of Object.values(data.bounds)) texts.push(b.statement, ...b.where, ...b.unless, ...links(b.proof));
  if (data.report) {
    texts.push(...data.report.constants.map(c => c.latex));
    for (const curve of data.report.curves)
      for (const b of Object.values(curve.bounds)) if (b.trace) texts.push(...links(b.trace.links));
  }
  for (const text of new Set(texts)) {
    try { katex.renderToString(text, {throwOnError: true, strict: "error"}); } catch (why) { bad.push(String(why)); }
  }
  return [texts.length, bad];
}"""


def expected(row: rows.Row, values: dict[str, float]) -> float | None:
    """By the bound of the catalogue, with the rates by name; None where the theorem refuses."""
    given: dict[str, Any] = {}
    if row.bound.mentions(sigma) and row.method in SOLVER_RATES:
        given["sigma"] = SOLVER_RATES[row.method]
    if row.bound.mentions(rho) and rho not in row.bound.defaults:
        given["rho"] = "contraction"
    if "K" in row.code.symbols:
        given["K"] = int(values["K"])
    constants = {name: values[key] for name, key in row.controls.items()}
    try:
        return float(row.bound.evaluate(constants, int(values["t"]), int(values["k"]), **given).values)
    except bc.AssumptionError:
        return None


def test_values_equal_the_library_on_a_grid_of_positions(visit: Any, theory_file: Path) -> None:
    tab = visit(theory_file)
    names = [name for name in tab.evaluate(CONSTANTS) if name not in ("t", "k", "K")]
    tab.uncheck("#follow")
    draw = random.Random(0)
    seen: dict[str, int] = {}
    for number in range(16):
        if number == 8:
            tab.uncheck("#tie")
        places = {name: draw.choice([0, 1, 250, 400, 500, 613, 750, 999]) for name in names}
        tab.evaluate(SET, places | {name: draw.choice([1, 2, 17, 60, 100]) for name in ("t", "k", "K")})
        tab.evaluate(SETTLED)
        values, shown = tab.evaluate(CONSTANTS), tab.evaluate(VALUES)
        for row in rows.theory():
            result, wanted = shown[f"{row.method}/{row.bound.name}"], expected(row, values)
            if wanted is None:
                assert result == "", row
            else:
                assert float(result) == pytest.approx(wanted, rel=1e-12, abs=1e-300), (row, values)
                seen[row.bound.name] = seen.get(row.bound.name, 0) + 1
    assert set(seen) == set(bc.bounds)
    assert min(seen.values()) >= 2


def test_an_exact_number_can_be_typed(visit: Any, theory_file: Path) -> None:
    tab = visit(theory_file)
    tab.fill("input[aria-label^='q:'][type=number]", "0.123456789012345")
    tab.evaluate(SETTLED)
    assert tab.evaluate(CONSTANTS)["q"] == 0.123456789012345
    assert tab.evaluate(CONSTANTS)["kappa"] == pytest.approx(1.123456789012345 / 0.876543210987655, rel=1e-12)
    tab.fill("input[aria-label^='q:'][type=number]", "1.5")  # no contraction: nothing moves
    tab.evaluate(SETTLED)
    assert tab.evaluate(CONSTANTS)["q"] == 0.123456789012345


def test_the_keyboard_moves_sliders_and_values(visit: Any, theory_file: Path) -> None:
    tab = visit(theory_file)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    for name, key in (("q", "ArrowRight"), ("nu_1", "PageUp"), ("t", "ArrowLeft")):
        before, message = tab.evaluate(VALUES)["itd/itd"], tab.get_attribute(f"#c-{name}", "aria-valuetext")
        tab.focus(f"#c-{name}")
        tab.keyboard.press(key)
        tab.evaluate(SETTLED)
        assert tab.evaluate(VALUES)["itd/itd"] != before
        assert tab.get_attribute(f"#c-{name}", "aria-valuetext") != message
    assert "itd at t = 19" in tab.text_content("#status")
    tab.focus("tr[data-row='aid-fp/aid-fp'] .name")
    tab.keyboard.press("Enter")
    tab.evaluate(SETTLED)
    assert "AID-FP bound" in tab.text_content("#theorem-title")
    box = tab.locator("tr[data-row='itd/itd-local'] input")
    box.focus()
    tab.keyboard.press("Space")
    tab.evaluate(SETTLED)
    assert "itd-local" in tab.text_content("#legend")


def test_the_stories_set_the_scene(visit: Any, theory_file: Path) -> None:
    tab = visit(theory_file)
    for button in tab.query_selector_all("#stories button"):
        button.click()
        tab.evaluate(SETTLED)
        assert tab.text_content("#story")
        assert button.get_attribute("aria-pressed") == "true"
        assert len(tab.query_selector_all("#legend li")) >= 3
    tab.click("#stories button >> nth=0")
    tab.evaluate(SETTLED)
    values = tab.evaluate(VALUES)
    assert float(values["aid-fp/aid-fp"]) < float(values["itd/itd"])


def test_a_click_on_the_chart_chooses_t(visit: Any, theory_file: Path) -> None:
    tab = visit(theory_file)
    box = tab.locator("#chart .u-over").bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.evaluate(SETTLED)
    assert tab.evaluate(CONSTANTS)["t"] in (50, 51)


def test_a_report_starts_at_its_own_values(visit: Any, report_file: Path, report: bc.Report) -> None:
    tab = visit(report_file)
    assert report.verdict.value in tab.text_content("#verdict")
    for t in (1, 7, 30):
        tab.evaluate(SET, {"t": t})
        tab.evaluate(SETTLED)
        shown = tab.evaluate(VALUES)
        for curve in report.curves.values():
            for bound in curve.applicable.values():
                value, result = bound.values[0, t - 1], shown[f"{curve.method}/{bound.name}"]
                assert (result == "") == bool(np.isnan(value))
                if result:
                    assert float(result) == pytest.approx(value, rel=1e-11), bound.name
            error = tab.get_attribute(f"tr[data-error='{curve.method}'] .value", "data-value")
            assert float(error) == pytest.approx(curve.errors[0, t - 1], rel=1e-5)


def test_the_waterfall_follows_t_and_tells_each_link(visit: Any, report_file: Path, report: bc.Report) -> None:
    tab = visit(report_file)
    trace = report.trace("itd")
    for t in (3, 11):
        tab.evaluate(SET, {"t": t})
        tab.evaluate(SETTLED)
        assert tab.text_content("#proof-title").endswith(f"at t = {t}")
        shown = tab.evaluate("() => [...document.querySelectorAll('#links .value')].map(e => Number(e.dataset.value))")
        assert shown == pytest.approx(trace.values[:, list(trace.t).index(t)], rel=1e-5)
    links = tab.locator("#links button")
    assert links.count() == len(trace.links)
    for i, (name, because) in enumerate(zip(trace.links, trace.because, strict=True)):
        links.nth(i).focus()
        tab.keyboard.press("Enter")
        tab.evaluate(SETTLED)
        assert name in tab.text_content("#link h3")
        assert tab.text_content("#because") == because
        assert tab.locator("#link .katex").count() >= 1
        assert tab.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_methods_are_chosen_one_at_a_time(visit: Any, report_file: Path) -> None:
    tab = visit(report_file)
    tab.focus("#methods [aria-checked=true]")
    tab.keyboard.press("ArrowRight")
    tab.evaluate(SETTLED)
    assert tab.text_content("#methods [aria-checked=true]") == "aid-fp"
    assert tab.is_visible("#m-aid-fp")
    assert not tab.is_visible("#m-itd")
    assert tab.text_content("#proof-title").startswith("Why bound aid-fp (Theorem 2.4) is ")
    assert "times the error of aid-fp at t = " in tab.text_content("#proof-title")


def test_a_broken_link_is_said_in_words(visit: Any, report: bc.Report, tmp_path: Path) -> None:
    tiny = [bc.Constant(name, 1e-9) for name in ("L_E", "eta_1", "eta_2")]
    wrong = {ball: constants.replace(*tiny) for ball, constants in report.constants.items()}
    bad = bc.check(small("lr"), ["itd"], t=10, bounds=["itd"], constants=wrong)
    bad.page(tmp_path / "bad.html")
    tab = visit(tmp_path / "bad.html")
    assert tab.locator("#links .broken").count() >= 1
    assert "BROKEN" in tab.locator("#links .broken").first.text_content()
    tab.locator("#links .broken").first.click()
    tab.evaluate(SETTLED)
    assert "so this step is false" in tab.text_content("#loss")
    assert "violated" in tab.text_content("#verdict")
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.evaluate("() => document.querySelectorAll('#links .slack').forEach(e => (e.textContent = '×5.44×10⁻¹⁹'))")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_step_that_lowers_the_value_is_explained(visit: Any, tmp_path: Path) -> None:
    falling().page(tmp_path / "falling.html")
    tab = visit(tmp_path / "falling.html")
    tab.locator("#links button").nth(2).click()
    tab.evaluate(SETTLED)
    assert "here that is rounding" in tab.text_content("#loss")


@pytest.mark.parametrize("which", ["theory", "report"])
@pytest.mark.parametrize("view", [(390, 844), (1366, 768), (1920, 1080)])
def test_nothing_overlaps_or_runs_out_of_the_page(
    visit: Any, theory_file: Path, report_file: Path, which: str, view: tuple[int, int]
) -> None:
    file = theory_file if which == "theory" else report_file
    scheme = "dark" if view == (390, 844) else "light"
    tab = visit(file, *view, color_scheme=scheme, reduced_motion="reduce")
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    tab.evaluate("() => document.querySelectorAll('details').forEach(e => (e.open = true))")
    tab.evaluate("() => document.querySelector('#constants').style.setProperty('max-height', 'none')")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate(OVERLAPS) == []
    assert tab.evaluate(NAMELESS) == []
    count, bad = tab.evaluate(FORMULAS)
    assert count > 100
    assert bad == []


def test_the_theme_can_be_changed(visit: Any, theory_file: Path) -> None:
    """The button says what it will do."""
    tab = visit(theory_file, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(ground)
    assert tab.text_content("#theme") == "Switch to dark"
    tab.click("#theme")
    tab.evaluate(SETTLED)
    assert tab.evaluate(ground) != light
    assert tab.text_content("#theme") == "Switch to light"
