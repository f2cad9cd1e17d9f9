"""The kinds of bounds: their texts are public, and a misspelt one is refused with those that are known."""

from __future__ import annotations

import json

import pytest

import boundcheck as bc
from boundcheck.theory.kinds import BoundKind

TEXTS = ["a priori", "a priori, from the spectrum", "a posteriori", "enclosure"]


def test_a_kind_is_its_text() -> None:
    assert [str(kind) for kind in BoundKind] == TEXTS
    assert [f"{kind}" for kind in BoundKind] == TEXTS
    assert json.loads(json.dumps(list(BoundKind))) == TEXTS
    assert {"a priori": 1}[BoundKind.A_PRIORI] == 1


def test_every_bound_has_a_kind_and_every_kind_a_bound() -> None:
    kinds = {bc.bounds[name].kind for name in bc.bounds}
    assert kinds == set(BoundKind)
    assert all(isinstance(kind, BoundKind) for kind in kinds)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("itd", "A_PRIORI"), ("itd-spectral", "FROM_SPECTRUM"), ("aid-path", "A_POSTERIORI"), ("enclosure", "ENCLOSURE")],
)
def test_the_kind_of_a_bound(name: str, kind: str) -> None:
    assert bc.bounds[name].kind is BoundKind[kind]


def test_a_kind_from_its_text() -> None:
    for kind in BoundKind:
        assert BoundKind.parse(kind.value) is kind
        assert BoundKind.parse(kind) is kind
    with pytest.raises(bc.InputError, match=r"kind = 'a priory' is not a kind of bound; use one of 'a priori', "):
        BoundKind.parse("a priory")
