"""Files with figures are whole and reproducible, and writing one changes nothing else."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from threading import Thread

import matplotlib as mpl
import pytest
from figure_parts import report, trace
from matplotlib.figure import Figure

from boundcheck import InputError
from boundcheck.views.figures import canvas, report_figures


def test_the_words_of_a_pdf_are_letters(tmp_path: Path) -> None:
    figure = report_figures.errors(report())
    assert b"/Font" in report_figures.save(figure, tmp_path / "a.pdf").read_bytes()
    again = report_figures.save(figure, tmp_path / "a.svg").read_bytes()
    assert again == report_figures.save(report_figures.errors(report()), tmp_path / "b.svg").read_bytes()
    assert b"<text" not in again  # no font is needed to see it


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_files_are_valid_and_the_same_twice(suffix: str, tmp_path: Path) -> None:
    paths = [
        report_figures.save(report_figures.errors(report()), tmp_path / f"{name}.{suffix}") for name in ("one", "two")
    ]
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    if suffix == "png":
        assert first.startswith(b"\x89PNG\r\n\x1a\n")
        figure = report_figures.errors(report())
        assert struct.unpack(">II", first[16:24]) == tuple(int(x * canvas.DPI + 1e-6) for x in figure.get_size_inches())
    elif suffix == "pdf":
        assert first.startswith(b"%PDF-")
        assert b"CreationDate" not in first
        assert b"/Type3" not in first.replace(b" ", b"")
    else:
        assert first.startswith(b"<?xml")
        assert b"</svg>" in first
        assert b"<dc:date>" not in first
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}


def test_saving_changes_no_settings(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    report_figures.save(report_figures.constants(report()), str(tmp_path / "a.PDF"))
    assert dict(mpl.rcParams) == before


def test_bad_suffix(tmp_path: Path) -> None:
    for name in ("a.jpg", "a"):
        with pytest.raises(InputError, match=rf"{name}' is not a picture; end it in .png, .pdf, .svg"):
            report_figures.save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "a.png"
    old.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("boundcheck.views.figures.canvas.os.replace", refuse)
        with pytest.raises(InputError, match=r"a.png' cannot be written \(No space left on device\)"):
            report_figures.save(Figure(), old)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert old.read_text() == "old"
    with pytest.raises(InputError, match=re.escape("cannot be written (No such file or directory)")):
        report_figures.save(Figure(), tmp_path / "nowhere" / "a.png")
    assert not (tmp_path / "nowhere").exists()


def test_in_threads(tmp_path: Path) -> None:
    alone = report_figures.save(report_figures.waterfall(trace()), tmp_path / "alone.svg").read_bytes()
    names = [tmp_path / f"{n}.svg" for n in range(4)]
    threads = [
        Thread(target=lambda path=path: report_figures.save(report_figures.waterfall(trace()), path)) for path in names
    ]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {path.read_bytes() for path in names} == {alone}


def test_neither_pyplot_nor_torch_is_loaded(tmp_path: Path) -> None:
    script = f"""
import sys
from matplotlib.figure import Figure
from boundcheck import plot
for suffix in ("png", "pdf", "svg"):
    plot.save(Figure(), {str(tmp_path)!r} + "/a." + suffix)
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(run.stdout.split())
    assert "boundcheck.views.figures.report_figures" in loaded
    assert loaded.isdisjoint({"matplotlib.pyplot", "torch"})
