"""What is in the file: everything it needs, no formula written by hand, nothing that ends a script early."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from small import small

import boundcheck as bc
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views import page
from boundcheck.views.page import report_data, rows, sliders

HERE = Path(page.__file__).parent
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Reader(HTMLParser):
    """Elements with their text; fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        attributes = self.found[-1][1] if self.found else {}
        if attributes.get("id"):
            self.text[str(attributes["id"])] = self.text.get(str(attributes["id"]), "") + data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def data_of(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is in the JSON")

    return json.loads(read(text).text["data"], parse_constant=refuse)


@pytest.fixture(scope="module")
def theory(theory_file: Path) -> str:
    return theory_file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def of_report(report_file: Path) -> str:
    return report_file.read_text(encoding="utf-8")


def test_a_page_stands_alone(theory: str, of_report: str) -> None:
    for text in (theory, of_report):
        assert len(text.encode()) < 1.5e6
        reader = read(text)
        for tag, attributes in reader.found:
            assert tag not in ("iframe", "object", "embed", "base")
            assert "src" not in attributes
            if tag == "link":
                assert attributes["href"] == "data:,"
        assert [tag for tag, _ in reader.found].count("script") == 3
        styles = text[text.index("<style>") : text.index("</style>")]
        assert "@import" not in styles
        assert all(url.startswith("data:font/woff2;base64,") for url in re.findall(r"url\(([^)]*)\)", styles))


def test_every_bound_is_there_with_its_statement(theory: str) -> None:
    data = data_of(theory)
    assert set(data["bounds"]) == set(bc.bounds)
    assert {row["bound"] for row in data["rows"]} == set(bc.bounds)
    for name, message in data["bounds"].items():
        assert message["statement"] in bc.bounds[name].latex()
        assert message["code"] == bc.bounds[name].javascript()
    for row in data["rows"]:
        assert set(row["controls"]) | set(row["indices"]) == set(rows_by_id(rows.theory())[row["id"]].code.symbols)


def rows_by_id(made: list[rows.Row]) -> dict[str, rows.Row]:
    return {row.as_json()["id"]: row for row in made}


def test_the_code_is_what_the_bounds_generate(theory: str) -> None:
    for row in rows.theory():
        assert row.code.javascript() in theory


def test_no_formula_is_written_by_hand() -> None:
    words = ("error", "gap", "rho")  # of English, too
    constants = "|".join(re.escape(name) for name in QUANTITIES if len(name) > 2 and name not in words)
    for name in page.SCRIPTS:
        script = (HERE / "static" / name).read_text(encoding="utf-8")
        code = re.sub(r'"[^"\n]*"', '""', script)  # without words
        assert not re.search(rf"\b({constants})\b", code), name
        assert not re.search(r"Math\.(pow|sqrt|expm1|log1p|exp)\b", code), name


def test_every_story_names_what_there_is(theory: str) -> None:
    data = data_of(theory)
    ids, keys = {row["id"] for row in data["rows"]}, {control["key"] for control in data["controls"]}
    for story in data["stories"]:
        assert {*story["show"], story["select"]} <= ids
        assert set(story["set"]) <= keys


def test_the_hump_is_where_the_stories_say(theory: str) -> None:
    message = {story["name"]: story["set"] for story in data_of(theory)["stories"]}
    hump, quadratic = message["The hump"], message["A quadratic"]
    tops = {}
    for name, given in {"hump": hump, "quadratic": quadratic, "nu_2 = 1": quadratic | {"nu_2": 1.0}}.items():
        for q in (0.95, 0.99, 0.999):
            values = bc.bounds["itd"].evaluate(sliders.usual(QUANTITIES) | given | {"q": q}, np.arange(1, 5000)).values
            tops[name, q] = (1 + int(values.argmax())) * (1 - q), values.max() * (1 - q) ** 2
    assert tops["hump", 0.95] == pytest.approx((0.9, 0.436), rel=0.01)
    assert tops["hump", 0.999][0] == pytest.approx(1.0, rel=0.01)
    assert tops["hump", 0.999][1] == pytest.approx(tops["hump", 0.99][1], rel=0.05)
    assert tops["quadratic", 0.95][0] > 0.5
    assert tops["nu_2 = 1", 0.95][0] == pytest.approx(0.05)  # at t = 1: none


def test_bounds_from_the_spectrum_are_no_observations_of_a_run(theory: str) -> None:
    result = {row["bound"]: row for row in data_of(theory)["rows"] if row["bound"].endswith("-spectral")}
    assert {row["method"] for row in result.values()} == {rows.SPECTRUM}
    assert {row["line"] for row in result.values()} == {"local"}


@pytest.mark.parametrize("name", ["br", "krr"])
def test_of_each_method_something_drawn_follows_the_sliders(name: str) -> None:
    """Though a bound from the spectrum, which is fixed, is tighter than every bound from constants."""
    result = report_data.rows(bc.check(small(name), ["itd", "aid-fp", "aid-cg"], t=40))
    for method in ("itd", "aid-fp", "aid-cg"):
        drawn = [row for row in result if row.method == method and row.shown]
        assert any(row.fixed is None for row in drawn), method
        assert any(row.bound.name.endswith("-spectral") for row in drawn), method


def test_what_follows_from_q_agrees_with_the_library() -> None:
    from boundcheck.theory.step_sizes import gradient_descent

    result = sliders.usual(QUANTITIES)
    known = gradient_descent(result["mu"], result["L"])
    assert (known.q, known.kappa, known.alpha) == pytest.approx(
        (result["q"], result["kappa"], result["alpha"]), rel=1e-12
    )


def test_names_cannot_break_out_of_the_page(report: bc.Report) -> None:
    evil = "</script><script>alert(1)</script><!--{{data}}&"
    text = page.html(replace(report, problem={**report.problem, "name": evil}))
    assert data_of(text)["report"]["problem"]["name"] == evil
    assert "alert(1)</script>" not in text
    assert [tag for tag, _ in read(text).found].count("script") == 3


def test_vendored_files_are_those_of_their_packages() -> None:
    message = (HERE / "vendor" / "README.md").read_text(encoding="utf-8")
    hashes = dict(re.findall(r"\| (\S+) \| \S+ \| ([0-9a-f]{64}) \|", message))
    files = {p.relative_to(HERE / "vendor").as_posix(): p for p in (HERE / "vendor").rglob("*.*") if p.is_file()}
    assert set(files) - set(hashes) == {"README.md", "katex.LICENSE", "uplot.LICENSE"}
    assert {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in hashes} == hashes


def test_the_licences_are_in_the_page(theory: str) -> None:
    comment = theory[theory.index("<!--\n") : theory.index("-->")]
    for words in ("Leon Sorokin", "Khan Academy", "THE SOFTWARE IS PROVIDED"):
        assert words in comment


@pytest.mark.parametrize("name", ["lr", "br", "krr", "scalar", "eqm"])
def test_rows_of_a_problem_make_the_values_of_its_report(name: str) -> None:
    methods = ["itd", "aid-fp", "aid-cgn", "itd-truncated:3"] if name == "eqm" else ["itd", "aid-fp:5", "aid-cg"]
    report = bc.check(small(name), methods, t=12)
    result = report_data.rows(report)
    assert result
    for row in result:
        if row.bound.kind == "a priori" and not row.bound.name.endswith(("weighted", "shrinking", "directional")):
            assert row.fixed is None, row.bound.name
    values = {control["key"]: control["value"] for control in report_data.sliders(report, result)}
    for row in result:
        curve = report.curve(row.method)
        message = curve.bounds[row.bound.name].values[0]
        if row.fixed is None:
            given = {name: values[key] for name, key in row.controls.items()} | dict(row.fixed_arguments)
            steps = curve.t if curve.k is None else curve.k
            call = row.code.call(given, curve.t, steps, {"K": steps} if "K" in row.code.symbols else {})
            made = np.broadcast_to(call.values(check=False).values, message.shape)
            np.testing.assert_allclose(made[np.isfinite(message)], message[np.isfinite(message)], rtol=1e-11)


def test_every_traced_link_has_its_formula(report: bc.Report, of_report: str) -> None:
    traced = 0
    for curve in data_of(of_report)["report"]["curves"]:
        for name, bound in curve["bounds"].items():
            for i, link in enumerate(bound["trace"]["links"] if bound["trace"] else ()):
                assert link["formula"], (curve["method"], name, link["name"])
                assert link["because"] == report.trace(curve["method"], name).because[i]
                traced += 1
    assert traced > 30


def test_the_command_writes_a_page(boundcheck: Command, tmp_path: Path) -> None:
    done = boundcheck("page", "--out", str(tmp_path / "a.html"), "--t", "50")
    assert (done.returncode, done.stderr) == (0, "")
    assert data_of((tmp_path / "a.html").read_text(encoding="utf-8"))["horizon"] == 50
    done = boundcheck("page", "scalar", "--t", "8", "--method", "itd", "--out", str(tmp_path / "b.html"), "--quiet")
    assert done.returncode == 0
    assert data_of((tmp_path / "b.html").read_text(encoding="utf-8"))["report"]["problem"]["name"] == "scalar"


def test_the_command_takes_a_saved_report(boundcheck: Command, tmp_path: Path, report: bc.Report) -> None:
    (tmp_path / "report.json").write_text(json.dumps(report.to_json()), encoding="utf-8")
    done = boundcheck("page", "--report", str(tmp_path), "--out", str(tmp_path / "c.html"))
    assert done.returncode == 0
    report.page(tmp_path / "d.html")
    assert (tmp_path / "c.html").read_bytes() == (tmp_path / "d.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scaler",), "unknown problem 'scaler'"),
        (("--t", "1"), "t = 1 is not a length of an axis"),
        (("--method", "itd"), "needs a PROBLEM; give one as well"),
        (("scalar", "--report", "out"), "were given together; give one of them"),
        (("--report", "nothing-there"), "cannot be read"),
        (("--out", "not/there/page.html"), "is not there; give another file"),
        (("--out", "."), "is a directory; give another file"),
    ],
)
def test_bad_input_is_one_line(
    boundcheck: Command, arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = boundcheck("page", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_constant_unfolds_into_what_operations_add(boundcheck: Command, tmp_path: Path, of_report: str) -> None:
    (tmp_path / "own.py").write_text(
        "import torch\nimport boundcheck as bc\n"
        "def problem():\n"
        "    w, lam = torch.zeros(2).double(), torch.ones(2).double()\n"
        "    def inner(w, lam):\n"
        "        return torch.cosh(w).sum() - lam @ w + w.abs().sum() / 10\n"
        "    return bc.Problem.from_loss(inner, lambda w, lam: (w * w).sum(), w, lam, 0.4)\n"
    )
    out = tmp_path / "own.html"
    done = boundcheck("page", f"{tmp_path / 'own.py'}:problem", "--out", str(out), "--t", "5")
    assert done.returncode == 0, done.stderr
    message = data_of(out.read_text(encoding="utf-8"))["report"]
    assert message["explained"] is True
    entries = [entry for entry in message["constants"] if entry["name"] == "mu"]
    assert all("aten.abs is not smooth" in entry["noProof"] for entry in entries)
    rows_of_mu = entries[0]["explain"]["contributions"]
    assert {row["operation"]: row["value"] for row in rows_of_mu}["abs"] is None  # no bound
    assert any(row["line"] == "own.py:6" and row["operation"] == "cosh" for row in rows_of_mu)
    of_shelf = data_of(of_report)["report"]
    assert of_shelf["explained"] is False
    assert all(entry["explain"] is None for entry in of_shelf["constants"])
