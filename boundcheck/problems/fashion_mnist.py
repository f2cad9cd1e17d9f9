"""Training data optimisation on Fashion-MNIST, section 4.2 and appendix C.2 of the paper.

    E(W) = CE(X'W, y'),   ℓ(W, X) = CE(XW, y) + (β/2cp)‖W‖²,   W ∈ R^{p×c},  λ = X ∈ R^{c×p},  y = (0, …, c−1),
    μ = β/cp,   L ≤ ‖X‖²/2c + β/cp.

CE is the mean cross-entropy; (X', y') is the usual training set with pixels in [0, 1], p = 784, c = 10, β = 1. The
start is X = 0, where W(X) = 0 and Φ = (1 − αβ/cp)W; with the paper's step of 10⁴, this is −0.28 W. Φ is a contraction
on all of R^{p×c} if ‖X‖² < 1.4·10⁻³.

These constants are not in `parts/cross_entropy_constants.py`; n = c is the number of examples. In the direction Δ,
∇²₂₁ℓ is (Δᵀ(S − Y) + XᵀK)/n, where row i of K is H_iWᵀδ_i, and δ_i is row i of Δ. If ‖K_i‖ ≤ k_i‖δ_i‖ for all rows,
then ‖XᵀK‖_F ≤ ‖diag(k)X‖‖Δ‖_F. On a ball with centre P, ‖H_i‖ ≤ g_i = min{½, ‖H_i(P)‖ + S3‖x_i‖r}.
* hat_rho_2: the norm of row i of S − S* is at most g_i‖(W−W*)ᵀx_i‖, and H_iWᵀ − H_i*W*ᵀ = H_i(W−W*)ᵀ +
  (H_i−H_i*)W*ᵀ. So hat_rho_2 = (‖diag(g)X‖ + ‖diag(g + S3‖x_i‖‖W*‖)X‖)/n, where ‖W*‖ is a spectral norm.
* L_Phi = (α/n) sup (‖S − Y‖ + ‖diag(k)X‖). Y − 1/c has norm 1, and rows of S − 1/c have at most √(1−1/c), so
  ‖S − Y‖ ≤ 1 + √(c−1), which is at most √(2c); it is also at most ‖S − Y‖ at P plus ‖diag(g)X‖r. And k_i is the lesser
  of g_i(‖P‖ + r) and ‖H_i(P)Pᵀ‖ + g_i r + S3‖x_i‖r‖P‖.
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
from boundcheck.problems.parts.classifier_problem import classifier_problem
from boundcheck.problems.parts.cross_entropy import (
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
    constants_everywhere,
    constants_of_phi,
    curvature_change,
    example_slopes,
)
from boundcheck.problems.parts.minibatches import minibatches
from boundcheck.problems.parts.norm_bounds import largest, spectral_norm
from boundcheck.problems.parts.sparse_matrix import SparseMatrix
from boundcheck.problems.parts.synthetic_data import Draw

NAME = "fashion-mnist"
TITLE = "training data optimisation on Fashion-MNIST, one image a class"
STEP = 1e4 / 7840  # the paper's step over its cp, so that αμ is the same for data of other sizes


class Ready(NamedTuple):
    """λ as a matrix of images."""

    X: Tensor


@dataclass(frozen=True)
class Parts:
    """Validation and test images as rows, and their classes as rows of the identity."""

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
    """Return the validation images of `make` with the same arguments, and the test images."""
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
            rows = torch.randperm(len(y_val), generator=draw.generator, device="cpu")[:validation_size]
            X_val, y_val = X_val[rows], y_val[rows]
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
        The number of validation images, out of 60000; all by default. With `synthetic`, 40 by default.
    step_size : float, optional
        The step α; by default 10⁴·cp/7840, which is the paper's 10⁴ for its data.
    dynamics : str
        "gradient-descent", "heavy-ball" or "nesterov", with the steps below; "gradient-descent" by default.
    momentum : float
        The momentum β of the dynamics; 0 by default.
    spread : float, optional
        The standard deviation of the entries of a sampled λ; by default such that ‖X‖² is about c/α, so that Φ is a
        contraction.
    synthetic : bool
        Whether to draw Gaussian classes in place of the images; False by default.
    features : int, optional
        With `synthetic`, the number of features; 12 by default.
    classes : int, optional
        With `synthetic`, the number of classes; 4 by default.
    download : bool, optional
        Whether missing files may be downloaded; by default only if the environment has BOUNDCHECK_DOWNLOAD=1.
    batch : int, optional
        The number of images of λ in a minibatch, for stochastic methods; by default there are no minibatches.
    replacement : bool
        Whether minibatches are drawn with replacement; True by default.

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
    X_val, Y_val = parts.X_val, parts.Y_val  # the problem keeps only these two, not the test images
    p, c = X_val.shape[1], Y_val.shape[1]
    alpha = STEP * c * p if step_size is None else step_size
    steps = fixed_step(dynamics, alpha, momentum)  # refuses a step that is not positive
    lower = LearntImages(torch.eye(c, dtype=dtype, device=device), p, beta / (c * p), alpha)
    return classifier_problem(
        NAME, lower, SparseMatrix.full(X_val), Y_val, hyperparameters=c * p, dynamics=steps,
        known=closed_forms(X_val, Y_val, lower), seed=seed,
        spread=(c / alpha) ** 0.5 / (p**0.5 + c**0.5) if spread is None else spread,  # ‖X‖ ≈ spread·(√p + √c)
        finite_sum=minibatches(c, batch, replacement, lower.phi_on, lower.inner_on, slopes=lower.slopes),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LearntImages:
    """The lower level: ℓ and Φ on the images λ = X, one for each class."""

    Y: Tensor  # the identity
    features: int
    mu: float
    alpha: float

    def matrix(self, w: Tensor) -> Tensor:
        """Return w as the matrix W."""
        return w.reshape(self.features, len(self.Y))

    def prepare(self, lam: Tensor) -> Ready:
        return Ready(lam.reshape(len(self.Y), self.features))

    def inner_at(self, w: Tensor, ready: Ready) -> Tensor:
        return cross_entropy(ready.X @ self.matrix(w), self.Y) + self.mu / 2 * (w * w).sum()

    def phi_at(self, w: Tensor, ready: Ready) -> Tensor:
        return self._step(w, ready.X, self.Y)

    def inner_on(self, w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        return cross_entropy(ready.X[indices] @ self.matrix(w), self.Y[indices]) + self.mu / 2 * (w * w).sum()

    def phi_on(self, w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        return self._step(w, ready.X[indices], self.Y[indices])

    def _step(self, w: Tensor, X: Tensor, Y: Tensor) -> Tensor:
        R = self.alpha * cross_entropy_gradient(X @ self.matrix(w), Y)
        return (1 - self.alpha * self.mu) * w - (X.T @ R).reshape(-1)

    def slopes(self, ready: Ready, centre: Tensor, radius: float) -> Tensor:
        penalty = centre.new_full((1,), self.mu)
        return example_slopes(ready.X @ self.matrix(centre), ready.X.norm(dim=1), radius, penalty)

    def curvature(self, ready: Ready) -> Curvature:
        norm = torch.linalg.eigvalsh(ready.X @ ready.X.T)[-1]  # ‖X‖²
        return Curvature(torch.full_like(norm, self.mu), norm / (2 * len(self.Y)) + self.mu)


def closed_forms(X_val: Tensor, Y_val: Tensor, lower: LearntImages) -> ClosedForms:
    """Return the constants, as derived above and in `parts/cross_entropy_constants.py`."""
    Y, alpha, c = lower.Y, lower.alpha, len(lower.Y)
    validation = cache(lambda: Validation.of(X_val, Y_val, spectral_norm(X_val) ** 2))  # does not depend on λ

    def everywhere(lam: Tensor) -> Sequence[Constant]:
        ready = lower.prepare(lam)
        return constants_everywhere(ready.X, Y, lower.mu, lower.curvature(ready).L, "‖X‖²/2c + β/cp", alpha)

    def on(lam: Tensor, region: Region) -> Sequence[Constant]:
        X, P, r = lower.prepare(lam).X, lower.matrix(region.point), region.radius
        lengths, reach = X.norm(dim=1), spectral_norm(P) + r
        D = next(constant.value for constant in everywhere(lam) if constant.name == "D")
        star = spectral_norm(P) if region.centre == "w_star" else reach.clamp(max=D)
        S = (X @ P).softmax(-1)
        H = S.diag_embed() - S[:, :, None] * S[:, None]
        g = (largest(H) + S3 * lengths * r).clamp(max=0.5)
        weighted = spectral_norm(g[:, None] * X)  # ‖diag(g)X‖
        k = torch.minimum(g * reach, spectral_norm(H @ P.T) + g * r + S3 * lengths * r * spectral_norm(P))
        residual = torch.clamp(spectral_norm(S - Y) + weighted * r, max=1 + (c - 1) ** 0.5)
        rho_1 = curvature_change(spectral_norm(X), largest((X @ X.T) ** 2), c, region)
        rho_2 = closed_form(
            "hat_rho_2",
            (weighted + spectral_norm((g + S3 * lengths * star)[:, None] * X)) / c,
            "(‖diag(g)X‖ + ‖diag(g + S3‖x_i‖‖W*‖)X‖)/c, g_i ≥ ‖H_i‖ on the ball",
            region,
        )
        L_Phi = closed_form(
            "L_Phi",
            alpha / c * (residual + spectral_norm(k[:, None] * X)),
            "(α/c)(‖S−Y‖ + ‖diag(k)X‖), k_i ≥ ‖H_iWᵀ‖ on the ball",
            region,
        )
        return [*constants_of_phi(rho_1, rho_2, L_Phi, alpha, region), *validation().constants(P, region)]

    return ClosedForms(everywhere, on)
