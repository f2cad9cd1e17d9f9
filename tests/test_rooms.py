"""Imports go in one direction, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import boundcheck

PACKAGE = Path(boundcheck.__file__).parent
HEAVY = ("torch", "matplotlib", "sympy", "scipy", "numpy")

# what each room must never import, directly; a room that does not exist yet has no files
FORBIDDEN = {
    "theory": (
        "torch",
        "matplotlib",
        "boundcheck.numerics.bilevel.problem",
        "boundcheck.problems",
        "boundcheck.numerics.bilevel.derivatives",
        "boundcheck.numerics.bilevel.dynamics",
        "boundcheck.numerics.solvers",
        "boundcheck.numerics.estimate",
        "boundcheck.compare",
        "boundcheck.worst_case",
    ),
    "attack": (
        "matplotlib",
        "boundcheck.numerics.solvers",
        "boundcheck.numerics.estimate",
        "boundcheck.problems",
        "boundcheck.cli",
    ),
    "compare": ("boundcheck.worst_case",),
    "problems": ("sympy", "boundcheck.theory", "boundcheck.compare"),
    "solvers": ("sympy", "boundcheck.theory", "boundcheck.compare"),
    "estimate": ("sympy", "boundcheck.theory", "boundcheck.compare"),
    "problem.py": ("sympy", "boundcheck.theory", "boundcheck.compare"),
    "prepared.py": ("sympy", "boundcheck.theory", "boundcheck.compare"),
    "products.py": ("sympy", "boundcheck.theory", "boundcheck.compare"),
    "dynamics.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "user.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "trial.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "modules.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "known.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "layout.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "data.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "files.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "sparse.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "projections.py": ("sympy", "boundcheck.theory", "boundcheck.numerics.bilevel.problem", "boundcheck.compare"),
    "canvas.py": ("sympy", "torch", "matplotlib.pyplot", "boundcheck.theory", "boundcheck.compare"),
    "lettering.py": ("sympy", "torch", "matplotlib.pyplot", "boundcheck"),
    "drawn_proof.py": ("sympy", "torch", "matplotlib.pyplot", "boundcheck.theory", "boundcheck.numerics.solvers"),
    "plot.py": ("sympy", "torch", "matplotlib.pyplot", "boundcheck.numerics.solvers", "boundcheck.numerics.estimate"),
    "drawn_map.py": ("sympy", "torch", "matplotlib.pyplot", "boundcheck.theory", "boundcheck.numerics.solvers"),
    "page": ("torch", "matplotlib", "boundcheck.numerics.solvers", "boundcheck.numerics.estimate"),
    "methods.py": ("sympy", "torch", "numpy", "boundcheck.theory"),
    "constants.py": ("sympy", "torch", "numpy", "boundcheck.theory"),
    "errors.py": ("sympy", "torch", "numpy", "boundcheck"),
}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("room", FORBIDDEN)
def test_direction_of_imports(room: str) -> None:
    place = PACKAGE / room
    for path in [place] if place.is_file() else place.rglob("*.py"):
        for name in imported(path):
            wrong = [bad for bad in FORBIDDEN[room] if name == bad or name.startswith(f"{bad}.")]
            assert not wrong, f"{path.relative_to(PACKAGE)} imports {name}"


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return {name.split(".")[0] for name in run.stdout.splitlines()[-1].split()}


def test_importing_boundcheck_loads_nothing_heavy() -> None:
    assert loaded_after("import boundcheck; boundcheck.__version__").isdisjoint(HEAVY)


def test_help_does_not_even_load_sympy() -> None:
    code = "sys.argv = ['boundcheck', '--help']\nfrom boundcheck.cli import main\n"
    code += "try: main()\nexcept SystemExit as stop: assert not stop.code"
    assert loaded_after(code).isdisjoint(HEAVY)


def test_bounds_load_sympy_but_no_torch() -> None:
    loaded = loaded_after("import boundcheck as bc; [bc.bounds[name] for name in bc.bounds]")
    assert "sympy" in loaded
    assert loaded.isdisjoint({"torch", "matplotlib"})


def test_a_page_of_the_theory_loads_no_torch() -> None:
    assert "torch" not in loaded_after("from boundcheck import page; page.html()")


def test_public_names_exist() -> None:
    for name in boundcheck.__all__:
        assert getattr(boundcheck, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = boundcheck.nothing
