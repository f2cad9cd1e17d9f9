"""Write a stochastic report as one HTML file: the verdict, measurements, a figure, verdicts and constants.

The page needs no network. Its only script is the button for dark colours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from os import PathLike
from pathlib import Path

import numpy as np

from boundcheck import __version__
from boundcheck.atomic_write import write_whole
from boundcheck.errors import InputError
from boundcheck.number_text import number, upward
from boundcheck.report import stochastic_words as words
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.report.stochastic_verdict_words import verdict_sentence
from boundcheck.report.verdict import Verdict
from boundcheck.side import in_words, standing
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.bound_names import bound_name
from boundcheck.views.figures import canvas, stochastic_figures
from boundcheck.views.figures.method_style import GREY, METHOD_STYLES, OTHER
from boundcheck.views.page import stochastic_glossary

STATIC = Path(__file__).parent / "static"
GOOD = (Verdict.HOLDS, Verdict.HOLDS_PROBABLY)
GROUNDS = {"#000000": "currentColor", "#ffffff": "var(--back)", GREY.lower(): "var(--dim)", "#dedede": "var(--floor)"}
STYLES = """
#picture svg { width: 100%; min-width: 38rem; max-width: 62rem; height: auto; fill: currentColor; }
#picture, #answer { margin-top: 1.6rem; }
#answer td:nth-child(2) { white-space: normal; }
#answer td:nth-child(n+6) { min-width: 0; }
#answer td:nth-child(6), #answer td:nth-child(9) { white-space: nowrap; }
#verdicts td:nth-child(4) { white-space: nowrap; }
@media (max-width: 640px) { .cards > tbody > tr > td { white-space: normal !important; } }
"""


def write(path: str | PathLike[str], report: StochasticReport) -> Path:
    """Write the page to a file, whole or not at all."""
    return write_whole(Path(path), html(report).encode())


def html(report: StochasticReport) -> str:
    """Return the page as text."""
    if not report.curves:
        raise InputError("the report has no curves to show; check at least one method")
    name, _, facts = words.title(report).partition(": ")
    parts = {
        "title": escape(f"boundcheck · {name}: bias and variance"),
        "styles": (STATIC / "page.css").read_text(encoding="utf-8") + STYLES + _colours(),
        "heading": escape(f"{name}: bias and variance with minibatches"),
        "subtitle": escape(f"{facts}. {words.how_it_ran(report)}."),
        "glossary": stochastic_glossary.as_html(),
        "tone": "bad" if report.verdict.is_violation else "good" if report.verdict in GOOD else "doubt",
        "verdict": escape(f"{verdict_sentence(report)}."),
        "sentences": _paragraphs(_sentences(report)),
        "measured": escape(f"At the last point of each method. {words.intervals_sentence(report)}"),
        "quantities": _quantities(report),
        "next": "".join(f"<li>{escape(step)}</li>" for step in words.next_steps(report)) or "<li>Nothing.</li>",
        "figure": _figure(report),
        "verdicts": _verdicts(report),
        "refused": _refused(report),
        "ball": escape(_ball(report)),
        "constants": _constants(report),
        "version": escape(__version__),
        "footnotes": escape(_footnotes(report)),
    }
    template = (STATIC / "stochastic.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _sentences(report: StochasticReport) -> list[str]:
    measured = [words.measured_sentence(report, method) for method in report.curves]
    return [*measured, *words.doubts(report), *(f"Not used: {sentence}." for sentence in report.refuted)]


def _paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _colours() -> str:
    """Return the colours of methods on light and dark backgrounds, as CSS variables."""
    styles = {**METHOD_STYLES, "other": OTHER}
    light = "".join(f"--{name}: {style.colour}; " for name, style in styles.items())
    dark = "".join(f"--{name}: {style.dark}; " for name, style in styles.items())
    return f':root {{ {light}}}\n:root[data-theme="dark"] {{ {dark}}}\n'


def _figure(report: StochasticReport) -> str:
    """Return the figure with the colours of the page, which may be light or dark."""
    text = canvas.content(stochastic_figures.errors(report), "svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    colours = {**GROUNDS, OTHER.colour.lower(): "var(--other)"}
    colours |= {style.colour.lower(): f"var(--{name})" for name, style in METHOD_STYLES.items() if name != "exact"}
    text = re.sub(r"#[0-9a-f]{6}\b", lambda match: colours.get(match[0], match[0]), text)
    title = "the mean square error, the bias, the variances and the distance to w* over t, with bounds"
    return text.replace("<svg ", f'<svg role="img" aria-label="{title}; the numbers are in the tables" ', 1)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str], lead: int) -> str:
    """Return a table, which becomes a list of cards on a narrow screen. The `lead` first columns are their titles."""
    head = "".join(f'<th scope="col"{" class=number" if h in right else ""}>{escape(h)}</th>' for h in header)
    body = ""
    for row in rows:
        cells = ""
        for place, (h, cell) in enumerate(zip(header, row, strict=True)):
            kinds = (["lead"] if place < lead else []) + (["number"] if h in right else [])
            style = f' class="{" ".join(kinds)}"' if kinds else ""
            cells += f'<td{style} data-head="{escape(h)}">{escape(cell)}</td>'
        body += f"<tr>{cells}</tr>"
    return f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _quantities(report: StochasticReport) -> str:
    header = ("method", "quantity", "formula", "estimate", "interval", "best bound", "bound", "bound/estimate", "known")
    rows = []
    for curve in report.curves.values():
        for mean in curve.means.values():
            best = curve.best(mean.quantity)
            cells = [curve.method, mean.quantity.words, mean.quantity.formula, number(float(mean.value[-1]))]
            cells.append(words.interval(mean, -1))
            if best is None:
                cells += ["none applies", "–", "–", ""]
            else:
                ratio = number(float(curve.ratio(best.name)[-1]))
                cells += [best.name, number(float(best.values[-1])), f"×{ratio}", words.status(best)]
            rows.append(cells)
    return _table(header, rows, ("estimate", "interval", "bound", "bound/estimate"), 2)


def _verdicts(report: StochasticReport) -> str:
    header = ("method", "bound", "verdict", "of", "smallest", "largest", "how it is known", "remark")
    rows = []
    for curve in report.curves.values():
        for bound in curve.bounds.values():
            if bound.applies:
                ratio = curve.ratio(bound.name)
                known = ratio[np.isfinite(ratio)]
                ends = [f"×{number(float(x))}" for x in ((known.min(), known.max()) if known.size else ())] or [
                    "–",
                    "–",
                ]
                name = bound_name(bound.name, bound.reference)
                cells = [curve.method, name, bound.verdict.value, bound.quantity.formula, *ends, in_words(bound.side)]
                rows.append([*cells, bound.reason])
    if not rows:
        return "<p>No bound applies to this problem.</p>"
    return _table(header, rows, ("smallest", "largest"), 2)


def _refused(report: StochasticReport) -> str:
    reasons = words.reasons_not_applicable(report)
    if not reasons:
        return ""
    count = len({name for names in reasons.values() for name in names})
    table = _table(("bound", "reason"), ((", ".join(names), why) for why, names in reasons.items()), (), 0)
    some = "1 bound that does not apply, and why" if count == 1 else f"{count} bounds that do not apply, and why"
    return f'<details id="refused"><summary>{some}</summary><div class="scroll" tabindex="0">{table}</div></details>'


def _ball(report: StochasticReport) -> str:
    if report.radius is None:
        return f"No ball is proved to contain all iterates. {report.ball_doubt}"
    return f"Suprema are over the ball around w* that contains all iterates, of radius {upward(report.radius)}."


def _constants(report: StochasticReport) -> str:
    rows = []
    for name, constant in report.constants.items():
        quantity = QUANTITIES.get(name)
        symbol, meaning = (name, "") if quantity is None else (quantity.text or name, quantity.meaning)
        no_proof = f"; not proved, because {constant.provenance.no_proof}" if constant.provenance.no_proof else ""
        how = f"{constant.provenance.how}{no_proof}"
        rows.append((symbol, f"{constant.value:.6g}", in_words(constant.side, name), how, meaning))
    return _table(("constant", "value", "how it is known", "how it was obtained", "meaning"), rows, ("value",), 1)


def _footnotes(report: StochasticReport) -> str:
    eps_g = report.certificate
    accuracy = (
        "without a certificate" if eps_g is None else f"accurate to {upward(eps_g.value)} ({standing(eps_g.side)})"
    )
    return f"Errors are measured against a reference hypergradient, {accuracy}; ‖∇f‖ = {number(report.gradient_norm)}."
