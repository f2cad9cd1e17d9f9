"""`boundcheck hypergradient` as people and programs use it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import Command

import boundcheck as bc
from boundcheck.views.terminal import show_hypergradient

OWN = """
import torch
import boundcheck as bc

torch.manual_seed(0)
X, y = torch.randn(20, 3).double(), torch.randn(20).double()

def inner(p, h):
    return ((X @ p["w"] + p["b"] - y) ** 2).mean() + h.exp() * (p["w"] ** 2).sum()

def outer(p, h):
    return ((X @ p["w"] + p["b"] - y) ** 2).mean()

start = {"w": torch.zeros(3).double(), "b": torch.zeros(()).double()}
problem = bc.Problem.from_loss(inner, outer, start, torch.tensor(-1.0).double())
"""


def test_an_own_problem(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    out = tmp_path / "g.npy"
    done = boundcheck("hypergradient", f"{tmp_path / 'own.py'}:problem", "--rtol", "0.1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "(proved)" in done.stdout
    text = " ".join(done.stdout.split())
    assert "is a descent direction" in text
    done = boundcheck("hypergradient", f"{tmp_path / 'own.py'}:problem", "--rtol", "0.1", "--json")
    content = json.loads(done.stdout)
    printed = re.search(r"within (\S+)% of ∇f and at an angle of at most (\S+)° .* between (\S+) and (\S+)\. ", text)
    share, angle, lower, upper = map(float, printed.groups())  # each rounded to the side on which it stays true
    assert content["relative_error"] <= share / 100
    assert content["angle"] <= angle
    assert lower <= content["error"]["lower"]
    assert content["error"]["upper"] <= upper
    assert content["relative_error"] <= 0.1
    assert content["error"]["lower"] <= content["error"]["upper"]
    assert np.load(out).tolist() == content["value"]


def test_what_is_shown_is_not_less_than_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    g = bc.hypergradient("scalar", rtol=0.1)
    error = replace(g.error, lower=0.12340049, upper=0.123410001)
    accuracy = replace(g.accuracy, error=error, relative_error=0.0012341, angle=0.0012341)
    show_hypergradient.show(bc.load_problem("scalar"), replace(g, accuracy=accuracy))
    words = " ".join(capsys.readouterr().out.split())
    assert "within 0.124% of ∇f and at an angle of at most 0.00124° to it" in words
    assert "between 0.1234 and 0.123411" in words
