"""Autograd: products with ∂₁Φ, ∂₂Φ and their transposes, gradients of E, and Hessians, at one point or for a batch.

A batch has rows of points for each of several λ: w has shape (λ, rows, d), and prepared tensors have a leading axis for
λ. The same functions of flat vectors are used in both cases, through `vmap`. Derivatives are taken outside of `vmap`,
so a product with data that rows share is a single matrix product. Derivatives by λ are given as cotangents of the
tensors that were prepared from λ (the leaves); `prepared.py` pulls them back to λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import loss_gradient
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves, Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Curvature, Ready
from boundcheck.numerics.bilevel.torch_refusals import in_words

CACHE = 500_000  # number of tensor entries that fit into the cache of a CPU
Function = Callable[[Tensor, Ready], Tensor]
Product = Callable[[Tensor], Tensor]


def rows(function: Function) -> Function:
    """Return `function` for w of shape (λ, rows, d) and `ready` with a leading axis for λ."""
    return in_words(vmap(vmap(function, in_dims=(0, None)), in_dims=(0, 0)))


def _grad(output: Tensor, inputs: tuple[Tensor, ...], cotangent: Tensor, **options: Any) -> tuple[Tensor, ...]:
    batch_shape = cotangent.shape[:1] if options.get("is_grads_batched") else ()

    def zeros(x: Tensor) -> Tensor:
        return x.new_zeros((*batch_shape, *x.shape))

    if not output.requires_grad:  # constant in all inputs
        return tuple(zeros(x) for x in inputs)
    grads = torch.autograd.grad(output, inputs, cotangent, allow_unused=True, **options)
    return tuple(zeros(x) if g is None else g for x, g in zip(inputs, grads, strict=True))


class Linearisation:
    """The value y = f(x, ready) at fixed x and ready, for any number of products with its derivatives.

    The constructor evaluates f once. A transposed product is one backward pass. The first forward product is two.
    """

    def __init__(
        self, function: Function, x: Tensor, ready: Ready, leaves: Leaves | None = None, d1_T: Product | None = None
    ) -> None:
        self._formula = d1_T
        self.x = x.detach().requires_grad_()
        self.tensors = tuple(leaf.detach().requires_grad_() for leaf in leaves.tensors) if leaves else ()
        with torch.enable_grad():
            self.y = function(self.x, leaves.ready(self.tensors) if leaves else ready)
        self._reverse: tuple[Tensor, Tensor] | None = None

    def d1_T(self, v: Tensor) -> Tensor:
        """Return ∂₁fᵀ v."""
        if self._formula is not None:
            return self._formula(v)
        if self.y.requires_grad:  # no call of `_grad`, because this is the inner loop of every solver
            product = torch.autograd.grad(self.y, self.x, v, retain_graph=True, allow_unused=True)[0]
            if product is not None:
                return product
        return torch.zeros_like(self.x)

    def d2_T(self, v: Tensor) -> Cotangents:
        """Return ∂₂fᵀ v as cotangents of the leaves."""
        return _grad(self.y, self.tensors, v, retain_graph=True) if self.tensors else ()

    def transposed(self, v: Tensor, *, last: bool = True) -> tuple[Tensor, Cotangents]:
        """Return ∂₁fᵀ v and ∂₂fᵀ v from one backward pass. With `last`, the graph is freed afterwards."""
        grads = _grad(self.y, (self.x, *self.tensors), v, retain_graph=not last)
        return grads[0], grads[1:]

    def d1(self, u: Tensor) -> Tensor:
        """Return ∂₁f u as the derivative of v ↦ ∂₁fᵀ v (a double transposed product)."""
        if self._reverse is None:
            with torch.enable_grad():
                v = torch.zeros_like(self.y, requires_grad=True)
                self._reverse = (v, _grad(self.y, (self.x,), v, create_graph=True)[0])
        v, transposed = self._reverse
        return _grad(transposed, (v,), u, retain_graph=True)[0]


def linearise(problem: Problem, w: Tensor, prepared: Prepared) -> Linearisation:
    """Return the linearisation of Φ at one point, with the problem's formula for ∂₁Φᵀv if it has one."""
    formula = None if problem.d1phi_T_at is None else problem.d1phi_T_at(w, prepared.ready)
    return Linearisation(problem.phi_at, w, prepared.ready, prepared.leaves, formula)


def used(leaves: Leaves, function: Function, x: Tensor) -> Leaves:
    """Return the leaves, with only those active that `function` depends on. This avoids work with zeros.

    `x` is one point, or rows of points if the leaves are rows. The dependence is read from the graph at this point.
    """
    linearised = Linearisation(function, x, None, leaves)
    if not linearised.y.requires_grad or not linearised.tensors:
        return leaves.none()
    grads = torch.autograd.grad(linearised.y, linearised.tensors, torch.ones_like(linearised.y), allow_unused=True)
    active = tuple(i for i, grad in zip(leaves.active, grads, strict=True) if grad is not None)
    return Leaves(leaves.flat, leaves.spec, active)


def mixed(function: Function, x: Tensor, leaves: Leaves) -> bool:
    """Return whether ∂₂f depends on x, according to the graph at rows x."""
    linearised = Linearisation(rows(function), x, None, leaves)
    if not linearised.tensors or not linearised.y.requires_grad:
        return False
    with torch.enable_grad():
        grads = torch.autograd.grad(
            linearised.y, linearised.tensors, torch.ones_like(linearised.y), create_graph=True, allow_unused=True
        )
        total = sum(grad.sum() for grad in grads if grad is not None and grad.requires_grad)
    return isinstance(total, Tensor) and torch.autograd.grad(total, linearised.x, allow_unused=True)[0] is not None


class LamLinearisation:
    """The values y = f(x, ready) for rows x that share λ, for products with ∂₂f."""

    def __init__(self, function: Function, x: Tensor, leaves: Leaves) -> None:
        self.tensors = tuple(leaf.detach().requires_grad_() for leaf in leaves.tensors)
        with torch.enable_grad():
            self.y = rows(function)(x.detach(), leaves.ready(self.tensors))
        self._reverse: tuple[Tensor, Cotangents] | None = None

    def d2_T(self, v: Tensor) -> Cotangents:
        """Return ∂₂fᵀ v, summed over the rows."""
        return _grad(self.y, self.tensors, v, retain_graph=True) if self.tensors else ()

    def d2_T_of_each(self, vs: Tensor) -> Cotangents:
        """Return `d2_T` of each v along the first axis of `vs`, from one backward pass if possible.

        Some operations have no batched derivative. Then one pass for each v is necessary.
        """
        if not self.tensors:
            return ()
        try:
            return _grad(self.y, self.tensors, vs, retain_graph=True, is_grads_batched=True)
        except (RuntimeError, NotImplementedError):
            return tuple(torch.stack(leaf) for leaf in zip(*map(self.d2_T, vs), strict=True))

    def d2(self, along: Cotangents) -> Tensor:
        """Return ∂₂f times a tangent of the leaves for every row, as the derivative of the linear map `d2_T`."""
        if self._reverse is None:
            with torch.enable_grad():
                v = torch.zeros_like(self.y, requires_grad=True)
                self._reverse = v, _grad(self.y, self.tensors, v, create_graph=True)
        v, transposed = self._reverse
        pairs = [(g, tangent) for g, tangent in zip(transposed, along, strict=True) if g.requires_grad]
        if not pairs:
            return torch.zeros_like(v)
        outputs, tangents = zip(*pairs, strict=True)
        product: Tensor = torch.autograd.grad(outputs, v, tangents, retain_graph=True, materialize_grads=True)[0]
        return product


@in_words
def push_forward(
    function: Function, x: Tensor, leaves: Leaves, dx: Tensor, dleaves: Cotangents
) -> tuple[Tensor, Tensor]:
    """Return f(x, ready) and its derivative in the direction (dx, dleaves), by forward mode."""
    pair = jvp(lambda x, *tensors: function(x, leaves.ready(tensors)), (x, *leaves.tensors), (dx, *dleaves))
    return pair[0], pair[1]


@dataclass(frozen=True, eq=False)
class OuterGradients:
    """∇₁E, and ∇₂E as cotangents of the leaves."""

    w: Tensor
    lam: Cotangents


def gradient(function: Function) -> Function:
    """Return ∇₁f for a scalar f(w, ready)."""
    return loss_gradient.gradient(function)


def outer_gradients(problem: Problem, w: Tensor, leaves: Leaves) -> OuterGradients:
    """Return ∇₁E and ∇₂E at one point."""
    linearised = Linearisation(problem.outer_at, w, None, leaves)
    return OuterGradients(*linearised.transposed(torch.ones_like(linearised.y)))


@in_words
def rows_outer(problem: Problem, w: Tensor, leaves: Leaves) -> OuterGradients:
    """Return ∇₁E and ∇₂E for every row, with ∇₂E as cotangents of shape (λ, rows, …)."""

    def gradients_of_row(w: Tensor, flat: tuple[Tensor, ...]) -> tuple[Tensor, Cotangents]:
        row_leaves = Leaves(flat, leaves.spec, leaves.active)
        gradients_at = torch.func.grad(
            lambda w, tensors: problem.outer_at(w, row_leaves.ready(tensors)), argnums=(0, 1)
        )
        gradients: tuple[Tensor, Cotangents] = gradients_at(w, row_leaves.tensors)
        return gradients

    return OuterGradients(*vmap(vmap(gradients_of_row, in_dims=(0, None)), in_dims=(0, 0))(w, leaves.flat))


@in_words
def rows_d2_T(function: Function, w: Tensor, leaves: Leaves, v: Tensor) -> Cotangents:
    """Return ∂₂f(w)ᵀv as cotangents of the leaves, for every row w and vectors v of shape (λ, rows, vectors, d)."""

    def pulled_row(w: Tensor, v: Tensor, flat: tuple[Tensor, ...]) -> Cotangents:
        row_leaves = Leaves(flat, leaves.spec, leaves.active)
        transposed = vjp(lambda tensors: function(w, row_leaves.ready(tensors)), row_leaves.tensors)[1]
        result: Cotangents = vmap(transposed)(v)[0]
        return result

    return vmap(vmap(pulled_row, in_dims=(0, 0, None)), in_dims=(0, 0, 0))(w, v, leaves.flat) if leaves.active else ()


def rows_d2(function: Function, w: Tensor, prepared: Prepared, leaves: Leaves, d: int) -> Tensor:
    """Return the matrices ∂₂f(w) for every row w, of shape (λ, rows, d, n).

    They are computed from the derivatives of the leaves by λ or, if the leaves are not larger than λ, in reverse mode
    from the d values of f.
    """
    count, n = prepared.lams.shape
    size = sum(leaf[0].numel() for leaf in leaves.tensors)
    if not size:
        return w.new_zeros(count, w.shape[1], d, n)
    if size <= n:
        eye = torch.eye(d, dtype=w.dtype, device=w.device).expand(count, w.shape[1], d, d)
        cotangents = rows_d2_T(function, w, leaves, eye)
        pulled = prepared.pull_back_rows(leaves, tuple(c.flatten(1, 2) for c in cotangents))
        return pulled.reshape(count, w.shape[1], d, n)

    linearised = LamLinearisation(function, w, leaves)
    columns = w.new_empty(count, w.shape[1], d, n)
    step = max(1, CACHE // (count * size))
    for start in range(0, n, step):
        tangents = prepared.push_forward_rows(leaves, start, min(start + step, n))
        columns[..., start : start + step] = torch.stack(
            [linearised.d2(along) for along in zip(*tangents, strict=True)], dim=-1
        )
    return columns


@in_words
def jacobian(function: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    """Return the Jacobian at one point, from one batch with a transposed product for each value."""
    value_and_vjp = vjp(function, w)
    y, transposed = value_and_vjp[0], value_and_vjp[1]
    J: Tensor = vmap(lambda v: transposed(v)[0])(torch.eye(y.numel(), dtype=w.dtype, device=w.device))
    return J


DENSE = 2000  # up to this dimension, dense eigenvalue solvers are faster
MATRIX = 40_000_000  # the most entries of a matrix that is formed


@in_words
def extreme_curvature(loss: Callable[[Tensor], Tensor], w: Tensor) -> Curvature:
    """Return the extreme eigenvalues of the Hessian at w. For large d, L is by 100 power iterations and μ is 0."""
    gradient = torch.func.grad(loss)
    if w.numel() <= DENSE:
        H = jacobian(gradient, w)
        if not bool(torch.isfinite(H).all()):
            raise InputError(
                "the Hessian of a loss is not finite at a point where it is needed, such as params; start where it is, "
                "or write the loss without a root or a quotient there: (w**2).sum() for w.norm()**2"
            )
        eigenvalues = torch.linalg.eigvalsh((H + H.T) / 2)
        return Curvature(eigenvalues[0], eigenvalues[-1])
    generator = torch.Generator(device="cpu").manual_seed(0)
    u = torch.randn(w.numel(), generator=generator, dtype=w.dtype, device="cpu").to(w.device)
    linearised = Linearisation(lambda x, _: gradient(x), w, None)  # differentiable in every grad mode
    for _ in range(100):
        u = linearised.d1_T(u / u.norm())
    return Curvature(torch.zeros_like(u.norm()), u.norm())
