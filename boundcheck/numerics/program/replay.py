"""Run a recorded program again, and compare it with the function that it was recorded from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.recorded_program import CUT, Program, Ref

POINTS = 2
NEAR = {torch.float64: 1e-8, torch.float32: 1e-3}  # relative: the program is the function up to rounding
SEED = 20


def replay(program: Program, w: Tensor, lam: Tensor) -> Tensor:
    """Return the value of a program at other inputs. Autograd can differentiate it."""
    results: list[tuple[Any, ...]] = [(w,), (lam,)]

    def value_of(x: Any) -> Any:
        return results[x.node][x.item] if isinstance(x, Ref) else x

    for operation in program.operations[2:]:
        args, kwargs = changed(value_of, operation.args, operation.kwargs)
        result = args[0] if operation.name == CUT else operation.func(*args, **kwargs)
        results.append(tuple(result) if isinstance(result, tuple | list) else (result,))
    value: Tensor = results[program.output.node][program.output.item]
    return value


def differs(program: Program, function: Callable[[Tensor, Tensor], Tensor], w: Tensor, lam: Tensor) -> str:
    """Compare a program with the function: its value, its gradient, and its Hessian times a vector.

    The comparison uses a few points near w and λ. Agreement proves nothing. A difference shows that the function has
    changed since it was recorded, or that it has another derivative than its operations.

    Returns
    -------
    str
        The quantity that differs, as a message; empty if all agree.
    """
    generator = torch.Generator().manual_seed(SEED)
    near = NEAR.get(w.dtype, 1e-3)

    def random(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)

    for _ in range(POINTS):
        nearby = w + 0.1 * (1 + w.abs().mean()) * random(w)
        lam_at = lam * (1 + 0.01 * random(lam).abs())
        direction, along = random(w), random(lam)
        cotangent = None
        answers = []
        for f in (function, lambda x, y: replay(program, x, y)):
            x, y = nearby.clone().requires_grad_(), lam_at.clone().requires_grad_()
            with torch.enable_grad():
                value = f(x, y)
                cotangent = random(value) if cotangent is None else cotangent
                slopes = torch.autograd.grad(
                    value, (x, y), cotangent, create_graph=True, allow_unused=True, materialize_grads=True
                )
                inner = (slopes[0] * direction).sum() + (slopes[1] * along).sum()
                bends: tuple[Tensor, ...] = (torch.zeros_like(x), torch.zeros_like(y))
                if inner.requires_grad:
                    bends = torch.autograd.grad(inner, (x, y), allow_unused=True, materialize_grads=True)
            answers.append([value.detach(), *(t.detach() for t in (*slopes, *bends))])
        for what, ours, theirs in zip(("value", "∇₁", "∇₂", "∇₁ of ∇", "∇₂ of ∇"), answers[1], answers[0], strict=True):
            finite = bool(theirs.isfinite().all())
            if finite and not float((ours - theirs).norm()) <= near * (1 + float(theirs.norm())):
                return f"the recorded program has another {what} than the function"
    return ""
