"""Cards and numbers: what people read is short, aligned, escaped, and never says more than is known."""

from __future__ import annotations

from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundcheck.card import MOST_ROWS, Card
from boundcheck.number_text import downward, number, percent_at_most, upward

EVIL = "<script>alert('&')</script>"
FINITE = st.floats(min_value=0, allow_nan=False, allow_infinity=False, allow_subnormal=False, max_value=1e300)


class Tags(HTMLParser):
    """Which tags there are, and whether each is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_html_has_the_words_escaped_and_no_script() -> None:
    card = Card(EVIL, (EVIL,), (EVIL, "error"), ((EVIL, "1"),), frozenset({"error"}), (EVIL,))
    tags = Tags(card.html())
    assert tags.open == []
    assert tags.seen == {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert tags.words.count(EVIL) == 5


def test_no_colour_but_that_of_the_notebook() -> None:
    style = Card("a", (), ("b",), (("c",),)).html()
    assert "background: none" in style
    assert "color: inherit" in style
    assert "#" not in style


def test_a_long_table_says_how_many_rows_are_left_out() -> None:
    card = Card("a", (), ("b",), tuple((str(i),) for i in range(MOST_ROWS + 3)), notes=("last",))
    assert card.text().splitlines()[-2:] == ["… and 3 more rows", "last"]
    assert len(card.text().splitlines()) == MOST_ROWS + 4
    assert "… and 3 more rows" in card.html()
    assert card.html().count("<tr") == MOST_ROWS + 1


def test_a_card_without_title_or_table() -> None:
    assert Card("", ("one",)).text() == "one"
    assert Tags(Card("", ("one",)).html()).seen == {"div"}


@given(FINITE)
def test_what_is_said_to_be_at_most_or_at_least_is_true(x: float) -> None:
    assert Decimal(downward(x)) <= Decimal(x) <= Decimal(upward(x))
    assert Decimal(downward(x, 4)) <= Decimal(x) <= Decimal(upward(x, 4))
    if x > 1e-300:
        assert float(upward(x)) <= x * 1.0101  # three digits


@pytest.mark.parametrize(
    ("x", "text"), [(0.01, "1%"), (0.010001, "1.01%"), (float("inf"), "∞%"), (0.0, "0%"), (1234.5, "124000%")]
)
def test_a_share_is_rounded_up(x: float, text: str) -> None:
    assert percent_at_most(x) == text


def test_what_is_not_a_number_is_a_dash() -> None:
    assert upward(float("nan")) == number(float("nan")) == "–"
