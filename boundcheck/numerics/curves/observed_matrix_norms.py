"""Norms of the d × n and d × d matrices in the proofs, along one run: ∂₂Φ(w_t), w_t' − w', u_{t,k} − w', …

Matrices are formed for as many t at a time as fit into memory. Norms are computed from d × d Gram matrices, which are
summed over blocks of columns that fit into the cache. If ∂₁Φ is one symmetric matrix for all t, rows are written in its
eigenvectors, which changes no norm. There ∂₁Φ is diagonal, and products with it are passes over columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import CACHE, Function, jacobian, rows, rows_d2, used
from boundcheck.numerics.bilevel.prepared import Leaves
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.curves.batch import Batch, pieces
from boundcheck.numerics.curves.itd_forward import newest
from boundcheck.progress import counted


def product(M: Tensor, X: Tensor) -> Tensor:
    """Return MX. M may be a column with the diagonal of a diagonal matrix."""
    return M * X if M.shape[-1] == 1 else M @ X


def plus(A: Tensor, M: Tensor, X: Tensor, sign: int = 1) -> Tensor:
    """Return A ± MX, in one pass if M is diagonal."""
    return torch.addcmul(A, M, X, value=sign) if M.shape[-1] == 1 else torch.add(A, M @ X, alpha=sign)


def sums(Y: Tensor, identity: Tensor, k: Tensor, digits: int) -> Tensor:
    """Return I + Y + … + Y^(k−1) for several k, one for each row of Y or all for the same Y.

    The algorithm goes through the binary `digits` of k: S_{2m} = S_m + Y^m S_m and S_{m+1} = I + Y S_m. These are sums
    only, whereas (I − Y^k)(I − Y)⁻¹ would cancel for Y near I.
    """
    S, power = torch.zeros_like(identity).expand(len(k), -1, -1), identity.expand(len(k), -1, -1)
    for bit in reversed(range(digits)):
        S, power = plus(S, power, S), product(power, power)
        odd = (k >> bit & 1).bool()[:, None, None]
        S, power = torch.where(odd, plus(identity, Y, S), S), torch.where(odd, product(Y, power), power)
    return S


class GramSum:
    """The Gram matrices of several matrices, summed over blocks of columns; if n < d, Gram matrices of the columns."""

    def __init__(self, count: int, d: int, n: int, like: Tensor) -> None:
        self._wide = n >= d
        self._total = like.new_zeros(count, min(d, n), min(d, n))

    def add(self, M: Tensor) -> None:
        """Add the columns M, of shape (matrices, d, columns). If n < d, they must be all columns."""
        X = M if self._wide else M.mT
        half = X.shape[1] // 2  # only entries on and below the diagonal are used
        self._total[:, :half, :half].baddbmm_(X[:, :half], X[:, :half].mT)
        self._total[:, half:].baddbmm_(X[:, half:], X.mT)

    def norms(self) -> Tensor:
        """Return the spectral norms; infinite for a matrix that is not finite."""
        finite = torch.isfinite(self._total).all(dim=-1).all(dim=-1)
        values = torch.linalg.eigvalsh(torch.where(finite[:, None, None], self._total, 0))
        return torch.where(finite, values[:, -1].clamp(min=0).sqrt(), torch.inf)


def norms(M: Tensor) -> Tensor:
    """Return the spectral norms of a few matrices. Diagonal matrices are given as columns."""
    if M.shape[-1] == 1:
        return M.abs().amax(dim=(-2, -1))
    gram = GramSum(len(M), M.shape[1], M.shape[2], M)
    gram.add(M)
    return gram.norms()


@dataclass(frozen=True, eq=False)
class Matrices:
    """∂₁Φ and ∂₂Φ along the run of one λ, whose states are in `batch`, and at its solution w*."""

    batch: Batch
    w_star: Tensor
    leaves: Leaves  # the leaves on which Φ depends
    memory: int

    @property
    def _d(self) -> int:
        return self.batch.problem.d

    @property
    def _n(self) -> int:
        return self.batch.problem.n

    @property
    def U(self) -> Tensor | None:
        return None if self.batch.spectrum is None else self.batch.spectrum.U[0]

    def turned(self, b: Tensor) -> Tensor:
        """Return rows of vectors in the coordinates in which matrices are formed."""
        return b if self.U is None else b @ self.U

    def _in_basis(self, function: Function) -> Function:
        U = self.U
        return function if U is None else lambda w, ready: U.mT @ function(w, ready)

    @cached_property
    def identity(self) -> Tensor:
        w = self.w_star
        return torch.eye(self._d, dtype=w.dtype, device=w.device) if self.U is None else torch.ones_like(w)[:, None]

    @cached_property
    def Y_star(self) -> Tensor:
        """∂₁Φ(w*), of shape (d, d), or as a column if it is diagonal."""
        return self.Y(self.w_star[None])[0]

    @cached_property
    def Z_star(self) -> Tensor:
        """∂₂Φ(w*), of shape (d, n)."""
        return self.Z(self.w_star[None])[0]

    @cached_property
    def w_prime(self) -> Tensor:
        if self.U is not None:
            return self.Z_star / (1 - self.Y_star)
        solution: Tensor = torch.linalg.solve(self.identity - self.Y_star, self.Z_star)
        return solution

    def Y(self, w: Tensor) -> Tensor:
        """Return ∂₁Φ at rows w; one matrix if it is the same at all rows."""
        batch = self.batch
        if batch.spectrum is not None:
            return batch.spectrum.spread(batch.spectrum.values[:, None])[0, :, :, None]
        if batch.constant is not None:
            return batch.constant.J
        phi = batch.problem.phi_at
        return rows(lambda w, ready: jacobian(lambda x: phi(x, ready), w))(w[None], batch.prepared.ready)[0]

    def Z(self, w: Tensor) -> Tensor:
        """Return ∂₂Φ at rows w."""
        batch = self.batch
        return rows_d2(self._in_basis(batch.problem.phi_at), w[None], batch.prepared, self.leaves, self._d)[0]

    def at_once(self, state: int) -> int:
        """Return for how many t to form matrices at once. Autograd's products need several times their results."""
        leaves = sum(leaf.numel() for leaf in self.leaves.tensors)
        each = self._d * (3 * self._n + 2 * min(leaves, self._n) + 8 * self._d + 4 * state)
        return max(1, self.memory // (each * self.w_star.element_size()))

    def columns(self, count: int) -> list[slice]:
        """Return blocks of columns of `count` matrices that fit into the cache; all columns at once if n < d."""
        width = self._n if self._n < self._d else max(self._d, CACHE // (self._d * count))
        return pieces(0, self._n, width)

    def at_points(self, w: Tensor, ks: Mapping[str, Tensor], names: set[str]) -> dict[str, Tensor]:
        """Return the requested norms at rows w and, for each k of `ks` under its key, ‖u_{t,k} − w'‖."""
        values = {name: w.new_zeros(len(w)) for name in (*names, *ks)}
        digits = {key: int(k.max()).bit_length() for key, k in ks.items()}
        for part in counted(pieces(0, len(w), self.at_once(0)), "proofs: matrices at w_t"):
            Y = self.Y(w[part])
            if "dY" in names and self.batch.constant is None:
                values["dY"][part] = norms(Y - self.Y_star)
            inverse = self._inverse(Y) if names & {"A_t_inv", "W_t"} else Y
            if "A_t_inv" in names:
                values["A_t_inv"][part] = norms(inverse)
            of_Z = {name: self._gram(part) for name in (*sorted(names & {"Z_t", "dZ", "W_t"}), *ks)}
            if not of_Z:
                continue
            Z = self.Z(w[part])
            S = {key: sums(Y, self.identity, k[part], digits[key]) for key, k in ks.items()}
            for some in self.columns(len(Z)):
                Z_part = Z[..., some]
                if "Z_t" in of_Z:
                    of_Z["Z_t"].add(Z_part)
                if "dZ" in of_Z:
                    of_Z["dZ"].add(Z_part - self.Z_star[:, some])
                if "W_t" in of_Z:
                    of_Z["W_t"].add(product(inverse, Z_part))
                for key in ks:
                    of_Z[key].add(plus(self.w_prime[:, some], S[key], Z_part, -1))
            for name, gram in of_Z.items():
                values[name][part] = gram.norms()
        return values

    def newton_steps(self, w: Tensor, excess: Tensor) -> Tensor:
        """Return (I − ∂₁Φ(w))⁻¹(w − Φ(w)) at rows w, in the coordinates of `turned`."""
        steps = []
        for part in counted(pieces(0, len(w), self.at_once(0)), "proofs: matrices at w_t"):
            steps.append(product(self._inverse(self.Y(w[part])), self.turned(excess[part])[..., None])[..., 0])
        return torch.cat(steps)

    def A_inv(self) -> Tensor:
        """Return ‖(I − ∂₁Φ(w*))⁻¹‖."""
        return norms(self._inverse(self.Y_star[None]))[0]

    def _inverse(self, Y: Tensor) -> Tensor:
        return 1 / (1 - Y) if self.U is not None else torch.linalg.inv_ex(self.identity - Y)[0]

    def _gram(self, part: slice) -> GramSum:
        return GramSum(part.stop - part.start, self._d, self._n, self.w_star)

    def of_iterates(self, ts: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return ‖w_t' − w'‖ and ‖(w_t' − w')ᵀb_t‖ for each t of the ascending `ts`; b_t is a row of b.

        They follow from dz⁺ = ∂₁Ψ dz + ∂₂Ψ and dz_0 = 0. Only the newest iterate of dz is computed; others are copies.
        """
        batch, problem, b = self.batch, self.batch.problem, self.turned(b)
        step = newest(problem)
        leaves = used(batch.prepared.leaves, rows(problem.psi_at), batch.z[:, :1])
        S = [b.new_zeros(self._d, self._n) for _ in range(problem.dynamics.copies)]
        lengths, squares = b.new_zeros(len(ts)), b.new_zeros(len(ts))
        J = self._J(batch.z[:, :1]) if batch.constant is not None else None
        place_of_t = {t: i for i, t in enumerate(ts.tolist())}
        for part in counted(pieces(0, batch.T, self.at_once(self._d * len(S))), "proofs: derivatives of w_t"):
            z = batch.z[:, part]
            D = rows_d2(self._in_basis(step), z, batch.prepared, leaves, self._d)[0]
            J_here = [x.expand(len(D), -1, -1) for x in J] if J is not None else self._J(z)
            times = range(part.start + 1, part.stop + 1)
            places = [(i, place_of_t[t]) for i, t in enumerate(times) if t in place_of_t]
            which = slice(places[0][1], places[-1][1] + 1) if places else slice(0)
            gram = GramSum(len(places), self._d, self._n, b)
            for some in self.columns(len(D)):
                state = [x[:, some] for x in S]
                iterates = b.new_empty(len(places), self._d, some.stop - some.start)
                place = dict(zip((i for i, _ in places), iterates, strict=True))
                for i in range(len(D)):
                    new = D[i, :, some]
                    for Y, x in zip(J_here, state, strict=True):
                        new = plus(new, Y[i], x)
                    state = [new, *state[:-1]]
                    if i in place:
                        torch.sub(new, self.w_prime[:, some], out=place[i])
                for column, x in zip(reversed(S), reversed(state), strict=True):  # an older x may view a newer one
                    column[:, some] = x
                gram.add(iterates)
                squares[which] += (b[which, None] @ iterates).square().sum(dim=(-2, -1))
            lengths[which] = gram.norms()
        return lengths, squares.sqrt()

    def _J(self, z: Tensor) -> list[Tensor]:
        """Return the derivatives of the newest iterate by each iterate in z, for rows z: (rows, d, d), or columns."""

        def jacobian_of_row(z: Tensor, ready: Ready) -> Tensor:
            return jacobian(lambda z: newest(self.batch.problem)(z, ready), z)

        J = rows(jacobian_of_row)(z, self.batch.prepared.ready)[0].chunk(self.batch.problem.dynamics.copies, dim=-1)
        U = self.U
        return list(J) if U is None else [((U.mT @ x) * U.mT).sum(dim=-1, keepdim=True) for x in J]
