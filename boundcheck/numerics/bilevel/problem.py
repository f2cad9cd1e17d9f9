"""A bilevel problem: min_λ E(w(λ), λ) with w(λ) = Φ(w(λ), λ).

Inside, w and λ are flat vectors. `prepare(lam)` is what depends on λ only (a kernel matrix, a step size): computed once
per λ and differentiated through like the rest. Without it, what is prepared is λ itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from boundcheck.constants import Constants
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import example_data, input_vectors, problem_from_user
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT, GRADIENT_DESCENT, Dynamics
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.formulas import D1, D2, D2Outer
from boundcheck.numerics.bilevel.problem_types import IDENTITY, Curvature, Domain, Ready

UNNAMED = "user"  # the name of a problem that was given none


@dataclass(frozen=True, eq=False)
class Problem:
    """A bilevel problem: min_λ E(w(λ), λ), where w(λ) = Φ(w(λ), λ).

    Make one with `Problem.from_loss`, `Problem.from_map`, `load_problem` or a function of `boundcheck.problems`.
    Inside, w and λ are flat vectors of length d and n. `ready` below is what `prepare(lam)` returns. Whoever replaces
    Φ or E has to replace the derivatives by formula too, or give None for them.

    Attributes
    ----------
    name : str
        Its name in reports and messages.
    w0 : Tensor of shape (d,)
        The start of the lower level. Its dtype and device are those of the problem.
    lam : Tensor of shape (n,)
        The hyperparameters λ.
    phi_at : callable (w, ready) -> Tensor of shape (d,)
        The map Φ.
    outer_at : callable (w, ready) -> Tensor of shape ()
        The outer loss E.
    inner_at : callable (w, ready) -> Tensor of shape (), optional
        The lower-level loss ℓ, if there is one.
    prepare : callable (lam) -> object
        Quantities that depend only on λ (a kernel matrix, a step size): a tensor, or a tuple, named tuple, list or
        dict of tensors. They are computed once for each λ and differentiated through. λ itself by default.
    d1phi_T_at : callable (w, ready) -> callable, optional
        The products v ↦ ∂₁Φ(w)ᵀv by a formula; by autograd if None. `numerics/bilevel/formulas.py` gives the shapes.
    d2phi_T_at : callable (w, ready) -> callable, optional
        The products v ↦ ∂₂Φ(w)ᵀv by a formula; by autograd if None.
    d2outer_at : callable (w, ready) -> Tensor, optional
        The gradient ∇₂E(w) by a formula; by autograd if None.
    dynamics : Dynamics
        The iteration that produces w_t from Φ; plain fixed-point iterations by default.
    symmetric : bool or None
        Whether ∂₁Φ is symmetric; None, the default, if that is not known.
    affine : bool
        Whether ∂₁Φ depends on λ only; False by default.
    frozen_step : bool or None
        Whether the α of Φ = w − α∇₁ℓ is held fixed under differentiation; None, the default, if that is not known.
    step_at : callable (ready) -> Tensor or float, optional
        The step α, where Φ is w − α∇₁ℓ by construction.
    default_step : bool
        Whether boundcheck chose the step α; False by default.
    value_function : bool
        Whether E is the lower-level loss ℓ by construction; False by default.
    curvature : callable (ready) -> Curvature, optional
        μ and L of ℓ(·, λ).
    contraction : callable (ready) -> Tensor, optional
        The constant q, at least ‖∂₁Φ‖ wherever the iterates go.
    solution : callable (ready) -> Tensor of shape (d,), optional
        w(λ) in closed form, or to machine precision.
    known : ClosedForms or Constants, optional
        Constants in closed form, or those given by the user.
    domain : Domain, optional
        Where λ has to lie; anywhere by default.
    sampler : callable (generator) -> Tensor of shape (n,), optional
        Draws a λ on the CPU with a `torch.Generator`.
    seed : int
        The seed of the data, and of λ where none other is given; 0 by default.
    remake : callable (**options) -> Problem, optional
        Makes the same problem again with other options, such as dtype.
    w_layout : Layout, optional
        The structure of the parameters as the user gave them; a flat vector if None.
    lam_layout : Layout, optional
        The structure of the hyperparameters as the user gave them; a flat vector if None.
    finite_sum : FiniteSum, optional
        Where Φ is a mean over examples: the map on a minibatch. None, the default, if it is not.
    """

    name: str
    w0: Tensor
    lam: Tensor
    phi_at: Callable[[Tensor, Ready], Tensor]
    outer_at: Callable[[Tensor, Ready], Tensor]
    inner_at: Callable[[Tensor, Ready], Tensor] | None = None
    prepare: Callable[[Tensor], Ready] = IDENTITY
    d1phi_T_at: D1 | None = None
    d2phi_T_at: D2 | None = None
    d2outer_at: D2Outer | None = None
    dynamics: Dynamics = FIXED_POINT
    symmetric: bool | None = None
    affine: bool = False
    frozen_step: bool | None = None
    step_at: Callable[[Ready], Tensor | float] | None = None
    default_step: bool = False
    value_function: bool = False
    curvature: Callable[[Ready], Curvature] | None = None
    contraction: Callable[[Ready], Tensor] | None = None
    solution: Callable[[Ready], Tensor] | None = None
    known: ClosedForms | Constants | None = None
    domain: Domain | None = None
    sampler: Callable[[torch.Generator], Tensor] | None = None
    seed: int = 0
    remake: Callable[..., Problem] | None = None
    w_layout: Layout | None = None
    lam_layout: Layout | None = None
    finite_sum: FiniteSum | None = None

    def __repr__(self) -> str:
        kind = f"{str(self.dtype).removeprefix('torch.')} on {self.device}"
        sums = self.finite_sum
        of = "" if sums is None else f"{sums.batch} of {sums.examples} examples, "
        return f"Problem({self.name}, d={self.d}, n={self.n}, {of}{self.dynamics.name}, {kind})"

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
        """The precision of w, λ and all that is computed."""
        return self.w0.dtype

    @property
    def device(self) -> torch.device:
        """The device on which everything is computed."""
        return self.w0.device

    def about(self) -> dict[str, Any]:
        """What a report says of the problem.

        Returns
        -------
        dict
            name, dim (d), hdim (n), seed, dtype and device, and "step": "default" if boundcheck chose the step size,
            "given" if it did not, None if the problem is a map without a loss. With minibatches also examples (N),
            batch and replacement.
        """
        sums = self.finite_sum
        minibatches = (
            {} if sums is None else {"examples": sums.examples, "batch": sums.batch, "replacement": sums.replacement}
        )
        return {
            "name": self.name,
            "dim": self.d,
            "hdim": self.n,
            "seed": self.seed,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": str(self.device),
            "step": None if self.inner_at is None else "default" if self.default_step else "given",
            **minibatches,
        }

    def phi(self, w: Tensor, lam: Tensor) -> Tensor:
        """The map Φ(w, λ).

        Parameters
        ----------
        w : Tensor of shape (d,)
            The parameters.
        lam : Tensor of shape (n,)
            The hyperparameters.

        Returns
        -------
        Tensor of shape (d,)
            The value of Φ.
        """
        return self.phi_at(w, self.prepare(lam))

    def outer(self, w: Tensor, lam: Tensor) -> Tensor:
        """The outer loss E(w, λ).

        Parameters
        ----------
        w : Tensor of shape (d,)
            The parameters.
        lam : Tensor of shape (n,)
            The hyperparameters.

        Returns
        -------
        Tensor of shape ()
            The value of E.
        """
        return self.outer_at(w, self.prepare(lam))

    def inner(self, w: Tensor, lam: Tensor) -> Tensor:
        """The lower-level loss ℓ(w, λ) of a problem that was made from a loss.

        Parameters
        ----------
        w : Tensor of shape (d,)
            The parameters.
        lam : Tensor of shape (n,)
            The hyperparameters.

        Returns
        -------
        Tensor of shape ()
            The value of ℓ.

        Raises
        ------
        InputError
            If the problem was made from a map, without a loss.
        """
        if self.inner_at is None:
            raise InputError(f"{self.name}: the problem is a fixed-point map without a loss; build it with from_loss")
        return self.inner_at(w, self.prepare(lam))

    def psi_at(self, z: Tensor, ready: Ready) -> Tensor:
        """One step of the dynamics on its state; Φ itself for plain iterations.

        Parameters
        ----------
        z : Tensor of shape (copies·d,)
            The state; `dynamics.start(w0)` is the first.
        ready : object
            What `prepare(lam)` returned.

        Returns
        -------
        Tensor of shape (copies·d,)
            The next state.
        """
        return self.dynamics.step(lambda w: self.phi_at(w, ready), z, ready)

    def sample(self, count: int, seed: int | None = None) -> Tensor:
        """Draw values of λ, the same on every device.

        Parameters
        ----------
        count : int
            How many, at least 1.
        seed : int, optional
            The seed of the random numbers; that of the problem by default.

        Returns
        -------
        Tensor of shape (count, n)
            A λ in each row.

        Raises
        ------
        InputError
            If the problem has no sampler, if `count` or `seed` cannot be used, or if the sampler returns another shape
            or a λ outside of the domain.
        UserCodeError
            If the sampler raises.
        """
        return input_vectors.drawn_lams(self, count, seed)

    def checked(self, value: Any, name: str) -> Tensor:
        """A value as a flat vector, or an error that says what is wrong with it.

        Parameters
        ----------
        value : structure of tensors, or flat tensor
            What a user gave.
        name : str
            Its place, "lam", "g", "w0" or "v0": "lam" and "g" have the structure of the hyperparameters, the others
            that of the parameters.

        Returns
        -------
        Tensor of shape (n,) or (d,)
            The flat vector, detached.

        Raises
        ------
        InputError
            If the shape, the dtype or the device is another, if an entry is not finite, or if λ is outside of its
            domain.
        """
        return input_vectors.flat_vector(self, value, name)

    def at(self, lam: Any) -> Problem:
        """The same problem at another λ.

        Parameters
        ----------
        lam : structure of the hyperparameters, or flat tensor of shape (n,)
            The new λ.

        Returns
        -------
        Problem
            A copy; the original stays as it is.

        Raises
        ------
        InputError
            If λ has another shape, dtype or device, an entry that is not finite, or lies outside of the domain.

        Examples
        --------
        >>> import torch
        >>> import boundcheck as bc
        >>> problem = bc.problems.scalar()
        >>> problem.at(torch.tensor([0.5], dtype=torch.float64)).lam
        tensor([0.5000], dtype=torch.float64)
        """
        return replace(self, lam=self.checked(lam, "lam"))

    def with_batch(self, batch: int | None = None, replacement: bool = True) -> Problem:
        """The same problem with other minibatches.

        Parameters
        ----------
        batch : int, optional
            The number of examples in a minibatch; by default 10, or all if there are fewer.
        replacement : bool
            Whether the examples of one minibatch are drawn with replacement; True by default.

        Returns
        -------
        Problem
            A copy; the original stays as it is.

        Raises
        ------
        InputError
            If the problem has no examples, or `batch` or `replacement` cannot be used.

        Examples
        --------
        >>> import boundcheck as bc
        >>> bc.problems.logistic_regression(size=20, features=5, batch=4).with_batch(2)
        Problem(lr, d=5, n=5, 2 of 20 examples, gradient-descent, float64 on cpu)
        """
        if self.finite_sum is None:
            raise InputError(
                f"{self.name}: its lower level is not a mean over examples; give data= to from_loss or from_map, or "
                "batch= to a built-in problem"
            )
        size = example_data.batch_of(batch, replacement, self.finite_sum.examples)
        again = None if self.remake is None else partial(self.remake, batch=size, replacement=replacement)
        return replace(self, finite_sum=self.finite_sum.with_batch(size, replacement), remake=again)

    def in_dtype(self, dtype: torch.dtype) -> Problem | None:
        """The same problem at the same λ in another precision.

        Parameters
        ----------
        dtype : torch.dtype
            The precision, such as `torch.float64`.

        Returns
        -------
        Problem or None
            None if the problem cannot be made again, as those from the user's functions cannot.
        """
        return None if self.remake is None else self.remake(dtype=dtype).at(self.lam.to(dtype))

    @classmethod
    def from_map(
        cls,
        fp_map: Callable[..., Any],
        outer_loss: Callable[[Any, Any], Tensor],
        params: Any,
        hparams: Any,
        *,
        data: Any = None,
        batch: int | None = None,
        replacement: bool = True,
        name: str = UNNAMED,
        prepare: Callable[[Any], Ready] | None = None,
        dynamics: Dynamics = FIXED_POINT,
        symmetric: bool | None = None,
        sampler: Callable[[torch.Generator], Tensor] | None = None,
        domain: Domain | None = None,
        known: Constants | None = None,
    ) -> Problem:
        """Make a problem from a fixed-point map Φ and an outer loss E.

        The functions are batched with `torch.func.vmap`: they must not look at values of tensors (`if w > 0`,
        `.item()`) or draw random numbers.

        Parameters
        ----------
        fp_map : callable (params, hparams) -> structure of params
            The map Φ. With `data`, a callable (params, hparams, batch).
        outer_loss : callable (params, hparams) -> Tensor of shape ()
            The outer loss E.
        params : tensor, list, tuple, dict or torch.nn.Module
            The start of the lower level, float32 or float64. Tensors may be nested in lists, tuples and dicts. The
            functions receive the same structure.
        hparams : tensor, list, tuple, dict or torch.nn.Module
            The hyperparameters λ, of the same dtype and on the same device.
        data : tensor, list, tuple or dict of tensors, optional
            The examples, a row for each in every tensor. The function then receives, as its third argument, a minibatch
            in the same structure, or all of it; it must be the mean of what it is for single examples.
        batch : int, optional
            The number of examples in a minibatch; by default 10, or all if there are fewer. Only with `data`.
        replacement : bool
            Whether the examples of one minibatch are drawn with replacement; True by default.
        name : str
            The name of the problem in reports and messages; "user" by default, or
            its place, such as "mine.py:problem", where a command loads it from a file.
        prepare : callable (hparams) -> object, optional
            Computes what depends on the hyperparameters only, once for each λ. The functions then receive what it
            returns in place of `hparams`, and derivatives go through it.
        dynamics : Dynamics
            The iteration that produces w_t from Φ; plain fixed-point iterations by default.
        symmetric : bool or None
            Whether ∂₁Φ is symmetric, which "aid-cg" needs; None, the default, if that is not known.
        sampler : callable (generator) -> Tensor of shape (n,), optional
            Draws a flat λ on the CPU with a `torch.Generator`; needed to run several samples.
        domain : Domain, optional
            Where λ has to lie; anywhere by default.
        known : Constants, optional
            Constants that you have proved. The estimator tests them.

        Returns
        -------
        Problem
            As `check`, `hypergradient` and the others take it.

        Raises
        ------
        InputError
            If a loss is not a scalar, if a function ignores the parameters or the hyperparameters, if values are not
            finite, if params and hparams differ in dtype or device, if the function on a minibatch is not the mean of
            the function on single examples, or if another argument cannot be used.
        UserCodeError
            If a function raises (the original error is the cause), or if the derivatives of autograd are not those of
            the functions, as with `detach()` or a wrong backward.

        Examples
        --------
        >>> import torch
        >>> import boundcheck as bc
        >>> def fp_map(w, lam):
        ...     return torch.tanh(0.5 * w + lam)
        >>> def outer_loss(w, lam):
        ...     return ((w - 0.1) ** 2).sum() / 2
        >>> zeros = torch.zeros(3, dtype=torch.float64)
        >>> bc.Problem.from_map(fp_map, outer_loss, zeros, zeros + 0.3, name="layer")
        Problem(layer, d=3, n=3, fixed-point, float64 on cpu)
        """
        return problem_from_user.accepted(
            cls,
            problem_from_user.from_map(
                fp_map, outer_loss, params, hparams, prepare,
                asked=example_data.Minibatching(data, batch, replacement), dynamics=dynamics, known=known, name=name,
                symmetric=symmetric, sampler=sampler, domain=domain,
            ),
        )  # fmt: skip

    @classmethod
    def from_loss(
        cls,
        inner_loss: Callable[..., Tensor],
        outer_loss: Callable[[Any, Any], Tensor],
        params: Any,
        hparams: Any,
        step_size: float | Callable[[Any], Tensor] | None = None,
        *,
        data: Any = None,
        batch: int | None = None,
        replacement: bool = True,
        name: str = UNNAMED,
        prepare: Callable[[Any], Ready] | None = None,
        dynamics: Dynamics = GRADIENT_DESCENT,
        differentiate_step: bool = False,
        sampler: Callable[[torch.Generator], Tensor] | None = None,
        domain: Domain | None = None,
        known: Constants | None = None,
    ) -> Problem:
        """Make a problem from a lower-level loss ℓ and an outer loss E; Φ = w − α∇₁ℓ.

        The functions are batched with `torch.func.vmap`: they must not look at values of tensors (`if w > 0`,
        `.item()`) or draw random numbers.

        Parameters
        ----------
        inner_loss : callable (params, hparams) -> Tensor of shape ()
            The lower-level loss ℓ. With `data`, a callable (params, hparams, batch).
        outer_loss : callable (params, hparams) -> Tensor of shape ()
            The outer loss E.
        params : tensor, list, tuple, dict or torch.nn.Module
            The start of the lower level, float32 or float64. Tensors may be nested in lists, tuples and dicts. The
            functions receive the same structure.
        hparams : tensor, list, tuple, dict or torch.nn.Module
            The hyperparameters λ, of the same dtype and on the same device.
        step_size : float or callable (hparams) -> Tensor, optional
            The step α, positive. A callable receives what the losses receive as `hparams`. By default 2/(μ+L) of the
            Hessian at `params`, or less where a hundred steps with it lead to a point of larger curvature; 1.9/L where
            the loss is not strictly convex at `params`, or there are more than 2000 parameters.
        data : tensor, list, tuple or dict of tensors, optional
            The examples, a row for each in every tensor. The function then receives, as its third argument, a minibatch
            in the same structure, or all of it; it must be the mean of what it is for single examples.
        batch : int, optional
            The number of examples in a minibatch; by default 10, or all if there are fewer. Only with `data`.
        replacement : bool
            Whether the examples of one minibatch are drawn with replacement; True by default.
        name : str
            The name of the problem in reports and messages; "user" by default, or
            its place, such as "mine.py:problem", where a command loads it from a file.
        prepare : callable (hparams) -> object, optional
            Computes what depends on the hyperparameters only, once for each λ. The functions then receive what it
            returns in place of `hparams`, and derivatives go through it.
        dynamics : Dynamics
            The iteration that produces w_t from Φ; gradient descent by default. `boundcheck.dynamics.constant`
            makes one with momentum.
        differentiate_step : bool
            Whether derivatives go through `step_size(hparams)`; False by default, which holds α fixed.
        sampler : callable (generator) -> Tensor of shape (n,), optional
            Draws a flat λ on the CPU with a `torch.Generator`; needed to run several samples.
        domain : Domain, optional
            Where λ has to lie; anywhere by default.
        known : Constants, optional
            Constants that you have proved. The estimator tests them.

        Returns
        -------
        Problem
            As `check`, `hypergradient` and the others take it.

        Raises
        ------
        InputError
            If a loss is not a scalar, if a function ignores the parameters or the hyperparameters, if values are not
            finite, if params and hparams differ in dtype or device, if the function on a minibatch is not the mean of
            the function on single examples, or if another argument cannot be used.
        UserCodeError
            If a function raises (the original error is the cause), or if the derivatives of autograd are not those of
            the functions, as with `detach()` or a wrong backward.

        Examples
        --------
        >>> import torch
        >>> import boundcheck as bc
        >>> X, y = torch.eye(4, dtype=torch.float64), torch.arange(4, dtype=torch.float64)
        >>> def inner_loss(w, lam):
        ...     return ((X @ w - y) ** 2).sum() / 2 + (lam.exp() * w**2).sum() / 2
        >>> def outer_loss(w, lam):
        ...     return ((2 * X @ w - y) ** 2).sum() / 2
        >>> zeros = torch.zeros(4, dtype=torch.float64)
        >>> bc.Problem.from_loss(inner_loss, outer_loss, zeros, zeros, name="ridge")
        Problem(ridge, d=4, n=4, gradient-descent, float64 on cpu)
        """
        return problem_from_user.accepted(
            cls,
            problem_from_user.from_loss(
                inner_loss, outer_loss, params, hparams, step_size, prepare,
                asked=example_data.Minibatching(data, batch, replacement), dynamics=dynamics, known=known, name=name,
                differentiate_step=differentiate_step, sampler=sampler, domain=domain,
            ),
        )  # fmt: skip


def require_problem(value: object) -> Problem:
    """The problem that a public function was given, by itself or by its name.

    Parameters
    ----------
    value : object
        What the function was given as `problem`.

    Returns
    -------
    Problem
        The same, or what `load_problem` makes of a name.

    Raises
    ------
    InputError
        With what was given, and what to give.
    UnknownNameError
        If there is no problem of that name.
    """
    if isinstance(value, str):
        from boundcheck.problems.loading import load_problem

        value = load_problem(value)
    if isinstance(value, Problem):
        if torch.is_inference_mode_enabled():
            raise InputError(
                f"{value.name}: derivatives are not followed inside of torch.inference_mode(); call this outside of it"
            )
        return value
    description = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    raise InputError(f"problem is {description}; give a Problem, as bc.load_problem or bc.Problem.from_loss returns")
