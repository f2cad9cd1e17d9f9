"""`load_problem`: a built-in problem by name, or one of the user's own from a file."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from boundcheck.errors import BoundcheckError, InputError, UnknownNameError, UserCodeError
from boundcheck.problem import Problem


def load_problem(spec: str, **options: Any) -> Problem:
    """`"lr"`, or `"path/to/file.py:name"` where `name` is a `Problem` or a function that returns one.

    `options` go to the function that makes the problem: `load_problem("lr", seed=1, kappa=50)`.
    """
    path, colon, name = str(spec).rpartition(":")
    if colon and path.endswith(".py"):
        return _from_file(Path(path).expanduser(), name, options)
    if str(spec).endswith(".py"):
        raise InputError(
            f"{spec!r} names a file but nothing in it; write {spec}:name, a Problem or a function returning one"
        )
    from boundcheck.problems import CATALOGUE

    if spec not in CATALOGUE:
        raise UnknownNameError.among("problem", str(spec), CATALOGUE)
    return _make(CATALOGUE[spec].make, spec, options)


def _from_file(path: Path, name: str, options: dict[str, Any]) -> Problem:
    if not path.is_file():
        raise InputError(f"{str(path)!r} is no file; give the path of a Python file, as in mine.py:problem")
    module_spec = importlib.util.spec_from_file_location(f"boundcheck_user_{path.stem}", path)
    if module_spec is None or module_spec.loader is None:
        raise InputError(f"{str(path)!r} cannot be loaded as Python; give a file that ends in .py")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.resolve().parent))  # for what the file imports from beside it
    try:
        module_spec.loader.exec_module(module)
    except BoundcheckError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(_told(error, path, f"running {path.name}")) from error
    finally:
        sys.path.pop(0)
    if not name or not hasattr(module, name):
        have = [key for key, value in vars(module).items() if isinstance(value, Problem)]
        known = have or [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise UnknownNameError.among(f"name in {path.name}", name, known)
    found = getattr(module, name)
    if isinstance(found, Problem):
        if options:
            raise InputError(
                f"{name} in {path.name} is a finished problem and takes no {', '.join(options)}; make it a function"
            )
        return found
    if not callable(found):
        raise InputError(
            f"{name} in {path.name} is a {type(found).__name__}; it must be a Problem or a function returning one"
        )
    return _make(found, f"{path.name}:{name}", options, path)


def _make(function: Any, spec: str, options: dict[str, Any], path: Path | None = None) -> Problem:
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise InputError(f"{spec} is a {type(function).__name__} that makes no problem; give a function") from None
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for option in options:
            if option not in parameters:
                raise UnknownNameError.among(f"option of {spec}", option, parameters)
    try:
        made = function(**options)
    except BoundcheckError:
        raise
    except Exception as error:
        if path is None:
            raise
        raise UserCodeError(_told(error, path, spec)) from error
    if not isinstance(made, Problem):
        raise InputError(f"{spec} returned a {type(made).__name__}; return a Problem")
    return made


def _told(error: BaseException, path: Path, what: str) -> str:
    """The error with the line of the user's file on which it arose."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split())
    return f"{what}{line} raised {type(error).__name__}: {text[:300]}; mend the file"
