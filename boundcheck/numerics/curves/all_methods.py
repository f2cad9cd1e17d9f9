"""All curves of one batch of λ, from the linear systems of AID, the derivatives of ITD, and products with ∂₂Φ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import Linearisation, rows, rows_outer, used
from boundcheck.numerics.bilevel.prepared import Leaves
from boundcheck.numerics.curves import aid, itd_backward_shared, itd_forward, lambda_products
from boundcheck.numerics.curves.aid_stepwise import SOLVERS
from boundcheck.numerics.curves.batch import Batch, pieces
from boundcheck.numerics.curves.cost import Schedule
from boundcheck.numerics.curves.itd_backward import BackwardItd
from boundcheck.numerics.curves.itd_backward_shared import SharedBackwardItd
from boundcheck.numerics.curves.itd_eigenbasis import EigenbasisItd, Modes, SummedItd, sums_of
from boundcheck.numerics.curves.itd_eigenbasis_matrices import Formed, Read
from boundcheck.numerics.curves.itd_method import ItdMethod, WholeRun
from boundcheck.numerics.solvers.conjugate_gradient import refuse_unless_symmetric
from boundcheck.progress import counted


@dataclass(frozen=True, eq=False)
class CurveInputs:
    """Inputs that all methods share: ∇₁E at w_1 … w_T as `b`, and the leaves on which E, Φ and Ψ depend."""

    batch: Batch
    schedule: Schedule
    of_outer: Leaves
    of_phi: Leaves
    of_psi: Leaves
    b: Tensor
    modes: Modes | None


def evaluate(batch: Batch, exact: Tensor, methods: Sequence[Method], schedule: Schedule) -> dict[Method, Tensor]:
    """Return ‖g(t) − ∇f‖ of each of the methods, of shape (λ, T)."""
    if any(m.name == "aid-cg" for m in methods):
        _refuse_cg_unless_symmetric(batch)
    setting = _setting(batch, schedule)
    steps = {m: range(1, batch.T + 1) if m.k is None else [m.k] * batch.T for m in methods if m.name in SOLVERS}
    solutions = aid.iterates(batch, setting.b, steps, schedule.rows, schedule.basis)
    formed = _formed(setting, solutions)
    aid_products = AidProducts(setting, solutions, formed.aid)
    itd_methods = {m: _itd_method(setting, m, formed.itd) for m in methods if m not in solutions}

    errors = {m: torch.empty_like(setting.b[..., 0]) for m in methods}
    known = all(isinstance(method, WholeRun) for method in itd_methods.values())
    blocks: Iterable[slice] = pieces(0, batch.T, batch.T if known else schedule.horizons)
    if any(isinstance(method, BackwardItd | SharedBackwardItd) for method in itd_methods.values()):
        blocks = counted(blocks, "itd at every t", power=2)
    for horizons in blocks:
        for method in itd_methods.values():
            method.prepare(horizons)
        for ts in pieces(horizons.start, horizons.stop, schedule.read):
            for lams in lambda_products.lambda_batches(batch):
                rest = lambda_products.d2outer(batch, setting.of_outer, batch.w[lams, ts], lams) - exact[lams, None]
                for m, method in itd_methods.items():
                    errors[m][lams, ts] = torch.linalg.vector_norm(method.block(ts, lams) + rest, dim=-1)
                if solutions:
                    lengths = torch.linalg.vector_norm(aid_products.plus(rest, ts, lams), dim=-1)
                    for m, length in zip(solutions, lengths.unbind(2), strict=True):
                        errors[m][lams, ts] = length
    return errors


@dataclass(frozen=True, eq=False)
class AidProducts:
    """∂₂Φ(w_t)ᵀv for the vectors v of all AID methods, for some t and λ at a time."""

    setting: CurveInputs
    solutions: Mapping[Method, Tensor]  # v of each method, of shape (λ, T, d)
    formed: Tensor | None  # the products at all t, of shape (λ, T, methods, n), if known

    def plus(self, rest: Tensor, ts: slice, lams: slice) -> Tensor:
        """Return the products plus `rest`, of shape (λ, t, methods, n). `rest` has shape (λ, t, n)."""
        products = self._block(ts, lams)
        if products.is_contiguous():  # otherwise several entries may share memory
            return products.add_(rest[:, :, None])
        return products + rest[:, :, None]

    def _block(self, ts: slice, lams: slice) -> Tensor:
        if self.formed is not None:
            return self.formed[lams, ts]
        batch = self.setting.batch
        v = torch.stack([v[lams, ts] for v in self.solutions.values()], dim=2)
        return lambda_products.d2phi_T_v(batch, self.setting.of_phi, batch.w[lams, ts], v, lams)


def _refuse_cg_unless_symmetric(batch: Batch) -> None:
    some = torch.stack([batch.w[:, i] for i in sorted({0, batch.T // 2, batch.T - 1})], dim=1)
    if bool(torch.isfinite(some).all()):
        linearisation = Linearisation(rows(batch.problem.phi_at), some, batch.prepared.ready)
        refuse_unless_symmetric(linearisation, batch.problem)


def _setting(batch: Batch, schedule: Schedule) -> CurveInputs:
    problem, leaves, w = batch.problem, batch.prepared.leaves, batch.w
    of_outer = used(leaves, rows(problem.outer_at), w[:, :1])
    of_phi = used(leaves, rows(problem.phi_at), w[:, :1])
    of_psi = used(leaves, rows(problem.psi_at), batch.z[:, :1])
    b = torch.empty_like(w)
    for part in pieces(0, batch.T, schedule.rows):
        b[:, part] = rows_outer(problem, w[:, part], of_outer.none()).w
    modes = None
    if schedule.eigenbasis and batch.spectrum is not None:
        modes = Modes(batch, batch.spectrum, of_phi)
    return CurveInputs(batch, schedule, of_outer, of_phi, of_psi, b, modes)


def _formed(setting: CurveInputs, solutions: Mapping[Method, Tensor]) -> Read:
    """Return ITD and the products of AID at every t, if the schedule forms ∂₂Φ; otherwise an empty result."""
    if setting.modes is None or not setting.schedule.matrices:
        return Read()
    b = setting.b if setting.schedule.algorithm == "dense" else None
    v = torch.stack(list(solutions.values()), dim=2) if solutions else None
    return Formed(setting.modes).read(b, v)


def _itd_method(setting: CurveInputs, method: Method, formed: Tensor | None) -> ItdMethod:
    """Return the method that computes ITD or truncated ITD. `formed` is ITD at every t, if it is known already."""
    batch, b, schedule = setting.batch, setting.b, setting.schedule
    if method.name == "itd" and schedule.algorithm == "forward":
        return WholeRun(itd_forward.forward(batch, b, setting.of_psi, schedule.formed, schedule.rows))
    if method.name == "itd" and schedule.algorithm == "dense":
        return _dense_itd(setting, formed)
    if itd_backward_shared.applies(batch):
        return SharedBackwardItd(batch, b, schedule.rows, method.k)
    return BackwardItd(batch, b, setting.of_psi, method.k)


def _dense_itd(setting: CurveInputs, formed: Tensor | None) -> ItdMethod:
    """Return ITD by dense matrices, forwards, or in the eigenvectors of ∂₁Φ."""
    b, modes, schedule = setting.b, setting.modes, setting.schedule
    if formed is not None:
        return WholeRun(formed)
    if modes is None:
        return WholeRun(itd_forward.dense(setting.batch, b, setting.of_psi, schedule.formed))
    if formulas := sums_of(modes):
        return SummedItd(modes, formulas, b, schedule.horizons)
    return EigenbasisItd(modes, b, schedule.horizons)
