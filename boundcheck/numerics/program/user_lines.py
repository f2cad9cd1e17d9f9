"""Lines of the user's own code: the one that runs now, and the one that an error came from."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import FrameType

import torch

PACKAGE = Path(__file__).resolve().parents[2]
TORCH = Path(torch.__file__).resolve().parent
PYTHON = Path(sysconfig.get_path("stdlib")).resolve()


def current_line() -> str:
    """The innermost line of code that belongs neither to this package nor to PyTorch or Python, as "file.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if name := _user_file(frame.f_code.co_filename):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def line_of(error: BaseException) -> str:
    """The last line of the user's code that an error came through, as "file.py:12"; empty if there is none.

    Examples
    --------
    >>> from boundcheck.numerics.program.user_lines import line_of
    >>> line_of(ValueError("never raised"))
    ''
    """
    line, trace = "", error.__traceback__
    while trace is not None:
        if name := _user_file(trace.tb_frame.f_code.co_filename):
            line = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


@lru_cache(maxsize=4096)
def _user_file(file: str) -> str:
    """The name of a file of the user's, without its folder; empty for another file."""
    return "" if _is_ours(file) else Path(file).name or file


def _is_ours(file: str) -> bool:
    """Does a file belong to this package, to PyTorch or to Python itself? What a user types at a prompt does not."""
    if file.startswith("<"):
        return file.startswith(("<frozen", "<eval_with_key"))
    path = Path(file).resolve()  # an environment may be reached through a link
    if path.is_relative_to(PACKAGE) or path.is_relative_to(TORCH):
        return True
    return path.is_relative_to(PYTHON) and "site-packages" not in path.relative_to(PYTHON).parts
