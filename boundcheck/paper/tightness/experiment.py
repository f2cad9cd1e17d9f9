"""Are the bounds attained, and how close can a certified bound be to the error? The source of docs/tightness.md.

There are searches for the worst instance of every bound and of two false claims; maps over q, t and k and sets of terms
for the theorems of the paper; and ratios of proved bounds to the error on the problems of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from boundcheck.engine.experiment import Outcome, Settings, Task
from boundcheck.paper.tightness.certified import certified, newton_steps
from boundcheck.worst_case.maps import LEAST, SUBSETS, map_of, together
from boundcheck.worst_case.target import CLAIMS, PARTS, names, target
from boundcheck.worst_case.worst import worst

NAME = "tightness"
TITLE = "which bounds are attained, and how close certified bounds come to the error"
PROBLEMS = ("lr", "krr", "br", "hr")
PAPER = ("itd", "aid-contraction", "aid-fp", "aid-cg", "aid-cgn")  # theorems with a map
LOCAL = ("itd-local", "aid-fp-local")
Q, T = 0.9, 20
LINEAR = ("nu_2", "L_E")  # Φ = λw + b and E = w, up to scale
QUICK_TERMS = (("nu_2", "L_E"), ("L_Phi", "L_E", "eta_1"), PARTS)
AT = (0, 1, 10, 50, 100, 200)  # the iterates w_t from which Newton's method starts


def settings(quick: bool, seed: int, device: str) -> Settings:
    return {
        "quick": quick,
        "seed": seed,
        "device": device,
        "worst": ["itd", "aid-fp", *LOCAL, *CLAIMS] if quick else list(names()),
        "maps": ["itd", "aid-fp"] if quick else list(PAPER),
        "q": [Q] if quick else [0.5, Q, 0.99],
        "t": [1, T] if quick else [1, 5, T, 50],
        "k": [1, T] if quick else [1, 5, T],
        "local": [[1, 1], [T, 5]] if quick else [[1, 1], [1, T], [5, 2], [T, 5], [T, T], [50, 50]],
        "terms": ["itd"] if quick else ["itd", "aid-fp"],
        "steps": dict.fromkeys(PROBLEMS, 40 if quick else 200),
        "dynamics": ["gradient-descent"] if quick else ["gradient-descent", "heavy-ball"],
    }


def tasks(settings: Settings) -> list[Task]:
    common = {name: settings[name] for name in ("quick", "seed", "device")}
    all_tasks = [
        Task(f"worst-{name}", {"what": "worst", "bound": name, **_place(name), **common}, 5)
        for name in settings["worst"]
    ]
    all_tasks += [
        Task(f"local-{name}-{t}-{k}", {"what": "worst", "bound": name, "t": t, "k": k, "dim": 1, **common}, 4)
        for name in LOCAL
        for t, k in settings["local"]
    ]
    for name in settings["maps"]:
        for q in settings["q"]:
            grid = {"qs": [q], "ts": settings["t"], "ks": settings["k"]}
            size = len(settings["t"]) * (len(settings["k"]) if target(name).takes_k else 1)
            all_tasks.append(Task(f"map-{name}-{q}", {"what": "map", "bound": name, **grid, **common}, 4 * size))
            all_tasks.append(Task(f"full-{name}-{q}", {"what": "full", "bound": name, **grid, **common}, 4 * size))
    for name in settings["terms"]:
        cost = 15 if settings["quick"] else 50
        all_tasks.append(Task(f"terms-{name}", {"what": "terms", "bound": name, **common}, cost))
    for name in PROBLEMS:
        for dynamics in settings["dynamics"] if name != "lr" else ["gradient-descent"]:
            which = {"problem": name, "dynamics": dynamics, "t": settings["steps"][name]}
            all_tasks.append(Task(f"certified-{name}-{dynamics}", {"what": "certified", **which, **common}, 10))
        all_tasks.append(Task(f"newton-{name}", {"what": "newton", "problem": name, **common}, 5))
    return all_tasks


def _place(name: str) -> dict[str, int]:
    """Return t, k and the dimension for a search. At t = k = 1, the false claim about all solvers is violated most."""
    if name == "appB-aid":
        return {"t": 1, "k": 1, "dim": 1}
    return {"t": T, "k": T, "dim": 2 if name == "heavy-ball-2D" else 1}


def run(task: Task, state: None) -> dict[str, Any]:
    """Run one search, one map for one q, the terms of one bound, or one problem."""
    p = task.parameters
    if p["what"] == "worst":
        return _worst(p)
    if p["what"] == "terms":
        subsets = QUICK_TERMS if p["quick"] else SUBSETS
        rows = together(p["bound"], Q, 5, 5, 1, p["seed"], subsets=subsets, quick=True)
        return {"rows": [{"parts": list(row.parts), "ratio": row.ratio} for row in rows]}
    if p["what"] in ("map", "full"):
        kind = {"only": LINEAR, "saturating": False} if p["what"] == "map" else {"least": LEAST}
        return asdict(map_of(p["bound"], p["qs"], p["ts"], p["ks"], 1, p["seed"], quick=True, **kind))
    if p["what"] == "newton":
        return dict(newton_steps(p["problem"], AT, p["seed"], p["device"]))
    return certified(p["problem"], p["dynamics"], p["t"], p["seed"], p["device"])


def _worst(p: Mapping[str, Any]) -> dict[str, Any]:
    attacked = target(p["bound"])
    k = p["k"] if attacked.takes_k else None
    result = worst(p["bound"], Q, p["t"], k, p["dim"], p["seed"], quick=True)
    return {"ratio": result.ratio, "refuted": result.refuted, "t": p["t"], "k": k, "dim": p["dim"]}


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper.tightness.views import claims

    return claims.outcome(settings, results)
