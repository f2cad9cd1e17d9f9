"""A user's own problem against the shipped one and against hypertorch, as ratios in one run: ``make bench``.

`python benchmarks/user_speed.py lr br` measures some of them. Seconds are of the processor, on one thread. A rival is
hypertorch where BOUNDCHECK_HYPERTORCH names a clone, else the loop that its users write (`rivals/hypertorch_way.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from clock import race_of_processors
from rivals import hypertorch_way

import boundcheck as bc

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import user_problems as users

STEPS, T, SAMPLES = 100, 200, 20
PLAIN: dict[str, Any] = {"dynamics": "gradient-descent"}  # as the user's problems are


def biased() -> users.Pair:
    return users.Pair(users.biased_pair().user, users.biased_regularisation.make(**PLAIN))


def kernel() -> users.Pair:
    return users.Pair(users.kernel_pair().user, users.kernel_ridge.make(**PLAIN))


def representation() -> users.Pair:
    sizes = {"size": 50, "features": 100, "represented": 200}
    user = users.representation_pair(**sizes).user
    return users.Pair(user, users.hyper_representation.make(**sizes, **PLAIN))


PAIRS: dict[str, Callable[[], users.Pair]] = {
    "lr": lambda: users.logistic_pair(users.soft_plus),
    "br": biased,
    "krr": kernel,
    "hr": representation,
    "multinomial": lambda: users.multinomial_pair(False),
    "eqm": users.equilibrium_pair,
}
ALONE: dict[str, Callable[[], bc.Problem]] = {"mlp": users.network, "conv eqm": users.convolution}


def tell(line: str) -> None:
    print(line, flush=True)


def methods(name: str) -> list[str]:
    return ["aid-fp", "aid-cgn" if "eqm" in name else "aid-cg", "itd"]


def single_calls(name: str, user: bc.Problem, shipped: bc.Problem | None) -> None:
    for method in methods(name):
        k = None if method == "itd" else STEPS
        runs: list[Callable[[], object]] = [
            lambda method=method, k=k: bc.hypergradient(user, method, STEPS, k),
            lambda method=method: hypertorch_way.hypergradient(user, method, STEPS, STEPS),
        ]
        if shipped is not None:
            runs.append(lambda method=method, k=k: bc.hypergradient(shipped, method, STEPS, k))
        ours, rival, *other = race_of_processors(*runs, repeat=9)
        beside = f", x{ours / other[0]:.2f} of the shipped one" if other else ""
        tell(f"{name:12s} {method:7s} t=k={STEPS}: {1e3 * ours:6.1f} ms, rival x{rival / ours:.1f}{beside}")


def curves(name: str, pair: users.Pair) -> None:
    lams = pair.shipped.sample(SAMPLES, seed=1)
    asked = [*methods(name), "aid-fp:10"]
    for some in (lams, lams[:1]):
        runs = [lambda p=p, some=some: bc.error_curves(p, asked, T, lam=some) for p in (pair.user, pair.shipped)]
        ours, shipped = race_of_processors(*runs, repeat=2 if len(some) > 1 else 4)
        tell(f"{name:12s} curves T={T}, {len(some):2d} λ: {ours:6.3f} s, x{ours / shipped:.2f} of the shipped one")


def constants(name: str, pair: users.Pair) -> None:
    for what, run, repeat in (
        ("constants", bc.estimate_constants, 2),
        (f"check t={T}", lambda p: bc.check(p, methods(name), T), 1),
    ):
        ours, shipped = race_of_processors(
            lambda run=run: run(pair.user), lambda run=run: run(pair.shipped), repeat=repeat
        )
        tell(f"{name:12s} {what}: {ours:6.2f} s, x{ours / shipped:.2f} of the shipped one")


def main() -> None:
    torch.set_num_threads(1)
    asked = [name for name in sys.argv[1:] if not name.startswith("-")]
    quick = "--quick" in sys.argv[1:]  # single calls and one λ only
    clone = "hypertorch" if hypertorch_way.library() is not None else "the loop of its users"
    print(f"rival: {clone}; a rival x2 takes twice as long")
    for name in asked or [*PAIRS, *ALONE]:
        if name in ALONE:
            single_calls(name, ALONE[name](), None)
            continue
        pair = PAIRS[name]()
        single_calls(name, pair.user, pair.shipped)
        if not quick:
            curves(name, pair)
            constants(name, pair)


if __name__ == "__main__":
    main()
