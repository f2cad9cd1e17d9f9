"""Multinomial logistic regression on 20 newsgroups, one penalty for each word: section 4.2, appendix C.2 of the paper.

    E(W) = CE(X'W, y'),   ℓ(W, λ) = CE(XW, y) + (1/2cp) Σ_j e^{λ_j} Σ_i W_ji²,   W ∈ R^{p×c},  λ ∈ R^p,  λ₀ = 0,
    μ = min e^λ/cp,   L ≤ λmax(XᵀX)/2n + max e^λ/cp.

CE is the mean cross-entropy; p = 101631, c = 20, and three equal parts have 6282 documents each. X is always sparse. At
λ₀, 2/L is 13 (63 with tf-idf), so with the paper's step α = 10³, Φ is not a contraction on all of R^{p×c}: from W = 0,
ℓ first rises from 3.0 to 53, and then falls to 0.25 in 300 steps (with tf-idf it only falls, to 0.15). At W(λ₀) itself,
‖∂₁Φ‖ is 1.03, which is not a contraction either; with tf-idf it is 1 − αμ = 0.9995.

These constants are not in `parts/cross_entropy_constants.py`: column j of ∇²₂₁ℓ is (e^λ_j/cp) W_j at the place of row j
of W, and zero elsewhere, so the norm of ∇²₂₁ℓ is max_j (e^λ_j/cp)‖W_j‖. Hence hat_rho_2 = max e^λ/cp, and on a ball
with centre P, L_Phi = α max_j (e^λ_j/cp)(‖P_j‖ + r). Both are attained by changes of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Curvature
from boundcheck.problems.parts.classifier_problem import classifier_problem
from boundcheck.problems.parts.cross_entropy import cross_entropy, cross_entropy_gradient, fixed_step
from boundcheck.problems.parts.cross_entropy_constants import (
    Validation,
    constants_everywhere,
    constants_of_phi,
    curvature_change,
    example_slopes,
)
from boundcheck.problems.parts.minibatches import minibatches
from boundcheck.problems.parts.newsgroups_documents import DocumentParts, load_documents
from boundcheck.problems.parts.sparse_matrix import SparseMatrix, perron_bound, squared_gram_bound
from boundcheck.problems.parts.sparse_rows import SparseRows

NAME = "newsgroups"
TITLE = "multinomial logistic regression on 20 newsgroups, one ℓ₂ penalty a word"
STEP = 1e3  # as in the paper


class Ready(NamedTuple):
    """Quantities that depend only on λ."""

    penalty: Tensor  # e^λ/cp
    shrink: Tensor  # 1 − α e^λ/cp


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    tfidf: bool = False,
    used_words: bool = False,
    step_size: float | None = None,
    dynamics: str = "gradient-descent",
    momentum: float = 0.0,
    spread: float = 0.1,
    synthetic: bool = False,
    size: int | None = None,
    features: int | None = None,
    classes: int | None = None,
    download: bool | None = None,
    batch: int | None = None,
    replacement: bool = True,
) -> Problem:
    """Multinomial logistic regression on 20 newsgroups with one ℓ₂ penalty for each word.

    The data are split at random into three equal parts. The start is λ = 0. The paper draws no λ; `sample` draws normal
    numbers times `spread`.

    Parameters
    ----------
    seed : int
        The seed of the data and of λ; 0 by default.
    dtype : torch.dtype
        The precision, `torch.float64` (the default) or `torch.float32`.
    device : torch.device or str
        The device; "cpu" by default.
    tfidf : bool
        Whether to weight words by rarity; False by default, for counts of unit length. The paper says tf-idf,
        but its accuracies of 59-64 % are those of counts (at λ₀ 64 % after 2000 steps, and 70 % with tf-idf).
    used_words : bool
        Whether to keep only the words of the training documents, the most frequent ones first; False by default. From
        W = 0, the rows of all other words stay zero, and so do their parts of ∇f; products are faster without them. p
        is still the number of all words.
    step_size : float, optional
        The step α; by default 10³, and 1/L at λ₀ for synthetic data.
    dynamics : str
        "gradient-descent", "heavy-ball" or "nesterov", with the steps below; "gradient-descent" by default.
    momentum : float
        The momentum β of the dynamics; 0 by default.
    spread : float
        The standard deviation of the entries of a sampled λ; 0.1 by default.
    synthetic : bool
        Whether to draw random documents in place of the files; False by default.
    size : int, optional
        With `synthetic`, the number of documents in each part; 30 by default.
    features : int, optional
        With `synthetic`, the number of words; 40 by default.
    classes : int, optional
        With `synthetic`, the number of classes; 4 by default.
    download : bool, optional
        Whether missing files may be downloaded; by default only if the environment has BOUNDCHECK_DOWNLOAD=1.
    batch : int, optional
        The number of documents in a minibatch, for stochastic methods; by default there are no minibatches.
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
    >>> bc.problems.newsgroups(synthetic=True)
    Problem(newsgroups, d=160, n=40, gradient-descent, float64 on cpu)
    """
    parts = load_documents(
        seed=seed, dtype=dtype, device=device, tfidf=tfidf, used_words=used_words, synthetic=synthetic, size=size,
        features=features, classes=classes, download=download,
    )  # fmt: skip
    n = parts.X.shape[0]
    cp = parts.Y.shape[1] * parts.words
    steepest = parts.squared_norm / (2 * n)
    alpha = step_size if step_size is not None else 1 / (steepest + 1 / cp) if synthetic else STEP
    lower = PenalisedRegression(parts.X, parts.Y, cp, steepest, alpha)
    return classifier_problem(
        NAME, lower, parts.X_val, parts.Y_val, hyperparameters=parts.X.shape[1],
        dynamics=fixed_step(dynamics, alpha, momentum), known=closed_forms(parts, lower), spread=spread, seed=seed,
        finite_sum=minibatches(
            n, batch, replacement, lower.phi_on, lower.inner_on, lam_apart=True, slopes=lower.slopes
        ),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PenalisedRegression:
    """The lower level: ℓ and Φ on the training documents."""

    X: SparseMatrix
    Y: Tensor
    cp: int
    steepest: float  # at least λmax(XᵀX)/2n
    alpha: float

    def matrix(self, w: Tensor) -> Tensor:
        """Return w as the matrix W."""
        return w.reshape(self.X.shape[1], self.Y.shape[1])

    def prepare(self, lam: Tensor) -> Ready:
        penalty = lam.exp() / self.cp
        return Ready(penalty, 1 - self.alpha * penalty)

    def inner_at(self, w: Tensor, ready: Ready) -> Tensor:
        W = self.matrix(w)
        return cross_entropy(self.X @ W, self.Y) + (ready.penalty * (W * W).sum(-1)).sum() / 2

    def phi_at(self, w: Tensor, ready: Ready) -> Tensor:
        W = self.matrix(w)
        R = -self.alpha * cross_entropy_gradient(self.X @ W, self.Y)  # the sign is here, as R is smaller than XᵀR
        return (ready.shrink[:, None] * W + self.X.T @ R).reshape(-1)  # two passes over W, where w − α∇₁ℓ takes four

    def inner_on(self, w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        W = self.matrix(w)
        loss = cross_entropy(SparseRows(self.X, indices).matmul(W), self.Y[indices])
        return loss + (ready.penalty * (W * W).sum(-1)).sum() / 2

    def phi_on(self, w: Tensor, ready: Ready, indices: Tensor) -> Tensor:
        W, rows = self.matrix(w), SparseRows(self.X, indices)
        R = self.alpha * cross_entropy_gradient(rows.matmul(W), self.Y[indices])
        return (ready.shrink[:, None] * W - rows.transposed_matmul(R)).reshape(-1)

    def slopes(self, ready: Ready, centre: Tensor, radius: float) -> Tensor:
        return example_slopes(self.X @ self.matrix(centre), self.X.row_norms(), radius, ready.penalty)

    def curvature(self, ready: Ready) -> Curvature:
        return Curvature(ready.penalty.min(), self.steepest + ready.penalty.max())


def closed_forms(parts: DocumentParts, lower: PenalisedRegression) -> ClosedForms:
    """Return the constants, as derived above and in `parts/cross_entropy_constants.py`."""
    X, n = lower.X, lower.X.shape[0]
    X_val, Y_val, squared_norm, squared_norm_val = parts.X_val, parts.Y_val, parts.squared_norm, parts.squared_norm_val
    squared_gram = cache(lambda: squared_gram_bound(X))  # these two do not depend on λ, and are slow
    validation = cache(lambda: Validation.of(X_val, Y_val, squared_norm_val))

    def everywhere(lam: Tensor) -> Sequence[Constant]:
        ready = lower.prepare(lam)
        bound = perron_bound(lambda v: X.T @ (X @ v) / (2 * n) + ready.penalty * v, torch.ones_like(lam))
        L = torch.minimum(bound, lower.curvature(ready).L)
        how = "λmax(XᵀX/2n + diag(e^λ)/cp)"
        return constants_everywhere(X, lower.Y, ready.penalty.min(), L, how, lower.alpha)

    def on(lam: Tensor, region: Region) -> Sequence[Constant]:
        W, penalty = lower.matrix(region.point), lower.prepare(lam).penalty
        rho_1 = curvature_change(squared_norm**0.5, squared_gram(), n, region)
        rho_2 = closed_form("hat_rho_2", penalty.max(), "max e^λ/cp", region, exact=True)
        largest = lower.alpha * (penalty * (W.norm(dim=1) + region.radius)).max()
        L_Phi = closed_form("L_Phi", largest, "α max_j (e^λ_j/cp) sup ‖W_j‖", region, exact=True)
        return [
            *constants_of_phi(rho_1, rho_2, L_Phi, lower.alpha, region),
            *validation().constants(W, region),
        ]

    return ClosedForms(everywhere, on)
