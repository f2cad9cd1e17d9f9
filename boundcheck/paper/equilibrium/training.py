"""Train an equilibrium model by an outer loop on λ. `eqm`, `conv-eqm` and `states` share this code.

    m_s = β m_{s−1} + g(λ_s),   λ_{s+1} = P(λ_s − ζ (g(λ_s) + β m_s)),   m_{−1} = 0

Here g is computed by ITD, FP or CG on the normal equations at t = k = 20, and P is the projection onto ‖A‖ ≤ 1 − ε, or
the identity. This is Nesterov's momentum, which the paper names, in the form of torch.optim.SGD. The paper does not
give ζ, β, ε or the start of λ; the values here (ζ = 0.5, β = 0.9, 1 − ε = 0.99, entries 0.01 N(0, 1) with b = 0) are
from the published code of its authors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boundcheck.engine.experiment import Settings, Step, Task
from boundcheck.errors import DivergenceError
from boundcheck.numerics.bilevel.derivatives import gradient
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.solvers import lower_level
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.problems.conv_equilibrium import make as convolutional
from boundcheck.problems.conv_equilibrium import projection as projection_of_kernels
from boundcheck.problems.conv_equilibrium import scores as scores_of_maps
from boundcheck.problems.equilibrium import make as dense
from boundcheck.problems.equilibrium import projection, scores
from boundcheck.problems.parts.labelled_examples import Examples, gaussian_examples, mnist_examples, mnist_test
from boundcheck.problems.parts.synthetic_data import Draw, normal

METHODS = {"aid-fp": "FP", "aid-cgn": "CG", "itd": "ITD"}
COST = {"aid-fp": 1.0, "aid-cgn": 1.8, "itd": 1.6}  # relative time of a step
PROJECTED = {True: "projected", False: "free"}
FEW_EXAMPLES = 200  # examples for which the iteration is continued at the end
SETTLED = 1e-4  # the largest ‖w − Φ(w)‖/‖w‖ of an iteration that has converged, in float32
GAUSSIAN = {"eqm": (2, 3), "conv-eqm": (64, 3)}  # features and classes of synthetic data


class TrainingRow(NamedTuple):
    """At λ_s: f_t, ‖g‖, ‖A‖, ‖w_t − Φ(w_t)‖/‖w_t‖, ‖(I − ∂₁Φᵀ)v_k − ∇₁E‖/‖∇₁E‖, accuracy; NaN if not measured."""

    objective: float
    hypergradient: float
    norm: float
    residual_w: float
    residual_v: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Model:
    """The problem on training data, on test data and on a few training examples; class scores; the projection."""

    problem: Problem
    testing: Problem
    going_on: Problem
    few: Examples
    test: Examples
    scores: Callable[[Tensor, Any], Tensor]
    project: Callable[[Tensor], Tensor]

    def accuracy(self, lam: Tensor, t: int) -> float:
        """Return the fraction of the test examples that are classified correctly after t iterations."""
        ready = self.testing.prepare(lam)
        w = lower_level.run(self.testing, ready, self.testing.w0, t).z
        right = self.scores(w, ready).argmax(-1) == self.test.Y.argmax(-1)
        return float(right.double().mean())


def shared(quick: bool, seed: int, device: str) -> Settings:
    """Return the settings that the experiments share. Test accuracy is measured once in `every` steps."""
    return {
        "quick": quick,
        "seed": seed,
        "device": device,
        "dtype": "float32",
        "data": "mnist",
        "test_size": 1000 if quick else 10000,
        "t": 20,
        "k": 20,
        "momentum": 0.9,
        "sigma": 0.01,
        "every": 5 if quick else 25,
        "long": 200 if quick else 500,
        "seeds": 2 if quick else 5,
    }


def tasks(settings: Settings) -> list[Task]:
    """Return a task for each seed, step size and method, with and without projection."""
    all_tasks = []
    for seed in range(settings["seeds"]):
        for step in settings["step_sizes"]:
            for projected in (True, False):
                all_tasks += [task(settings, method, projected, step, seed) for method in METHODS]
    return all_tasks


def task(settings: Settings, method: str, projected: bool, step: float, seed: int, prefix: str = "") -> Task:
    of_task = {"method": method, "projected": projected, "step_size": step, "start": settings["seed"] + seed}
    key = f"{prefix}{key_of(method, projected, step, seed)}"
    return Task(key, {**settings, **of_task}, COST[method] * settings["steps"])


def key_of(method: str, projected: bool, step: float, seed: int) -> str:
    return f"{method}-{PROJECTED[projected]}-{step:g}-{seed}".replace("+", "")  # a key must not contain +, as in 1e+38


def ready(settings: Settings) -> None:
    """Raise InputError if the files of MNIST are missing."""
    if settings["data"] == "mnist":
        from boundcheck.problems.parts import datasets as data

        data.mnist()


@lru_cache(maxsize=2)
def examples(data: str, problem: str, seed: int, size: int, test: int, dtype: str, device: str) -> tuple[Examples, ...]:
    """Return training and test data, which are the same for every start of λ."""
    draw = Draw.seeded(seed, getattr(torch, dtype), device)
    if data == "mnist":
        return mnist_examples(draw, size), mnist_test(draw, test)
    both = gaussian_examples(draw, size + test, *GAUSSIAN[problem])
    return Examples(both.X[:size], both.Y[:size]), Examples(both.X[size:], both.Y[size:])


def model(parameters: Mapping[str, Any]) -> Model:
    plain, hidden, radius = parameters["problem"] == "eqm", parameters["hidden"], parameters["radius"]
    which = (parameters[key] for key in ("data", "problem", "seed", "size", "test_size", "dtype", "device"))
    train, test = examples(*which)
    few = Examples(train.X[:FEW_EXAMPLES], train.Y[:FEW_EXAMPLES])
    project = projection(hidden, radius) if plain else projection_of_kernels(hidden, _side(train), radius)
    problems = [on(parameters, part) for part in (train, test, few)]
    project = project if parameters["projected"] else _identity
    return Model(problems[0], problems[1], problems[2], few, test, scores if plain else scores_of_maps, project)


def on(parameters: Mapping[str, Any], data: Examples) -> Problem:
    """Return the problem on these examples. With projection, λ outside the domain is refused."""
    make = dense if parameters["problem"] == "eqm" else partial(convolutional, side=_side(data))
    dtype, device = getattr(torch, parameters["dtype"]), parameters["device"]
    problem = make(examples=data, hidden=parameters["hidden"], dtype=dtype, device=device)
    return problem if parameters["projected"] else replace(problem, domain=None)


def _side(data: Examples) -> int:
    return math.isqrt(data.X.shape[1])


def _identity(lam: Tensor) -> Tensor:
    return lam


def first(problem: Problem, sigma: float, classes: int, start: int) -> Tensor:
    """Return λ_0: independent normal entries of standard deviation σ, and b = 0 as the last entries."""
    lam = sigma * normal(torch.Generator(device="cpu").manual_seed(start), problem.n)
    lam[-classes:] = 0
    return lam.to(problem.lam)


def run(task: Task, state: dict[str, Any] | None) -> Generator[Step, None, dict[str, Any]]:
    """Run `train`, and return its result without the last λ, which takes much space on the disk."""
    trained = yield from train(task, state)
    return {name: value for name, value in trained.items() if name != "lam"}


def train(task: Task, state: dict[str, Any] | None) -> Generator[Step, None, dict[str, Any]]:
    """Take `steps` steps from λ_0 and measure each λ_s; at the last λ, see whether more iterations converge."""
    p = task.parameters
    network = model(p)
    lam0 = network.project(first(network.problem, p["sigma"], network.test.Y.shape[1], p["start"]))
    start = state or {"s": 0, "lam": lam0, "velocity": torch.zeros_like(lam0), "rows": []}
    s, rows, why = start["s"], list(start["rows"]), ""
    lam, velocity = (start[name].to(lam0.device) for name in ("lam", "velocity"))
    while s <= p["steps"]:
        try:
            row, g = measurement(network, lam, p, s % p["every"] == 0 or s == p["steps"])
        except DivergenceError as diverged:
            why = str(diverged)
            break
        rows.append(tuple(row))
        if s < p["steps"]:
            lam, velocity = stepped(lam, velocity, g, p["step_size"], p["momentum"], network.project)
        s += 1
        yield Step({"s": s, "lam": lam, "velocity": velocity, "rows": list(rows)}, s, p["steps"] + 1)
    columns = {name: np.array([row[i] for row in rows]) for i, name in enumerate(TrainingRow._fields)}
    return {**columns, "why": why, "settled": settled(network, lam, p), "lam": lam}


def stepped(
    lam: Tensor, velocity: Tensor, g: Tensor, zeta: float, beta: float, project: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return λ_{s+1} and m_s."""
    velocity = beta * velocity + g
    after = lam - zeta * (g + beta * velocity)
    return (project(after) if bool(torch.isfinite(after).all()) else after), velocity


def measurement(network: Model, lam: Tensor, p: Mapping[str, Any], with_accuracy: bool) -> tuple[TrainingRow, Tensor]:
    """Return the row of measurements at this λ, and g(λ)."""
    problem = network.problem
    if not bool(torch.isfinite(lam).all()):
        raise DivergenceError(f"{problem.name}: λ left the finite numbers; reduce the step size")
    k = None if p["method"] == "itd" else p["k"]
    result = hypergradient(problem, p["method"], t=p["t"], k=k, lam=lam)
    with torch.no_grad():
        ready: Ready = problem.prepare(lam)
        objective = problem.outer_at(result.w, ready)
        norm = norm_of(problem, ready)
    residual_v = float("nan")
    if result.residual.v is not None:
        residual_v = _ratio(result.residual.v, float(gradient(problem.outer_at)(result.w, ready).norm()))
    accuracy = network.accuracy(lam, p["t"]) if with_accuracy else float("nan")
    residual_w = _ratio(result.residual.w, float(lower_level.length(result.w)))
    row = TrainingRow(float(objective), float(lower_level.length(result.value)), norm, residual_w, residual_v, accuracy)
    return row, result.value


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else float("nan")


def norm_of(problem: Problem, ready: Ready) -> float:
    """Return ‖A‖, or ‖c(K)‖: the contraction constant of the problem if it is below 1."""
    return float("nan") if problem.contraction is None else float(problem.contraction(ready))


def settled(network: Model, lam: Tensor, p: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of a few examples that converge in `long` iterations at the last λ, and the largest residual."""
    problem = network.going_on
    if not bool(torch.isfinite(lam).all()):
        return {"share": 0.0, "residual": float("nan")}
    with torch.no_grad():
        ready = problem.prepare(lam)
        w = lower_level.run(problem, ready, problem.w0, p["long"]).z
        both = torch.stack((problem.phi_at(w, ready) - w, w)).reshape(2, len(network.few.X), -1)
    moved, size = both.norm(dim=-1)
    residual = moved / size.clamp(min=torch.finfo(w.dtype).tiny)
    return {"share": float((residual <= SETTLED).double().mean()), "residual": float(residual.max())}
