"""A bilevel problem: min_λ E(w(λ), λ) with w(λ) = Φ(w(λ), λ).

Inside, w and λ are flat vectors. `prepare(lam)` computes the quantities that depend on λ only, such as a kernel matrix
or a step size, once for each λ. Derivatives go through it. By default it returns λ itself.
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

UNNAMED = "user"  # the default name


@dataclass(frozen=True, eq=False)
class Problem:
    """A bilevel problem: min_λ E(w(λ), λ), where w(λ) = Φ(w(λ), λ).

    Make one with `Problem.from_loss`, `Problem.from_map`, `load_problem` or a function of `boundcheck.problems`.
    Inside, w and λ are flat vectors of length d and n. `ready` below is the result of `prepare(lam)`. If you replace Φ
    or E, also replace the formulas for their derivatives, or set them to None.

    Attributes
    ----------
    name : str
        The name in reports and messages.
    w0 : Tensor of shape (d,)
        The start of the lower level. It determines the dtype and device of the problem.
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
        Whether ∂₁Φ is symmetric; None, the default, if unknown.
    affine : bool
        Whether ∂₁Φ depends on λ only; False by default.
    frozen_step : bool or None
        Whether the α of Φ = w − α∇₁ℓ is held fixed under differentiation; None, the default, if unknown.
    step_at : callable (ready) -> Tensor or float, optional
        The step α, if Φ is w − α∇₁ℓ by construction.
    default_step : bool
        Whether boundcheck chose the step α; False by default.
    value_function : bool
        Whether E is the lower-level loss ℓ by construction; False by default.
    curvature : callable (ready) -> Curvature, optional
        μ and L of ℓ(·, λ).
    contraction : callable (ready) -> Tensor, optional
        The constant q, an upper bound on ‖∂₁Φ‖ at all iterates.
    solution : callable (ready) -> Tensor of shape (d,), optional
        w(λ) in closed form, or to machine precision.
    known : ClosedForms or Constants, optional
        Constants in closed form, or constants given by the user.
    domain : Domain, optional
        The set of allowed λ; all λ by default.
    sampler : callable (generator) -> Tensor of shape (n,), optional
        Draws a λ on the CPU with a `torch.Generator`.
    seed : int
        The seed of the data, and the default seed for drawing λ; 0 by default.
    remake : callable (**options) -> Problem, optional
        Makes the same problem again with other options, such as dtype.
    w_layout : Layout, optional
        The structure of the parameters as the user gave them; a flat vector if None.
    lam_layout : Layout, optional
        The structure of the hyperparameters as the user gave them; a flat vector if None.
    finite_sum : FiniteSum, optional
        The map on minibatches, if Φ is a mean over examples; None, the default, if it is not.
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
        batch = "" if sums is None else f"{sums.batch} of {sums.examples} examples, "
        return f"Problem({self.name}, d={self.d}, n={self.n}, {batch}{self.dynamics.name}, {kind})"

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
        """The precision of w, λ and all results."""
        return self.w0.dtype

    @property
    def device(self) -> torch.device:
        """The device of w, λ and all results."""
        return self.w0.device

    def about(self) -> dict[str, Any]:
        """Return the description of the problem for reports.

        Returns
        -------
        dict
            The keys are "name", "dim" (d), "hdim" (n), "seed", "dtype", "device" and "step". "step" is "default" if
            boundcheck chose the step size, "given" if the user did, and None if the problem is a map without a loss.
            With minibatches there are also "examples" (N), "batch" and "replacement".
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
        """Evaluate the map Φ(w, λ).

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
        """Evaluate the outer loss E(w, λ).

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
        """Evaluate the lower-level loss ℓ(w, λ) of a problem that was made from a loss.

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
        """Do one step of the dynamics from a state. For plain iterations this is Φ.

        Parameters
        ----------
        z : Tensor of shape (copies·d,)
            The state. The first state is `dynamics.start(w0)`.
        ready : object
            The result of `prepare(lam)`.

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
            The number of values, at least 1.
        seed : int, optional
            The seed of the random numbers; by default the seed of the problem.

        Returns
        -------
        Tensor of shape (count, n)
            A λ in each row.

        Raises
        ------
        InputError
            If the problem has no sampler, if `count` or `seed` is not valid, or if the sampler returns a wrong shape or
            a λ outside of the domain.
        UserCodeError
            If the sampler raises an error.
        """
        return input_vectors.drawn_lams(self, count, seed)

    def checked(self, value: Any, name: str) -> Tensor:
        """Check a value and return it as a flat vector.

        Parameters
        ----------
        value : structure of tensors, or flat tensor
            The user's value.
        name : str
            The quantity, "lam", "g", "w0" or "v0". "lam" and "g" have the structure of the hyperparameters, "w0" and
            "v0" the structure of the parameters.

        Returns
        -------
        Tensor of shape (n,) or (d,)
            The flat vector, detached.

        Raises
        ------
        InputError
            If the shape, the dtype or the device is wrong, if an entry is not finite, or if λ is outside of its domain.
        """
        return input_vectors.flat_vector(self, value, name)

    def at(self, lam: Any) -> Problem:
        """Return the same problem at another λ.

        Parameters
        ----------
        lam : structure of the hyperparameters, or flat tensor of shape (n,)
            The new λ.

        Returns
        -------
        Problem
            A copy. The original does not change.

        Raises
        ------
        InputError
            If λ has a wrong shape, dtype or device, has an entry that is not finite, or is outside of the domain.

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
        """Return the same problem with minibatches of another size or kind.

        Parameters
        ----------
        batch : int, optional
            The number of examples in a minibatch; by default 10, or all if there are fewer.
        replacement : bool
            Whether the examples of one minibatch are drawn with replacement; True by default.

        Returns
        -------
        Problem
            A copy. The original does not change.

        Raises
        ------
        InputError
            If the problem has no examples, or if `batch` or `replacement` is not valid.

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
        """Return the same problem at the same λ in another precision.

        Parameters
        ----------
        dtype : torch.dtype
            The precision, such as `torch.float64`.

        Returns
        -------
        Problem or None
            None if the problem cannot be made again, which holds for problems from the user's functions.
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
            The examples: every tensor has one row for each. The third argument of the function is then a minibatch in
            the same structure, or all examples. Its value must be the mean of its values on the single examples.
        batch : int, optional
            The number of examples in a minibatch; by default 10, or all if there are fewer. Only with `data`.
        replacement : bool
            Whether the examples of one minibatch are drawn with replacement; True by default.
        name : str
            The name of the problem in reports and messages; "user" by default. A command that loads the problem from
            a file names it by its place, such as "mine.py:problem".
        prepare : callable (hparams) -> object, optional
            Computes quantities that depend on the hyperparameters only, once for each λ. The functions then receive
            its result in place of `hparams`, and derivatives go through it.
        dynamics : Dynamics
            The iteration that produces w_t from Φ; plain fixed-point iterations by default.
        symmetric : bool or None
            Whether ∂₁Φ is symmetric, which "aid-cg" needs; None, the default, if unknown.
        sampler : callable (generator) -> Tensor of shape (n,), optional
            Draws a flat λ on the CPU with a `torch.Generator`; needed to run several samples.
        domain : Domain, optional
            The set of allowed λ; all λ by default.
        known : Constants, optional
            Constants that you have proved. The estimator tests them.

        Returns
        -------
        Problem
            The problem, for `check`, `hypergradient` and the other functions.

        Raises
        ------
        InputError
            If a loss is not a scalar, if a function ignores the parameters or the hyperparameters, if values are not
            finite, if params and hparams differ in dtype or device, if the function on a minibatch is not the mean of
            the function on single examples, or if another argument is not valid.
        UserCodeError
            If a function raises an error (the original error is the cause), or if autograd's derivatives of the
            functions are wrong, as with `detach()` or a wrong backward.

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
            The step α, positive. A callable receives the same argument as the losses receive as `hparams`. The default
            is 2/(μ+L) for the Hessian at `params`, or less if a hundred steps lead to a point of larger curvature. It
            is 1.9/L if the loss is not strictly convex at `params`, or if there are more than 2000 parameters.
        data : tensor, list, tuple or dict of tensors, optional
            The examples: every tensor has one row for each. The third argument of the function is then a minibatch in
            the same structure, or all examples. Its value must be the mean of its values on the single examples.
        batch : int, optional
            The number of examples in a minibatch; by default 10, or all if there are fewer. Only with `data`.
        replacement : bool
            Whether the examples of one minibatch are drawn with replacement; True by default.
        name : str
            The name of the problem in reports and messages; "user" by default. A command that loads the problem from
            a file names it by its place, such as "mine.py:problem".
        prepare : callable (hparams) -> object, optional
            Computes quantities that depend on the hyperparameters only, once for each λ. The functions then receive
            its result in place of `hparams`, and derivatives go through it.
        dynamics : Dynamics
            The iteration that produces w_t from Φ; gradient descent by default. `boundcheck.dynamics.constant`
            makes one with momentum.
        differentiate_step : bool
            Whether derivatives go through `step_size(hparams)`; False by default, which holds α fixed.
        sampler : callable (generator) -> Tensor of shape (n,), optional
            Draws a flat λ on the CPU with a `torch.Generator`; needed to run several samples.
        domain : Domain, optional
            The set of allowed λ; all λ by default.
        known : Constants, optional
            Constants that you have proved. The estimator tests them.

        Returns
        -------
        Problem
            The problem, for `check`, `hypergradient` and the other functions.

        Raises
        ------
        InputError
            If a loss is not a scalar, if a function ignores the parameters or the hyperparameters, if values are not
            finite, if params and hparams differ in dtype or device, if the function on a minibatch is not the mean of
            the function on single examples, or if another argument is not valid.
        UserCodeError
            If a function raises an error (the original error is the cause), or if autograd's derivatives of the
            functions are wrong, as with `detach()` or a wrong backward.

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
    """Return the problem that was passed to a public function, and load it if it was passed by name.

    Parameters
    ----------
    value : object
        The argument `problem` of the function.

    Returns
    -------
    Problem
        The argument itself, or the result of `load_problem` for a name.

    Raises
    ------
    InputError
        If the argument is neither a problem nor a name, or inside of `torch.inference_mode()`.
    UnknownNameError
        If there is no problem with this name.
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
