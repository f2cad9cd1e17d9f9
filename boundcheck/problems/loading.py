"""`load_problem`: load a built-in problem by name, or a problem from a user's file."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from boundcheck.errors import BoundcheckError, InputError, UnknownNameError, UserCodeError
from boundcheck.numerics.bilevel import devices
from boundcheck.numerics.bilevel.problem import UNNAMED, Problem
from boundcheck.problems.parts.option_text import options_from_text


@dataclass(frozen=True)
class Source:
    """A problem, or a function that makes problems, with its name; `path` is the file of the user, if there is one."""

    spec: str
    target: Any
    path: Path | None = None

    def takes(self, option: str) -> bool:
        """Return whether a function with this option makes the problem."""
        return not isinstance(self.target, Problem) and option in _options(self.target, self.spec, option)

    def read(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return options from texts NAME=VALUE."""
        if isinstance(self.target, Problem):
            name = self.spec.rpartition(":")[2]
            how = f"make {name} a function with options to use --set-problem {texts[0]}"
            raise InputError(f"{self.spec} is a finished problem and takes no options; {how}")
        _options(self.target, self.spec)
        return options_from_text(texts, self.target, self.spec)

    def require(self, option: str) -> None:
        """Raise an error if the problem does not take this option."""
        if not self.takes(option):
            raise _refusal(self, option)

    def make(self, options: dict[str, Any]) -> Problem:
        for option in options:
            self.require(option)
        if self.path is not None and "device" in options:
            devices.refuse_unless_usable(options["device"])  # built-in problems check the device themselves
        problem = self.target if isinstance(self.target, Problem) else _make(self.target, self.spec, options, self.path)
        return replace(problem, name=self.spec) if problem.name == UNNAMED else problem


def load_problem(spec: str, **options: Any) -> Problem:
    """Load a problem by its name, or from a file.

    Parameters
    ----------
    spec : str
        A name from `boundcheck list problems`, such as "lr", or "path/to/file.py:name", where `name` is a `Problem` or
        a function that returns one.
    **options : object
        Options of the function that makes the problem, such as ``seed=1``, ``dtype=torch.float32`` or ``kappa=50``.

    Returns
    -------
    Problem
        The problem, for `check`, `plan` and the other functions. If a problem from a file has no name, its place, such
        as "mine.py:problem", becomes its name.

    Raises
    ------
    UnknownNameError
        If there is no problem of this name, or the function does not have an option.
    InputError
        If an option cannot be used, or the name is not that of a problem.
    UserCodeError
        If the file raises an error.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.load_problem("lr", seed=1, kappa=50)
    Problem(lr, d=100, n=100, gradient-descent, float64 on cpu)
    """
    return source_of(str(spec)).make(options)


def load_asked(spec: str, seed: int | None, texts: Sequence[str] = (), **options: Any) -> Problem:
    """Load the problem of a command. `seed` is passed to the function that makes the problem, if it takes a seed.

    `texts` are options of the problem, NAME=VALUE.
    """
    source = source_of(spec)
    if texts:
        options = {**source.read(texts), **options}
    return source.make(options if seed is None or not source.takes("seed") else {"seed": seed, **options})


def source_of(spec: str) -> Source:
    """Return the source of a name, without making a problem."""
    path, colon, name = spec.rpartition(":")
    if colon and path.endswith(".py"):
        return _from_file(Path(path).expanduser(), name)
    if spec.endswith(".py"):
        raise InputError(
            f"{spec!r} names a file but nothing in it; write {spec}:name, a Problem or a function returning one"
        )
    from boundcheck.problems import CATALOGUE

    if spec not in CATALOGUE:
        raise UnknownNameError.among("problem", spec, CATALOGUE)
    return Source(spec, CATALOGUE[spec].make)


def _from_file(path: Path, name: str) -> Source:
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file; give a Python file, as in mine.py:problem")
    module_spec = importlib.util.spec_from_file_location(f"boundcheck_user_{path.stem}", path)
    if module_spec is None or module_spec.loader is None:
        raise InputError(f"{str(path)!r} cannot be loaded as Python; give a file that ends in .py")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module  # dataclasses look up their module
    sys.path.insert(0, str(path.resolve().parent))  # so that the file can import modules from its folder
    try:
        module_spec.loader.exec_module(module)
    except BoundcheckError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(_explained(error, path, f"running {path.name}")) from error
    finally:
        sys.path.pop(0)
    if not name or not hasattr(module, name):
        problems = [key for key, value in vars(module).items() if isinstance(value, Problem)]
        known = problems or [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise UnknownNameError.among(f"name in {path.name}", name, known)
    target = getattr(module, name)
    if not isinstance(target, Problem) and not callable(target):
        raise InputError(
            f"{name} in {path.name} is a {type(target).__name__}; it must be a Problem or a function returning one"
        )
    return Source(f"{path.name}:{name}", target, path)


def _refusal(source: Source, option: str) -> BoundcheckError:
    """Return the error for an option that a problem does not take, with a remedy for --dtype and --device."""
    name = source.spec.rpartition(":")[2]
    use = f" to use --{option}" if source.path is not None and option in ("dtype", "device") else ""
    if isinstance(source.target, Problem):
        how = f"make {name} a function that takes {option}={use}"
        return InputError(f"{source.spec} is a finished problem and takes no {option}; {how}")
    if use:
        return InputError(f"{source.spec} takes no {option}; let {name} take {option}={use}")
    return UnknownNameError.among(f"option of {source.spec}", option, _options(source.target, source.spec))


def _options(function: Any, spec: str, *asked: str) -> list[str]:
    """Return the names of the parameters of the function, and also `asked` if it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise InputError(f"{spec} is a {type(function).__name__} that cannot make a problem; give a function") from None
    return [*parameters, *(asked if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else ())]


def _make(function: Callable[..., Any], spec: str, options: dict[str, Any], path: Path | None) -> Problem:
    try:
        problem = function(**options)
    except BoundcheckError:
        raise
    except Exception as error:
        if path is None:
            raise
        raise UserCodeError(_explained(error, path, spec)) from error
    if not isinstance(problem, Problem):
        raise InputError(f"{spec} returned a {type(problem).__name__}; return a Problem")
    return problem


def _explained(error: BaseException, path: Path, what: str) -> str:
    """Return a message for an error, with the line of the user's file that raised it."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split())
    return f"{what}{line} raised {type(error).__name__}: {text[:300]}; fix the file"
