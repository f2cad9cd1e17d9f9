"""The only autograd: products with ∂₁Φ, ∂₂Φ and their transposes, gradients of E, Hessians; at one point or at a batch.

A batch is rows of points for each of several λ: w has shape (λ, rows, d), what is prepared has a leading axis of λ. The
same functions of flat vectors serve both, through `vmap`; derivatives are taken outside it, so that products over data
that rows share are single matrix products. Derivatives with respect to λ come as cotangents of what was prepared from
it (its leaves), and `Prepared` takes them back to λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten  # the trees that vmap itself takes apart

from boundcheck.errors import InputError
from boundcheck.problem import Curvature, Problem, Ready

Function = Callable[[Tensor, Ready], Tensor]
Product = Callable[[Tensor], Tensor]
Cotangents = tuple[Tensor, ...]  # one for each leaf that depends on λ


def rows(function: Function) -> Function:
    """`function(w, ready)` for w of shape (λ, rows, d) and `ready` with a leading axis of λ."""
    return vmap(vmap(function, in_dims=(0, None)), in_dims=(0, 0))


def _grad(output: Tensor, inputs: tuple[Tensor, ...], cotangent: Tensor, **options: Any) -> tuple[Tensor, ...]:
    if not output.requires_grad:  # constant in all inputs
        return tuple(torch.zeros_like(x) for x in inputs)
    grads = torch.autograd.grad(output, inputs, cotangent, allow_unused=True, **options)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True))


@dataclass(frozen=True, eq=False)
class Leaves:
    """The tensors in what a problem prepared, which of them depend on λ, and how to put it together again."""

    flat: tuple[Tensor, ...]
    spec: TreeSpec
    active: tuple[int, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The leaves that depend on λ."""
        return tuple(self.flat[i] for i in self.active)

    def none(self) -> Leaves:
        """The same with nothing to be differentiated."""
        return Leaves(self.flat, self.spec, ())

    def used_by(self, function: Function, x: Tensor) -> Leaves:
        """The same, differentiated only where `function` depends on it, so that no zeros are carried along.

        `x` is one point, or rows of points if the leaves are rows; dependence is that of the graph at this point.
        """
        at = Linearisation(function, x, None, self)
        if not at.y.requires_grad or not at.tensors:
            return self.none()
        grads = torch.autograd.grad(at.y, at.tensors, torch.ones_like(at.y), allow_unused=True)
        used = tuple(i for i, grad in zip(self.active, grads, strict=True) if grad is not None)
        return Leaves(self.flat, self.spec, used)

    def ready(self, tensors: tuple[Tensor, ...] = ()) -> Ready:
        """What was prepared, with `tensors` (when given) in the place of the leaves that depend on λ."""
        flat = list(self.flat)
        for i, tensor in zip(self.active, tensors, strict=False):
            flat[i] = tensor
        return tree_unflatten(flat, self.spec)


class Prepared:
    """What a problem prepares for one λ, or for each row of a matrix of λ, with the way back to λ.

    `prepare` runs once. `ready` is cut off from λ; cotangents of its leaves are pulled back through the kept graph.
    """

    def __init__(self, problem: Problem, lam: Tensor) -> None:
        self._prepare = problem.prepare
        self._lam = lam.detach().requires_grad_()
        with torch.enable_grad():
            prepare = problem.prepare if lam.dim() == 1 else vmap(problem.prepare)
            flat, spec = tree_flatten(prepare(self._lam))
        if stray := [leaf for leaf in flat if not isinstance(leaf, Tensor)]:
            raise InputError(f"{problem.name}: prepare returned a {type(stray[0]).__name__}; return tensors only")
        active = tuple(i for i, leaf in enumerate(flat) if leaf.requires_grad)
        self._made = {i: flat[i] for i in active}
        self.leaves = Leaves(tuple(leaf.detach() for leaf in flat), spec, active)
        self.ready: Ready = self.leaves.ready()

    def pull_back(self, cotangents: Cotangents) -> Tensor:
        """From cotangents shaped like the leaves to one shaped like λ."""
        if not cotangents:
            return torch.zeros_like(self._lam.detach())
        return self._pull(self.leaves, cotangents, batched=False)

    def pull_back_rows(self, leaves: Leaves, cotangents: Cotangents) -> Tensor | float:
        """The same for cotangents of shape (λ, rows, …), one for each of `leaves`: a result of shape (λ, rows, n)."""
        if not cotangents:
            return 0.0
        return self._pull(leaves, tuple(v.transpose(0, 1) for v in cotangents), batched=True).transpose(0, 1)

    def push_forward(self, i: int) -> Cotangents:
        """The derivative of the leaves in the direction of the i-th entry of λ (of every λ, for rows)."""
        direction = torch.zeros_like(self._lam)
        direction[..., i] = 1
        prepare = self._prepare if self._lam.dim() == 1 else vmap(self._prepare)

        def tensors(lam: Tensor) -> tuple[Tensor, ...]:
            flat = tree_flatten(prepare(lam))[0]
            return tuple(flat[i] for i in self.leaves.active)

        tangents: tuple[Tensor, ...] = jvp(tensors, (self._lam.detach(),), (direction,))[1]
        # forward mode gives double precision to a single number plus or times a Python number
        return tuple(tangent.to(self._lam.dtype) for tangent in tangents)

    def _pull(self, leaves: Leaves, cotangents: Cotangents, batched: bool) -> Tensor:
        made = [self._made[i] for i in leaves.active]
        if len(made) == 1 and made[0] is self._lam:
            return cotangents[0]
        return torch.autograd.grad(
            made, self._lam, cotangents, retain_graph=True, materialize_grads=True, is_grads_batched=batched
        )[0]


class Linearisation:
    """y = f(x, ready) at fixed x and ready, for as many products with its derivatives as asked.

    Making it costs one evaluation of f, a transposed product one backward pass, a forward product two (the first time).
    """

    def __init__(self, function: Function, x: Tensor, ready: Ready, leaves: Leaves | None = None) -> None:
        self.x = x.detach().requires_grad_()
        self.tensors = tuple(leaf.detach().requires_grad_() for leaf in leaves.tensors) if leaves else ()
        with torch.enable_grad():
            self.y = function(self.x, leaves.ready(self.tensors) if leaves else ready)
        self._reverse: tuple[Tensor, Tensor] | None = None

    def d1_T(self, v: Tensor) -> Tensor:
        """∂₁fᵀ v."""
        if self.y.requires_grad:  # this is the inner loop of every solver, hence no detour through `_grad`
            product = torch.autograd.grad(self.y, self.x, v, retain_graph=True, allow_unused=True)[0]
            if product is not None:
                return product
        return torch.zeros_like(self.x)

    def d2_T(self, v: Tensor) -> Cotangents:
        """∂₂fᵀ v, as cotangents of the leaves."""
        return _grad(self.y, self.tensors, v, retain_graph=True) if self.tensors else ()

    def transposed(self, v: Tensor) -> tuple[Tensor, Cotangents]:
        """∂₁fᵀ v and ∂₂fᵀ v in one backward pass, the last one: the graph is freed."""
        grads = _grad(self.y, (self.x, *self.tensors), v)
        return grads[0], grads[1:]

    def d1(self, u: Tensor) -> Tensor:
        """∂₁f u, the derivative of v ↦ ∂₁fᵀ v (a double transposed product)."""
        if self._reverse is None:
            with torch.enable_grad():
                v = torch.zeros_like(self.y, requires_grad=True)
                self._reverse = (v, _grad(self.y, (self.x,), v, create_graph=True)[0])
        v, transposed = self._reverse
        return _grad(transposed, (v,), u, retain_graph=True)[0]


class LamLinearisation:
    """y = f(x, ready) for rows x that share λ, for products ∂₂fᵀ v summed over the rows."""

    def __init__(self, function: Function, x: Tensor, leaves: Leaves) -> None:
        self.tensors = tuple(leaf.detach().requires_grad_() for leaf in leaves.tensors)
        with torch.enable_grad():
            self.y = rows(function)(x.detach(), leaves.ready(self.tensors))

    def d2_T(self, v: Tensor) -> Cotangents:
        return _grad(self.y, self.tensors, v, retain_graph=True) if self.tensors else ()


def push_forward(
    function: Function, x: Tensor, leaves: Leaves, dx: Tensor, dleaves: Cotangents
) -> tuple[Tensor, Tensor]:
    """f(x, ready) and its derivative in the direction (dx, dleaves), by forward mode."""
    pair = jvp(lambda x, *tensors: function(x, leaves.ready(tensors)), (x, *leaves.tensors), (dx, *dleaves))
    return pair[0], pair[1]


class PushForward:
    """Directional derivatives of f(x, ready) along all entries of λ at once, for each of several λ.

    By a double transposed product: `vmap` of forward mode would carry zero tangents for the problem's data.
    """

    def __init__(self, function: Function, prepared: Prepared, n: int) -> None:
        self._function = vmap(function)  # a row for each pair of a λ and one of its entries
        self._leaves = prepared.leaves
        self._rows = tuple(leaf.repeat_interleave(n, dim=0) for leaf in self._leaves.flat)
        directions = [prepared.push_forward(i) for i in range(n)]
        self._tangents = tuple(torch.stack(leaf, dim=1).flatten(0, 1) for leaf in zip(*directions, strict=True))

    def __call__(self, x: Tensor, dx: Tensor) -> Tensor:
        """From x of shape (λ, size) and tangents (λ, n, size) to tangents (λ, n, size)."""
        count, n, size = dx.shape
        point = x.repeat_interleave(n, dim=0).requires_grad_()
        leaves = Leaves(self._rows, self._leaves.spec, self._leaves.active)
        tensors = tuple(leaf.detach().requires_grad_() for leaf in leaves.tensors)
        with torch.enable_grad():
            y = self._function(point, leaves.ready(tensors))
            v = torch.zeros_like(y, requires_grad=True)
            transposed = _grad(y, (point, *tensors), v, create_graph=True)
        pairs = zip(transposed, (dx.reshape(count * n, size), *self._tangents), strict=True)
        kept = [(output, tangent) for output, tangent in pairs if output.requires_grad]
        if not kept:
            return torch.zeros_like(dx)
        outputs, tangents = zip(*kept, strict=True)
        return torch.autograd.grad(outputs, v, tangents, materialize_grads=True)[0].reshape(dx.shape)


@dataclass(frozen=True, eq=False)
class OuterGradients:
    """∇₁E and ∇₂E, the latter as cotangents of the leaves."""

    w: Tensor
    lam: Cotangents


def outer_gradients(problem: Problem, w: Tensor, leaves: Leaves) -> OuterGradients:
    """∇₁E and ∇₂E at one point."""
    at = Linearisation(problem.outer_at, w, None, leaves)
    return OuterGradients(*at.transposed(torch.ones_like(at.y)))


def rows_outer(problem: Problem, w: Tensor, leaves: Leaves) -> OuterGradients:
    """∇₁E and ∇₂E for every row, the latter as cotangents of shape (λ, rows, …)."""

    def one(w: Tensor, flat: tuple[Tensor, ...]) -> tuple[Tensor, Cotangents]:
        here = Leaves(flat, leaves.spec, leaves.active)
        of = torch.func.grad(lambda w, tensors: problem.outer_at(w, here.ready(tensors)), argnums=(0, 1))
        gradients: tuple[Tensor, Cotangents] = of(w, here.tensors)
        return gradients

    return OuterGradients(*vmap(vmap(one, in_dims=(0, None)), in_dims=(0, 0))(w, leaves.flat))


def rows_d2_T(function: Function, w: Tensor, leaves: Leaves, v: Tensor) -> Cotangents:
    """∂₂f(w)ᵀv for every row on its own: cotangents of the leaves, of shape (λ, rows, …)."""

    def one(w: Tensor, v: Tensor, flat: tuple[Tensor, ...]) -> Cotangents:
        here = Leaves(flat, leaves.spec, leaves.active)
        transposed = vjp(lambda tensors: function(w, here.ready(tensors)), here.tensors)[1]
        result: Cotangents = transposed(v)[0]
        return result

    return vmap(vmap(one, in_dims=(0, 0, None)), in_dims=(0, 0, 0))(w, v, leaves.flat) if leaves.active else ()


def jacobian(function: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    """The d × d Jacobian at one point, by d transposed products in one batch."""
    transposed = vjp(function, w)[1]
    J: Tensor = vmap(lambda v: transposed(v)[0])(torch.eye(w.numel(), dtype=w.dtype, device=w.device))
    return J


DENSE = 2000  # up to here dense eigenvalues are the quicker way


def extreme_curvature(loss: Callable[[Tensor], Tensor], w: Tensor) -> Curvature:
    """Extreme eigenvalues of the Hessian at w: dense, or for large d by 100 power iterations, with μ given as 0."""
    gradient = torch.func.grad(loss)
    if w.numel() <= DENSE:
        H = jacobian(gradient, w)
        eigenvalues = torch.linalg.eigvalsh((H + H.T) / 2)
        return Curvature(eigenvalues[0], eigenvalues[-1])
    generator = torch.Generator(device="cpu").manual_seed(0)
    u = torch.randn(w.numel(), generator=generator, dtype=w.dtype, device="cpu").to(w.device)
    at = Linearisation(lambda x, _: gradient(x), w, None)  # differentiable whatever the mode around it
    for _ in range(100):
        u = at.d1_T(u / u.norm())
    return Curvature(torch.zeros_like(u.norm()), u.norm())
