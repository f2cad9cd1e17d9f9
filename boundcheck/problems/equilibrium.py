"""Equilibrium model (EQM): section 4.2 of the paper, problem `mainprob2` with the dynamics `eq:qlin_eqm`.

    φ_i(w_i, γ) = tanh(A w_i + B x_i + c),   E(w, θ) = mean_i cross-entropy(θ w_i + b, y_i),   λ = (A, B, c, θ, b).

∂₁Φ is block diagonal, with a block diag(tanh') A for each example, and not symmetric. Because |tanh'| ≤ 1, q = ‖A‖ is a
contraction constant for all w. It is the least one if A is invertible (tanh' = 1 where A w_i + B x_i + c = 0). The
paper sums the losses in `mainprob2`; here E is the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Domain
from boundcheck.problems.parts import equilibrium_constants as constants
from boundcheck.problems.parts.classifier_constants import Classifier
from boundcheck.problems.parts.cross_entropy import cross_entropy
from boundcheck.problems.parts.labelled_examples import Examples, gaussian_examples, mnist_examples, size_or_default
from boundcheck.problems.parts.projections import contraction_norm, project_matrix
from boundcheck.problems.parts.synthetic_data import Draw, normal

NAME = "eqm"
TITLE = "equilibrium model tanh(Aw + Bx + c), logistic classifier on its states"


class Parameters(NamedTuple):
    """The pieces of λ, in their order."""

    A: Tensor
    B: Tensor
    c: Tensor
    theta: Tensor
    b: Tensor


class Ready(NamedTuple):
    """Quantities that depend only on λ; row i of `drive` is B x_i + c."""

    A: Tensor
    drive: Tensor
    theta: Tensor
    b: Tensor


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    mnist: bool = False,
    size: int | None = None,
    hidden: int | None = None,
    features: int | None = None,
    classes: int | None = None,
    norm: float = 0.95,
    examples: Examples | None = None,
) -> Problem:
    """An equilibrium model w = tanh(Aw + Bx + c) with a logistic classifier on its states: the paper's EQM.

    λ = (A, B, c, θ, b) is drawn with ‖A‖ = `norm`; ∂₁Φ is not symmetric. `problem.at(problem.sample(1, seed=1)[0])` has
    the same data at another λ. The paper's runs without projection leave the domain of λ;
    `dataclasses.replace(problem, domain=None)` allows this.

    Parameters
    ----------
    seed : int
        The seed of the data and of λ; 0 by default.
    dtype : torch.dtype
        The precision, `torch.float64` (the default) or `torch.float32`.
    device : torch.device or str
        The device; "cpu" by default.
    mnist : bool
        Whether to use images of MNIST in place of Gaussian classes; False by default.
    size : int, optional
        The number of examples; 20 by default, and 5000 with `mnist`.
    hidden : int, optional
        The number of entries of the state of an example; 10 by default, and 200 with `mnist`.
    features : int, optional
        The number of features; 8 by default. MNIST has 784.
    classes : int, optional
        The number of classes; 3 by default. MNIST has 10.
    norm : float
        ‖A‖, the contraction constant, at least 0 and below 1; 0.95 by default.
    examples : Examples, optional
        Your own data: examples as rows X, and one-hot labels Y. They replace the other data.

    Returns
    -------
    Problem
        The problem.

    Raises
    ------
    InputError
        If an argument cannot be used, or the files of MNIST are missing or not the original ones.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.problems.equilibrium(size=4, hidden=3)
    Problem(eqm, d=12, n=48, fixed-point, float64 on cpu)
    """
    draw = Draw.seeded(seed, dtype, device)
    if examples is not None:
        data = examples
    elif mnist:
        data = mnist_examples(draw, size, features=features, classes=classes)
    else:
        count, features = size_or_default("size", size, 20), size_or_default("features", features, 8)
        data = gaussian_examples(draw, count, features, size_or_default("classes", classes, 3))
    h = size_or_default("hidden", hidden, 200 if mnist else 10)
    n_e, p = data.X.shape
    k = data.Y.shape[1]
    q = contraction_norm(norm)
    shapes = ((h, h), (h, p), (h,), (k, h), (k,))
    pieces = Layout(Parameters._fields, tuple(map(torch.Size, shapes)), lambda leaves: Parameters(*leaves))

    def sampler(generator: torch.Generator) -> Tensor:
        A, B, c, theta, b = (normal(generator, *shape) for shape in shapes)
        A = A * (q / spectral_norm(A))
        return torch.cat([x.reshape(-1) for x in (A, B / p**0.5, 0.1 * c, theta / h**0.5, 0.1 * b)])

    def prepare(lam: Tensor) -> Ready:
        A, B, c, theta, b = pieces.unflatten(lam)
        return Ready(A, data.X @ B.T + c, theta, b)

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return torch.tanh(w.reshape(n_e, h) @ ready.A.T + ready.drive).reshape(-1)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return cross_entropy(scores(w, ready), data.Y)

    def layer(ready: Ready) -> constants.Layer:
        rest = torch.cat((data.X, data.X.new_ones(n_e, 1)), dim=1)
        return constants.Layer(ready.A, ready.drive, rest, spectral_norm(ready.A))

    def on(lam: Tensor, region: Region) -> Sequence[Constant]:
        ready = prepare(lam)
        return constants.on(layer(ready), Classifier(ready.theta, ready.b, data.Y), region)

    return Problem(
        name=NAME,
        w0=torch.zeros(n_e * h, dtype=dtype, device=device),
        lam=draw.place(sampler(torch.Generator().manual_seed(seed))),
        phi_at=phi_at,
        outer_at=outer_at,
        prepare=prepare,
        symmetric=False,
        contraction=lambda ready: spectral_norm(ready.A),
        known=ClosedForms(lambda lam: constants.everywhere(layer(prepare(lam))), on),
        domain=Domain(
            f"the spectral norm of A, the first {h} x {h} entries of lam, is below 1",
            lambda lam: spectral_norm(pieces.unflatten(lam).A) < 1,
        ),
        sampler=sampler,
        seed=seed,
    )


def scores(w: Tensor, ready: Ready) -> Tensor:
    """Return θ w_i + b, with a row for each example and a column for each class."""
    return w.reshape(-1, len(ready.A)) @ ready.theta.T + ready.b


def projection(hidden: int, norm: float = 0.999) -> Callable[[Tensor], Tensor]:
    """Return the map that clips the singular values of A in λ at `norm` = 1 − ε."""

    def project(lam: Tensor) -> Tensor:
        A, rest = lam[: hidden * hidden], lam[hidden * hidden :]
        return torch.cat((project_matrix(A.reshape(hidden, hidden), norm).reshape(-1), rest))

    return project


def spectral_norm(A: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.matrix_norm(A, ord=2)
    return norm
