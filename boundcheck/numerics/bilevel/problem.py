"""A bilevel problem: min_λ E(w(λ), λ) with w(λ) = Φ(w(λ), λ).

Inside, w and λ are flat vectors. `prepare(lam)` is what depends on λ only (a kernel matrix, a step size): computed once
per λ and differentiated through like the rest. Without it, what is prepared is λ itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.constants import Constants
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import flatten, from_user, trial_call
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT, GRADIENT_DESCENT, Dynamics
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.formulas import D1, D2, D2Outer
from boundcheck.numerics.bilevel.from_user import Door
from boundcheck.numerics.bilevel.trial_call import Trial

Ready = Any  # a tensor, or a tuple, named tuple, list or dict of tensors


@dataclass(frozen=True)
class Domain:
    """Where λ may lie, in words and as a test."""

    says: str
    holds: Callable[[Tensor], Tensor]


POSITIVE = Domain("every entry of lam is > 0", lambda lam: (lam > 0).all())


@dataclass(frozen=True)
class Curvature:
    """μ and L of ℓ(·, λ), as 0-dimensional tensors."""

    mu: Tensor
    L: Tensor

    def contraction(self, alpha: Tensor | float) -> Tensor:
        """q = max(1 − αμ, αL − 1) of Φ = w − α∇₁ℓ."""
        return torch.maximum(1 - alpha * self.mu, alpha * self.L - 1)


def _itself(lam: Tensor) -> Tensor:
    return lam


@dataclass(frozen=True, eq=False)
class Problem:
    """Φ, E and where to start; made by `from_loss`, `from_map` or a `make` of `boundcheck.problems`.

    `phi`, `outer` and `inner` take flat vectors (w, λ); `phi_at`, `outer_at` and `inner_at` what `prepare` made of λ.
    Derivatives come from autograd, or from formulas where those are quicker (formulas.py says of what shapes). Whoever
    replaces Φ or E has to replace the formulas too, or give None.
    """

    name: str
    w0: Tensor
    lam: Tensor
    phi_at: Callable[[Tensor, Ready], Tensor]
    outer_at: Callable[[Tensor, Ready], Tensor]
    inner_at: Callable[[Tensor, Ready], Tensor] | None = None
    prepare: Callable[[Tensor], Ready] = _itself
    d1phi_T_at: D1 | None = None  # v ↦ ∂₁Φ(w)ᵀv as a formula
    d2phi_T_at: D2 | None = None  # v ↦ ∂₂Φ(w)ᵀv as a formula
    d2outer_at: D2Outer | None = None  # ∇₂E(w) as a formula
    dynamics: Dynamics = FIXED_POINT
    symmetric: bool | None = None  # is ∂₁Φ symmetric? None: not known
    affine: bool = False  # does ∂₁Φ depend on λ only?
    frozen_step: bool | None = None  # is the α of Φ = w − α∇₁ℓ held fixed under differentiation? None: not known
    step_at: Callable[[Ready], Tensor | float] | None = None  # α, where Φ is w − α∇₁ℓ by construction
    value_function: bool = False  # is E the lower-level loss ℓ, by construction?
    curvature: Callable[[Ready], Curvature] | None = None
    contraction: Callable[[Ready], Tensor] | None = None  # q: at least ‖∂₁Φ‖ wherever the iterates go
    solution: Callable[[Ready], Tensor] | None = None  # w(λ) in closed form, or to machine precision
    known: ClosedForms | Constants | None = None  # constants in closed form, or given by the user
    domain: Domain | None = None
    sampler: Callable[[torch.Generator], Tensor] | None = None  # a λ on the CPU
    seed: int = 0
    remake: Callable[..., Problem] | None = None  # the same problem again, with other options such as dtype
    w_layout: Layout | None = None
    lam_layout: Layout | None = None

    def __repr__(self) -> str:
        kind = f"{str(self.dtype).removeprefix('torch.')} on {self.device}"
        return f"Problem({self.name}, d={self.d}, n={self.n}, {self.dynamics.name}, {kind})"

    @property
    def d(self) -> int:
        """The length of w."""
        return self.w0.numel()

    @property
    def n(self) -> int:
        """The length of λ."""
        return self.lam.numel()

    @property
    def dtype(self) -> torch.dtype:
        """Of w, λ and all that is computed."""
        return self.w0.dtype

    @property
    def device(self) -> torch.device:
        """Where everything is computed."""
        return self.w0.device

    def about(self) -> dict[str, Any]:
        """What a report says of it."""
        return {
            "name": self.name,
            "dim": self.d,
            "hdim": self.n,
            "seed": self.seed,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": str(self.device),
        }

    def phi(self, w: Tensor, lam: Tensor) -> Tensor:
        """Φ(w, λ)."""
        return self.phi_at(w, self.prepare(lam))

    def outer(self, w: Tensor, lam: Tensor) -> Tensor:
        """E(w, λ)."""
        return self.outer_at(w, self.prepare(lam))

    def inner(self, w: Tensor, lam: Tensor) -> Tensor:
        """ℓ(w, λ), for problems that were made from a loss."""
        if self.inner_at is None:
            raise InputError(f"{self.name}: the problem is a fixed-point map without a loss; build it with from_loss")
        return self.inner_at(w, self.prepare(lam))

    def psi_at(self, z: Tensor, ready: Ready) -> Tensor:
        """One step of the dynamics on its state; Φ itself for plain iterations."""
        return self.dynamics.step(lambda w: self.phi_at(w, ready), z, ready)

    def sample(self, count: int, seed: int | None = None) -> Tensor:
        """`count` values of λ, one a row, the same on every device."""
        if self.sampler is None:
            raise InputError(f"{self.name} has no sampler for lam; pass lam=…, or sampler=… when you make the problem")
        seed = self.seed if seed is None else seed
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(f"seed = {seed!r} is no seed; give an integer")
        if count < 1:
            raise InputError(f"count = {count} draws nothing; give a number >= 1")
        generator = torch.Generator(device="cpu").manual_seed(seed)
        drawn = []
        for _ in range(count):
            lam = from_user.call(self.sampler, "sampler", generator)
            if not isinstance(lam, Tensor) or lam.numel() != self.n:
                raise InputError(
                    f"{self.name}: sampler returned {from_user.what(lam)}; return a flat tensor of {self.n} entries"
                )
            drawn.append(self.checked(lam.reshape(-1).to(dtype=self.dtype, device=self.device), "lam"))
        return torch.stack(drawn)

    def checked(self, value: Any, name: str) -> Tensor:
        """`value` as a flat vector in the place of `name` ("lam", "g", "w0"), or an error that says what is wrong."""
        shape, known = (self.n, self.lam_layout) if name in ("lam", "g") else (self.d, self.w_layout)
        if isinstance(value, Tensor) and value.shape == (shape,):
            flat = value
        elif known is not None:
            flat = known.flatten(value, name)
        else:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InputError(f"{self.name}: {name} has shape {got}; give a flat tensor of {shape} entries")
        if flat.dtype != self.dtype or flat.device != self.device:
            raise InputError(
                f"{self.name}: {name} is {flat.dtype} on {flat.device} and the problem {self.dtype} on {self.device}; "
                "convert one of them"
            )
        if not bool(torch.isfinite(flat).all()):
            raise InputError(f"{self.name}: {name} has entries that are not finite; remove NaN and infinity first")
        if name == "lam" and self.domain is not None and not bool(self.domain.holds(flat)):
            raise InputError(f"{self.name}: lam is outside its domain: {self.domain.says}; choose lam inside it")
        return flat.detach()

    def at(self, lam: Any) -> Problem:
        """The same problem at another λ."""
        return replace(self, lam=self.checked(lam, "lam"))

    def in_dtype(self, dtype: torch.dtype) -> Problem | None:
        """The same problem at the same λ in another precision, where it can be made again."""
        return None if self.remake is None else self.remake(dtype=dtype).at(self.lam.to(dtype))

    @classmethod
    def from_map(
        cls,
        fp_map: Callable[[Any, Any], Any],
        outer_loss: Callable[[Any, Any], Tensor],
        params: Any,
        hparams: Any,
        *,
        name: str = "user",
        prepare: Callable[[Any], Ready] | None = None,
        dynamics: Dynamics = FIXED_POINT,
        symmetric: bool | None = None,
        sampler: Callable[[torch.Generator], Tensor] | None = None,
        domain: Domain | None = None,
        known: Constants | None = None,
    ) -> Problem:
        """A problem from Φ = `fp_map(params, hparams)` and E = `outer_loss(params, hparams)`.

        With `prepare(hparams)`, both receive what it returns in place of `hparams`.
        """
        door, w0, lam = _door(params, hparams, prepare)
        phi_at = door.of_both(fp_map, "fp_map", lambda value: door.params.flatten(value, "the value of fp_map"))
        inner = trial_call.call(phi_at, "fp_map", door, w0, lam)
        return _from_user(
            phi_at, None, outer_loss, inner, door, w0, lam,
            name=name, dynamics=dynamics, symmetric=symmetric, sampler=sampler, domain=domain, known=known,
        )  # fmt: skip

    @classmethod
    def from_loss(
        cls,
        inner_loss: Callable[[Any, Any], Tensor],
        outer_loss: Callable[[Any, Any], Tensor],
        params: Any,
        hparams: Any,
        step_size: float | Callable[[Any], Tensor] | None = None,
        *,
        name: str = "user",
        prepare: Callable[[Any], Ready] | None = None,
        dynamics: Dynamics = GRADIENT_DESCENT,
        differentiate_step: bool = False,
        sampler: Callable[[torch.Generator], Tensor] | None = None,
        domain: Domain | None = None,
        known: Constants | None = None,
    ) -> Problem:
        """A problem from ℓ = `inner_loss(params, hparams)`: Φ = w − α(λ)∇₁ℓ, with α = `step_size`.

        `step_size` is a number, or a function of what the losses receive as `hparams`, held fixed under differentiation
        unless `differentiate_step`. Without one, α = 2/(μ+L) of the Hessian at `params`, or less where a hundred
        steps with it lead to a point of larger curvature.
        """
        door, w0, lam = _door(params, hparams, prepare)
        inner_at = door.of_both(inner_loss, "inner_loss", lambda value: from_user.scalar(value, "inner_loss"))
        inner = trial_call.call(inner_at, "inner_loss", door, w0, lam)
        inner.refuse_without_params()
        gradient = torch.func.grad(inner_at)
        alpha = from_user.step_of(step_size, inner_at, w0, lam, door)

        def step_at(ready: Ready) -> Tensor | float:
            step = alpha(ready) if callable(alpha) else alpha
            return step.detach() if isinstance(step, Tensor) and not differentiate_step else step

        def phi_at(w: Tensor, ready: Ready) -> Tensor:
            w_next: Tensor = w - step_at(ready) * gradient(w, ready)
            return w_next

        if callable(alpha) and differentiate_step:  # λ may act by the step alone
            inner = trial_call.call(phi_at, "the gradient step on inner_loss", door, w0, lam)
        return _from_user(
            phi_at, inner_at, outer_loss, inner, door, w0, lam,
            name=name, dynamics=dynamics, symmetric=True, sampler=sampler, domain=domain, known=known,
            frozen_step=None if callable(alpha) and differentiate_step else True,
            step_at=step_at, value_function=outer_loss is inner_loss,
        )  # fmt: skip


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


def _from_user(
    phi_at: Callable[[Tensor, Ready], Tensor],
    inner_at: Callable[[Tensor, Ready], Tensor] | None,
    outer_loss: Callable[[Any, Any], Tensor],
    inner: Trial,
    door: Door,
    w0: Tensor,
    lam: Tensor,
    **rest: Any,
) -> Problem:
    if not isinstance(rest["dynamics"], Dynamics):
        raise InputError(
            f"dynamics = {rest['dynamics']!r} is none; give a Dynamics, as bc.dynamics.constant(…) returns"
        )
    if rest["known"] is not None and not isinstance(rest["known"], Constants):
        raise InputError(f"known is a {type(rest['known']).__name__}; give bc.Constants.given(q=0.9, side='upper')")
    outer_at = door.of_both(outer_loss, "outer_loss", lambda value: from_user.scalar(value, "outer_loss"))
    outer = trial_call.call(outer_at, "outer_loss", door, w0, lam)
    outer.refuse_without_params()
    trial_call.refuse_without_hparams(inner, outer)
    made = Problem(
        w0=w0, lam=lam, phi_at=phi_at, outer_at=outer_at, inner_at=inner_at,
        prepare=_itself if door.prepare is None else door.ready,
        w_layout=door.params, lam_layout=door.hparams, **rest,
    )  # fmt: skip
    made.checked(lam, "lam")
    if not bool(torch.isfinite(made.phi(w0, lam)).all()):
        raise InputError(
            "the gradient step on inner_loss is not finite at params and hparams; check the data for NaN and infinity"
        )
    from boundcheck.numerics.bilevel import derivative_check  # only here: the estimates are made of problems

    derivative_check.on_arrival(made)
    return made


def require_problem(value: object) -> Problem:
    """`value` if it is a problem, or an error that says how to get one.

    Parameters
    ----------
    value : object
        What a public function was given as `problem`.

    Returns
    -------
    Problem
        The same.

    Raises
    ------
    InputError
        With what was given, and what to give.
    """
    if isinstance(value, Problem):
        return value
    if isinstance(value, str):
        raise InputError(f"problem is the str {value!r}; give a Problem, as bc.load_problem({value!r}) returns")
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    raise InputError(f"problem is {what}; give a Problem, as bc.load_problem or bc.Problem.from_loss returns")
