"""Every proof chain on real runs: no link may fall, and the link that does names the constant that is too small."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain

import numpy as np
import pytest
import runs
from instances import Upper, bilinear, descent, drifting, kinked, saturating, tight
from runs import Array, Instance, norm
from stochastic_instances import affine_runs, curved

from boundcheck import Bound, bounds
from boundcheck.theory import step_sizes
from boundcheck.theory.chain import ChainValues
from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.symbols import QUANTITIES

T = 24
t, k = np.arange(T + 1)[:, None], np.arange(T + 1)[None, :]
CHAINED = [name for name in bounds if bounds[name].chain and not bounds[name].stochastic]
OF_MEANS = [name for name in bounds if bounds[name].chain and "mse_w" in bounds[name].symbols]
SEEDS = range(16)
INDICES = ("t", "k")
Values = dict[str, Array | float]


def instances(seed: int) -> Iterator[Instance]:
    yield bilinear(seed)
    yield saturating(seed)
    for log_cosh in (False, True):
        for value in (False, True):
            yield descent(seed, log_cosh, value)
    yield descent(seed, step="best")
    yield kinked(seed)


def sigma(solver: str, constants: dict[str, float]) -> dict[str, Array]:
    """The rates of a solver: from 0, σ(0) ≥ 1."""
    q, kappa = constants["q"], constants["kappa"]
    s = (np.sqrt(kappa) - 1) / (np.sqrt(kappa) + 1)
    T_k = np.cosh(k * np.arccosh(1 + 2 / (kappa - 1))) if kappa > 1 else np.where(k, np.inf, 1.0)
    return {
        "fixed-point": {"fixed-point": q**k},
        "cg": {"cg": 2 * np.sqrt(kappa) * s**k, "cg-chebyshev": np.minimum(1, np.sqrt(kappa) / T_k)},
        "cgn": {"cgn": 2 * kappa * ((kappa - 1) / (kappa + 1)) ** k},
        "exact": {"exact-solve": 0.0 * k},
    }[solver]


ABOUT_THE_ITERATE = ("aid-newton", "aid-certificate")
MOMENTUM = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}
SOLVERS = {
    "aid": ("fixed-point", "cg", "cgn", "exact"),
    "aid-contraction": ("fixed-point", "cg", "cgn", "exact"),
    "aid-local": ("fixed-point", "cg", "cgn", "exact"),
    "aid-cg": ("cg",),
    "aid-cg-chebyshev": ("cg",),
    "aid-cg-energy": ("cg",),
    "aid-cg-local": ("cg",),
    "aid-cg-shrinking": ("cg",),
    "aid-cg-directional": ("cg",),
    "aid-cgn": ("cgn",),
    "aid-posteriori": ("fixed-point", "cg", "cgn"),
    "aid-newton": ("fixed-point", "cg", "cgn", "exact"),
    "aid-spectral": ("fixed-point", "cg"),
    "aid-path": ("fixed-point", "cg", "cgn", "exact"),
    "aid-fp-path": ("fixed-point",),
    "aid-certificate": ("fixed-point", "cg", "cgn", "exact"),
    "ghadimi-wang": ("exact",),
    "aid-fp": ("fixed-point",),
    "aid-fp-derivative": ("fixed-point",),
    "aid-fp-gd": ("fixed-point",),
    "aid-fp-local": ("fixed-point",),
    "aid-fp-shrinking": ("fixed-point",),
    "aid-fp-directional": ("fixed-point",),
}


@cache
def observed(instance: Instance, local: bool, solver: str) -> dict[str, Array]:
    return runs.observe(instance, runs.iterate(instance, instance.w_0 * local, T).w, T, solver)


def ratio(above: Array, below: Array | float) -> Array:
    """above/below, 0 where both vanish."""
    return np.divide(above, below, out=np.zeros_like(above), where=above > 0)


def measured(name: str, instance: Instance) -> Iterator[Values]:
    """What the chain of `name` needs, on runs of this instance; rates as the theory has them, then as measured."""
    local = name.endswith(("-local", "-path", "-shrinking", "-directional", *ABOUT_THE_ITERATE))
    constants = instance.local() if local else instance.paper()
    w_0 = instance.w_0 if local else np.zeros_like(instance.w_0)
    if (name.endswith("-gd") and "mu" not in constants) or (name == "itd-quadratic" and constants["nu_1"] > 0):
        return
    if name in MOMENTUM:
        if "mu" in constants and constants["nu_1"] == 0 and constants["grad_alpha"] == 0:
            method = MOMENTUM[name](constants["mu"], constants["L"])
            wide = instance.local(peak=float(method.factor(t).max())) | {"alpha": method.alpha}
            yield {**wide, **runs.observe_itd(instance, runs.momentum(instance, method, T)), "t": t[:, 0]}
        return
    if name == "enclosure":
        path, off = runs.iterate(instance, w_0, T), np.full(instance.lam.size, 1e-3)
        errors = [runs.gradient_error(instance, path.w, path.u, x * off) for x in (0, 1)]
        yield {"error": errors[0], "gap_t": errors[1], "eps_g": float(norm(off)), "t": t[:, 0]}
        return
    if bounds[name].shrinks:
        yield from with_smaller_balls(name, instance)
        return
    if name not in SOLVERS:
        seen = runs.observe_itd(instance, runs.iterate(instance, w_0, T), constants["q"])
        yield {**constants, **seen, "t": t[:, 0]}
        return
    for solver in SOLVERS[name]:
        if solver == "cg" and "mu" not in constants:
            continue  # not symmetric
        seen = observed(instance, local, solver)
        theory = sigma(solver, constants)
        known: Values = {**constants, **seen, "t": t, "k": k}
        if name in ABOUT_THE_ITERATE:
            known = where_it_speaks(name, known)
        for rate in [theory[name.removeprefix("aid-")]] if name in ("aid-cg", "aid-cg-chebyshev") else theory.values():
            yield {**known, "sigma": rate, "rho": constants["q"] ** t}
        yield {**known, "sigma": ratio(seen["dv_kt"], seen["v_t"]), "rho": ratio(seen["r_t"], constants["r_0"])}


def warm(seed: int) -> Values:
    """A warm start at another λ."""
    drift = drifting(seed)
    w = runs.iterate(drift.instance, drift.instance.w_0, T).w
    known: Values = {x: getattr(drift, x) for x in ("r_prev", "lam_step", "W_path")}
    seen = {"r_t": norm(w - drift.instance.w_star), "eps_0": float(norm(w[0] - w[1])), "t": t[:, 0]}
    return {**drift.instance.local(), **known, **seen}


def with_smaller_balls(name: str, instance: Instance) -> Iterator[Values]:
    """The constants of the ball that each t is in, and the state of the recursion."""
    solver, *_ = SOLVERS.get(name, ("",))
    if solver == "cg" and "mu" not in instance.local():
        return
    seen = observed(instance, True, solver) if solver else {}
    seen = seen or runs.observe_itd(instance, runs.iterate(instance, instance.w_0, T))
    steps = (t, k) if solver else (t[:, 0], None)
    for constants in (instance.shrinking(), instance.shrinking(0.9, 20)):
        call = bounds[name].call(constants, *steps)
        known = {**instance.local(), **call.state(), **seen, "t": steps[0], "k": k}
        unknown = [symbol for symbol in bounds[name].defaults if symbol.name not in known]
        made = {x.name: evaluate(bounds[name].substitute(x, frozenset(known)), known) for x in unknown}
        yield {**known, **made}


def where_it_speaks(name: str, known: Values) -> Values:
    """Every observable 0, as at w*, where a condition of the theorem fails."""
    bound = bounds[name]
    needed = {symbol for c in bound.conditions for symbol in (c.left - c.right).free_symbols}
    call = bound.call({}, given={s.name: known[s.name] for s in (needed | bound.resolved().free_symbols)})
    fits = np.all([call.satisfied(i) for i in range(len(bound.conditions))], axis=0)
    seen = {x for x in known if QUANTITIES[x].kind == "observable"}
    return {x: np.where(fits, value, 0.0) if x in seen else value for x, value in known.items()}


def stacked(name: str) -> tuple[list[str], Values]:
    """All runs of all instances along a first axis."""
    if name.startswith("warm"):
        labelled = [(drifting(seed).instance.name, warm(seed)) for seed in range(128)]
    else:
        labelled = [
            (instance.name, values)
            for instance in chain.from_iterable(instances(seed) for seed in SEEDS)
            for values in measured(name, instance)
        ]
    labels, each = zip(*labelled, strict=True)
    shape = np.broadcast_shapes(*(np.shape(x) for x in each[0].values()))
    conditions = (symbol.name for symbol in bounds[name].in_conditions)
    symbols = dict.fromkeys((*bounds[name].chain.symbols, *conditions, *INDICES[: len(shape)]))
    return labels, {x: np.stack([np.broadcast_to(values[x], shape) for values in each]) for x in symbols}


def floor(links: ChainValues) -> Array:
    """By how much a slack may fall below 1: 1e-9, and where values are small their absolute rounding error.

    Measured values are differences of numbers no larger than the bound at t = 0, so 1e-13 of that is the rounding.
    """
    before = links.values[:-1]
    rounding = 1e-13 * (1 + links.values[-1].max(axis=tuple(range(1, before.ndim - 1)), keepdims=True))
    return 1e-9 + np.divide(rounding, before, out=np.zeros_like(before), where=before > 0)


def at_the_end(bound: Bound, values: Values) -> Array:
    """The bound from the same constants, with the observables its chain ends in."""
    ends = bound.expand(bound.chain.links[-1].formula).free_symbols | bound.in_conditions
    last = {symbol.name for symbol in ends} | {*INDICES}
    if bound.recursion:  # which gave the state that is among the values
        return evaluate(bound.resolved(frozenset(values)), {x: values[x] for x in last if x in values})
    return bound.evaluate({}, **{name: x for name, x in values.items() if name in last}).values


@pytest.mark.parametrize("name", CHAINED)
def test_no_slack_is_below_1(name: str) -> None:
    bound = bounds[name]
    labels, values = stacked(name)
    links = bound.chain.evaluate(values)
    low = np.argwhere(links.slacks[1:] < 1 - floor(links))
    assert not low.size, f"{labels[low[0][1]]}: {links.links[low[0][0] + 1].name}"
    positive = (links.values > 0).all(axis=0)
    first, last = links.values[0][positive], links.values[-1][positive]
    np.testing.assert_allclose(np.prod(links.slacks[:, positive], axis=0), last / first, rtol=1e-12)
    np.testing.assert_allclose(links.values[-1], at_the_end(bound, values), rtol=1e-12)


@pytest.mark.parametrize("name", OF_MEANS)
def test_no_slack_is_below_1_in_the_mean(name: str) -> None:
    """Exact means over all draws; the variances are differences of means of squares, rounded at 1e-12 of them."""
    bound = bounds[name]
    for run in (run for seed in SEEDS for run in (*affine_runs(seed), curved(seed))):
        means = ("bias", "mse", "variance_given_w", "variance_of_mean")
        values = {**run.constants, **{x: np.maximum(getattr(run.means, x), 0) for x in means}, **run.given}
        values.setdefault("W", run.constants["L_Phi_star"] / (1 - run.constants["q"]))
        links = bound.chain.evaluate(values)
        rounding = 1e-12 * (1 + norm(run.hypergradient)) ** 2 * (1 + run.means.mse.max())
        low = np.argwhere(links.values[1:] < links.values[:-1] * (1 - 1e-9) - rounding)
        assert not low.size, f"{run.name}: {links.links[low[0][0] + 1].name}"


def test_every_chain_starts_at_what_its_bound_bounds() -> None:
    assert CHAINED
    for name in (*CHAINED, *OF_MEANS):
        assert bounds[name].chain.links[0].formula == bounds[name].bounds


# left out, as the link that breaks does not name them: W and r_0 in itd-derivative, W in aid-fp-derivative, and g_star
# in aid and aid-cgn
ATTAINED = {
    "itd": ("nu_2", "eta_1", "eta_2", "W", "L_Phi_star", "q", "r_0", "D"),
    "itd-gd": ("hat_rho_2", "eta_1", "eta_2", "W", "L_ell", "r_0", "D"),
    "itd-quadratic": ("nu_2", "eta_1", "eta_2", "W", "L_Phi_star", "q", "r_0", "D"),
    "itd-local": ("nu_2", "eta_1", "eta_2", "W", "q", "r_0", "g_star"),
    "itd-derivative": ("nu_2", "L_Phi_star", "q", "D"),
    "aid": ("nu_1", "nu_2", "eta_1", "eta_2", "sigma", "r_0", "rho", "D"),
    "aid-cgn": ("nu_1", "nu_2", "eta_1", "eta_2", "r_0", "rho", "D"),
    "aid-fp": ("nu_2", "eta_1", "eta_2", "W", "q", "rho", "r_0", "L_Phi_star", "D"),
    "aid-fp-gd": ("hat_rho_2", "eta_1", "eta_2", "W", "rho", "r_0", "L_ell", "D"),
    "aid-fp-derivative": ("nu_2", "q", "rho", "r_0", "L_Phi_star", "D"),
    "aid-fp-local": ("nu_2", "eta_1", "eta_2", "W", "q", "g_star"),
    "aid-local": ("nu_1", "nu_2", "eta_1", "eta_2", "W"),
}


@pytest.mark.parametrize(("name", "constant"), [(name, x) for name, found in ATTAINED.items() for x in found])
def test_a_constant_that_is_too_small_is_named(name: str, constant: str) -> None:
    """On a scalar instance whose constants are attained, half of one breaks the proof, first at a link that uses it."""
    ones = np.ones((1, 1))
    instance = tight(0.6, 0.02 * (constant == "nu_1"), Upper(ones, np.ones(1), ones))
    values = next(measured(name, instance))
    values[constant] = values[constant] / 2
    links = bounds[name].chain.evaluate(values)
    falling = (links.slacks < 1 - 1e-6).any(axis=tuple(range(1, links.slacks.ndim)))
    assert falling.any()
    assert constant in links.links[int(np.argmax(falling))].uses
