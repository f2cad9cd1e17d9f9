"""What users are told when something they bring cannot be used: one line with the name, the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pieces import quadratic, zeros

import boundcheck as bc


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((zeros(2).long(), zeros(2)), "params has dtype torch.int64; give float32 or float64"),
        (
            ([zeros(2), zeros(2).float()], zeros(2)),
            r"params\[1\] has dtype torch.float32 and params\[0\] torch.float64",
        ),
        ((zeros(2), zeros(2).float()), "params are torch.float64 on cpu and hparams torch.float32"),
        ((torch.tensor([1.0, torch.nan]), zeros(2)), "params has entries that are not finite"),
        (({}, zeros(2)), "params holds no tensor"),
        (("text", zeros(2)), "params is a str; give a tensor"),
        ((zeros(0), zeros(2)), "params has no entries"),
        ((zeros(3), zeros(2)), "fp_map raised RuntimeError: The size of tensor"),
    ],
)
def test_bad_parameters_get_one_clear_error(arguments: tuple[object, object], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message) as caught:
        bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, quadratic, *arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fp_map", "outer", "message"),
    [
        (lambda w, lam: w[:1], quadratic, r"the value of fp_map has shape \(1,\); give shape \(2,\)"),
        (lambda w, lam: 0.5 * w, lambda w, lam: w, r"outer_loss returned a tensor of shape \(2,\); return one number"),
        (lambda w, lam: 0.5 * w, lambda w, lam: 1.0, "outer_loss returned a float"),
        (lambda w, lam: w / 0, quadratic, "fp_map is not finite"),
        (lambda w, lam: w["a"], quadratic, "fp_map raised TypeError"),
        (lambda w, lam: (0.5 * w).float(), quadratic, "fp_map returned torch.float32"),
    ],
)
def test_bad_functions_get_one_clear_error(fp_map: object, outer: object, message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message) as caught:
        bc.Problem.from_map(fp_map, outer, zeros(2), zeros(2))
    assert "\n" not in str(caught.value)


def test_bad_losses_and_steps_get_one_clear_error() -> None:
    with pytest.raises(bc.InputError, match="inner_loss returned a tensor of shape"):
        bc.Problem.from_loss(lambda w, lam: w, quadratic, zeros(2), zeros(2))
    with pytest.raises(bc.InputError, match="inner_loss = nan at params"):
        bc.Problem.from_loss(lambda w, lam: w.sum() * torch.nan, quadratic, zeros(2), zeros(2))
    with pytest.raises(bc.InputError, match=r"step_size = -1 is not a step"):
        bc.Problem.from_loss(quadratic, quadratic, zeros(2), zeros(2), step_size=-1)
    with pytest.raises(bc.InputError, match=r"largest eigenvalue -2.*give step_size"):
        bc.Problem.from_loss(lambda w, lam: -quadratic(w, lam), quadratic, zeros(2), zeros(2))
    with pytest.raises(bc.InputError, match="without a loss"):
        bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, quadratic, zeros(2), zeros(2)).inner(zeros(2), zeros(2))


def test_what_a_sampler_returns_is_checked() -> None:
    def with_sampler(sampler: Callable[[torch.Generator], object]) -> bc.Problem:
        return bc.Problem.from_map(
            lambda w, lam: 0.5 * w + lam, quadratic, zeros(2), zeros(2) + 1, sampler=sampler,
            domain=bc.Domain("every entry of lam is > 0", lambda lam: (lam > 0).all()),
        )  # fmt: skip

    assert with_sampler(lambda g: torch.rand(2, generator=g, dtype=torch.float64)).sample(3).shape == (3, 2)
    for sampler, message in (
        (lambda g: zeros(3), "sampler returned a tensor of shape"),
        (lambda g: {"a": 1}, "sampler returned a dict"),
        (lambda g: 1 / 0, "sampler raised ZeroDivisionError"),
        (lambda g: zeros(2) - 1, "lam is outside its domain"),
        (lambda g: zeros(2) * torch.nan, "not finite"),
    ):
        with pytest.raises(bc.BoundcheckError, match=message):
            with_sampler(sampler).sample(1)
    with pytest.raises(bc.InputError, match=r"seed must be a whole number \(got 1\.5\)"):
        bc.load_problem("scalar").sample(1, seed=1.5)
    with pytest.raises(bc.InputError, match=r"count must be at least 1 \(got 0\)"):
        bc.load_problem("scalar").sample(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bc.load_problem("lr", size=0), r"sizes \(0, 100\) are not possible"),
        (lambda: bc.load_problem("hr", features=2.5), "are not possible"),
        (lambda: bc.load_problem("krr", kappa=0.5), "kappa = 0.5 is not a condition number"),
        (lambda: bc.error_curves(bc.load_problem("scalar"), t=3, memory="1GB"), "memory must be a number of bytes"),
        (
            lambda: bc.error_curves(bc.load_problem("scalar"), t=3, lam=zeros(1), seed=1),
            "samples and seed draw λ, and lam was given",
        ),
        (lambda: bc.hypergradient(bc.load_problem("scalar"), "exact", t=-1), "t must be at least 0"),
        (lambda: bc.hypergradient(bc.load_problem("scalar"), "exact", w0=zeros(1)), "takes no w0"),
        (lambda: bc.hypergradient(bc.load_problem("scalar"), "aid-fp", mode="forward"), "is how ITD differentiates"),
        (
            lambda: bc.Problem.from_loss(quadratic, quadratic, zeros(2), zeros(2), step_size=lambda lam: lam + 1),
            r"step_size returned a tensor of shape \(2,\)",
        ),
        (
            lambda: bc.Problem.from_map(lambda w, lam: w / 2, quadratic, zeros(1), zeros(1), dynamics="nesterov"),
            "dynamics = 'nesterov' is not a Dynamics",
        ),
    ],
)
def test_more_bad_input(make: Callable[[], object], message: str) -> None:
    with pytest.raises(bc.InputError, match=message):
        make()


def test_a_problem_without_a_name_is_called_after_its_file(tmp_path: Path) -> None:
    made = "bc.Problem.from_map(lambda w, l: 0.5 * w + l, lambda w, l: (w * w).sum(), torch.ones(1), torch.ones(1)"
    text = f"import torch, boundcheck as bc\nproblem = {made})\nnamed = {made}, name='mine')\n"
    (tmp_path / "own.py").write_text(text)
    assert bc.load_problem(f"{tmp_path / 'own.py'}:problem").name == "own.py:problem"
    assert bc.load_problem(f"{tmp_path / 'own.py'}:named").name == "mine"
