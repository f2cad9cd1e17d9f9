"""What MkDocs does not do by itself: KaTeX from the package, and files of the repository that pages link to.

KaTeX is vendored once, in boundcheck/views/page/vendor; the site gets it from there. A link that leaves docs/, such as
``../examples/own_map.py``, works on GitHub; on the site it leads to a page that shows the file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
VENDOR = ROOT / "boundcheck" / "views" / "page" / "vendor"
LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
FACE = re.compile(r"@font-face\{[^}]*\}")


def on_files(files: Files, config: Any) -> Files:
    """The files of KaTeX, and a page for every file of the repository that some page links to."""
    for path in (VENDOR / "katex.min.js", VENDOR / "katex.LICENSE", *sorted((VENDOR / "fonts").glob("*.woff2"))):
        uri = f"assets/katex/{path.relative_to(VENDOR).as_posix()}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    files.append(File.generated(config, "assets/katex/katex.min.css", content=style()))
    linked = {
        target
        for page in files.documentation_pages()
        for found in LINK.finditer(page.content_string)
        if (target := outside(page.src_uri, found[1]))
    }
    for target in sorted(linked):
        files.append(File.generated(config, shown_at(target), content=shown(target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ lead to the page that shows the file."""

    def moved(found: re.Match[str]) -> str:
        target = outside(page.file.src_uri, found[1])
        if target is None:
            return found[0]
        way = posixpath.relpath(shown_at(target), posixpath.dirname(page.file.src_uri) or ".")
        return f"]({way})"

    return LINK.sub(moved, markdown)


def style() -> str:
    """The style sheet without the fonts that are not vendored, which nothing here uses."""

    def kept(found: re.Match[str]) -> str:
        name = re.search(r"fonts/([\w-]+)\.woff2", found[0])
        if name is None or not (VENDOR / "fonts" / f"{name[1]}.woff2").is_file():
            return ""
        return re.sub(r"src:[^}]*", f'src:url(fonts/{name[1]}.woff2) format("woff2")', found[0])

    return FACE.sub(kept, (VENDOR / "katex.min.css").read_text(encoding="utf-8"))


def outside(page: str, link: str) -> str | None:
    """The path in the repository of a link that leaves docs/, or None."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if target.startswith(("docs/", "..")) or not (ROOT / target).is_file():
        return None
    return target


def shown_at(target: str) -> str:
    return f"source/{target if target.endswith('.md') else target + '.md'}"


def shown(target: str) -> str:
    text = (ROOT / target).read_text(encoding="utf-8")
    if target.endswith(".md"):
        return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", "]", text)  # its own links are those of the repository
    return f"---\nhide: [toc]\nsearch: {{ exclude: true }}\n---\n\n# {target}\n\n````python\n{text}````\n"
