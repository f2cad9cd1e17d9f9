"""Construction of a problem from a user's functions. Each is called once; unusable ones are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constants
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import flatten, loss_gradient, trial_call, user_functions
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT, Dynamics
from boundcheck.numerics.bilevel.example_data import Minibatching
from boundcheck.numerics.bilevel.minibatches import LowerLevel
from boundcheck.numerics.bilevel.problem_types import IDENTITY, Ready
from boundcheck.numerics.bilevel.quiet_batches import quiet_batches
from boundcheck.numerics.bilevel.threads import threads_for, threads_for_function
from boundcheck.numerics.bilevel.trial_call import FirstCall
from boundcheck.numerics.bilevel.user_functions import Door

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem

Fields = dict[str, Any]  # the fields of a Problem by name


@quiet_batches()
def from_map(
    fp_map: Callable[..., Any],
    outer_loss: Callable[[Any, Any], Tensor],
    params: Any,
    hparams: Any,
    prepare: Callable[[Any], Ready] | None,
    *,
    asked: Minibatching,
    **rest: Any,
) -> Fields:
    """Return the fields of a problem with a map Φ. `Problem.from_map` documents the arguments."""
    door, w0, lam = _door(params, hparams, prepare)
    of_user = door.of_both(fp_map, "fp_map", lambda value: door.params.flatten(value, "the value of fp_map"))
    lower = LowerLevel.of(of_user, "fp_map", asked, w0)
    inner = trial_call.call(lower.at, "fp_map", door, w0, lam)
    minibatches = lower.minibatches(door.ready, w0, lam)
    sums = minibatches and minibatches.finite_sum(minibatches.on, None)
    return _fields(outer_loss, inner, door, w0, lam, phi_at=lower.at, inner_at=None, finite_sum=sums, **rest)


@quiet_batches()
def from_loss(
    inner_loss: Callable[..., Tensor],
    outer_loss: Callable[[Any, Any], Tensor],
    params: Any,
    hparams: Any,
    step_size: float | Callable[[Any], Tensor] | None,
    prepare: Callable[[Any], Ready] | None,
    *,
    asked: Minibatching,
    differentiate_step: bool,
    **rest: Any,
) -> Fields:
    """Return the fields of a problem with a loss ℓ and Φ = w − α∇₁ℓ. `Problem.from_loss` documents the arguments."""
    door, w0, lam = _door(params, hparams, prepare)
    of_user = door.of_both(inner_loss, "inner_loss", lambda value: user_functions.scalar(value, "inner_loss"))
    lower = LowerLevel.of(of_user, "inner_loss", asked, w0)
    inner_at = lower.at
    inner = trial_call.call(inner_at, "inner_loss", door, w0, lam)
    inner.refuse_without_params()
    slope_at = loss_gradient.gradient(inner_at)
    with threads_for_function(inner_at, w0, lam, door.ready(lam)):
        alpha = user_functions.step_of(step_size, inner_at, w0, lam, door)
    minibatches = lower.minibatches(door.ready, w0, lam)

    def step_at(ready: Ready) -> Tensor | float:
        step = alpha(ready) if callable(alpha) else alpha
        return step.detach() if isinstance(step, Tensor) and not differentiate_step else step

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        w_next: Tensor = w - step_at(ready) * slope_at(w, ready)
        return w_next

    def phi_with(w: Tensor, ready: Stepped) -> Tensor:
        w_next: Tensor = w - ready.alpha * slope_at(w, ready.given)
        return w_next

    lam_in_step = callable(alpha) and differentiate_step
    sums = minibatches and minibatches.finite_sum(minibatches.gradient_step(step_at), minibatches.on, lam_in_step)
    if lam_in_step:  # Φ may depend on λ through the step alone
        inner = trial_call.call(phi_at, "the gradient step on inner_loss", door, w0, lam)
    fields = _fields(
        outer_loss, inner, door, w0, lam, phi_at=phi_at, inner_at=inner_at, finite_sum=sums, symmetric=True,
        frozen_step=None if lam_in_step else True,
        step_at=step_at, default_step=step_size is None,
        value_function=outer_loss is inner_loss and minibatches is None, **rest,
    )  # fmt: skip
    if not callable(alpha) or rest["dynamics"].step is not FIXED_POINT.step:
        return fields  # other dynamics read the user's own prepared values
    outer_at = fields["outer_at"]
    finite_sum = (
        minibatches and sums and replace(sums.reading(_given), phi_on=minibatches.gradient_step(_alpha, _given))
    )

    def prepared(lam: Tensor) -> Stepped:
        given = door.ready(lam)
        return Stepped(given, torch.as_tensor(step_at(given), dtype=lam.dtype, device=lam.device))

    return {
        **fields,
        "prepare": prepared,
        "phi_at": phi_with,
        "inner_at": lambda w, ready: inner_at(w, ready.given),
        "outer_at": lambda w, ready: outer_at(w, ready.given),
        "step_at": _alpha,
        "finite_sum": finite_sum,
    }


class Stepped(NamedTuple):
    """The user's prepared values together with the step α, which is computed once for each λ."""

    given: Ready
    alpha: Tensor


def _given(ready: Stepped) -> Ready:
    return ready.given


def _alpha(ready: Stepped) -> Tensor:
    return ready.alpha


@quiet_batches()
def accepted(kind: type[Problem], fields: Mapping[str, Any]) -> Problem:
    """Make the problem with these fields, and check its start, its first step and its derivatives.

    Raises
    ------
    InputError
        If λ is outside of its domain, or if the first step is not finite.
    UserCodeError
        If autograd's derivatives of the functions are wrong.
    """
    problem = kind(**fields)
    problem.checked(problem.lam, "lam")
    if not bool(torch.isfinite(problem.phi(problem.w0, problem.lam)).all()):
        raise InputError(
            "the gradient step on inner_loss is not finite at params and hparams; check the data for NaN and infinity"
        )
    from boundcheck.numerics.bilevel import derivative_check, program_degree  # here, because both import `Problem`

    with threads_for(problem):
        derivative_check.on_arrival(problem)
        accepted_problem = replace(problem, affine=program_degree.is_affine(problem))
        derivative_check.carry_over(problem, accepted_problem)
        return accepted_problem


def _door(params: Any, hparams: Any, prepare: Callable[[Any], Ready] | None) -> tuple[Door, Tensor, Tensor]:
    w_layout, w0 = flatten.read(params, "params")
    lam_layout, lam = flatten.read(hparams, "hparams")
    if w0.dtype != lam.dtype or w0.device != lam.device:
        raise InputError(
            f"params are {w0.dtype} on {w0.device} and hparams {lam.dtype} on {lam.device}; convert one of them"
        )
    door = Door(w_layout, lam_layout, prepare)
    trial_call.refuse_shared(door)
    return door, w0, lam


def _fields(
    outer_loss: Callable[[Any, Any], Tensor], inner: FirstCall, door: Door, w0: Tensor, lam: Tensor, **rest: Any
) -> Fields:
    """Return the fields that maps and losses share, after a first call of the outer loss.

    `inner` is the result of the first call of the map or of the inner loss.
    """
    if not isinstance(rest["dynamics"], Dynamics):
        raise InputError(
            f"dynamics = {rest['dynamics']!r} is not a Dynamics; give one, as bc.dynamics.constant(…) returns"
        )
    if rest["known"] is not None and not isinstance(rest["known"], Constants):
        raise InputError(f"known is a {type(rest['known']).__name__}; give bc.Constants.given(q=0.9, side='upper')")
    outer_at = door.of_both(outer_loss, "outer_loss", lambda value: user_functions.scalar(value, "outer_loss"))
    outer = trial_call.call(outer_at, "outer_loss", door, w0, lam)
    outer.refuse_without_params()
    trial_call.refuse_without_hparams(inner, outer)
    return {
        "w0": w0,
        "lam": lam,
        "outer_at": outer_at,
        "prepare": IDENTITY if door.prepare is None else door.ready,
        "w_layout": door.params,
        "lam_layout": door.hparams,
        **rest,
    }
