"""The blocks of the page on other libraries that CI marks as not run, where the libraries are installed."""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "other_libraries.md"
PACKAGES = {"hypertorch": "hypergrad"}


@pytest.mark.parametrize("library", ["hypertorch", "torchopt", "torchdeq", "jaxopt"])
def test_blocks_of_a_library_run(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    if clone := os.environ.get("BOUNDCHECK_HYPERTORCH"):
        sys.path.append(clone)
    package = PACKAGES.get(library, library)
    if find_spec(package) is None:
        pytest.skip(f"needs {library}: pip install 'boundcheck[audit]', or BOUNDCHECK_HYPERTORCH for hypertorch")
    namespace: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the libraries themselves
        import_module(package)
        for block in blocks(PAGE):
            if block.language != "python":
                continue
            if block.excuse is None and "import numpy" not in block.text:  # what the others build on
                exec(compile(block.text, block.where, "exec"), namespace)
            elif block.excuse is not None and library in re.findall(r"\w+", block.excuse):
                capsys.readouterr()
                exec(compile(block.text, block.where, "exec"), namespace)
                assert re.match(r"g is .* off", capsys.readouterr().out), block.where
