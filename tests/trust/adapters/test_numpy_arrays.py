"""Values in, values out; and the adapters load no other library by themselves."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import boundcheck as bc
from boundcheck.errors import InputError, UserCodeError
from boundcheck.trust.adapters.library import library


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.fixture(scope="module")
def problem() -> bc.Problem:
    """w = λ₁ + λ₂/2 and E = ‖w‖²/2: so ∇f = (w, Σw/2)."""
    hparams = {"a": torch.ones(2, dtype=torch.float64), "b": torch.tensor(2.0, dtype=torch.float64)}
    return bc.Problem.from_map(
        lambda w, h: w / 2 + h["a"] / 2 + h["b"] / 4,
        lambda w, h: (w**2).sum() / 2,
        torch.zeros(2, dtype=torch.float64),
        hparams,
    )


def test_a_function_of_arrays_is_called_with_the_structure_of_the_hyperparameters(problem: bc.Problem) -> None:
    def g(h: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert all(isinstance(value, np.ndarray) for value in h.values())
        w = h["a"] + h["b"] / 2
        h["a"][:] = 99.0  # a copy
        return {"a": w, "b": w.sum() / 2}

    before = problem.lam.clone()
    assert bc.enclose(problem, bc.adapters.from_numpy(problem, g)).upper < 1e-12  # sizes 1, in float64
    assert torch.equal(problem.lam, before)


def test_arrays_of_any_structure_and_lower_precision_keep_their_numbers(problem: bc.Problem) -> None:
    third = np.float32(1 / 3)
    g = bc.adapters.from_numpy(problem, {"a": np.full(2, third), "b": [third]})
    assert g["a"].tolist() == [float(third)] * 2
    assert g["b"][0].dtype == torch.float64
    pair = bc.adapters.from_numpy(problem, Pair(np.ones(1), (np.ones(2),)))
    assert type(pair) is Pair
    assert type(pair.b) is tuple
    w = bc.adapters.from_numpy(problem, np.zeros(2), of="params")
    assert problem.checked(w, "w0").tolist() == [0, 0]


def test_what_cannot_be_used_is_named(problem: bc.Problem) -> None:
    single = bc.Problem.from_map(lambda w, h: w / 2 + h, lambda w, h: w.sum(), torch.zeros(1), torch.ones(1))
    with pytest.raises(InputError, match=r"an array is float64 and the problem torch\.float32"):
        bc.adapters.from_numpy(single, np.ones(1))
    with pytest.raises(InputError, match="an array has dtype int64"):
        bc.adapters.from_numpy(problem, np.arange(2))
    with pytest.raises(InputError, match="of = 'lam' is not known"):
        bc.adapters.from_numpy(problem, np.ones(2), of="lam")  # type: ignore[arg-type]
    with pytest.raises(UserCodeError, match="the hypergradient raised ZeroDivisionError"):
        bc.adapters.from_numpy(problem, lambda h: 1 / 0)
    with pytest.raises(AttributeError, match=r"'boundcheck\.adapters' has no attribute 'nothing'"):
        _ = bc.adapters.nothing
    assert set(dir(bc.adapters)) == {"from_numpy", "hypertorch", "jaxopt", "torchdeq", "torchopt"}


def test_a_missing_library_is_named_with_the_extra() -> None:
    with pytest.raises(InputError, match=r"no_such_library cannot be imported .* pip install 'boundcheck\[audit\]'"):
        library("no_such_library.part")


def test_adapters_import_no_other_library() -> None:
    code = (
        "import sys, boundcheck as bc; [getattr(bc.adapters, name) for name in dir(bc.adapters)]; print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "torch" in loaded
    assert loaded.isdisjoint({"hypergrad", "torchopt", "torchdeq", "jax", "jaxopt", "sympy"})
