"""A stochastic report in the terminal and as a page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from stochastic_reports import ALL, REPORTS, holds, two_methods_in_doubt

import boundcheck as bc
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.views.page import stochastic_page
from boundcheck.views.terminal.show_stochastic import as_text

VOID = {"meta", "link", "br", "input"}


@pytest.mark.parametrize("name", ALL)
def test_the_answer_is_one_screen(name: str) -> None:
    lines = as_text(ALL[name](), 80).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines).replace(" … ", "")  # nothing is cut off


def test_each_screen_says_what_is_its_own() -> None:
    said = {of.__name__: " ".join(as_text(of(), 80).split()) for of in REPORTS}
    assert "of sid is 9.09% of ‖∇f‖ (between 8.71% and 9.45%), its bias at most 3.34%" in said["holds"]
    assert "V[E[g | w_t]] 0.002" in said["holds"]  # brackets are no colours
    assert "94% is variance from the linear solver" in said["holds"]
    assert "sid-orthogonal 1.030 undecided" in said["undecided"]
    assert "sid-mse 0.500 violated" in said["violated"]
    assert "No ball is proved to contain all iterates: L_Φ̂ = 1.2 ≥ 1" in said["no_ball"]
    assert "The intervals are those for a probability of 99.9% (Student's t" in said["no_ball"]
    assert "far from the others, they are too short" in said["no_ball"]
    assert "All intervals hold together with probability 99.9% (betting" in said["holds"]
    assert "sid-orthogonal 2.400 estimated" in said["no_ball"]
    assert "∇f is 0 up to rounding or not known, so errors are absolute" in said["one_hyperparameter"]
    assert "none applies" in said["two_methods"]
    assert "not proved: L_E, because no rule" in said["two_methods_in_doubt"]
    assert "sid diverges" in said["diverging"]
    assert "quantity" not in said["diverging"]  # no table of infinities


def test_everything_is_shown_on_request() -> None:
    text = as_text(two_methods_in_doubt(), 80, verbose=True)
    assert "V[E[g | w_t]]" in text
    for words in ("not applicable: stochastic-decreasing: the steps are constant", "L_Phi_hat", "every point", "43"):
        assert words in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_number_of_a_bound_is_cut_off(width: int) -> None:
    """The names of theorems are those of the catalogue, which are long."""
    report = holds()
    bounds = {
        name: replace(bound, reference=str(bc.bounds[name].reference), values=bound.values * 1e6)
        for name, bound in report.curve("sid").bounds.items()
    }
    long = replace(report, curves={"sid": replace(report.curve("sid"), bounds=bounds)})
    text = as_text(long, width, verbose=True)
    table = text[text.index("bound/estimate over all points") : text.index("estimates and intervals")]
    assert "…" not in table
    assert "holds (prob.)" in table


class Balanced(HTMLParser):
    """Whether every element that begins also ends."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag


@pytest.mark.parametrize("name", ["two_methods_in_doubt", "diverging"])
def test_a_page_is_whole_and_needs_no_network(name: str) -> None:
    page = stochastic_page.html(ALL[name]())
    parser = Balanced()
    parser.feed(page)
    assert parser.inside == []
    assert "{{" not in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert stochastic_page.html(ALL[name]()) == page


def test_a_page_says_what_the_screen_says() -> None:
    page = stochastic_page.html(holds())
    for words in ("What is this?", "all 6 applicable bounds hold", "sid-mse (Theorem 3.4)", "over all minibatches"):
        assert words in page
    assert "var(--sid)" in page  # colours follow the ground
    assert "#882255" not in page[page.index("<svg") :]


def test_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    page = stochastic_page.html(replace(holds(), problem={**holds().problem, "name": evil}))
    assert evil not in page


def test_a_report_without_methods_has_no_page() -> None:
    empty: StochasticReport = replace(holds(), curves={})
    with pytest.raises(bc.InputError, match="no curves to show"):
        stochastic_page.html(empty)
