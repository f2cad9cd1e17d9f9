"""Constants that are proved from users' programs: CPU seconds and peak memory of `estimate_constants`, a process each.

``python benchmarks/program_constants.py`` prints the table; with names, those rows alone. The aims are 1 s at d = 100,
20 s and 1 GB at d = 1000, and a growth of at most d³.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem

FLOAT64 = torch.float64
SHOWN = ("q", "nu_1", "nu_2", "eta_1", "eta_2", "L_E", "L_Phi")


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=FLOAT64)


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=FLOAT64)


def logistic(d: int) -> Problem:
    """Logistic regression of d/2 examples, with a penalty a weight."""
    X, X_val = normal(1, d // 2, d), normal(2, d // 2, d)
    truth = normal(3, d)
    y, y_val = torch.sign(X @ truth), torch.sign(X_val @ truth)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return F.softplus(-y * (X @ w)).sum() + 0.5 * (lam * w**2).sum()

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return F.softplus(-y_val * (X_val @ w)).sum()

    L = float(torch.linalg.matrix_norm(X, 2)) ** 2 / 4 + 1
    return bc.Problem.from_loss(inner, outer, zeros(d), torch.ones(d, dtype=FLOAT64), 2 / (L + 1), name=f"lr-{d}")


def multinomial(p: int, c: int) -> Problem:
    """Multinomial regression with nn.Linear, and exp(λ) penalties, one a feature."""
    X, X_val = normal(4, 100, p), normal(5, 100, p)
    truth = normal(6, p, c)
    y, y_val = (X @ truth).argmax(1), (X_val @ truth).argmax(1)
    model = nn.Linear(p, c, bias=False, dtype=FLOAT64)
    nn.init.zeros_(model.weight)

    def inner(model: nn.Linear, lam: Tensor) -> Tensor:
        return F.cross_entropy(model(X), y) + 0.5 * (torch.exp(lam) * model.weight.square()).sum()

    def outer(model: nn.Linear, lam: Tensor) -> Tensor:
        return F.cross_entropy(model(X_val), y_val)

    return bc.Problem.from_loss(inner, outer, model, torch.full((p,), -2.0, dtype=FLOAT64), name="multinomial")


def equilibrium(count: int, h: int) -> Problem:
    """w = tanh(Aw + Bx + c), λ a dictionary."""
    X, y = normal(7, count, 8), torch.arange(count) % 3
    A = normal(8, h, h)
    A = A * (0.5 / torch.linalg.matrix_norm(A, 2))
    lam = {"A": A, "B": normal(9, h, 8) / 3, "c": 0.1 * normal(10, h), "theta": normal(11, 3, h) / 3, "b": zeros(3)}

    def layer(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return torch.tanh(w @ lam["A"].T + X @ lam["B"].T + lam["c"])

    def outer(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(F.linear(w, lam["theta"], lam["b"]), y)

    return bc.Problem.from_map(layer, outer, zeros(count, h), lam, name="equilibrium")


def cleaning(m: int, p: int, c: int) -> Problem:
    """Data hyper-cleaning: λ weighs every example."""
    X, X_val = normal(12, m, p), normal(13, m, p)
    truth = normal(14, p, c)
    y, y_val = (X @ truth).argmax(1), (X_val @ truth).argmax(1)
    y = torch.where(torch.arange(m) < m // 4, (y + 1) % c, y)

    def inner(W: Tensor, lam: Tensor) -> Tensor:
        losses = F.cross_entropy(X @ W, y, reduction="none")
        return (torch.sigmoid(lam) * losses).mean() + 0.05 * W.pow(2).sum()

    def outer(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    return bc.Problem.from_loss(inner, outer, zeros(p, c), zeros(m), name="cleaning")


def network(hidden: int) -> Problem:
    """A network with one hidden layer of tanh and a penalty on every weight."""
    X, X_val = normal(15, 60, 8) / 3, normal(16, 60, 8) / 3
    y, y_val = torch.sin(X.sum(1)), torch.sin(X_val.sum(1))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, hidden), nn.Tanh(), nn.Linear(hidden, 1)).double()
    count = sum(p.numel() for p in model.parameters())

    def inner(model: nn.Sequential, lam: Tensor) -> Tensor:
        weights = torch.cat([p.reshape(-1) for p in model.parameters()])
        return F.mse_loss(model(X).squeeze(1), y) + (lam.exp() * weights**2).sum() / 2

    def outer(model: nn.Sequential, lam: Tensor) -> Tensor:
        return F.mse_loss(model(X_val).squeeze(1), y_val)

    return bc.Problem.from_loss(inner, outer, model, zeros(count), 0.1, name="mlp")


def sparse(m: int, p: int, c: int) -> Problem:
    """Multinomial regression on m documents of some thirty words each, with a sparse matrix and a penalty a word."""

    def documents(seed: int) -> bc.SparseMatrix:
        words = scipy.sparse.random(m, p, 30 / p, format="csr", random_state=np.random.default_rng(seed))
        return bc.SparseMatrix.from_scipy(words, dtype=FLOAT64)

    X, X_val = documents(17), documents(18)
    truth = normal(19, p, c)
    y, y_val = (X @ truth).argmax(1), (X_val @ truth).argmax(1)

    def inner(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X @ W, y) + (lam.exp()[:, None] * W**2).sum() / 2

    def outer(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    lam = torch.full((p,), -5.0, dtype=FLOAT64)
    return bc.Problem.from_loss(inner, outer, zeros(p, c), lam, 10.0, name="sparse")


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "lr-100": lambda: logistic(100),
    "lr-400": lambda: logistic(400),
    "lr-1000": lambda: logistic(1000),
    "multinomial": lambda: multinomial(60, 10),
    "equilibrium": lambda: equilibrium(20, 10),
    "cleaning": lambda: cleaning(200, 20, 5),
    "mlp": lambda: network(50),
    "sparse": lambda: sparse(2000, 20_000, 10),
}


def measure(name: str) -> None:
    """One row: CPU seconds of the estimate alone, the peak of the whole process, and what is proved."""
    torch.set_num_threads(1)
    problem = PROBLEMS[name]()
    bc.estimate_constants(bc.problems.scalar(q=0.5))  # what is loaded when it is first used
    before = resource.getrusage(resource.RUSAGE_SELF)
    constants = bc.estimate_constants(problem)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    proved = sum(constants[key].is_safe for key in SHOWN if key in constants)
    print(
        f"{name:12s} d = {problem.d:6d}  n = {problem.n:5d}  {seconds:8.2f} s  {_peak():6.0f} MB  "
        f"{proved} of {len(SHOWN)} proved"
    )


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main(names: list[str]) -> None:
    if len(names) == 1:
        measure(names[0])
        return
    for name in names or PROBLEMS:
        subprocess.run([sys.executable, __file__, name], check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
