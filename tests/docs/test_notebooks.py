"""The lessons in examples/: each is run, and what it claims is compared with the numbers that the page shows.

All run in one process, which loads the libraries once, from a copy: marimo leaves files beside a notebook. The numbers
are those under the last fold of a page, so they are what a reader sees. One lesson is also exported as readers do it.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOKS = sorted(path for path in EXAMPLES.glob("*.py") if "marimo.App(" in path.read_text(encoding="utf-8"))
Found = Mapping[str, Any]


def run(*command: str, cwd: Path) -> None:
    for source in EXAMPLES.glob("*.py"):
        shutil.copy(source, cwd)
    environment = {
        **os.environ,
        "MARIMO_SKIP_UPDATE_CHECK": "1",
        "XDG_CONFIG_HOME": str(cwd),
        "XDG_STATE_HOME": str(cwd),
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


def cells_of(page: Path) -> list[dict[str, Any]]:
    """The cells of an exported page with their outputs, as they are embedded in it."""
    lines = (line.strip() for line in page.read_text(encoding="utf-8").splitlines())
    session = next(line for line in lines if line.startswith('"session":'))
    cells: list[dict[str, Any]] = json.loads(session.removeprefix('"session":').rstrip(","))["cells"]
    return cells


def found_in(text: str) -> Found:
    """The tree of numbers at the end of the page."""
    tree = re.findall(r"<marimo-json-output data-json-data='(.*?)'", text)[-1]
    found: Found = _plain(json.loads(html.unescape(tree)))
    return found


def _plain(value: Any) -> Any:
    """Without marimo's marks for the type of a number."""
    if isinstance(value, dict):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, list):
        return [_plain(x) for x in value]
    if isinstance(value, str) and value.startswith("text/plain+float:"):
        return float(value.removeprefix("text/plain+float:"))
    return value


def check(name: str, text: str, console: str) -> None:
    """What a page shows, and what was printed beside it: nothing, no warning either."""
    assert not console, name
    assert len(re.findall(r"<marimo-(?:slider|dropdown) ", text)) >= 2, name
    assert text.count("data:image/png;base64,") >= 2, name
    assert text.count("<marimo-accordion ") >= 2, name  # exercises, and the numbers
    LESSONS[name](found_in(text))


def test_a_lesson_can_be_exported(tmp_path: Path) -> None:
    name = NOTEBOOKS[0].stem
    page = tmp_path / "page.html"
    run("-m", "marimo", "export", "html", f"{name}.py", "-o", page.name, cwd=tmp_path)
    cells = cells_of(page)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["type"] for output in outputs} == {"data"}, outputs  # no errors
    text = "\n".join(str(x) for output in outputs for x in output["data"].values())
    check(name, text, "".join(str(cell["console"]) for cell in cells if cell["console"]))


RUN = """
import ast, contextlib, io, json, pathlib, runpy, sys, warnings
from types import SimpleNamespace

import marimo as mo
from marimo._output.formatters.formatters import register_formatters

def elements(path):
    for node in ast.walk(ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(("mo.ui.slider", "mo.ui.dropdown")):
            given = [ast.literal_eval(x) for x in node.value.args]
            ends = given[0] if ast.unparse(node.value.func).endswith("dropdown") else given
            now = next(ast.literal_eval(k.value) for k in node.value.keywords if k.arg == "value")
            yield node.targets[0].id, SimpleNamespace(value=ends[0] if now == ends[-1] else ends[-1])

register_formatters()  # as marimo does before it runs a notebook
sys.path.insert(0, ".")
pages = {}
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as console, contextlib.redirect_stderr(console):
        outputs, _ = runpy.run_path(path)["app"].run()
    text = "\\n".join(mo.as_html(output).text for output in outputs if output is not None)
    pages[path.removesuffix(".py")] = [text, console.getvalue()]

    # all sliders at once to the last value, or to the first where they stand at the last
    moved = dict(elements(path))
    assert len(moved) >= 2, path
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # a division by zero
        _, found = runpy.run_path(path)["app"].run(defs=moved)
    if "itd_wins" in found:
        assert found["itd_wins"][-1] < found["beyond"].t[-1], "the text says that ITD is no longer closer"
pathlib.Path("pages.json").write_text(json.dumps(pages), encoding="utf-8")
"""


def test_lessons_show_what_they_claim_and_their_sliders_may_be_moved(tmp_path: Path) -> None:
    run("-c", RUN, *(path.name for path in NOTEBOOKS), cwd=tmp_path)
    pages = json.loads((tmp_path / "pages.json").read_text(encoding="utf-8"))
    assert list(pages) == list(LESSONS)
    for name, (text, console) in pages.items():
        check(name, text, console)


def hypergradient(found: Found) -> None:
    assert found["slope"] == pytest.approx(1 / (1 - 0.6) ** 2, rel=1e-12)
    assert found["first_step"] == 0
    assert 1e-7 < found["best_h"] < 1e-2  # neither the smallest h nor the largest
    assert found["disagreement"] < 1e-8  # ε^(2/3) is about 4e-11, and f is of order 10
    errors, plateau = found["errors"], found["plateau"]
    assert errors["aid-cg"] < errors["aid-fp"] < errors["itd"] < found["norm"]
    for (
        method,
        left,
    ) in plateau.items():  # what w_t adds to it is no more than the error of AID-CG, which is all from w_t
        assert abs(errors[f"{method}:5"] - left) <= errors["aid-cg"]
    assert plateau["aid-cg"] < plateau["aid-fp"]


def itd_against_aid(found: Found) -> None:
    q, w_star = found["q"], found["w_star"]
    assert found["off"] < 1e-10
    for t, error in ((int(t), e) for t, e in found["errors"]["itd"].items()):
        assert error == pytest.approx(w_star * (t * q ** (t - 1) + q**t / (1 - q)), rel=1e-10)
    for t, error in ((int(t), e) for t, e in found["errors"]["aid-fp"].items()):
        assert error == pytest.approx(w_star * q**t * (2 - q**t) / (1 - q), rel=1e-10)
    shares = found["shares"]
    t = len(shares["itd"])
    assert shares["itd"] == pytest.approx([w_star * q ** (t - 1)] * t, rel=1e-12)  # t equal ones
    assert sum(shares["aid-fp"]) == pytest.approx(w_star * q**t * (1 - q**t) / (1 - q), rel=1e-12)
    assert found["peak_predicted"] == pytest.approx(-1 / math.log(q), rel=1e-12)
    assert found["peak_measured"] == max(range(1, 61), key=lambda t: t * q ** (t - 1))
    assert found["tops"]["itd"] == pytest.approx(w_star * max(t * q ** (t - 1) for t in range(1, 61)), rel=1e-10)
    assert found["tops"]["aid-fp"] < found["tops"]["itd"]
    a = -2 / (1 - q)  # w'/w* at s = −3w*
    closer = [t for t in range(1, 1 + round(5 / (1 - q))) if abs(a + t / q) < abs(a + (1 - q**t) / (1 - q))]
    assert found["itd_wins"] == closer
    assert closer[-1] < round(5 / (1 - q))  # AID-FP has overtaken before the end
    assert 1 < found["ratio"][0] < found["ratio"][1]
    assert not found["rises"]


def wrong_constant(found: Found) -> None:
    spectrum, trap, q = found["spectrum"], found["trap"], found["q"]
    top, rounding = spectrum["top"], 1e-12
    for power, ritz, certified in zip(spectrum["power"], spectrum["ritz"], spectrum["certified"], strict=True):
        assert power <= ritz + rounding
        assert ritz <= top + rounding
        assert top <= certified
    for curve, sign in (("power", 1), ("ritz", 1), ("certified", -1)):
        assert all(sign * (b - a) >= -rounding for a, b in pairwise(spectrum[curve])), curve
    estimate, value, converged = trap["fooled"]
    assert converged and estimate <= value < 0.91 < top  # noqa: PT018
    assert trap["fresh"][0] == pytest.approx(top, rel=1e-6)
    assert trap["fresh"][1] >= top - rounding
    assert q["power iteration"] < q["true"] == pytest.approx(0.99 / 1.01, rel=1e-9)  # (κ − 1)/(κ + 1), κ = 100
    assert found["promised"]["error"] > 100 * 1e-3
    assert found["verdicts"] == {
        "right": "holds",
        "looked": "holds",
        "believed": "violated",
        "doubted": "inconclusive",
        "vouched": "holds",
    }
    assert "breaks at" in found["said"]["broken"]
    assert "was found" in found["said"]["claim"]


def proof_chain(found: Found) -> None:
    tightness = found["tightness"]
    for name, product in found["products"].items():
        assert product == pytest.approx(tightness[name], rel=1e-9)
        assert found["least_slack"][name] >= 1 - 1e-9
    assert 1 < tightness["br"] < tightness["hr"] < tightness["lr"]
    for gained in found["gained"].values():
        assert gained["aid-fp"] > gained["aid-fp-local"] > gained["aid-path"] > 1
    assert found["proved"]
    assert found["words"] == ["holds"]
    assert set(found["verdicts"].values()) == {"holds"}
    assert found["worst"] == pytest.approx(1, abs=1e-6)
    assert not found["refuted"]
    assert found["attained"] == pytest.approx([1, 1], abs=1e-6)
    assert found["broken"] == ["violated", "derivative of the iterate"]


def no_contraction(found: Found) -> None:
    step, layer, ball = found["step"], found["layer"], found["heavy_ball"]
    assert found["q"] == pytest.approx(1.1, rel=1e-12)
    assert all(step["verdicts"][f"{m} {m}"] == "not applicable" for m in ("itd", "aid-fp", "aid-cg"))
    assert step["verdicts"]["aid-cg aid-path"] == "holds"
    assert "q = 1.1 ≥ 1" in step["why"]
    assert all(last > 10 * first for first, last in step["errors"].values())
    for distance in found["itd"].values():
        assert (
            distance["f_t"] < 1e-8
        )  # f_t is quadratic in λ, so differences of it err by rounding only: ε·f_t/(h·∇f_t)
        assert distance["f"] > 0.5
    assert layer["radius"] < 1 < layer["norm"]
    assert layer["verdicts"]["itd itd"] == layer["verdicts"]["aid-fp aid-fp"] == "not applicable"
    assert layer["verdicts"]["aid-fp aid-path"] == "consistent"
    assert all(last < 1e-6 * first for first, last in layer["errors"].values())
    root = math.sqrt(ball["kappa"])
    assert ball["radius"] == pytest.approx((root - 1) / (root + 1), rel=1e-9)
    assert ball["norm"] > 1
    assert 1 < ball["peak"] == pytest.approx(root / math.e, rel=0.02)  # the peak is about √κ/e: errata 3
    assert ball["radius"] < found["weighted"] < 1
    said = found["momentum"]
    assert said["itd itd"] == "not applicable"
    assert said["itd itd-weighted"] == said["itd heavy-ball"] == said["aid-fp aid-fp"] == "holds"


def minibatches(found: Found) -> None:
    first, last = found["reused"]
    assert first == pytest.approx(last, rel=1e-4)  # it no longer falls
    assert abs(last) > found["true"]
    constant, decreasing = found["constant"], found["decreasing"]
    assert constant[0][0] == pytest.approx(constant[0][1], rel=1e-6)  # a floor of the bias
    assert abs(decreasing[0][1]) < 0.1 * constant[0][1]
    assert decreasing[2][0] / decreasing[2][1] == pytest.approx(2, rel=0.1)  # 1/t
    assert constant[1][1] > decreasing[1][1] > 0.9 * decreasing[1][0]  # the last minibatch
    for bias, *variances in found["batches"].values():
        assert all(v[0] / v[-1] == pytest.approx(32, rel=0.3) for v in variances)
        assert 0.3 < abs(bias[0] / bias[-1]) < 1
    assert found["doubled"][0] / found["doubled"][1] == pytest.approx(2, rel=0.2)
    assert found["floors"][0] / found["floors"][1] == pytest.approx(2, rel=0.1)
    verdicts = found["verdicts"]
    assert not found["ball_doubt"]
    assert verdicts["sid-bias"] == "holds with high probability"
    assert not any(verdict.startswith(("violated", "inconclusive")) for verdict in verdicts.values())


LESSONS: dict[str, Callable[[Found], None]] = {
    "1_hypergradient": hypergradient,
    "2_itd_against_aid": itd_against_aid,
    "3_wrong_constant": wrong_constant,
    "4_proof_chain": proof_chain,
    "5_no_contraction": no_contraction,
    "6_minibatches": minibatches,
}


def test_every_lesson_has_its_claims() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(LESSONS)
