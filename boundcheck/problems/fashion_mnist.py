"""Training data optimisation on Fashion-MNIST, section 4.2 and appendix C.2 of the paper.

    E(W) = CE(X'W, y'),   ℓ(W, X) = CE(XW, y) + (β/2cp)‖W‖²,   W ∈ R^{p×c},  λ = X ∈ R^{c×p},  y = (0, …, c−1),
    μ = β/cp,   L ≤ ‖X‖²/2c + β/cp.

CE is the mean cross-entropy; (X', y') is the usual training set with pixels in [0, 1], p = 784, c = 10, β = 1. At the
start X = 0, where W(X) = 0 and Φ = (1 − αβ/cp)W; with the paper's step of 10⁴ that is −0.28 W, and Φ is a contraction
on all of R^{p×c} while ‖X‖² < 1.4·10⁻³.

Constants beyond those of `parts/cross_entropy_constants.py`, with n = c examples. In the direction Δ, ∇²₂₁ℓ is
(Δᵀ(S − Y) + XᵀK)/n where row i of K is H_iWᵀδ_i, δ_i being row i of Δ; rows ‖K_i‖ ≤ k_i‖δ_i‖ give ‖XᵀK‖_F ≤
‖diag(k)X‖‖Δ‖_F. On a ball with centre P, ‖H_i‖ ≤ g_i = min{½, ‖H_i(P)‖ + S3‖x_i‖r}.
* hat_rho_2: S − S* has rows of at most g_i‖(W−W*)ᵀx_i‖, and H_iWᵀ − H_i*W*ᵀ = H_i(W−W*)ᵀ + (H_i−H_i*)W*ᵀ. So
  hat_rho_2 = (‖diag(g)X‖ + ‖diag(g + S3‖x_i‖‖W*‖)X‖)/n, ‖W*‖ being a spectral norm.
* L_Phi = (α/n) sup (‖S − Y‖ + ‖diag(k)X‖). Less their means 1/c, Y has norm 1 and S rows of at most √(1−1/c), so
  ‖S − Y‖ ≤ 1 + √(c−1), which is at most √(2c); or ‖S − Y‖ at P, plus ‖diag(g)X‖r. And k_i is the lesser of
  g_i(‖P‖ + r) and ‖H_i(P)Pᵀ‖ + g_i r + S3‖x_i‖r‖P‖.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Curvature
from boundcheck.problems.parts import datasets
from boundcheck.problems.parts.cross_entropy import (
    around,
    cross_entropy,
    cross_entropy_gradient,
    fixed_step,
    one_hot,
    only_synthetic,
    synthetic_size,
)
from boundcheck.problems.parts.cross_entropy_constants import (
    S3,
    Validation,
    curvature_change,
    example_slopes,
    of_the_step,
    solution_norm,
    times_step,
)
from boundcheck.problems.parts.minibatches import minibatches
from boundcheck.problems.parts.norm_bounds import largest, spectral_norm
from boundcheck.problems.parts.sparse_matrix import SparseMatrix
from boundcheck.problems.parts.synthetic_data import Draw

NAME = "fashion-mnist"
TITLE = "training data optimisation on Fashion-MNIST, one image a class"
STEP = 1e4 / 7840  # the paper's step over its cp, so that data of other sizes have the same αμ


class Ready(NamedTuple):
    """λ as the images that it is."""

    X: Tensor


@dataclass(frozen=True)
class Parts:
    """Validation and test images, one a row, with their classes as rows of the identity."""

    X_val: Tensor
    Y_val: Tensor
    X_test: Tensor
    Y_test: Tensor


def load(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    validation_size: int | None = None,
    synthetic: bool = False,
    features: int | None = None,
    classes: int | None = None,
    download: bool | None = None,
) -> Parts:
    """The images of `make` with the same arguments, and those to test on."""
    draw = Draw.seeded(seed, dtype, device)
    if synthetic:
        p, c = synthetic_size("features", features, 12), synthetic_size("classes", classes, 4)
        size = synthetic_size("validation_size", validation_size, 40)
        y = torch.arange(2 * size, device="cpu") % c
        X = draw.normal(c, p)[y] + draw.normal(2 * size, p) / 2
        X_val, y_val, X_test, y_test = X[:size], y[:size], X[size:], y[size:]
    else:
        only_synthetic(features=features, classes=classes)
        images, c = datasets.fashion_mnist(download), 10
        X_val, y_val, X_test, y_test = (
            torch.from_numpy(x)
            for x in (images.train_images, images.train_labels, images.test_images, images.test_labels)
        )
        if validation_size is not None:
            if not 1 <= validation_size <= len(y_val):
                raise InputError(f"validation_size = {validation_size}; give a whole number from 1 to {len(y_val)}")
            chosen = torch.randperm(len(y_val), generator=draw.generator, device="cpu")[:validation_size]
            X_val, y_val = X_val[chosen], y_val[chosen]
        X_val, X_test = (draw.place(x.reshape(len(x), -1)).div_(255) for x in (X_val, X_test))
    return Parts(*(draw.place(x) for x in (X_val, one_hot(y_val, c), X_test, one_hot(y_test, c))))


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    beta: float = 1.0,
    validation_size: int | None = None,
    step_size: float | None = None,
    dynamics: str = "gradient-descent",
    momentum: float = 0.0,
    spread: float | None = None,
    synthetic: bool = False,
    features: int | None = None,
    classes: int | None = None,
    download: bool | None = None,
    batch: int | None = None,
    replacement: bool = True,
) -> Problem:
    """Training data optimisation on Fashion-MNIST: λ is one image for each class.

    The start is λ = 0. The paper draws no λ; `sample` draws normal numbers times `spread`.

    Parameters
    ----------
    seed : int
        The seed of the data and of λ; 0 by default.
    dtype : torch.dtype
        The precision, `torch.float64` (the default) or `torch.float32`.
    device : torch.device or str
        The device; "cpu" by default.
    beta : float
        The weight β of the penalty, positive; 1 by default.
    validation_size : int, optional
        How many of the 60000 images to validate on; all by default. With `synthetic`, how many are
        drawn; 40 by default.
    step_size : float, optional
        The step α; by default 10⁴·cp/7840, which is the paper's 10⁴ for its data.
    dynamics : str
        "gradient-descent", "heavy-ball" or "nesterov", with the steps below; "gradient-descent" by default.
    momentum : float
        The momentum β of the dynamics; 0 by default.
    spread : float, optional
        The standard deviation of the entries of a sampled λ; by default such that ‖X‖² is about c/α and Φ a
        contraction.
    synthetic : bool
        Whether to draw Gaussian classes in place of the images; False by default.
    features : int, optional
        With `synthetic`, the features of an example; 12 by default.
    classes : int, optional
        With `synthetic`, the classes; 4 by default.
    download : bool, optional
        Whether missing files may be downloaded; by default only if the environment has BOUNDCHECK_DOWNLOAD=1.
    batch : int, optional
        The images of λ in a minibatch, for stochastic methods; by default there are no minibatches.
    replacement : bool
        Whether the images of λ of a minibatch are drawn with replacement; True by default.

    Returns
    -------
    Problem
        The problem.

    Raises
    ------
    InputError
        If an argument cannot be used, or the files are missing or not the original ones.
    UnknownNameError
        If there are no such dynamics.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.problems.fashion_mnist(synthetic=True)
    Problem(fashion-mnist, d=48, n=48, gradient-descent, float64 on cpu)
    """
    if not 0 < beta < float("inf"):
        raise InputError(f"beta = {beta} is not a penalty; give a positive number")
    parts = load(
        seed=seed, dtype=dtype, device=device, validation_size=validation_size, synthetic=synthetic,
        features=features, classes=classes, download=download,
    )  # fmt: skip
    X_val, Y_val = parts.X_val, parts.Y_val  # the closures below hold these two only, not the images to test on
    p, c = X_val.shape[1], Y_val.shape[1]
    shared = SparseMatrix.full(X_val)  # one product for all rows: 6 times as quick for 30 of them
    Y = torch.eye(c, dtype=dtype, device=device)
    mu = beta / (c * p)
    alpha = STEP * c * p if step_size is None else step_size
    steps = fixed_step(dynamics, alpha, momentum)
    scale = (c / alpha) ** 0.5 / (p**0.5 + c**0.5) if spread is None else spread  # ‖X‖ ≈ scale·(√p + √c)

    def prepare(lam: Tensor) -> Ready:
        return Ready(lam.reshape(c, p))

    def inner_at(w: Tensor, ready: Ready) -> Tensor:
        return cross_entropy(ready.X @ w.reshape(p, c), Y) + mu / 2 * (w * w).sum()

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        R = alpha * cross_entropy_gradient(ready.X @ w.reshape(p, c), Y)
        return (1 - alpha * mu) * w - (ready.X.T @ R).reshape(-1)

    def phi_on(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        some = ready.X[indices]
        R = alpha * cross_entropy_gradient(some @ w.reshape(p, c), Y[indices])
        return (1 - alpha * mu) * w - (some.T @ R).reshape(-1)

    def inner_on(w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        return cross_entropy(ready.X[indices] @ w.reshape(p, c), Y[indices]) + mu / 2 * (w * w).sum()

    def slopes(ready: Ready, centre: Tensor, radius: float) -> Tensor:
        penalty = centre.new_full((1,), mu)
        return example_slopes(ready.X @ centre.reshape(p, c), ready.X.norm(dim=1), radius, penalty)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return cross_entropy(shared @ w.reshape(p, c), Y_val)

    def curvature(ready: Ready) -> Curvature:
        norm = torch.linalg.eigvalsh(ready.X @ ready.X.T)[-1]  # ‖X‖²
        return Curvature(torch.full_like(norm, mu), norm / (2 * c) + mu)

    @cache  # does not depend on λ
    def validation() -> Validation:
        return Validation.of(X_val, Y_val, spectral_norm(X_val) ** 2)

    def everywhere(lam: Tensor) -> Sequence[Constant]:
        ready = prepare(lam)
        gradient = ready.X.T @ cross_entropy_gradient(torch.zeros_like(Y), Y)
        steps = of_the_step(mu, curvature(ready).L, "‖X‖²/2c + β/cp", alpha)
        return [*steps, solution_norm(mu, c, gradient)]

    def on(lam: Tensor, region: Region) -> Sequence[Constant]:
        X, P, r = prepare(lam).X, region.point.reshape(p, c), region.radius
        lengths, reach = X.norm(dim=1), spectral_norm(P) + r
        D = next(known.value for known in everywhere(lam) if known.name == "D")
        star = spectral_norm(P) if region.centre == "w_star" else reach.clamp(max=D)
        S = (X @ P).softmax(-1)
        H = S.diag_embed() - S[:, :, None] * S[:, None]
        g = (largest(H) + S3 * lengths * r).clamp(max=0.5)
        changed = spectral_norm(g[:, None] * X)  # ‖diag(g)X‖
        k = torch.minimum(g * reach, spectral_norm(H @ P.T) + g * r + S3 * lengths * r * spectral_norm(P))
        residual = torch.clamp(spectral_norm(S - Y) + changed * r, max=1 + (c - 1) ** 0.5)
        rho_1 = curvature_change(spectral_norm(X), largest((X @ X.T) ** 2), c, region)
        rho_2 = closed_form(
            "hat_rho_2",
            (changed + spectral_norm((g + S3 * lengths * star)[:, None] * X)) / c,
            "(‖diag(g)X‖ + ‖diag(g + S3‖x_i‖‖W*‖)X‖)/c, g_i ≥ ‖H_i‖ on the ball",
            region,
        )
        L_Phi = alpha / c * (residual + spectral_norm(k[:, None] * X))
        return [
            rho_1,
            rho_2,
            times_step("nu_1", alpha, rho_1, region),
            times_step("nu_2", alpha, rho_2, region),
            closed_form("L_Phi", L_Phi, "(α/c)(‖S−Y‖ + ‖diag(k)X‖), k_i ≥ ‖H_iWᵀ‖ on the ball", region),
            *validation().constants(P, region),
        ]

    return Problem(
        name=NAME,
        w0=torch.zeros(p * c, dtype=dtype, device=device),
        lam=torch.zeros(c * p, dtype=dtype, device=device),
        phi_at=phi_at,
        outer_at=outer_at,
        inner_at=inner_at,
        prepare=prepare,
        dynamics=steps,
        symmetric=True,
        curvature=curvature,
        contraction=lambda ready: curvature(ready).contraction(alpha),
        known=ClosedForms(everywhere, on),
        sampler=around(torch.zeros(c * p, dtype=torch.float64, device="cpu"), scale),
        seed=seed,
        finite_sum=minibatches(c, batch, replacement, phi_on, inner_on, slopes=slopes),
    )
