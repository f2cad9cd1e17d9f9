"""`boundcheck constants` as people and programs use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Command

STEEP = """
import torch
import boundcheck as bc

H = torch.tensor([1.0, 4.0]).double()

def problem(alpha=0.5075):
    return bc.Problem.from_loss(
        lambda w, lam: (H * w * w).sum() / 2 - lam @ w,
        lambda w, lam: (w * w).sum() / 2,
        torch.zeros(2).double(), torch.ones(2).double(), alpha,
    )
"""


def test_the_first_screen_for_people(boundcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = boundcheck("constants", "br")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for piece in (
        "Φ contracts on the ball ‖w‖ ≤ 2D: q = 0.9927 (proved, exact)", "κ = 274.4", "keep it", "constants are proved",
        "nu_1 0 proved, exact", "L_E", "proved upper bound", "--verbose",
    ):  # fmt: skip
        assert piece in text, piece
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    assert max(len(line) for line in lines) <= 80
    assert "heavy-ball  " not in done.stdout
    assert "(default)" not in done.stdout


def test_everything_with_verbose(boundcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = boundcheck("constants", "br", "-v")
    assert done.returncode == 0, done.stderr
    for piece in ("Lipschitz constant of", "‖∇₁E(w*)‖ at the computed w*", "heavy-ball", "α = 2/(μ+L)", "current step"):
        assert piece in done.stdout, piece
    rows = [line for line in done.stdout.splitlines() if line.startswith(" " * 12)]
    assert len(rows) <= 3 * 22  # a few lines for each constant


def test_json_for_programs(boundcheck: Command) -> None:
    done = boundcheck("constants", "br", "--json", "--seed", "2", "--ball", "local")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["problem"] == {
        "name": "br", "dim": 100, "hdim": 100, "seed": 2, "dtype": "float64", "device": "cpu",
        "step": "given",
    }  # fmt: skip
    assert content["constants"]["nu_1"]["value"] == 0
    assert content["constants"]["q"]["side"] == "exact"
    assert content["step_sizes"]["own"]["contracts"] is True
    assert content["advice"]["keep"] is True


def test_a_step_that_is_too_long_is_named(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "steep.py").write_text(STEEP)
    done = boundcheck("constants", f"{tmp_path / 'steep.py'}:problem")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "Φ is not a contraction on the ball ‖w‖ ≤ 2D: q = 1.03" in text
    assert "Step α = 0.5075 does not contract, not even at w* (q = 1.03); use α = 0.4, which contracts" in text


SADDLE = """
import torch
import boundcheck as bc

def made(inner):
    return bc.Problem.from_loss(
        inner, lambda w, lam: (w * w).sum() / 2, torch.zeros(2).double(), torch.ones(2).double(), 0.5,
    )

def saddle():
    return made(lambda w, lam: (w[0] ** 2 - 0.1 * w[1] ** 2) / 2 - lam @ w)

def wavy():
    return made(lambda w, lam: (w * w).sum() / 2 - lam @ w + 0.3 * torch.cos(2 * w).sum())
"""


def test_no_step_is_promised_where_none_contracts(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "saddle.py").write_text(SADDLE)
    done = boundcheck("constants", f"{tmp_path / 'saddle.py'}:saddle")
    assert done.returncode == 0, done.stderr
    assert "not strongly convex (μ = -0.1 ≤ 0), so no step size contracts" in " ".join(done.stdout.split())


def test_steps_from_one_point_are_not_proved(boundcheck: Command, tmp_path: Path) -> None:
    """μ and L at w* would let the step contract; elsewhere on the ball it does not."""
    (tmp_path / "saddle.py").write_text(SADDLE)
    done = boundcheck("constants", f"{tmp_path / 'saddle.py'}:wavy", "--json", "--budget", "500")
    content = json.loads(done.stdout)
    assert content["constants"]["q"]["value"] > 1
    assert content["step_sizes"]["proved"] is False
    assert content["step_sizes"]["own"]["q"] < 1
    assert content["step_sizes"]["own"]["contracts"] is False
    assert json.loads(boundcheck("constants", "br", "--json").stdout)["step_sizes"]["proved"] is True


OWN = """
import torch
import torch.nn.functional as F
import boundcheck as bc

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0]]).double()

def problem(bend=torch.neg):
    return bc.Problem.from_loss(
        lambda w, lam: F.softplus(-(X @ w)).sum()
        + (torch.exp(lam) * w**2).sum() + bend(w).sum(),
        lambda w, lam: (w * w).sum() / 2 - w.sum(), torch.zeros(2).double(), torch.ones(2).double(), 0.1,
    )

def declined():
    return problem(lambda w: torch.lgamma(w + 9))
"""


def test_a_constant_is_explained_line_by_line(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = boundcheck("constants", f"{tmp_path / 'own.py'}:problem", "--explain", "nu_1", "--explain", "kappa")
    assert done.returncode == 0, done.stderr
    for piece in (
        "nu_1 = ", "softplus  own.py:10", "lambda w, lam: F.softplus(-(X @ w)).sum()", "|φ'''| ≤", "pow own.py:11",
        "need not add up", "explain L and mu, or q",
    ):  # fmt: skip
        assert piece in done.stdout, piece
    assert "products" not in done.stdout  # the table of all constants


def test_an_explanation_for_programs(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = boundcheck("constants", f"{tmp_path / 'own.py'}:problem", "--json", "--ball", "local", "--explain", "mu")
    content = json.loads(done.stdout)
    mu = content["explain"]["mu"]
    assert mu["value"] == pytest.approx(content["constants"]["mu"]["value"])
    assert {part["operation"]: part["line"] for part in mu["contributions"]}["softplus"] == "own.py:10"
    assert mu["contributions"][0]["value"] >= mu["contributions"][-1]["value"]
    assert mu["ball"]["centre"] == "w_star"


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_an_explanation_fits_the_terminal(
    boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.setenv("COLUMNS", width)
    done = boundcheck("constants", f"{tmp_path / 'own.py'}:problem", *(f"--explain={n}" for n in ("q", "nu_2", "L_E")))
    assert max(len(line) for line in done.stdout.splitlines()) <= int(width)


def test_the_operation_that_is_not_proved_is_named(boundcheck: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    file = f"{tmp_path / 'own.py'}:declined"
    reason = "inner_loss: aten.lgamma has no rule, own.py:16"
    for command in (("constants", file), ("constants", file, "--explain", "q"), ("check", file, "--t", "5")):
        done = boundcheck(*command)
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if line.strip().startswith("not proved:")]
        assert len(lines) == (2 if command[0] == "check" else 1), command  # there, also of the ball around w*
        assert reason in lines[0]
        assert "whose position is not proved" in lines[-1] or command[0] != "check"
    assert "--explain NAME" in boundcheck("constants", f"{tmp_path / 'own.py'}:problem").stdout
