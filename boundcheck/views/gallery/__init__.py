"""Write all reports below a folder as one HTML page, for `boundcheck gallery`. The page needs no network."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from boundcheck import __version__
from boundcheck.atomic_write import WORK
from boundcheck.card import Card
from boundcheck.errors import InputError
from boundcheck.report import report_card
from boundcheck.report.report import Report
from boundcheck.report.report_json import FILE
from boundcheck.report.verdict import Verdict

HERE = Path(__file__).parent
MARK = '<meta name="generator" content="boundcheck gallery'
FIGURE, PAGE = "errors.png", "page.html"
HEAD = 4000  # the mark must be in so many first characters of a file
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, eq=False)
class GalleryEntry:
    """A report.json with the figure and the page beside it, or the reason why it cannot be read.

    Attributes
    ----------
    folder : Path
        The folder of the report.
    report : Report or None
        The report; None if it cannot be read.
    why : str
        Why it cannot be read; empty if it can.
    figure : bytes
        The figure of the errors, a PNG; empty if there is none.
    page : Path or None
        Its interactive page, if there is one.
    """

    folder: Path
    report: Report | None
    why: str = ""
    figure: bytes = b""
    page: Path | None = None


def entries(directory: str | os.PathLike[str]) -> list[GalleryEntry]:
    """Return all reports below a folder, in the order of their paths."""
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; give the folder that the reports of `check --out` are in")
    files = [path for path in sorted(root.rglob(FILE)) if not any(part.startswith(WORK) for part in path.parts)]
    return [_entry(path) for path in files]


def _entry(file: Path) -> GalleryEntry:
    try:
        report = Report.load(file)
        report_card.card(report)  # raises if the report lacks something to show
    except InputError as why:
        return GalleryEntry(file.parent, None, str(why))
    except Exception as why:  # a file that was written by hand may cause any error; the other files are shown
        return GalleryEntry(
            file.parent, None, f"{file} is not a whole report ({type(why).__name__}: {why}); write it again"
        )
    return GalleryEntry(file.parent, report, "", _figure(file.parent / FIGURE), _page(file.parent))


def _page(folder: Path) -> Path | None:
    """Return the page of a report: page.html, or else the only HTML file beside it that is not a gallery."""
    if (folder / PAGE).is_file():
        return folder / PAGE
    pages = [path for path in sorted(folder.glob("*.html")) if path.is_file() and not is_gallery(path)]
    return pages[0] if len(pages) == 1 else None


def _figure(path: Path) -> bytes:
    """Return the content of a PNG file; empty if there is none."""
    try:
        content = path.read_bytes()
    except OSError:
        return b""
    return content if content.startswith(PNG) else b""


def is_gallery(file: Path) -> bool:
    """Return whether `boundcheck gallery` wrote the file."""
    with file.open(encoding="utf-8", errors="replace") as text:
        return MARK in text.read(HEAD)


def refuse_unless_own(out: Path) -> None:
    """Raise InputError if the file exists and is not a gallery, so that it is not overwritten."""
    if out.is_file() and not is_gallery(out):
        raise InputError(f"--out {out} exists, and is not a page of boundcheck gallery; give another file")


def html(some: Sequence[GalleryEntry], directory: str | os.PathLike[str], out: Path) -> str:
    """Return the page as text, with links relative to the folder of `out`."""
    root, base = Path(directory), out.parent
    broken = [entry for entry in some if entry.report is None]
    articles = "\n".join(_article(entry.report, entry, root, base) for entry in some if entry.report is not None)
    return _static("gallery.html").format(
        mark=f'{MARK} {escape(__version__)}">',
        title=escape(f"boundcheck · {root.resolve().name}"),
        count=escape(_count(len(some) - len(broken))),
        empty="" if some else f"<p>{escape(_nothing(root))}</p>",
        articles=articles,
        broken=_broken(broken, root),
        styles=_static("gallery.css"),
        script=_static("gallery.js"),
    )


def _count(n: int) -> str:
    return "1 report" if n == 1 else f"{n} reports"


def _nothing(root: Path) -> str:
    return f"There is no {FILE} below {root}. Write one with: boundcheck check PROBLEM --out {root / 'PROBLEM'}"


def _article(report: Report, entry: GalleryEntry, root: Path, base: Path) -> str:
    name, path = str(report.problem["name"]), str(entry.folder.relative_to(root))
    worst = max((m.relative_error for m in report.summary.methods if m.relative_error is not None), default=-1.0)
    keys = {"path": path, "name": name, "verdict": list(Verdict).index(report.verdict), "error": worst}
    keys |= {"size": report.problem["dim"], "seconds": report.seconds}
    data = " ".join(f'data-{key}="{escape(str(value))}"' for key, value in keys.items())
    card = report_card.card(report)
    verdict, *sentences = card.sentences
    table = Card("", tuple(sentences), card.header, card.rows, card.numbers).html()
    return (
        f"<article {data}><div class=text><h2>{escape(name)}</h2>"
        f"<p class=small>{escape(card.title.removeprefix(f'{name}: '))}</p>"
        f'<p class="verdict {_colour(report.verdict)}">{escape(verdict)}</p>'
        f"<div class=wide>{table}</div><p class=links>{' · '.join(_links(entry, path, base))}</p></div>"
        f"{_picture(entry, name)}</article>"
    )


def _colour(verdict: Verdict) -> str:
    if verdict in (Verdict.HOLDS, Verdict.HOLDS_PROBABLY):
        return "good"
    return "bad" if verdict.is_violation else "doubt"


def _links(entry: GalleryEntry, path: str, base: Path) -> Iterator[str]:
    if entry.page is not None:
        yield f'<a href="{_relative(entry.page, base)}">interactive page</a>'
    yield f'<a href="{_relative(entry.folder / FILE, base)}">{escape(FILE)}</a>'
    yield f"<span class=small>{escape(path)}</span>"


def _relative(path: Path, base: Path) -> str:
    return quote(Path(os.path.relpath(path.resolve(), base.resolve())).as_posix())


def _picture(entry: GalleryEntry, name: str) -> str:
    if not entry.figure:
        return ""
    source = f"data:image/png;base64,{base64.b64encode(entry.figure).decode('ascii')}"
    alt = escape(f"errors and bounds of {name} over t")
    return f'<button class=figure title="larger or smaller"><img src="{source}" alt="{alt}"></button>'


def _broken(some: Sequence[GalleryEntry], root: Path) -> str:
    if not some:
        return ""
    items = "".join(f"<li>{escape(entry.why)}</li>" for entry in some)
    return f"<section class=broken><h2>Could not be read: {len(some)}</h2><ul>{items}</ul></section>"


def _static(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
