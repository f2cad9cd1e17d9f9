"""The source of the problems of a sweep: a name, a file or a function, with its options."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems.loading import Source, source_of
from boundcheck.problems.parts.option_text import Readable, option_types
from boundcheck.sweeps import code_digest

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, eq=False)
class Maker:
    """A name or the path of a file, which every process can load; or a function or a problem, which is sent to it."""

    what: str | Callable[..., Problem] | Problem

    @classmethod
    def of(cls, given: object) -> Maker:
        if isinstance(given, str):
            path, colon, name = given.rpartition(":")
            file = colon and path.endswith(".py")
            return cls(f"{Path(path).expanduser().resolve()}:{name}" if file else given)
        if not isinstance(given, Problem) and not callable(given):
            kind = type(given).__name__
            raise InputError(f"problem is a {kind}; give a name, a Problem, or a function that returns one")
        return cls(given)

    @property
    def source(self) -> Source:
        if isinstance(self.what, str):
            return _loaded(self.what, self.digest)
        name = self.what.name if isinstance(self.what, Problem) else _name(self.what)
        return Source(name, self.what)

    @property
    def name(self) -> str:
        """The name for people, without the folder of the file."""
        return self.source.spec

    def types(self, option: str) -> tuple[Readable, ...]:
        """Return the types that the text of an option may have."""
        if option in ("seed", "dtype", "device"):
            return (int,) if option == "seed" else (str,)
        target = self.source.target
        return () if isinstance(target, Problem) else option_types(target, option)

    def make(self, options: Mapping[str, Any]) -> Problem:
        given = dict(options)
        if isinstance(given.get("dtype"), str):
            if given["dtype"] not in DTYPES:
                raise UnknownNameError.among("dtype", given["dtype"], DTYPES)
            given["dtype"] = DTYPES[given["dtype"]]
        return self.source.make(given)

    @property
    def digest(self) -> str:
        """A digest of the user's code, empty for built-in problems. Files that the code reads are not part of it."""
        if isinstance(self.what, str):
            path = self.what.rpartition(":")[0]
            return code_digest.of_files(Path(path)) if path.endswith(".py") and Path(path).is_file() else ""
        return code_digest.of_object(self.what)

    def refuse_unless_sendable(self) -> None:
        """Raise InputError if the function cannot be sent to another process."""
        if isinstance(self.what, str):
            return
        main = getattr(self.what, "__module__", "") == "__main__"
        try:
            pickle.dumps(self.what)
        except Exception as why:  # pickle raises many kinds of errors
            text = f"{type(why).__name__}: {' '.join(str(why).split())[:120]}"
        else:
            if not (main and not hasattr(__import__("__main__"), "__file__")):
                return
            text = "it is defined in an interactive session"
        remedy = "define it at the top of a module, or use jobs=1"
        raise InputError(f"{self.name} cannot be sent to other processes ({text}); {remedy}")


@functools.lru_cache(maxsize=8)
def _loaded(spec: str, digest: str) -> Source:
    """Load a source. Each process runs a file once, and again after the file has changed."""
    return source_of(spec)


def _name(function: Any) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))
