"""Equilibrium model with convolutions: appendix "Equilibrium Models with Convolutions" of the paper, `eq:EQM_CONV`.

    φ_i(w_i, γ) = tanh(K ⋆ w_i + μ(K' ⋆ x_i) + c),   E(w, θ) = mean_i cross-entropy(θ μ(w_i) + b, y_i),
    λ = (K, K', c, θ, b),   ⋆ cross-correlation with 3 × 3 kernels,   μ max-pooling of 2 × 2 windows.

As in `eqm`, q = ‖K ⋆ ·‖ is a contraction constant, and ∂₁Φ is not symmetric. c has one number for each channel.

Padding. The paper projects onto ‖c(K)‖ ≤ 0.999, where c(K) is the *circular* correlation, and does not say how it pads.
Here "circular" is the default, because then K ⋆ · is c(K), and q = ‖c(K)‖ exactly. With "zeros" on states of side s,
‖c(K)‖ on the torus of side s is not a bound: for s = 14, one channel and the entries −½, 0, 1 in a row, ‖K ⋆ ·‖ =
1.0038 ‖c(K)‖, so 0.999 would not suffice. On the torus of side s + 1, ‖c(K)‖ is a bound. Let P extend a state by zeros
to this torus; ‖P‖ = 1. An output at 0 ≤ y < s reads inputs at y−1, y, y+1. The inputs outside, −1 and s, are both at
the place s of the torus, where P has zeros. So K ⋆ · = Pᵀ c(K) P, and its norm is at most ‖c(K)‖.

Because of max-pooling, E (and the drive as a function of K') is only piecewise smooth. If entries are equal, the
derivative goes to the first of them. If they are equal because their inputs are equal, as on the background of an
image, their derivatives in λ are equal too, so the hypergradient does not depend on this choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d, pad

from boundcheck.constants import Constant
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Domain
from boundcheck.problems.parts import conv_equilibrium_constants as constants
from boundcheck.problems.parts.classifier_constants import Classifier
from boundcheck.problems.parts.cross_entropy import cross_entropy
from boundcheck.problems.parts.labelled_examples import Examples, gaussian_examples, mnist_examples, size_or_default
from boundcheck.problems.parts.projections import contraction_norm, convolution_norm, project_convolution
from boundcheck.problems.parts.synthetic_data import Draw, normal

NAME = "conv-eqm"
TITLE = "equilibrium model with convolutions, logistic classifier on its pooled states"
PADDING = {"circular": "circular", "zeros": "constant"}  # our names to torch's


class Parameters(NamedTuple):
    """The pieces of λ, in their order."""

    K: Tensor
    K_in: Tensor
    c: Tensor
    theta: Tensor
    b: Tensor


class Ready(NamedTuple):
    """Quantities that depend only on λ; `drive` is μ(K' ⋆ x_i) + c for every i."""

    K: Tensor
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
    side: int | None = None,
    classes: int | None = None,
    norm: float = 0.95,
    padding: str = "circular",
    examples: Examples | None = None,
) -> Problem:
    """An equilibrium model with convolutions, and a logistic classifier on its pooled states.

    λ = (K, K', c, θ, b) is drawn with ‖c(K)‖ = `norm`; ∂₁Φ is not symmetric. The side of a state is half the side of an
    image, and the side of a pooled state is a quarter.

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
        The number of images; 6 by default, and 5000 with `mnist`.
    hidden : int, optional
        The number of channels of a state; 2 by default, and 10 with `mnist`.
    side : int, optional
        The side of an image, a multiple of 4, at least 8; 8 by default. MNIST has 28.
    classes : int, optional
        The number of classes; 3 by default. MNIST has 10.
    norm : float
        The contraction constant, at least 0 and below 1; 0.95 by default.
    padding : str
        How images are padded, "circular" (the default) or "zeros".
    examples : Examples, optional
        Your own data: images of this side as rows X, and one-hot labels Y. They replace the other data.

    Returns
    -------
    Problem
        The problem.

    Raises
    ------
    InputError
        If an argument cannot be used, or the files of MNIST are missing or not the original ones.
    UnknownNameError
        If there is no such padding.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.problems.conv_equilibrium(size=2)
    Problem(conv-eqm, d=64, n=83, fixed-point, float64 on cpu)
    """
    draw = Draw.seeded(seed, dtype, device)
    pixels = 28 if mnist else size_or_default("side", side, 8)
    if pixels % 4 or pixels < 8:
        raise InputError(f"side = {pixels} cannot be pooled twice and leave 3 x 3 kernels room; give 8, 12, 16, …")
    if examples is not None:
        data = examples
    elif mnist:
        data = mnist_examples(draw, size, side=side, classes=classes)
    else:
        count = size_or_default("size", size, 6)
        data = gaussian_examples(draw, count, pixels**2, size_or_default("classes", classes, 3))
    n_e = len(data.X)
    images = data.X.reshape(n_e, 1, pixels, pixels)
    h = size_or_default("hidden", hidden, 10 if mnist else 2)
    k = data.Y.shape[1]
    s = pixels // 2
    f = h * (s // 2) ** 2
    q = contraction_norm(norm)
    grid = torus(s, padding)
    shapes = ((h, h, 3, 3), (h, 1, 3, 3), (h,), (k, f), (k,))
    pieces = Layout(Parameters._fields, tuple(map(torch.Size, shapes)), lambda leaves: Parameters(*leaves))

    def sampler(generator: torch.Generator) -> Tensor:
        K, K_in, c, theta, b = (normal(generator, *shape) for shape in shapes)
        K = K * (q / convolution_norm(K, grid))
        return torch.cat([x.reshape(-1) for x in (K, K_in / 3, 0.1 * c, theta / f**0.5, 0.1 * b)])

    def padded(x: Tensor) -> Tensor:
        return pad(x, (1, 1, 1, 1), mode=PADDING[padding])

    def correlate(K: Tensor, x: Tensor) -> Tensor:
        return conv2d(padded(x), K)

    def prepare(lam: Tensor) -> Ready:
        K, K_in, c, theta, b = pieces.unflatten(lam)
        return Ready(K, max_pool2d(correlate(K_in, images), 2) + c[:, None, None], theta, b)

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return torch.tanh(correlate(ready.K, w.reshape(n_e, h, s, s)) + ready.drive).reshape(-1)

    def outer_at(w: Tensor, ready: Ready) -> Tensor:
        return cross_entropy(scores(w, ready), data.Y)

    def layer(lam: Tensor) -> constants.Layer:
        ready = prepare(lam)
        winners = max_pool2d(correlate(pieces.unflatten(lam).K_in, images), 2, return_indices=True)[1]
        return constants.Layer(ready.K, ready.drive, padded(images), winners, grid, padded, padding == "circular")

    def on(lam: Tensor, region: Region) -> Sequence[Constant]:
        ready = prepare(lam)
        return constants.on(layer(lam), Classifier(ready.theta, ready.b, data.Y), region)

    return Problem(
        name=NAME,
        w0=torch.zeros(n_e * h * s * s, dtype=dtype, device=device),
        lam=draw.place(sampler(torch.Generator().manual_seed(seed))),
        phi_at=phi_at,
        outer_at=outer_at,
        prepare=prepare,
        symmetric=False,
        contraction=lambda ready: convolution_norm(ready.K, grid),
        known=ClosedForms(lambda lam: constants.everywhere(layer(lam)), on),
        domain=Domain(
            f"K, the first {9 * h * h} entries of lam, as a convolution on a torus of side {grid} has norm below 1",
            lambda lam: convolution_norm(pieces.unflatten(lam).K, grid) < 1,
        ),
        sampler=sampler,
        seed=seed,
    )


def scores(w: Tensor, ready: Ready) -> Tensor:
    """Return θ μ(w_i) + b, with a row for each example and a column for each class."""
    maps = w.reshape(ready.drive.shape)
    return max_pool2d(maps, 2).reshape(len(maps), -1) @ ready.theta.T + ready.b


def projection(hidden: int, side: int, norm: float = 0.999, padding: str = "circular") -> Callable[[Tensor], Tensor]:
    """Return the map that projects K in λ so that ‖K ⋆ ·‖ ≤ `norm` on the states of images with this `side`."""
    grid = torus(side // 2, padding)

    def project(lam: Tensor) -> Tensor:
        K, rest = lam[: 9 * hidden**2], lam[9 * hidden**2 :]
        return torch.cat((project_convolution(K.reshape(hidden, hidden, 3, 3), grid, norm).reshape(-1), rest))

    return project


def torus(side: int, padding: str) -> int:
    """Return the side of the torus on which ‖c(K)‖ bounds ‖K ⋆ ·‖ for states of this side; see the proof above."""
    if padding not in PADDING:
        raise UnknownNameError.among("padding", padding, PADDING)
    return side if padding == "circular" else side + 1
