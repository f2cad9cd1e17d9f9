"""The fields of the page and its colours: what is typed, what is shown, and whether it can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from page_scripts import CONSTANTS, SET, SETTLED, VALUES

LUMINANCE = """names => {
  const style = getComputedStyle(document.documentElement);
  const data = JSON.parse(document.getElementById("data").textContent);
  const lines = data[document.documentElement.dataset.theme === "dark" ? "coloursDark" : "colours"];
  const light = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255)
    .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((s, x, i) => s + x * [0.2126, 0.7152, 0.0722][i], 0);
  const read = name => light(style.getPropertyValue("--" + name).trim());
  const dark = document.documentElement.dataset.theme === "dark" ? 1 : 0;
  const methods = Object.values(data.methodColours).map(pair => pair[dark]);
  return [Object.fromEntries(names.map(name => [name, read(name)])), [...lines, ...methods].map(light)];
}"""


def test_a_field_shows_what_counts(visit: Any, theory_file: Path) -> None:
    """Near 1 in digits that tell it from 1; and again once it is left with a number outside of the domain."""
    tab = visit(theory_file)
    fields = {name: tab.locator(f"#c-{name}").locator("xpath=../input[@type='number']") for name in ("q", "kappa", "t")}
    fields["kappa"].fill("1e8")
    tab.evaluate(SETTLED)
    assert 0 < 1 - float(fields["q"].input_value()) == pytest.approx(2e-8, rel=1e-3)
    assert tab.get_attribute("#c-q", "aria-valuetext") == fields["q"].input_value()
    fields["q"].fill("0.9")
    tab.evaluate(SETTLED)
    for name, silly in (("q", "1"), ("q", "-3"), ("q", ""), ("t", "0"), ("t", "1.5"), ("t", "1000000"), ("t", "")):
        before = tab.evaluate(CONSTANTS)[name]
        fields[name].fill(silly)
        tab.evaluate(SETTLED)
        fields[name].blur()
        tab.evaluate(SETTLED)
        assert float(fields[name].input_value()) == before == tab.evaluate(CONSTANTS)[name], (name, silly)
        assert not tab.evaluate("document.querySelector('.control input:invalid')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrasts(visit: Any, theory_file: Path, scheme: str) -> None:
    """WCAG 2: 4.5 for text, 3 for lines, bars and the edges of fields."""
    text, shapes = ("text", "dim", "accent", "bad", "good", "doubt"), ("error", "bar", "broken", "edge")
    tab = visit(theory_file, color_scheme=scheme)
    result, lines = tab.evaluate(LUMINANCE, [*text, *shapes, "back", "panel"])

    def contrast(x: float, y: float) -> float:
        return (max(x, y) + 0.05) / (min(x, y) + 0.05)

    for ground in ("back", "panel"):
        assert min(contrast(result[name], result[ground]) for name in text) >= 4.5
        assert min(contrast(result[name], result[ground]) for name in shapes) >= 3
    assert min(contrast(line, result["back"]) for line in lines) >= 3


def test_k_is_that_of_the_chosen_bound(visit: Any, report_file: Path) -> None:
    tab = visit(report_file)
    tab.evaluate(SET, {"t": 13})
    tab.evaluate(SETTLED)
    assert tab.evaluate(CONSTANTS)["k"] == 13  # k = t, as in the run
    tab.locator("#methods button", has_text="aid-cg:10").click()
    tab.evaluate(SETTLED)
    assert tab.evaluate(CONSTANTS)["k"] == 10
    before = tab.evaluate(VALUES)
    tab.uncheck("#follow")
    tab.evaluate(SETTLED)
    assert tab.evaluate(CONSTANTS)["k"] == 10  # goes on from there, and the bound with it
    assert {key: before[key] for key in before if "aid-cg" in key} == {
        key: value for key, value in tab.evaluate(VALUES).items() if "aid-cg" in key
    }
