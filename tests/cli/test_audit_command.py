"""`boundcheck audit`: files in, a message or JSON out, one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command import Command

import boundcheck as bc

MINE = """
import torch
import boundcheck as bc

X, y = torch.eye(3, dtype=torch.float64) + 0.5, torch.arange(3.0, dtype=torch.float64)
mine = bc.Problem.from_loss(
    lambda p, h: ((X @ p["w"] - y) ** 2).sum() / 2 + h["l2"].exp() * (p["w"] ** 2).sum() + (h["b"] * p["w"]).sum(),
    lambda p, h: ((p["w"] - 1) ** 2).sum() + 0.1 * (h["b"] ** 2).sum(),
    {"w": torch.zeros(3, dtype=torch.float64)},
    {"l2": torch.zeros((), dtype=torch.float64), "b": torch.ones(3, dtype=torch.float64)},
)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bc.Problem:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE, encoding="utf-8")
    return bc.load_problem("mine.py:mine")


def test_files_of_both_kinds(mine: bc.Problem, boundcheck: Command) -> None:
    h = bc.hypergradient(mine, "aid-cg", t=3, k=40)
    np.save("g.npy", h.value.numpy())
    torch.save(h.grad, "g.pt")
    np.save("w.npy", h.w.numpy())
    torch.save({"w": h.v}, "v.pt")
    for g in ("g.npy", "g.pt"):
        run = boundcheck("audit", "mine.py:mine", g, "--w", "w.npy", "--v", "v.pt")
        assert (run.returncode, run.stderr) == (0, "")
        assert "The inner solution w is" in run.stdout
        assert "proved" in run.stdout
    run = boundcheck("audit", "mine.py:mine", "g.npy", "--w", "w.npy", "--json")
    content = json.loads(run.stdout, parse_constant=lambda x: pytest.fail(f"{x} in JSON"))
    found = bc.audit(mine, h.value, h.w)
    assert (content["fault"], content["descent"], content["side"]) == ("inner", found.descent, "upper")
    assert content["relative_error"] == pytest.approx(found.relative_error, rel=1e-9)
    assert content["error"]["lower"] <= content["error"]["upper"]
    assert content["message"] == found.message


def test_another_lambda(mine: bc.Problem, boundcheck: Command) -> None:
    other = mine.lam + 0.5
    np.save("g.npy", bc.hypergradient(mine, "exact", lam=other).value.numpy())
    np.save("lam.npy", other.numpy())
    assert (
        "the hypergradient at the previous λ"
        in boundcheck("audit", "mine.py:mine", "g.npy", "--previous", "lam.npy").stdout
    )
    content = json.loads(boundcheck("audit", "mine.py:mine", "g.npy", "--lam", "lam.npy", "--json").stdout)
    assert content["fault"] is None
    assert content["relative_error"] < 1e-9


def test_mistakes_have_one_line(mine: bc.Problem, boundcheck: Command) -> None:
    np.save("short.npy", np.ones(2))
    np.save("single.npy", np.ones(4, dtype=np.float32))
    np.save("whole.npy", np.ones(4, dtype=np.int64))
    np.save("nan.npy", np.full(4, np.nan))
    Path("junk.pt").write_text("no tensor", encoding="utf-8")
    Path("junk.npy").write_text("no array", encoding="utf-8")
    for file, message in {
        "absent.npy": "cannot read absent.npy: No such file",
        "mine.py": "mine.py is neither .npy nor .pt",
        "short.npy": "g has shape (2,)",
        "single.npy": "g is torch.float32",
        "whole.npy": "whole.npy holds int64; give float32 or float64",
        "nan.npy": "g has entries that are not finite",
        "junk.pt": "cannot read junk.pt",
        "junk.npy": "cannot read junk.npy",
    }.items():
        run = boundcheck("audit", "mine.py:mine", file)
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr.count("\n") == 1
        assert message in run.stderr
