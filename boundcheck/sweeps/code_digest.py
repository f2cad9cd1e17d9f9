"""Digests of the code that makes problems: stored results are used only for the same code."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

PLAIN = (bool, int, float, str, type(None))
DIGITS = 16


def of_files(path: Path) -> str:
    """Return a digest of a file and of all files in its folder that it imports, directly or not."""
    digest, waiting, visited = hashlib.sha256(), [path], set()
    while waiting:
        file = waiting.pop()
        if file in visited:
            continue
        visited.add(file)
        text = file.read_bytes()
        digest.update(f"{file.relative_to(path.parent).as_posix()}\n".encode() + text)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue  # running the file reports the error
        modules = {module for node in ast.walk(tree) for module in _imported(node, file.parent, path.parent)}
        imported = [file for module in sorted(modules) for file in _files(module, path.parent)]
        waiting += [file for file in imported if file.is_file()]
    return digest.hexdigest()[:DIGITS]


def _imported(node: ast.AST, folder: Path, top: Path) -> Iterator[Path]:
    """Yield the modules of an import statement, as paths without .py.

    The file with the statement is in `folder`; absolute names start at `top`.
    """
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield top.joinpath(*alias.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        start = top if node.level == 0 else [folder, *folder.parents][min(node.level - 1, len(folder.parents))]
        module = start.joinpath(*(node.module or "").split("."))
        yield module
        for alias in node.names:  # a name in the module, or a module in the package
            yield module / alias.name


def _files(module: Path, top: Path) -> Iterator[Path]:
    """Yield the files that importing a module below `top` would run: its own and those of its packages."""
    if not module.is_relative_to(top):
        return
    for package in [module, *module.parents]:
        if package == top:
            return
        yield package / "__init__.py"
        yield package.with_name(f"{package.name}.py")


def of_object(value: object) -> str:
    """Return a digest of a function: its source and the plain values that it holds; "" if it holds other data."""
    if isinstance(value, functools.partial):
        inner = of_object(value.func)
        arguments = (*value.args, *value.keywords.items())
        plain = all(isinstance(x, PLAIN) for part in arguments for x in (part if isinstance(part, tuple) else (part,)))
        return _short(f"{inner}{arguments!r}") if inner and plain else ""
    if not isinstance(value, FunctionType):  # a method holds an object, which holds data
        return ""
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    if not all(isinstance(cell, PLAIN) for cell in cells):
        return ""
    try:
        file = Path(inspect.getsourcefile(value.__code__) or "")
        text = of_files(file) if file.is_file() else _of_session(value, set())
    except (OSError, TypeError):
        return ""
    held = (cells, value.__defaults__, value.__kwdefaults__)
    return _short(f"{text}{value.__name__}{value.__code__.co_code!r}{held!r}") if text else ""


def _of_session(function: FunctionType, visited: set[FunctionType]) -> str:
    """Return the source of a function without a file and of what it uses of its session; "" if it uses data."""
    visited.add(function)
    text, session = inspect.getsource(function), function.__globals__
    for name in sorted(_names(function.__code__) & {*session}):
        used = session[name]
        if isinstance(used, PLAIN):
            text += f"{name} = {used!r}\n"
        elif isinstance(used, ModuleType) or any(used is one for one in visited) or _is_imported(used, function):
            continue
        elif isinstance(used, FunctionType) and not used.__closure__ and (inner := _of_session(used, visited)):
            text += f"{inner}{used.__defaults__!r}{used.__kwdefaults__!r}"
        else:
            return ""
    return text


def _is_imported(used: Any, function: FunctionType) -> bool:
    """Return whether `used` is a function or a class from another module than `function`."""
    return isinstance(used, FunctionType | BuiltinFunctionType | type) and used.__module__ != function.__module__


def _names(code: CodeType) -> set[str]:
    """Return the global names and attributes in a function and in its inner functions."""
    inside = [const for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names}.union(*map(_names, inside))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
