"""Write one HTML file with sliders for every bound, and with a report of `check` if given, for `boundcheck page`."""

from __future__ import annotations

import base64
import html as escaping
import json
import os
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boundcheck import __version__
from boundcheck.atomic_write import write_whole
from boundcheck.errors import InputError
from boundcheck.explanation import Explanation
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.symbols import INDICES
from boundcheck.views.page import colours, glossary, rows, sliders, theorems
from boundcheck.views.page.preset_examples import STORIES

if TYPE_CHECKING:  # a page of the theory alone loads no torch
    from boundcheck.report.report import Report

HERE = Path(__file__).parent
SCRIPTS = (
    "words.js", "state.js", "controls.js", "chart.js", "table.js", "proof.js", "answer.js", "report.js", "main.js",
)  # fmt: skip
LIBRARIES = {"uPlot": "uplot.LICENSE", "KaTeX": "katex.LICENSE"}
LONGEST_AXIS = 100_000
FONT = re.compile(r"@font-face\{[^}]*\}")


Explanations = Mapping[str, Mapping[str, Explanation]]  # the explanations of constants, by ball and name


def write(
    path: str | PathLike[str], report: Report | None = None, t: int = 200, explanations: Explanations | None = None
) -> Path:
    """Write the page to a file, whole or not at all."""
    return write_whole(Path(path), html(report, t, explanations).encode())


def refuse_unless_writable(path: str) -> None:
    """Raise InputError if `write` could not write the file. To be called before slow work."""
    place = Path(path)
    if place.is_dir() or not os.access(place.parent, os.W_OK):
        why = (
            "is a directory" if place.is_dir() else f"is in {place.parent}, which may not be written to or is not there"
        )
        raise InputError(f"--out {place} {why}; give another file")


def html(report: Report | None = None, t: int = 200, explanations: Explanations | None = None) -> str:
    """Return the page as text. The axis ends at `t`, or with a report, at the last t of the run.

    With explanations, each constant can be expanded to show the contributions of the operations of the user's
    functions.
    """
    if report is None and not 1 < t <= LONGEST_AXIS:
        raise InputError(f"t = {t} is not a length of an axis; give 2 … {LONGEST_AXIS}")
    data, page_rows = _content(report, t, explanations or {})
    about = "hypergradient error bounds" if report is None else f"{report.problem['name']}: error against bounds"
    parts = {
        "title": escaping.escape(f"boundcheck · {about}"),
        "notices": _notices(),
        "glossary": glossary.as_html(),
        "styles": "\n".join((_fonts(_vendored("katex.min.css")), _vendored("uPlot.min.css"), _static("page.css"))),
        "data": json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c"),
        "libraries": _inside(_vendored("uPlot.iife.min.js") + "\n" + _vendored("katex.min.js")),
        "code": _inside(rows.source(page_rows) + sliders.source()),
        "script": _inside("\n".join(_static(name) for name in SCRIPTS)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _static("page.html"))


def _content(report: Report | None, t: int, explanations: Explanations) -> tuple[dict[str, Any], list[rows.Row]]:
    data: dict[str, Any] = {"version": __version__, "tie": sliders.tie(), "controlGroups": sliders.GROUPS}
    data["colours"], data["coloursDark"] = zip(*colours.BOUNDS, strict=True)
    data["indices"] = {index.name: {"latex": index.latex, "meaning": index.meaning} for index in INDICES}
    if report is None:
        page_rows = rows.theory()
        data |= {"controls": sliders.theory(page_rows), "stories": STORIES, "report": None, "horizon": t, "tied": True}
        data["methods"] = rows.GROUPS
    else:
        from boundcheck.views.page import report_data

        if not report.curves:
            raise InputError("the report has no curves to show; check at least one method")
        page_rows = report_data.rows(report)
        data |= {"controls": report_data.sliders(report, page_rows), "stories": [], "tied": False}
        data["report"] = report_data.described(report, page_rows, explanations)
        data["horizon"] = max(2, *(int(curve.t[-1]) for curve in report.curves.values()))
        data["methods"] = {name: rows.GROUPS.get(name.partition(":")[0], "") for name in report.curves}
    data["methodColours"] = colours.of_methods(data["methods"])
    data["rows"] = [row.as_json() for row in page_rows]
    names = dict.fromkeys(row.bound.name for row in page_rows)
    data["bounds"] = {name: theorems.described(bounds[name]) for name in names}
    return data, page_rows


def _static(name: str) -> str:
    return (HERE / "static" / name).read_text(encoding="utf-8")


def _vendored(name: str) -> str:
    return (HERE / "vendor" / name).read_text(encoding="utf-8")


def _fonts(css: str) -> str:
    """Return the style sheet with the vendored fonts inside, and without all other fonts."""

    def face(match: re.Match[str]) -> str:
        name = re.search(r"fonts/([\w-]+\.woff2)", match[0])
        file = HERE / "vendor" / "fonts" / (name[1] if name else "")
        if not file.is_file():
            return ""
        data = base64.b64encode(file.read_bytes()).decode()
        return re.sub(r"src:[^}]*", f'src:url(data:font/woff2;base64,{data}) format("woff2")', match[0])

    return FONT.sub(face, css)


def _inside(script: str) -> str:
    """Return the script with escapes, so that it cannot end its HTML element."""
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _notices() -> str:
    """Return the licences of the vendored libraries for an HTML comment, which must not contain two hyphens."""
    notices = (f"{name}\n\n{_vendored(file)}" for name, file in LIBRARIES.items())
    return "\n".join(notices).replace("--", "- -")
