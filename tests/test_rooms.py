"""Packages import in one direction only, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from import_graph import PACKAGE, edges, loaded_with, modules

import boundcheck

HEAVY = ("torch", "matplotlib", "sympy", "scipy", "numpy")

# The package of a module is the longest of these names that its path starts with; "" is what every package shares.
SHARED = {""}
NUMERICS = {
    "numerics",
    "numerics.program",
    "numerics.bilevel",
    "numerics.solvers",
    "numerics.estimate",
    "numerics.curves",
}
PROBLEMS = {"problems", "problems.parts"}
MAY_IMPORT = {
    "": set(),
    "theory": SHARED,
    "numerics": SHARED,
    "numerics.program": SHARED | {"numerics"},
    "numerics.bilevel": SHARED | {"numerics", "numerics.program"},
    "numerics.solvers": SHARED | {"numerics", "numerics.program", "numerics.bilevel"},
    "numerics.estimate": SHARED | {"numerics", "numerics.program", "numerics.bilevel", "numerics.solvers"},
    "numerics.curves": SHARED | {"numerics", "numerics.program", "numerics.bilevel", "numerics.solvers"},
    "problems.parts": SHARED | {"numerics", "numerics.program", "numerics.bilevel"},
    "problems": SHARED | {"numerics", "numerics.program", "numerics.bilevel", "problems.parts"},
    "report": SHARED | {"theory"},
    "compare": SHARED | {"theory", "report"} | NUMERICS,
    "trust": SHARED | {"theory", "report", "compare"} | NUMERICS,
    "worst_case": SHARED | {"theory", "report"},
    "views": SHARED | {"theory", "report"},
    "engine": SHARED,
    "sweeps": SHARED | {"theory", "report", "compare", "views", "engine"} | NUMERICS | PROBLEMS,
    "paper": SHARED | {"theory", "report", "compare", "trust", "worst_case", "views", "engine"} | NUMERICS | PROBLEMS,
    "cli": SHARED
    | {"theory", "report", "compare", "trust", "worst_case", "views", "engine", "sweeps", "paper"}
    | NUMERICS
    | PROBLEMS,
}
# the library that importing anything in a package must not load
NEVER_LOADS = {
    "": ("torch", "sympy", "matplotlib", "scipy", "numpy"),
    "theory": ("torch", "matplotlib"),
    "numerics": ("sympy", "matplotlib"),
    "problems": ("sympy", "matplotlib"),
    "report": ("torch", "matplotlib"),
    "engine": ("torch", "sympy", "matplotlib"),
    "views": ("torch",),
    "cli": ("torch", "sympy", "matplotlib", "scipy", "numpy"),
}
# the data of a report forward to what shows it, when asked: `Report.table`, `plot`, `page` and `save`, and those of a
# stochastic report; and a problem that is given by its name is loaded
FORWARDS = {
    ("report.report", "views"),
    ("report.stochastic_report", "views"),
    ("numerics.bilevel.problem", "problems"),
}
OLD_PATHS = {"canvas", "dynamics", "known", "plot", "problem", "sparse", "estimate", "estimate.spectral"}
OLD_PATHS |= {"theory.reference"}
FRONT = {"", "__main__"}  # `boundcheck` itself, which names the home of every public name


def inner(module: str) -> str:
    """The name of a module inside the package."""
    return module.removeprefix("boundcheck").removeprefix(".")


def package_of(module: str) -> str:
    """The longest name in `MAY_IMPORT` that the module is in."""
    name = inner(module)
    return max((room for room in MAY_IMPORT if not room or f"{name}.".startswith(f"{room}.")), key=len)


def test_the_table_goes_in_one_direction() -> None:
    """What a package may import, it may import with all that this may import: so the rule is one on the whole graph."""
    for room, below in MAY_IMPORT.items():
        assert room not in below
        for other in below:
            assert MAY_IMPORT[other] <= below, f"{room} may import {other}, but not {MAY_IMPORT[other] - below}"


def test_every_folder_is_in_the_table_or_below_one_that_is() -> None:
    alone = [m for m in modules() if package_of(m) == "" and "." in inner(m) and inner(m) not in OLD_PATHS]
    assert not alone


def test_packages_import_from_their_left_only() -> None:
    wrong = []
    for edge in edges():
        if not edge.target.startswith("boundcheck") or inner(edge.source) in OLD_PATHS | FRONT:
            continue
        source, target = package_of(edge.source), package_of(edge.target)
        forward = edge.deferred and (inner(edge.source), target) in FORWARDS
        if source != target and target not in MAY_IMPORT[source] and not forward:
            wrong.append(f"{inner(edge.source)} imports {inner(edge.target)}")
    assert not wrong, "\n".join(["", *wrong])


def test_the_map_has_every_folder_and_every_folder_says_what_it_is_for() -> None:
    guide = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for init in PACKAGE.rglob("__init__.py"):
        folder = init.parent.relative_to(PACKAGE)
        assert ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))), f"{folder} does not say what it is for"
        if (folder.parts[-1:] == ("views",) and folder.parts[:1] == ("paper",)) or folder.as_posix() == "estimate":
            continue
        name = f"`{folder.name}/`" if folder.parts[:1] == ("paper",) and len(folder.parts) == 2 else f"/{folder}/`"
        assert name in guide or f"`boundcheck/{folder}/`" in guide or folder == Path(), f"{folder} is not on the map"


@pytest.mark.parametrize("room", NEVER_LOADS)
def test_importing_a_package_does_not_load_what_it_has_no_use_for(room: str) -> None:
    reached = loaded_with(edges())
    wrong = []
    for module, loads in reached.items():
        name = inner(module)
        inside = package_of(module) == "" if not room else f"{name}.".startswith(f"{room}.")
        if inside and name not in OLD_PATHS | {"__main__"}:
            wrong += [f"{name} loads {library}" for library in NEVER_LOADS[room] if library in loads]
    assert not wrong, "\n".join(["", *wrong])


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
    assert "torch" not in loaded_after("from boundcheck.views import page; page.html()")


def test_public_names_exist() -> None:
    for name in boundcheck.__all__:
        assert getattr(boundcheck, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = boundcheck.nothing


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("dynamics", "FIXED_POINT GRADIENT_DESCENT constant"),
        ("known", "Known Region upper"),
        ("problem", "Problem Domain"),
        ("sparse", "SparseMatrix"),
        ("plot", "waterfall trace_over_t"),
        ("canvas", "BLUE number"),
        ("estimate.spectral", "lanczos"),
        ("theory.reference", "Reference BOUNDCHECK GRAZZI Paper"),
    ],
)
def test_old_paths_still_have_their_names(path: str, names: str) -> None:
    """Problem files that `boundcheck worst` wrote earlier import them."""
    module = importlib.import_module(f"boundcheck.{path}")
    assert all(hasattr(module, name) for name in names.split())
