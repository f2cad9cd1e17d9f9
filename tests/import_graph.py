"""Which module of the package imports which, and which libraries, read off the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boundcheck

PACKAGE = Path(boundcheck.__file__).parent


@dataclass(frozen=True)
class Edge:
    """One import: who, whom, and whether it waits until a function is called."""

    source: str
    target: str
    deferred: bool


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    result = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(node: ast.AST, deferred: bool = False) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Module, names taken from it, and whether it is inside a function."""
    for child in ast.iter_child_nodes(node):
        if _for_types_only(child):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield alias.name, (), deferred
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module, tuple(alias.name for alias in child.names), deferred
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, deferred or inside)


def edges() -> list[Edge]:
    """Imports of modules of the package and of libraries (by their first name)."""
    known = modules()
    result = []
    for source, path in known.items():
        for module, names, deferred in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            if module.split(".")[0] != "boundcheck":
                result.append(Edge(source, module.split(".")[0], deferred))
                continue
            inside = [f"{module}.{name}" for name in names if f"{module}.{name}" in known]
            targets = inside + ([module] if len(inside) < len(names) or not names else [])
            result += [Edge(source, target, deferred) for target in targets if target != source]
    return result


def loaded_with(graph: list[Edge]) -> dict[str, set[str]]:
    """What importing each module loads, itself and packages above included: modules and libraries."""
    known = modules()
    direct: dict[str, set[str]] = {name: set(_above(name)) for name in known}
    for edge in graph:
        if not edge.deferred:
            direct[edge.source].add(edge.target)
    reached = {}
    for name in known:
        seen, waiting = {name}, [name]
        while waiting:
            for target in direct.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        reached[name] = seen
    return reached


def _above(name: str) -> Iterator[str]:
    parts = name.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])
