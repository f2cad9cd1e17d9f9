"""Problem number N of a seed: a linear part, a sum of ingredients, scales, a dtype, and sometimes false claims.

Φ(w, λ) = s_w·(A w/s_w + B λ/s_λ + c + pieces) and E = s_E·(½a|w/s_w − y|² + bᵀw/s_w + e·λᵀλ + pieces). As a loss,
ℓ is such that Φ = w − α∇₁ℓ. In the code x and z are w and λ in units of their scales.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import blind, cancelling, kinks, smooth
from .case import Case, number, tensor
from .exact import Vector, mp, vector
from .modules import module_case
from .smooth import Piece, summed
from .spoil import spoil

SLOW = (0.999, 1 - 1e-5, 1 - 1e-8, 1 - 1e-12)


def case_of(at: int, seed: int = 0) -> Case:
    """Problem number `at` of this seed, the same every time."""
    rng = Random(f"{seed}-{at}")
    dtype = rng.choice([torch.float64, torch.float64, torch.float64, torch.float32])
    if rng.random() < 0.12:
        return module_case(rng, at, dtype)
    return spoil(rng, mixture(rng, at, dtype))


def mixture(rng: Random, at: int, dtype: torch.dtype) -> Case:
    """A problem of linear part, pieces and scales; every piece is kept in both languages."""
    d = rng.choice([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 10])
    n = rng.choice([1, 1, 2, 3])
    as_loss = rng.random() < 0.3
    A, symmetric, unusual = _matrix(rng, d, as_loss, dtype)
    reach = rng.choice([1.0, 1.0, 3.0, 12.0])
    of_phi = [] if unusual else _pieces_of_phi(rng, d, n, reach, as_loss)
    of_E = _pieces_of_outer(rng, d, n, reach)
    s_w, s_lam, s_E = _scales(rng, of_phi + of_E, dtype)
    B = [[number(rng.gauss(0, 1)) for _ in range(n)] for _ in range(d)]
    lam = [number(rng.gauss(0, 1)) for _ in range(n)]
    if any(p.kind == "steep" for p in of_phi + of_E):
        lam[-1] = 0.0
    gap = 1.0 if unusual else max(1e-3, 1 - float(np.linalg.norm(np.array(A), 2)))
    c = [number(gap * reach * rng.uniform(-0.5, 0.5)) for _ in range(d)]
    w0 = [0.0] * d
    if rng.random() < 0.6:
        far = rng.choice([1.0, 1.0, 2.0, 1e4]) if dtype is torch.float32 else rng.choice([1.0, 1.0, 2.0])
        w0 = [number(rng.gauss(0, 1) * reach * far) for _ in range(d)]
    alpha = number(rng.choice([1.0, 0.5, 0.1])) if as_loss else None
    unique = not of_phi
    momentum = None
    if rng.random() < 0.1 and not unusual:
        momentum = (rng.choice(["heavy-ball", "nesterov"]), rng.choice([0.5, 1.0]), rng.choice([0.25, 0.5]))
    kinds = tuple(dict.fromkeys([_linear_kind(unusual, symmetric, of_phi, of_E), *(p.kind for p in of_phi + of_E)]))
    if max(abs(math.log10(s)) for s in (s_w, s_lam, s_E)) > 1:
        kinds += ("scales",)
    if momentum is not None:
        kinds += ("momentum",)
    words = f"Φ = Aw + Bλ + c ‖A‖ = {np.linalg.norm(np.array(A), 2):.13g}" + "".join(f" + {p.words}" for p in of_phi)
    words += "; E = " + " + ".join(["quadratic", *(p.words for p in of_E)])
    words += f"; d = {d}, n = {n}, {str(dtype)[6:]}, scales {s_w:g} {s_lam:g} {s_E:g}" + (", as a loss" * as_loss)

    phi, exact_phi = _map_of(A, B, c, of_phi, s_w, s_lam, dtype)
    if alpha is not None:
        phi = _loss_of(A, B, c, of_phi, s_w, s_lam, dtype, alpha)
    outer, exact_outer = _outer_of(rng, d, n, of_E, s_w, s_lam, s_E, dtype, reach)
    w0, lam = [number(x * s_w) for x in w0], [number(x * s_lam) for x in lam]
    pieces = of_phi + of_E
    bad = tuple(tuple(x * s_w for x in point) for p in pieces for point in p.bad)
    return Case(
        at, kinds, words, phi, outer, tensor(w0, dtype), tensor(lam, dtype), w0, lam, exact_phi, exact_outer, dtype,
        alpha, s_w, s_lam, bad,
        legal=all(p.legal for p in pieces), rough=any(p.rough for p in pieces) or unusual,
        unique=unique, undefined=any(p.undefined for p in pieces), momentum=momentum,
        lopsided=not symmetric or any(p.lopsided for p in of_phi),
    )  # fmt: skip


def _linear_kind(unusual: bool, symmetric: bool, of_phi: list[Piece], of_E: list[Piece]) -> str:
    if unusual:
        return "slow"
    return ("quadratic" if not of_phi + of_E else "linear part") if symmetric else "not symmetric"


def _matrix(rng: Random, d: int, as_loss: bool, dtype: torch.dtype) -> tuple[list[list[float]], bool, bool]:
    """A, whether it is symmetric, and whether it contracts very slowly."""
    q = rng.uniform(0.1, 0.9)
    unusual = rng.random() < 0.08
    if unusual:
        q = rng.choice(SLOW[:2] if dtype is torch.float32 else SLOW)
        A = np.diag([q] + [rng.uniform(0.1, 0.9) for _ in range(d - 1)])
        return [[float(torch.tensor(x, dtype=dtype)) for x in row] for row in A], True, True
    G = np.array([[rng.gauss(0, 1) for _ in range(d)] for _ in range(d)])
    how = rng.choice(["symmetric", "diagonal", "rotation", "any"]) if d > 1 else "diagonal"
    if how == "diagonal":
        A = np.diag([q] + [q * rng.uniform(-1, 1) for _ in range(d - 1)])
    elif how == "symmetric" or as_loss:
        A = (G + G.T) / np.linalg.norm(G + G.T, 2) * q
        how = "symmetric"
    elif how == "rotation":
        Q, _ = np.linalg.qr(G)
        A = q * Q
    else:
        A = G / np.linalg.norm(G, 2) * q
    rows = [[number(x) for x in row] for row in A]
    if float(np.abs(np.array(rows) - np.array(rows).T).max()) < 1e-6:  # a reflection is symmetric, too
        how = "symmetric"
        rows = [[rows[min(i, j)][max(i, j)] for j in range(d)] for i in range(d)]
    return rows, how in ("symmetric", "diagonal"), False


def _pieces_of_phi(rng: Random, d: int, n: int, reach: float, as_loss: bool) -> list[Piece]:
    makers = [smooth.SMOOTH, (kinks.kink_of_map,), cancelling.CANCELLING, blind.BLIND, (cancelling.steep_in_lam,)]
    found = []
    for _ in range(rng.choice([0, 0, 1, 1, 1, 2])):
        family = rng.choices(makers, [8, 4, 2, 2, 1 if n > 1 else 0])[0]
        piece = rng.choice(family)(rng, d, n, reach)
        if not as_loss or piece.potential is not None:
            found.append(piece)
    return found


def _pieces_of_outer(rng: Random, d: int, n: int, reach: float) -> list[Piece]:
    found = []
    for _ in range(rng.choice([0, 0, 1, 1])):
        of = rng.choices(["smooth", "kink", "blind", "steep", "complex"], [5, 5, 1, 1 if n > 1 else 0, 1])[0]
        if of == "kink":
            found.append(kinks.kink_of_outer(rng, d, n, reach))
        else:
            steep = (cancelling.steep_in_lam,)
            family = {"smooth": smooth.SMOOTH, "blind": blind.BLIND, "steep": steep}.get(of, cancelling.CANCELLING)
            found.append(summed(rng.choice(family)(rng, d, n, reach)))
    return found


def _scales(rng: Random, pieces: list[Piece], dtype: torch.dtype) -> tuple[float, float, float]:
    """1, or powers of ten; in float32 not so far that squares leave its range."""
    if rng.random() < 0.75 or any(p.rough for p in pieces):
        return 1.0, 1.0, 1.0
    most = 12 if dtype is torch.float64 else 8
    return tuple(number(10.0 ** rng.choice([0, 0, rng.randint(-most, most)])) for _ in range(3))  # type: ignore


def _map_of(
    A: Any, B: Any, c: Any, pieces: list[Piece], s_w: float, s_lam: float, dtype: torch.dtype
) -> tuple[Any, Any]:
    A_t, B_t, c_t = (tensor(x, dtype) for x in (A, B, c))

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        x, z = w / s_w, lam / s_lam
        y = A_t @ x + B_t @ z + c_t
        for piece in pieces:
            y = y + piece.torch(x, z)
        return s_w * y

    A_e, B_e = ([vector(row) for row in rows] for rows in (A, B))
    c_e, s = vector(c), mp.mpf(s_w)

    def exact(w: Vector, lam: Vector) -> Vector:
        x, z = _in_units(w, s_w), _in_units(lam, s_lam)
        y = [
            mp.fdot(row, x) + mp.fdot(column, z) + shift
            for row, column, shift in zip(A_e, B_e, c_e, strict=True)
        ]  # fmt: skip
        for piece in pieces:
            y = [a + b for a, b in zip(y, piece.exact(x, z), strict=True)]
        return y if s_w == 1 else [s * a for a in y]

    return phi, exact


def _in_units(x: Vector, scale: float) -> Vector:
    return x if scale == 1 else [a / mp.mpf(scale) for a in x]


def _loss_of(
    A: Any, B: Any, c: Any, pieces: list[Piece], s_w: float, s_lam: float, dtype: torch.dtype, alpha: float
) -> Any:
    """ℓ with w − α∇ℓ = Φ: the gradient of ½|x|² − ½xᵀAx − xᵀ(Bλ + c) − potentials, over α."""
    A_t, B_t, c_t = (tensor(x, dtype) for x in (A, B, c))

    def loss(w: Tensor, lam: Tensor) -> Tensor:
        x, z = w / s_w, lam / s_lam
        total = (x @ x) / 2 - x @ (A_t @ x) / 2 - x @ (B_t @ z + c_t)
        for piece in pieces:
            total = total - piece.potential(x, z)  # type: ignore[misc]
        return s_w * s_w * total / alpha

    return loss


def _outer_of(
    rng: Random, d: int, n: int, pieces: list[Piece], s_w: float, s_lam: float, s_E: float, dtype: torch.dtype,
    reach: float,
) -> tuple[Any, Any]:  # fmt: skip
    a, e = number(rng.choice([0.0, 1.0, 1.0, 2.5])), number(rng.choice([0.0, 0.0, 0.5]))
    y, b = ([number(rng.gauss(0, 1) * size) for _ in range(d)] for size in (reach, 1.0))
    y_t, b_t = tensor(y, dtype), tensor(b, dtype)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        x, z = w / s_w, lam / s_lam
        total = a / 2 * ((x - y_t) ** 2).sum() + b_t @ x + e * (z @ z)
        for piece in pieces:
            total = total + piece.torch(x, z)
        return s_E * total

    y_e, b_e, half, scale = vector(y), vector(b), mp.mpf(a) / 2, mp.mpf(s_E)

    def exact(w: Vector, lam: Vector) -> Any:
        x, z = _in_units(w, s_w), _in_units(lam, s_lam)
        apart = [v - t for v, t in zip(x, y_e, strict=True)]
        total = half * mp.fdot(apart, apart) + mp.fdot(b_e, x)
        if e:
            total += e * mp.fdot(z, z)
        for piece in pieces:
            total += piece.exact(x, z)
        return scale * total

    return outer, exact
