"""AID at every t at once: the linear systems of all t are rows that are solved together.

The system of row t is (I − ∂₁Φ(w_t)ᵀ)v = ∇₁E(w_t). The result of a row is stored after its k steps, where k is t or
fixed, and finished rows are dropped. If ∂₁Φ is one symmetric matrix for all t, the rows are written in its
eigenvectors, where a product is one pass over memory. If ∂₁Φ is symmetric and memory allows, FP and CG share one Krylov
basis (aid_krylov.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from boundcheck.methods import Method
from boundcheck.numerics.curves import aid_krylov
from boundcheck.numerics.curves.aid_krylov import DROP
from boundcheck.numerics.curves.aid_stepwise import SOLVERS, SolverRows
from boundcheck.numerics.curves.batch import Batch, pieces, tiled
from boundcheck.numerics.curves.eigenbasis import Spectrum
from boundcheck.numerics.curves.jacobian import Products
from boundcheck.numerics.curves.sizes import WIDTHS, Sizes
from boundcheck.progress import counted

KsByMethod = Mapping[Method, Sequence[int]]  # the k of each row, ascending, for every method
ASK = 16  # steps between two tests of whether any row still changes
STATES = 12  # number of copies of a state in each row


def numbers_held(sizes: Sizes, rows: int) -> int:
    """Return the most numbers in memory at once without a Krylov basis, for one λ and this number of rows."""
    return rows * (STATES * sizes.state + WIDTHS * sizes.width)


def iterates(batch: Batch, b: Tensor, ks_by_method: KsByMethod, block: int, basis: int) -> dict[Method, Tensor]:
    """Return v of every method, of shape (λ, rows, d) like b = ∇₁E.

    `block` is the number of rows at once. `basis` is the number of rows at once with a Krylov basis; 0 for no basis.
    """
    if batch.spectrum is not None:
        return _in_eigenvectors(batch.spectrum, b, ks_by_method, block)
    scale = _scale(b)
    b = b / scale
    solutions = {m: torch.zeros_like(b) for m in ks_by_method}
    left = [(dict(ks_by_method), slice(0, b.shape[1]))]  # methods and rows that are solved from the start

    def products(rows: slice) -> Products:
        return batch.products(batch.w[:, rows])

    if basis and batch.problem.symmetric and any(m.name == "aid-fp" for m in ks_by_method):
        quick = {m: ks for m, ks in ks_by_method.items() if m.name in aid_krylov.SOLVERS}
        left = [({m: ks for m, ks in ks_by_method.items() if m not in quick}, slice(0, b.shape[1]))]
        room = aid_krylov.Room()
        for rows in counted(_from_the_end(b.shape[1], basis), " and ".join(map(str, quick)), power=2):
            steps_of_rows = {m: ks[rows] for m, ks in quick.items()}
            solved = aid_krylov.solve(products(rows), batch.laid_out(b[:, rows]), steps_of_rows, room)
            for m, v in solved.v.items():
                solutions[m][:, rows] = v
            left.append(({m: ks for m, ks in quick.items() if m not in solved.v}, rows))
            if (rest := solved.continuation) is not None:
                by_cg = {m: ks for m, ks in quick.items() if m.name == "aid-cg"}
                part = slice(rows.start + rest.first, rows.stop)
                go_on(rest.state, solved.steps, products, by_cg, solutions, part)
    for some, rows in left:
        for solver in dict.fromkeys(m.name for m in some):
            of_solver = {m: ks for m, ks in some.items() if m.name == solver}
            for part in counted(pieces(rows.start, rows.stop, block), f"{solver} at every t", power=2):
                state = SOLVERS[solver](batch.laid_out(b[:, part]))
                go_on(state, 0, products, of_solver, solutions, part)
    for v in solutions.values():
        v *= scale
    return solutions


def _from_the_end(count: int, size: int) -> list[slice]:
    """Return pieces of `count` rows, of which only the first may be short, because its rows take few steps."""
    return [slice(max(0, stop - size), stop) for stop in range(count, 0, -size)][::-1]


def _scale(b: Tensor) -> Tensor:
    """Return the largest entry of each row. Division by it prevents overflow and underflow of squares."""
    largest = b.abs().amax(dim=-1, keepdim=True)
    return torch.where((largest > 0) & torch.isfinite(largest), largest, 1)


def _in_eigenvectors(spectrum: Spectrum, b: Tensor, ks_by_method: KsByMethod, block: int) -> dict[Method, Tensor]:
    """Return v of every method if ∂₁Φ is one symmetric matrix for all t.

    Then v_k = p(∂₁Φ)b for a polynomial p, and only one number for each distinct eigenvalue is computed.
    """
    b_hat = b @ spectrum.U
    scales: dict[Method, Tensor] = {}
    if fixed_point := {m: ks for m, ks in ks_by_method.items() if m.name == "aid-fp"}:
        scales = _geometric_sums(spectrum.values, fixed_point)
    for solver in dict.fromkeys(m.name for m in ks_by_method if m not in scales):
        lengths = spectrum.lengths(b_hat)
        of_solver = {m: ks for m, ks in ks_by_method.items() if m.name == solver}
        scales |= {m: torch.zeros_like(lengths) for m in of_solver}
        for part in counted(pieces(0, b.shape[1], block), f"{solver} at every t", power=2):
            go_on(SOLVERS[solver](lengths[:, part]), 0, lambda rows: spectrum, of_solver, scales, part)
        for m in of_solver:
            scales[m].div_(lengths.clamp(min=torch.finfo(b.dtype).tiny))
    return {m: (b_hat * spectrum.spread(scales[m])) @ spectrum.U.mT for m in ks_by_method}


def _geometric_sums(values: Tensor, ks_by_method: KsByMethod) -> dict[Method, Tensor]:
    """Return 1 + j + … + j^(k−1) for the k of each row, of shape (λ, rows, distinct)."""
    sums = {m: values.new_zeros(len(values), len(ks), values.shape[-1]) for m, ks in ks_by_method.items()}
    total, ones = torch.zeros_like(values), torch.ones_like(values)
    for k in counted(range(1, max(ks[-1] for ks in ks_by_method.values()) + 1), "aid-fp at every t"):
        total = torch.addcmul(ones, total, values)
        for m, ks in ks_by_method.items():
            if (low := bisect_left(ks, k)) < (high := bisect_right(ks, k)):
                sums[m][:, low:high] = total[:, None]
    return sums


def go_on(
    state: SolverRows, steps: int, products: Callable[[slice], Products], ks_by_method: KsByMethod,
    result: Mapping[Method, Tensor], rows: slice,
) -> None:  # fmt: skip
    """Do the remaining steps of some rows. `state` has done the first `steps`."""
    start, stop = rows.start, rows.stop
    jacobian = products(rows)
    first, last = start, max(ks[stop - 1] for ks in ks_by_method.values())

    def read(m: Method, low: int, high: int) -> None:
        if low < high:
            result[m][:, low:high] = state.v[:, low - first : high - first]

    for k in range(steps + 1, last + 1):
        state.step(jacobian)
        done = {m: bisect_right(ks, k, start, stop) for m, ks in ks_by_method.items()}
        for m, ks in ks_by_method.items():
            read(m, bisect_left(ks, k, start, stop), done[m])
        finished = stop - tiled(stop - min(done.values()), len(state.v))
        if first < finished < stop and DROP * (finished - first) >= stop - first:
            state.drop(finished - first)
            first = finished
            jacobian = products(slice(first, stop))
        if k % ASK == 0 and k < last and state.spent():
            for m in ks_by_method:
                read(m, done[m], stop)
            break
    state.finish()
