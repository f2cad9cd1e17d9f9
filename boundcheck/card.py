"""Cards, the short form of a result: a title, sentences and one small table, as text and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

# The background of a notebook may be light or dark, so a card uses only the colour of the surrounding text.
BOX = "line-height: 1.45"
TABLE = "border-collapse: collapse; border: none; margin: 0.3em 0; font-variant-numeric: tabular-nums"
CELL = "padding: 0.15em 1em 0.15em 0; border: none; background: none; color: inherit; text-align: "
HEAD = "border-bottom: 1px solid rgba(128, 128, 128, 0.4)"
NOTE = "opacity: 0.75"
MOST_ROWS = 40  # the most rows of a table; a note gives the number of the others


@dataclass(frozen=True)
class Card:
    """A title, sentences, a table and notes.

    Attributes
    ----------
    title : str
        The title, in a few words; not shown if it is empty.
    sentences : tuple of str
        Sentences on the result, the most important one first.
    header : tuple of str
        The names of the columns; empty if there is no table.
    rows : tuple of tuple of str
        The cells of the table.
    numbers : frozenset of str
        The columns that are aligned to the right.
    notes : tuple of str
        Lines below the table.

    Examples
    --------
    >>> from boundcheck.card import Card
    >>> rows = (("itd", "0.1"), ("aid-cg", "0.01"))
    >>> print(Card("lr", ("all is well",), ("method", "error"), rows, frozenset({"error"})).text())
    lr
    all is well
      method  error
      itd       0.1
      aid-cg   0.01
    """

    title: str
    sentences: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    numbers: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the card as plain text."""
        table = self._table_lines() if self.rows else ()
        lines = [*filter(None, [self.title]), *self.sentences, *table, *self._all_notes()]
        return "\n".join(line.rstrip() for line in lines)

    def html(self) -> str:
        """Return the card as HTML without scripts and without a background of its own."""
        parts = [f"<strong>{escape(self.title)}</strong>"] if self.title else []
        parts += [f"<div>{escape(sentence)}</div>" for sentence in self.sentences]
        if self.rows:
            head = self._html_row("th", self.header, f"; {HEAD}")
            body = "".join(self._html_row("td", row) for row in self.rows[:MOST_ROWS])
            parts.append(f'<table style="{TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>')
        parts += [f'<div style="{NOTE}">{escape(note)}</div>' for note in self._all_notes()]
        return f'<div style="{BOX}">{"".join(parts)}</div>'

    def _all_notes(self) -> Iterator[str]:
        if len(self.rows) > MOST_ROWS:
            yield f"… and {len(self.rows) - MOST_ROWS} more rows"
        yield from self.notes

    def _table_lines(self) -> Iterator[str]:
        rows = (self.header, *self.rows[:MOST_ROWS])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = zip(row, widths, self.header, strict=True)
            yield "  " + "  ".join(c.rjust(width) if n in self.numbers else c.ljust(width) for c, width, n in cells)

    def _html_row(self, tag: str, row: tuple[str, ...], more: str = "") -> str:
        cells = [
            f'<{tag} style="{CELL}{"right" if name in self.numbers else "left"}{more}">{escape(cell)}</{tag}>'
            for cell, name in zip(row, self.header, strict=True)
        ]
        return f'<tr style="background: none">{"".join(cells)}</tr>'
