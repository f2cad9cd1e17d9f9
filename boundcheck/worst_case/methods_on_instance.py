"""Run the methods on an instance: the error, and the contribution of each part of a proof to it.

With e = w_t' − w' (or u_{t,k} − w'), where e⁺ = ∂₁Φ(w_s)e + (∂₂Φ(w_s)−∂₂Φ(w*)) + (∂₁Φ(w_s)−∂₁Φ(w*))w', the error is

    (∇₂E(w_t)−∇₂E(w*)) + w'ᵀ(∇₁E(w_t)−∇₁E(w*)) + eᵀ∇₁E(w_t),

a sum of differences, each computed without cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boundcheck.ball import BallKind
from boundcheck.worst_case.arithmetic import Array, dot, times, turned
from boundcheck.worst_case.instance import Instance, Linearised

SOURCES = ("nu_2", "nu_1", "rest")  # the parts of e: from changes of ∂₂Φ, from changes of ∂₁Φ, and from the start −w'


@dataclass(frozen=True, eq=False)
class InstanceRun:
    """x = w_t − w*, and e as a sum of parts by `SOURCES`, or as one part."""

    x: Array
    e: Mapping[str, Array]
    solve_error: Array | None = None  # ∂₂Φ(w_t)ᵀ(v_{t,k} − v_t), if e is for the exact solution of the system
    residual: Array | None = None  # ‖(I − ∂₁Φᵀ)v − ∇₁E‖

    @property
    def derivative_error(self) -> Array:
        return sum(self.e.values())


def _initial(instance: Instance, split: bool) -> dict[str, Array]:
    zero = 0 * instance.w_prime
    return {"nu_2": zero, "nu_1": zero, "rest": -instance.w_prime} if split else {"rest": -instance.w_prime}


def _advance(instance: Instance, linearised: Linearised, by_d2: Array, e: Mapping[str, Array]) -> dict[str, Array]:
    """Return ∂₁Φ(w)e + (∂₂Φ(w)−∂₂Φ(w*)) + (∂₁Φ(w)−∂₁Φ(w*))w', in parts if e is in parts."""
    if len(e) == 1:
        return {"rest": linearised.both(e["rest"], instance.w_prime) + by_d2}
    by_d1 = linearised.both(e["nu_1"], instance.w_prime)
    return {"nu_2": linearised.d1phi(e["nu_2"]) + by_d2, "nu_1": by_d1, "rest": linearised.d1phi(e["rest"])}


def itd(instance: Instance, t: int, K: int, *, split: bool = False) -> InstanceRun:
    """Run ITD: t steps, with differentiation through the last K."""
    x, e = instance.start, _initial(instance, split)
    for s in range(t):
        linearised = instance.linearised_at(x)
        if s >= t - K:
            e = _advance(instance, linearised, instance.change_of_d2phi(x), e)
        x = linearised.next
    return InstanceRun(x, e)


def lower(instance: Instance, t: int) -> Array:
    x = instance.start
    for _ in range(t):
        x = instance.step(x)
    return x


def fixed_point(instance: Instance, x: Array, k: int, *, split: bool = False) -> InstanceRun:
    """Run AID-FP at w_t: k steps for the linear system from 0."""
    linearised, by_d2, e = instance.linearised_at(x), instance.change_of_d2phi(x), _initial(instance, split)
    for _ in range(k):
        e = _advance(instance, linearised, by_d2, e)
    return InstanceRun(x, e)


def _exactly(instance: Instance, x: Array, split: bool) -> dict[str, Array]:
    """Return e for the exact solution of the linear system."""
    zero = dict.fromkeys(SOURCES if split else ("rest",), 0 * instance.w_prime)
    added = _advance(instance, instance.linearised_at(x), instance.change_of_d2phi(x), zero)
    A = instance.system(x)
    return {name: instance.ops.solve(A, part) for name, part in added.items()}


def any_solvers(instance: Instance, t: int, k: int, *, solved: bool = False, split: bool = False) -> InstanceRun:
    """Use w_t = w* + q^t‖w*‖u and v = v_t + q^k‖v_t‖s for the u and s of the instance, or v = v_t if `solved`.

    The theorems for arbitrary solvers assume no more. Such iterates exist: from w_0 = 0 and v_0 = 0, take
    w ← w* + qR(w − w*), and the same for v, where R is the rotation with R^t(−w*) = ‖w*‖u.
    """
    ops, q = instance.ops, instance.constants(BallKind.LOCAL)["q"][..., None]
    u, s = (instance.numbers[name] for name in ("u", "s"))
    x = q**t * ops.norm(instance.start)[..., None] * u / ops.norm(u)[..., None]
    e, A = _exactly(instance, x, split), instance.system(x)
    if solved:
        return InstanceRun(x, e)
    v_t = ops.solve(turned(A), instance.grad_w(x))
    shift = q**k * ops.norm(v_t)[..., None] * s / ops.norm(s)[..., None]
    return InstanceRun(x, e, dot(instance.d2phi(x), shift), ops.norm(times(turned(A), shift)))


def conjugate_gradient(instance: Instance, x: Array, k: int, *, normal: bool, split: bool = False) -> InstanceRun:
    """Run AID with k steps of CG from 0, on the system or on its normal equations."""
    ops, A_T = instance.ops, turned(instance.system(x))
    b = instance.grad_w(x)
    v_t = ops.solve(A_T, b)
    M, r = (turned(A_T) @ A_T, times(turned(A_T), b)) if normal else (A_T, b)
    v, p = 0 * b, r
    if k >= instance.kind.d:  # solved in exact arithmetic; with rounding there would be a residual
        return InstanceRun(x, _exactly(instance, x, split), 0 * dot(b, b))
    for _ in range(k):
        Mp, rr = times(M, p), dot(r, r)[..., None]
        step = ops.divide(rr, dot(p, Mp)[..., None])
        v, r = v + step * p, r - step * Mp
        p = r + ops.divide(dot(r, r)[..., None], rr) * p
    return InstanceRun(x, _exactly(instance, x, split), dot(instance.d2phi(x), v - v_t))


def momentum(
    instance: Instance, t: int, alpha: Array, beta: Array, *, nesterov: bool, split: bool = False
) -> InstanceRun:
    """Run heavy ball or Nesterov from w_{−1} = w_0 on a quadratic, and differentiate with fixed α and β."""
    a, b = alpha[..., None], beta[..., None]
    x = old_x = instance.start
    e = old_e = _initial(instance, split)
    for _ in range(t):
        y = x + b * (x - old_x)
        point = y if nesterov else x
        ahead = {name: part + b * (part - old_e[name]) for name, part in e.items()}
        errors = ahead if nesterov else e
        moved = _advance(instance, instance.linearised_at(point), instance.change_of_d2phi(point), errors)
        x, old_x = y - a * (point - instance.step(point)), x
        e, old_e = {name: ahead[name] - a * (errors[name] - moved[name]) for name in e}, e
    return InstanceRun(x, e)


def parts(instance: Instance, outcome: InstanceRun) -> dict[str, Array]:
    """Return the signed parts of the error: through ∇₂E, through ∇₁E, and through each source of e."""
    terms = {"eta_2": instance.change_of_grad_lam(outcome.x)}
    terms["eta_1"] = dot(instance.w_prime, instance.change_of_grad_w(outcome.x))
    g = instance.grad_w(outcome.x)
    terms |= {name: dot(part, g) for name, part in outcome.e.items()}
    if outcome.solve_error is not None:
        terms["rest"] = terms["rest"] + outcome.solve_error
    return terms


def error(instance: Instance, outcome: InstanceRun) -> Array:
    """Return the hypergradient error: the absolute value of the sum of the parts, because λ is one number."""
    return abs(sum(parts(instance, outcome).values()))
