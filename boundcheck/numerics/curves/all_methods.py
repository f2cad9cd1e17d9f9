"""All curves of one batch of λ: the systems of AID, the derivatives of ITD, and for some t at a time their way to λ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import Linearisation, rows, rows_outer, used
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves, Prepared
from boundcheck.numerics.curves import aid, itd_backward, itd_backward_shared, itd_forward, lambda_products
from boundcheck.numerics.curves.aid_stepwise import SOLVERS
from boundcheck.numerics.curves.batch import Batch, pieces
from boundcheck.numerics.curves.cost import Schedule
from boundcheck.numerics.curves.itd_eigenbasis import Modes, Summed
from boundcheck.numerics.curves.itd_eigenbasis_matrices import Formed
from boundcheck.numerics.solvers.conjugate_gradient import refuse_unless_symmetric

# (dw_t/dλ)ᵀ∇₁E(w_t), or what a method puts in its place, for some t of a block and then some λ; of shape (λ, t, n)
Indirect = Callable[[slice], Callable[[slice], Tensor]]


@dataclass(frozen=True, eq=False)
class Setting:
    """What all methods share: ∇₁E at w_1 … w_T as `b`, and which leaves E, Φ and Ψ depend on."""

    batch: Batch
    plan: Schedule
    of_outer: Leaves
    of_phi: Leaves
    of_psi: Leaves
    b: Tensor
    modes: Modes | None


def evaluate(batch: Batch, exact: Tensor, asked: Sequence[Method], plan: Schedule) -> dict[Method, Tensor]:
    """‖g(t) − ∇f‖ of every method asked for, each of shape (λ, T)."""
    w = batch.w
    if any(m.name == "aid-cg" for m in asked):
        _refuse_cg_unless_symmetric(batch)
    at = _setting(batch, plan)
    steps = {m: range(1, batch.T + 1) if m.k is None else [m.k] * batch.T for m in asked if m.name in SOLVERS}
    solved = aid.iterates(batch, at.b, steps, plan.rows, plan.basis)  # v of every AID method
    by_itd = [m for m in asked if m not in solved]
    carried = read = None  # what ITD is, and ∂₂Φᵀv, where it is computed for all t at once
    if at.modes is not None and plan.matrices:
        whole = at.b if by_itd and plan.way == "dense" else None
        found = Formed(at.modes).read(whole, torch.stack(list(solved.values()), dim=2) if solved else None)
        carried, read = found.itd, found.aid

    errors = {m: torch.empty_like(at.b[..., 0]) for m in asked}
    for block, differentiated in _itd(at, by_itd, carried):
        for part in pieces(block.start, block.stop, plan.read):
            here = slice(part.start - block.start, part.stop - block.start)
            indirect = {m: values(here) for m, values in differentiated.items()}
            v = torch.stack([v[:, part] for v in solved.values()], dim=2) if solved and read is None else None
            for lams in lambda_products.together(batch):
                rest = lambda_products.d2outer(batch, at.of_outer, w[lams, part], lams) - exact[lams, None]
                for m, of in indirect.items():
                    errors[m][lams, part] = torch.linalg.vector_norm(of(lams) + rest, dim=-1)
                if not solved:
                    continue
                if v is not None:
                    values = lambda_products.read_off(batch, at.of_phi, w[lams, part], v[lams], lams)
                elif read is not None:
                    values = read[lams, part]
                # in place, unless several places are one number
                total = values.add_(rest[:, :, None]) if values.is_contiguous() else values + rest[:, :, None]
                lengths = torch.linalg.vector_norm(total, dim=-1)
                for m, length in zip(solved, lengths.unbind(2), strict=True):
                    errors[m][lams, part] = length
    return errors


def _refuse_cg_unless_symmetric(batch: Batch) -> None:
    some = torch.stack([batch.w[:, i] for i in sorted({0, batch.T // 2, batch.T - 1})], dim=1)
    if bool(torch.isfinite(some).all()):
        at = Linearisation(rows(batch.problem.phi_at), some, batch.prepared.ready)
        refuse_unless_symmetric(at, batch.problem)


def _setting(batch: Batch, plan: Schedule) -> Setting:
    problem, leaves, w = batch.problem, batch.prepared.leaves, batch.w
    of_outer = used(leaves, rows(problem.outer_at), w[:, :1])
    of_phi = used(leaves, rows(problem.phi_at), w[:, :1])
    of_psi = used(leaves, rows(problem.psi_at), batch.z[:, :1])
    b = torch.empty_like(w)
    for part in pieces(0, batch.T, plan.rows):
        b[:, part] = rows_outer(problem, w[:, part], of_outer.none()).w
    modes = Modes(batch, batch.spectrum, of_phi) if plan.modes and batch.spectrum is not None else None
    return Setting(batch, plan, of_outer, of_phi, of_psi, b, modes)


def _itd(
    at: Setting, asked: Sequence[Method], carried: Tensor | None
) -> Iterator[tuple[slice, dict[Method, Indirect]]]:
    """Block after block of t, and what ITD, whole or truncated, has there."""
    batch, b, plan = at.batch, at.b, at.plan
    by_modes: Iterator[Indirect] | None = None
    if plan.way == "dense" and at.modes is not None and carried is None:
        by_modes = _by_modes(at, at.modes)
    elif plan.way == "forward":
        carried = itd_forward.forward(batch, b, at.of_psi, plan.formed, plan.rows)
    elif plan.way == "dense" and carried is None:
        carried = itd_forward.dense(batch, b, at.of_psi, plan.formed)
    ready = all(m.name == "itd" and carried is not None for m in asked)
    shared = itd_backward_shared.applies(batch)
    for block in pieces(0, batch.T, batch.T if ready else plan.horizons):
        found: dict[Method, Indirect] = {}
        for m in asked:
            if m.name == "itd" and carried is not None:
                found[m] = partial(_part, carried[:, block])
            elif m.name == "itd" and by_modes is not None:
                found[m] = next(by_modes)
            elif shared:
                found[m] = partial(_part, itd_backward_shared.itd(batch, b, block.start, block.stop, plan.rows, m.k))
            else:
                cotangents = itd_backward.itd(batch, b, at.of_psi, block.start, block.stop, m.k)
                found[m] = partial(_pulled, batch.prepared, at.of_psi, cotangents)
        yield block, found


def _by_modes(at: Setting, modes: Modes) -> Iterator[Indirect]:
    block = at.plan.horizons
    if (summed := Summed.of(modes)) is not None:
        for values in summed.itd(at.b, block):
            yield partial(partial, values)
    else:
        for cotangents in modes.itd(at.b, block):
            yield partial(_pulled, at.batch.prepared, at.of_phi, cotangents)


def _part(values: Tensor, part: slice) -> Callable[[slice], Tensor]:
    return values[:, part].__getitem__


def _pulled(prepared: Prepared, leaves: Leaves, cotangents: Cotangents, part: slice) -> Callable[[slice], Tensor]:
    return prepared.pull_back_rows(leaves, tuple(c[:, part] for c in cotangents)).__getitem__
