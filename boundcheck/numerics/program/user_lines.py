"""Lines of the user's own code: the line that runs now, and the line that an error came from."""

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
    """Return the innermost line of code outside this package, PyTorch and Python, as "file.py:12"; empty if none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if name := _user_file(frame.f_code.co_filename):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def line_of(error: BaseException) -> str:
    """Return the last line of the user's code in the traceback of an error, as "file.py:12"; empty if there is none.

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
    """Return the name of a file without its folder if it is the user's; otherwise an empty string."""
    return "" if _is_ours(file) else Path(file).name or file


def _is_ours(file: str) -> bool:
    """Return True if a file belongs to this package, PyTorch or Python itself. Lines typed at a prompt do not."""
    if file.startswith("<"):
        return file.startswith(("<frozen", "<eval_with_key"))
    path = Path(file).resolve()  # an environment may be reached through a link
    if path.is_relative_to(PACKAGE) or path.is_relative_to(TORCH):
        return True
    return path.is_relative_to(PYTHON) and "site-packages" not in path.relative_to(PYTHON).parts
