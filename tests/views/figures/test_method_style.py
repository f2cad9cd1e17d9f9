"""One colour for each method, one name for each bound, and curves that oscillate drawn so that they can be read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from boundcheck.methods import METHODS as ORDINARY
from boundcheck.methods import RANDOM_METHODS
from boundcheck.side import Side
from boundcheck.views.bound_names import bound_name
from boundcheck.views.figures import canvas, envelope, method_style
from boundcheck.views.figures.method_style import METHOD_STYLES, bound_style, style_of
from boundcheck.views.figures.plain_maths import maths

ROOT = Path(__file__).parents[3]
METHODS = (*ORDINARY, *RANDOM_METHODS)


def luminance(colour: str) -> float:
    parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_every_method_has_a_colour_and_a_marker_of_its_own() -> None:
    assert set(METHOD_STYLES) == set(METHODS)
    for value in ("colour", "dark", "marker"):
        assert len({getattr(style, value) for style in METHOD_STYLES.values()}) == len(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_a_colour_is_seen_on_its_ground(method: str) -> None:
    """A contrast of 3, which lines need."""
    style = METHOD_STYLES[method]
    assert 1.05 / (luminance(style.colour) + 0.05) >= 3
    assert (luminance(style.dark) + 0.05) / (luminance("#14171c") + 0.05) >= 3


def test_a_fixed_k_changes_the_dashes_only() -> None:
    free, fixed = style_of("aid-cg"), style_of("aid-cg:10")
    assert (free.colour, free.marker, free.dashes) == (fixed.colour, fixed.marker, "-")
    assert fixed.dashes != free.dashes
    assert (free.label, fixed.label) == ("AID-CG", "AID-CG $k=10$")
    assert style_of("itd-truncated:5").label == "ITD through the last 5 steps"
    assert style_of("mine").label == "MINE"


def test_nobody_has_a_table_of_their_own() -> None:
    """Colours are written down in one file."""
    colours = re.compile("|".join(style.colour for style in METHOD_STYLES.values()), re.IGNORECASE)
    home = Path(method_style.__file__)
    folders = ("boundcheck/views/figures", "boundcheck/paper", "examples")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in sources if path != home and colours.search(path.read_text(encoding="utf-8"))] == []


def test_dashes_say_how_a_bound_is_known() -> None:
    proved, probable, estimated = (bound_style("paper", s) for s in (Side.UPPER, Side.HIGH_PROBABILITY, Side.LOWER))
    assert len({str(style["ls"]) for style in (proved, probable, estimated)}) == 3
    assert "mfc" not in proved
    assert "mfc" not in probable
    assert estimated["mfc"] == "white"


def test_a_bound_has_its_catalogue_name_first() -> None:
    assert bound_name("aid-contraction", "Theorem 2.2, second part") == "aid-contraction (Theorem 2.2, second part)"
    assert bound_name("itd-gd", "appendix B") == "itd-gd (appendix B)"
    assert bound_name("itd-quadratic", "the setting of the curse of unrolling") == "itd-quadratic"


@pytest.mark.parametrize(
    ("plain", "formula"),
    [("μ_λ with ‖(I−∂₁Φ)⁻¹‖", r"$\mu_{\lambda}$ with ‖(I−∂₁Φ)⁻¹‖"), ("‖w_0−w*‖", "‖$w_{0}$−$w^{*}$‖"),
     ("at w, an E and q_star*", "at w, an E and $q_{star}^{*}$"), ("no_name", "no_name")],
)  # fmt: skip
def test_maths_is_maths(plain: str, formula: str) -> None:
    assert maths(plain) == formula


def test_an_envelope_holds_a_curve_that_oscillates_and_leaves_others_alone() -> None:
    t = np.arange(200)
    steep = 10.0 ** (-t / 8)
    assert not envelope.envelope(steep).oscillates.any()
    np.testing.assert_array_equal(envelope.envelope(steep).middle, 10 ** np.log10(steep))
    swaying = steep * 3.0 ** ((-1.0) ** t)
    band = envelope.envelope(swaying)
    assert band.oscillates.all()
    assert (band.low <= swaying * (1 + 1e-9)).all()
    assert (swaying <= band.high * (1 + 1e-9)).all()
    assert (band.high / band.low < 3**2 * 1.5).all()
    np.testing.assert_allclose(band.middle, steep, rtol=0.35)
    for short in (swaying[:5], np.where(t == 3, np.nan, swaying)):
        np.testing.assert_array_equal(envelope.envelope(short).middle, short)
    axes = canvas.panel(Figure(), "", "")
    line = envelope.draw(axes, t, swaying, color="black")
    np.testing.assert_array_equal(line.get_ydata(), band.middle)
    assert [area.get_gid() for area in axes.collections] == ["range"]
