"""Speed of evaluating a bound, as ratios in one run: ``make bench``.

Against the plain way (a hand-written numpy expression with the same powers) and against calling the generated
scalar Python function in a loop. Also the cost of certainty (interval arithmetic) and of `iterations`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from clock import seconds

import boundcheck as bc

N = 10**6
C = {"q": 0.9, "nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4, "D": 1.0, "L_E": 2.0, "L_Phi": 3.0, "kappa": 19.0}
C |= {"r_0": 1.0, "W": 5.0, "g_star": 1.0, "q_star": 0.8}


def by_hand(t: np.ndarray) -> np.ndarray:
    q = C["q"]
    w = C["L_Phi"] / (1 - q)
    c_1 = (C["eta_2"] + C["eta_1"] * w) * C["D"]
    c_2 = (C["nu_2"] + C["nu_1"] * w) * C["L_E"] * C["D"]
    return (c_1 + C["L_E"] * w) * q**t + c_2 * t * q ** np.maximum(t - 1, 0)


def main() -> None:
    t = np.arange(N)
    itd = bc.bounds["itd"]
    namespace: dict[str, Callable[..., float]] = {}
    exec(itd.python(), namespace)
    arguments = {name: C[name] for name in itd.symbols if name != "t"}

    plain = seconds(lambda: by_hand(t.astype(float)))
    print(f"{N} points of itd by hand in numpy: {1e3 * plain:.1f} ms, the unit below")
    for name in ("itd", "aid-fp", "aid-cg", "itd-local", "itd-recursive"):
        bound = bc.bounds[name]
        print(f"  evaluate {name:14s} x{seconds(lambda bound=bound: bound.evaluate(C, t)) / plain:8.2f}")
    loop = seconds(lambda: [namespace["itd"](t=i, **arguments) for i in range(N // 100)], 2) * 100
    print(f"  generated Python, one call a point x{loop / plain:8.1f}")
    certain = seconds(lambda: itd.evaluate(C, t[: N // 1000], rigorous=True), 2) * 1000
    print(f"  evaluate itd, rigorous             x{certain / plain:8.1f}")
    for name in ("itd", "aid-fp", "aid-fp-local"):
        bound = bc.bounds[name]
        constants = {**C, "q": 0.999}
        print(f"iterations {name}: {1e3 * seconds(lambda b=bound, c=constants: b.iterations(c, 1e-6)):.1f} ms")


if __name__ == "__main__":
    main()
