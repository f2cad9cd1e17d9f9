"""Changed code is another sweep, and code that a later call could not recognise has no digest."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import boundcheck as bc
from boundcheck.sweeps.code_digest import of_files, of_object


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("import beside", "beside.py"),
        ("from parts import tools", "parts/tools.py"),
        ("import parts.tools", "parts/__init__.py"),
        ("from parts.tools import scale", "parts/inner.py"),  # which parts/tools.py imports as .inner
        ("import parts.tools as t", "parts/deep/__init__.py"),  # and this one as .deep
    ],
)
def test_modules_and_packages_beside_the_file_count(tmp_path: Path, statement: str, changed: str) -> None:
    files = {
        "mine.py": f"{statement}\nimport torch",
        "beside.py": "",
        "parts/__init__.py": "",
        "parts/tools.py": "from . import deep\nfrom .inner import scale",
        "parts/inner.py": "scale = 1.0",
        "parts/deep/__init__.py": "import torch",
        "parts/not_imported.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = of_files(tmp_path / "mine.py")
    (tmp_path / "parts/not_imported.py").write_text("x = 1")
    assert of_files(tmp_path / "mine.py") == before
    (tmp_path / changed).write_text(files[changed] + "\n# changed")
    assert of_files(tmp_path / "mine.py") != before


class Factory:
    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def make(self, q: float) -> bc.Problem:
        return bc.problems.scalar(q=q * float(self.data))


def test_a_method_of_an_object_with_data_has_no_digest(tmp_path: Path) -> None:
    assert of_object(Factory(torch.tensor(1.0)).make) == ""
    with pytest.raises(bc.InputError, match="could not tell whether it is the same"):
        bc.sweep(Factory(torch.tensor(1.0)).make, {"q": [0.5]}, t=2, out=tmp_path / "out")


def _typed(text: str, **held: Any) -> Callable[..., Any]:
    """A function of an interactive session, which has a source and no file."""
    name = f"<cell {text!r}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    session = {"__name__": "__main__", "torch": torch, "bc": bc, **held}
    exec(compile(text, name, "exec"), session)
    made: Callable[..., Any] = session["make"]
    return made


def test_data_of_an_interactive_session_has_no_digest() -> None:
    plain = "def make(q):\n    return bc.problems.scalar(q=q * factor)\n"
    assert of_object(_typed(plain, factor=0.5)) == of_object(_typed(plain, factor=0.5)) != ""
    assert of_object(_typed(plain, factor=0.5)) != of_object(_typed(plain, factor=0.6))
    assert of_object(_typed(plain, factor=torch.tensor(0.5))) == ""
    inner = "def make(q):\n    def loss(w):\n        return (X @ w).sum()\n    return loss\n"
    assert of_object(_typed(inner, X=torch.eye(2))) == ""
    helper = "def helper(q): return {}\ndef make(q): return helper(q)\n"
    assert of_object(_typed(helper.format(1))) not in ("", of_object(_typed(helper.format(2))))
    assert of_object(_typed("def helper(q): return X\ndef make(q): return helper(q)\n", X=torch.eye(2))) == ""
