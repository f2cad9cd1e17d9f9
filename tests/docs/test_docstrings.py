"""`help()` explains everything public: each parameter, field, result and error, with examples that run.

The public API is `boundcheck.__all__`; the problems of `bc.problems` and the step sizes of `bc.step_sizes`; and what
docs/reference.md shows beside them: the types of results, and what the modules hold of which it lists the members.
"""

from __future__ import annotations

import ast
import doctest
import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import boundcheck as bc
from boundcheck.numerics.bilevel.dynamics import GRADIENT_DESCENT

ROOT = Path(__file__).parent.parent.parent
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", flags=re.M)
ENTRY = re.compile(r"^(\S.*?) : (\S.*)$", flags=re.M)
SHOWN = re.compile(r"^::: boundcheck\.(\S+)$(?:\n +options:\n +members: \[(.*)\]$)?", flags=re.M)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = ("problems", "step_sizes", "dynamics", "plot")  # of `bc.__all__`, whose functions count as its own
SHOWN_AT_WORK = {name for name in bc.__all__ if inspect.isfunction(getattr(bc, name))}
SHOWN_AT_WORK |= {"Problem.from_loss", "Problem.from_map", "Constants.given", "Bound.evaluate"}
PROBLEMS = {f"problems.{entry.file}" for entry in bc.problems.CATALOGUE.values()}
STEP_SIZES = {f"step_sizes.{name}" for name in bc.step_sizes.__all__}


@dataclass(frozen=True)
class Docstring:
    """A docstring by its sections; `summary` is the first line."""

    summary: str
    lines: tuple[str, ...]
    sections: dict[str, str]

    @classmethod
    def of(cls, thing: object) -> Docstring:
        text = inspect.cleandoc(thing.__doc__ or "") + "\n"
        _, *rest = SECTION.split(text)
        return cls(text.split("\n")[0], tuple(text.split("\n")), dict(zip(rest[::2], rest[1::2], strict=True)))

    def entries(self, section: str) -> dict[str, str]:
        """The types of a section by name; `w0, v0 : Tensor` stands for both."""
        result = ENTRY.findall(self.sections.get(section, ""))
        return {name.strip(): kind for names, kind in result for name in names.split(",")}


def _at(path: str) -> Any:
    """What stands at `boundcheck.path`."""
    module, _, name = path.rpartition(".")
    if not module:
        return getattr(bc, name)
    return getattr(getattr(bc, module) if module in bc.__all__ else import_module(f"boundcheck.{module}"), name)


def _public() -> dict[str, Any]:
    """The callables and classes, by the name that users write."""
    shown = [*bc.__all__, *sorted(PROBLEMS), *sorted(STEP_SIZES), *(f"plot.{name}" for name in bc.plot.__all__)]
    for path, members in SHOWN.findall((ROOT / "docs" / "reference.md").read_text(encoding="utf-8")):
        shown += [path, *(f"{path}.{member}" for member in members.split(", ") if member)]
    things = {path if path.partition(".")[0] in bc.__all__ else path.rpartition(".")[2]: _at(path) for path in shown}
    return {name: thing for name, thing in things.items() if callable(thing)}


def _members(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    """What a class defines itself: functions, properties, class methods."""
    for member, value in vars(cls).items():
        if not member.startswith("_") and isinstance(
            value, property | cached_property | classmethod | staticmethod | type(_members)
        ):
            yield f"{name}.{member}", value


PUBLIC = _public()
CLASSES = {name: thing for name, thing in PUBLIC.items() if isinstance(thing, type)}
MEMBERS = dict(member for name, cls in CLASSES.items() for member in _members(name, cls))
PROPERTIES = {name: value for name, value in MEMBERS.items() if isinstance(value, property | cached_property)}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: thing for name, thing in PUBLIC.items() if name not in CLASSES},
    **{name: getattr(value, "__func__", value) for name, value in MEMBERS.items() if name not in PROPERTIES},
}
EVERYTHING = {**CLASSES, **PROPERTIES, **FUNCTIONS}
OF_MODULES = {name for name in FUNCTIONS if name.count(".") == 1 and name.startswith(tuple(f"{m}." for m in MODULES))}
WITH_AN_EXAMPLE = SHOWN_AT_WORK | {name for name in OF_MODULES if name.partition(".")[2] not in CLASSES}


def each(things: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("name", "thing"), things.items(), ids=list(things))


def test_the_public_api_is_found() -> None:
    assert {"check", "Problem", "Problem.from_loss", "Bound.kind", "Guarantee", "plot.save"} <= EVERYTHING.keys()
    assert FUNCTIONS.keys() >= WITH_AN_EXAMPLE
    assert {"follow", "problems.scalar", "step_sizes.heavy_ball"} <= WITH_AN_EXAMPLE
    assert {"plot.style_of", "dynamics.by_name"} <= WITH_AN_EXAMPLE
    assert {"step_sizes.Momentum", "step_sizes.Momentum.matrix"} <= EVERYTHING.keys()


@each(EVERYTHING)
def test_the_first_line_is_a_sentence(name: str, thing: Any) -> None:
    docstring = Docstring.of(thing)
    assert re.fullmatch(r"\S.*[.?]", docstring.summary), f"{name}: {docstring.summary!r}"
    assert docstring.lines[1] == "", f"{name}: a blank line comes after the summary"


@each(FUNCTIONS)
def test_every_parameter_is_explained_with_its_type(name: str, thing: Callable[..., Any]) -> None:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(thing).parameters.values()
    wanted = {stars.get(p.kind, "") + p.name: p.default for p in parameters if p.name not in ("self", "cls")}
    explained = Docstring.of(thing).entries("Parameters")
    assert list(explained) == list(wanted), name
    for parameter, kind in explained.items():
        if kind.startswith("{"):  # of several values the first is the default, here and on the site
            assert ast.literal_eval(kind.strip("{}"))[0] == wanted[parameter], f"{name}: {parameter}"


def _raises(function: Callable[..., Any]) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


@each(FUNCTIONS)
def test_results_and_errors_are_explained(name: str, thing: Callable[..., Any]) -> None:
    sections = Docstring.of(thing).sections
    if inspect.signature(thing).return_annotation not in ("None", None):
        assert "Returns" in sections, f"{name} does not say what it returns"
    if _raises(thing) or name in SHOWN_AT_WORK | PROBLEMS:
        assert "Raises" in sections, f"{name} does not say what it raises"


@each({name: cls for name, cls in CLASSES.items() if is_dataclass(cls) or issubclass(cls, enum.Enum)})
def test_every_field_is_explained(name: str, thing: Any) -> None:
    docstring = Docstring.of(thing)
    named = [*docstring.entries("Attributes"), *docstring.entries("Parameters")]
    wanted = [field.name for field in fields(thing)] if is_dataclass(thing) else [member.name for member in thing]
    assert [x for x in wanted if not x.startswith("_") and x not in named] == [], name


@each({**{name: thing for name, thing in CLASSES.items() if not issubclass(thing, Exception)}, **FUNCTIONS})
def test_signatures_have_no_addresses(name: str, thing: Any) -> None:
    assert " at 0x" not in str(inspect.signature(thing)), name


def test_dynamics_show_their_name() -> None:
    assert repr(GRADIENT_DESCENT) == "Dynamics('gradient-descent')"


@pytest.mark.parametrize("name", sorted(WITH_AN_EXAMPLE))
def test_there_is_an_example(name: str) -> None:
    assert ">>> " in Docstring.of(FUNCTIONS[name]).sections.get("Examples", ""), name


@each({name: thing for name, thing in EVERYTHING.items() if ">>>" in (thing.__doc__ or "")})
def test_examples_run(name: str, thing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(inspect.cleandoc(thing.__doc__), {}, name, None, 0)
    output: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=output.append)
    assert not output, "".join(output)
