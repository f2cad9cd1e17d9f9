"""The text of an axis: ranges, lists, and what is wrong with others."""

from __future__ import annotations

import pytest

from boundcheck.errors import InputError
from boundcheck.sweeps.axis_text import name_and_text, values_from_text


@pytest.mark.parametrize(
    ("text", "types", "values"),
    [
        ("10:1e5:5:log", (float,), [10.0, 100.0, 1000.0, 1e4, 1e5]),
        ("0:1:5", (float,), [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("0:4", (int,), [0, 1, 2, 3]),
        ("0:3", (float,), [0.0, 1.0, 2.0]),
        ("1:1000:4:log", (int,), [1, 10, 100, 1000]),
        ("1:2:5", (int,), [1, 2]),  # rounded, each once
        ("5,5,7", (int,), [5, 7]),
        ("1e2,3", (float,), [100.0, 3.0]),
        ("linear, tanh", (str,), ["linear", "tanh"]),
        ("true,false", (bool,), [True, False]),
        ("none,2", (float, type(None)), [None, 2.0]),
        ("1,2.5,x", (), [1, 2.5, "x"]),
    ],
)
def test_values(text: str, types: tuple[type, ...], values: list[object]) -> None:
    result = values_from_text("a", text, types)
    assert result == values
    assert [type(value) for value in result] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        (
            "10:1e5",
            (float,),
            r"--over a=10:1e5 is a range a:b, which is for whole numbers; for n numbers write a=10:1e5:9",
        ),
        ("5:5", (int,), r"--over a=5:5 is empty: 5 is not included; give a larger end"),
        ("0:10:3:log", (float,), r"is logarithmic, so both ends must be positive"),
        ("0:10:0", (float,), r"asks for 0 values; give from 1 to 100000"),
        ("0:10:3:exp", (float,), r"is not a range; write NAME=a:b:n"),
        ("0:10:3:log:5", (float,), r"is not a range; write NAME=a:b:n"),
        ("x:10:3", (float,), r"is not a range of numbers"),
        ("0:inf:3", (float,), r"has an end that is not finite"),
        ("0:3", (str,), r"is a range, and a is not a number; give values with commas"),
        ("0:1000000", (int,), r"has 1000000 values; give from 1 to 100000"),
        ("1,x", (float,), r"a must be a number \(got 'x'\)"),
    ],
)
def test_what_is_wrong(text: str, types: tuple[type, ...], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        values_from_text("a", text, types)
    assert "\n" not in str(caught.value)


def test_both_sides_are_needed() -> None:
    assert name_and_text("kappa = 1:2:3") == ("kappa", "1:2:3")
    for text in ("kappa", "=1", "kappa="):
        with pytest.raises(InputError, match=f"--over {text} is not NAME=VALUES"):
            name_and_text(text)
