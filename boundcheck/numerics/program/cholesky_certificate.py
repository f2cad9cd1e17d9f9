"""Upper bounds of largest eigenvalues and norms of matrices, proved by a Cholesky factorisation.

If the factorisation of cI − H succeeds in floating point, then cI − H + E ⪰ 0 with ‖E‖ ≤ γ tr(cI − H)/(1 − γ) and
γ = (m + 1)ε/2 / (1 − (m + 1)ε/2) for an m×m matrix (Rump 2006, after Demmel and Higham). This is a proof, and it costs
a tenth of the eigenvalues. All computations are in double precision on the CPU.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from torch import Tensor

UNIT = torch.finfo(torch.float64).eps / 2
TRIES = 4  # number of margins to try, each ten times the previous one
LARGE = 256  # look for zeros only in matrices with at least LARGE² entries
SAFE = 1e-60, 1e60  # if the largest entry lies between these, squares neither overflow nor vanish beside rounding
SPARSE = 0.05  # a large matrix is stored as sparse if at most this share of its entries is not 0


def gamma(m: int) -> float:
    """Return γ_m, the relative rounding error of a sum of m rounded terms."""
    return m * UNIT / (1 - m * UNIT)


def power_of_two_near(M: Tensor) -> float:
    """Return a power of two near the largest entry. Division by it is exact, and then squares do not overflow."""
    return math.ldexp(1.0, min(math.frexp(float(M.abs().max()))[1], 1023))


def certified_margin(H: Tensor, top: float) -> float | None:
    """Return m with λmax(H) ≤ top + m, proved by a Cholesky factorisation; None if all `TRIES` margins fail."""
    size = len(H)
    scale = max(abs(top), float(H.abs().max()))
    margin = 0.0
    for attempt in range(TRIES):
        spread = size * (top + margin) - float(H.trace()) + 4 * size * UNIT * scale  # at least tr(cI − H)
        # rounding of the factorisation, and of cI − H itself
        rounding = gamma(size + 1) * max(spread, scale) / (1 - gamma(size + 1)) + 4 * UNIT * scale
        margin = 10.0**attempt * rounding
        if has_factorisation(H, top + margin):
            return margin + 2 * rounding  # twice, because the margin itself enters the trace
    return None


def has_factorisation(H: Tensor, c: float) -> bool:
    """Return True if the Cholesky factorisation of cI − H succeeds in floating point."""
    shifted = -H
    shifted.diagonal().add_(c)
    return int(torch.linalg.cholesky_ex(shifted).info) == 0


def frobenius(M: Tensor) -> float:
    """Return an upper bound of the Frobenius norm."""
    if not M.numel():
        return 0.0
    size = float(M.norm())
    if not size >= 1e-139 * math.sqrt(M.numel()):  # otherwise some entry is larger than 1e-140
        top = float(M.abs().max())
        size = math.sqrt(M.numel()) * top if top < 1e-140 else size  # squares of smaller entries underflow
    return size * (1 + 2.0**-45 + gamma(M.numel())) + M.numel() * 1e-300


@torch.no_grad()
def largest_eigenvalue(H: Tensor) -> float:
    """Return an upper bound of the largest eigenvalue of a symmetric matrix; infinity for NaN and infinite entries."""
    if not H.numel():
        return 0.0
    if not bool(H.isfinite().all()):
        return math.inf
    if not bool(H.any()):
        return 0.0
    unit = power_of_two_near(H)
    H = H / unit
    asymmetry = frobenius(H - H.T) / 2  # distance of H from its symmetric part
    H = (H + H.T) / 2
    top = _largest_of_blocks(H)
    return unit * (top + asymmetry + 4 * UNIT * (abs(top) + asymmetry))


def _largest_of_blocks(H: Tensor) -> float:
    """Return an upper bound of the largest eigenvalue; block by block if the matrix is sparse."""
    return _largest_of_sparse(csr_matrix(H.numpy())) if is_sparse(H) else _largest(H)


@torch.no_grad()
def largest_eigenvalue_of_sparse(H: csr_matrix) -> float:
    """Return an upper bound of the largest eigenvalue of a sparse symmetric matrix, as `largest_eigenvalue` does."""
    numbers = torch.from_numpy(H.data)
    if not bool(numbers.isfinite().all()):
        return math.inf
    if not bool(numbers.any()):
        return 0.0
    unit = power_of_two_near(numbers)
    H = H / unit
    asymmetry = frobenius(torch.from_numpy((H - H.T).tocsr().data)) / 2
    top = _largest_of_sparse(((H + H.T) / 2).tocsr())
    return unit * (top + asymmetry + 4 * UNIT * (abs(top) + asymmetry))


def _largest_of_sparse(S: csr_matrix) -> float:
    """Return an upper bound of the largest eigenvalue, which is the largest of the diagonal blocks' eigenvalues."""
    count, labels = connected_components(S, directed=False)
    if count == 1:
        return _largest(torch.from_numpy(S.toarray()))
    S = ((S + S.T) / 2).tocsr()
    diagonal = torch.from_numpy(S.diagonal())
    block_of = torch.from_numpy(labels).long()
    sizes = torch.bincount(block_of, minlength=count)
    off_diagonal = abs(S) - diags(diagonal.abs().numpy(), format="csr")
    rows = torch.from_numpy(np.asarray(off_diagonal.sum(1)).reshape(-1)) * (1 + 1e-12)
    rows = diagonal + rows + 4 * UNIT * (diagonal.abs() + rows)  # no eigenvalue is larger (Gershgorin)
    limits = torch.full((count,), -math.inf, dtype=torch.float64).scatter_reduce(0, block_of, rows, "amax")
    is_single = sizes[block_of] == 1
    best = float(diagonal[is_single].max()) if bool(is_single.any()) else -math.inf
    order = block_of.argsort(stable=True)
    ends = sizes.cumsum(0)
    for block in limits.argsort(descending=True).tolist():
        limit = float(limits[block])
        if limit <= best:
            break
        if int(sizes[block]) > 1:
            members = order[int(ends[block] - sizes[block]) : int(ends[block])].numpy()
            best = max(best, min(_largest(torch.from_numpy(S[members][:, members].toarray())), limit))
    return best


def _largest(H: Tensor) -> float:
    """Return an upper bound of the largest eigenvalue of the symmetric matrix with the lower triangle of H.

    The bound also covers a rounding of the entries by 2⁻⁵².
    """
    top = float(torch.linalg.eigvalsh(H)[-1])
    margin = certified_margin(H, top)
    if margin is None:
        return frobenius(H)
    return top + margin + 4 * UNIT * (abs(top) + float(H.abs().max()) * len(H))


@torch.no_grad()
def spectral_norm(J: Tensor) -> float:
    """Return an upper bound of ‖J‖, computed from the smaller of JᵀJ and JJᵀ."""
    if not J.numel():
        return 0.0
    top = float(torch.linalg.vector_norm(J, ord=math.inf))
    if not math.isfinite(top):
        return math.inf
    if not top:
        return 0.0
    if is_sparse(J):
        return norm_of_sparse(csr_matrix(J.numpy()))
    unit = 1.0 if SAFE[0] < top < SAFE[1] else math.ldexp(1.0, min(math.frexp(top)[1], 1023))
    J = J if J.shape[0] < J.shape[1] else J.T
    J = J if unit == 1 else J / unit
    G = J @ J.T
    return unit * _norm(G, J.shape[1], float(G.trace()))


@torch.no_grad()
def norm_of_sparse(J: csr_matrix) -> float:
    """Return an upper bound of ‖J‖ for a sparse matrix with finite entries."""
    if not J.nnz or not (top := float(abs(J.data).max())):
        return 0.0
    unit = math.ldexp(1.0, min(math.frexp(top)[1], 1023))
    J = (J if J.shape[0] < J.shape[1] else J.T.tocsr()) / unit
    squares = float((J.data**2).sum()) * (1 + 1e-12)
    return unit * _norm((J @ J.T).tocsr(), J.shape[1], squares)


def _norm(G: Tensor | csr_matrix, terms: int, squares: float) -> float:
    """Return an upper bound of ‖J‖ from the computed G = JJᵀ, whose entries are sums of `terms` products.

    `squares` is ‖J‖²_F.
    """
    rounding = gamma(terms + 3) * squares * 1.001  # rounding error of JJᵀ, as ‖|J||J|ᵀ‖ ≤ ‖J‖²_F
    if not isinstance(G, Tensor) and not is_worth_it(G):
        G = torch.from_numpy(G.toarray())
    top = _largest_of_blocks(G) if isinstance(G, Tensor) else _largest_of_sparse(G)
    return math.sqrt(max(top + rounding, 0.0)) * (1 + 4 * UNIT)


def gram(J: Tensor) -> Tensor:
    """Compute JJᵀ, faster if most entries are 0."""
    if is_sparse(J):
        rows = csr_matrix(J.numpy())
        return torch.from_numpy((rows @ rows.T).toarray())
    product: Tensor = J @ J.T
    return product


def sparse_gram(J: Tensor) -> csr_matrix | None:
    """Compute JJᵀ as a sparse matrix; None if J or JJᵀ has too few zeros."""
    if not is_sparse(J):
        return None
    rows = csr_matrix(J.numpy())
    G = (rows @ rows.T).tocsr()
    return G if is_worth_it(G) else None


def is_worth_it(M: csr_matrix) -> bool:
    """Return True if a sparse matrix is large and at most `SPARSE` of its entries are not 0."""
    numbers = math.prod(M.shape)
    return bool(numbers >= LARGE**2 and M.nnz <= SPARSE * numbers)


def is_sparse(J: Tensor) -> bool:
    """Return True if a dense matrix is large and at most `SPARSE` of its entries are not 0."""
    return J.numel() >= LARGE**2 and int(J.count_nonzero()) <= SPARSE * J.numel()
