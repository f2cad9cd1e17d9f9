"""Constants of the equilibrium model with convolutions. Read `equilibrium_constants.py` first.

States have h channels of side s; a "place" is a pixel of an example. The entry of channel a at a place depends only on
row a of (K, K', c), through ζ = (the 3 × 3 patch of w there, the patch of x that max-pooling chose, 1).

**q** = ‖c(K)‖ on the torus of `conv_equilibrium.py`: exact for "circular" if c(K) is invertible, else an upper bound.
**D**: |w*| ≤ v implies |w*| ≤ tanh(|drive| + |K| ⋆ v), from v = 1; or ‖φ_i(0)‖/(1 − q) for each example.

**nu_1** = λmax(T(G∘G)T)^½ with G = c(K)c(K)ᵀ, where T_a is the largest |tanh''| in channel a. With zeros as padding,
the rows are parts of the rows of c(K) on the larger torus; additional rows and columns can only increase the value.
G(a, y; b, z) = g_ab(y − z), so T(G∘G)T is block circulant, without negative entries. Its largest eigenvalue has an
eigenvector without negative entries; the mean of the translates of this vector is also an eigenvector, and constant
over places. So λmax is the largest eigenvalue of the h × h matrix T_a T_b Σ_y g_ab(y)².

**L_Phi**, **nu_2**. Each pixel is in at most nine patches, so the matrix P(δ) of the patches of δ has ‖P(δ)‖ ≤ 3‖δ‖.
With this, L_Phi is as in the model without convolutions. In the chord form, diag(tanh')P(δ) adds 3 max s, and diag(e)ζ*
with |e| ≤ T|K_a ⋆ δ| adds at most q_a max T‖ζ*‖, where q_a = ‖K_a ⋆ ·‖ is the norm of one output channel; the columns
of w and the other columns are orthogonal.

**L_E**, **eta_2**. E and ∇₂E depend on w only through m = μ(w), and ‖μ(w) − μ(w*)‖ ≤ ‖w − w*‖, because the maximum is
1-Lipschitz in each window. ∇₁E has the entries of ∇_m E at the places that the maximum chose, so its norm is the same.
Hence both constants are those of the classifier in m.

**eta_1** does not exist if the two largest entries of a window are equal at a point of the ball: there the choice
jumps, and so does ∇₁E. To change the choice in a window, ‖δ‖ ≥ gap/√2 is needed, where the gap is the difference of the
two largest entries. On balls around a centre with r < gap/√2 in every window, eta_1 is that of the classifier; on other
balls it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, unfold

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import Region, closed_form
from boundcheck.problems.parts.classifier_constants import Classifier
from boundcheck.problems.parts.equilibrium_constants import WORK
from boundcheck.problems.parts.norm_bounds import largest, spectral_norm
from boundcheck.problems.parts.projections import convolution_norm
from boundcheck.problems.parts.tanh_range import Bends, widest

ROUNDS = 3
BLOCK = 20_000  # places in one block


@dataclass(frozen=True, eq=False)
class Layer:
    """K and its torus, the drive, the padded images, the pixels that pooling chose, and the padding of states."""

    K: Tensor
    drive: Tensor
    images: Tensor
    chosen: Tensor  # (n, h, s, s): indices into the pixels of an image
    grid: int
    padded: Callable[[Tensor], Tensor]
    exact: bool

    @cached_property
    def q(self) -> Tensor:
        return convolution_norm(self.K, self.grid)

    @property
    def lengths(self) -> Tensor:
        """‖K_a‖_F, with shape (h, 1, 1)."""
        lengths: Tensor = self.K.flatten(1).norm(dim=1)[:, None, None]
        return lengths

    def squares(self) -> Tensor:
        """Return Σ_y g_ab(y)²."""
        blocks = torch.fft.rfft2(self.K, s=(self.grid, self.grid))
        g = torch.fft.irfft2(torch.einsum("abyx,cbyx->acyx", blocks, blocks.conj()), s=(self.grid, self.grid))
        summed: Tensor = g.square().sum(dim=(-2, -1))
        return summed

    @cached_property
    def star_entries(self) -> Tensor:
        """v ≥ |w*|."""
        v = torch.ones_like(self.drive)
        for _ in range(ROUNDS):
            v = (self.drive.abs() + torch.conv2d(self.padded(v), self.K.abs())).tanh()
        return v

    def star_norm(self) -> Tensor:
        """Return D."""
        norms: Tensor = self.star_entries.flatten(1).norm(dim=1)
        if self.q < 1:
            norms = torch.minimum(norms, self.drive.tanh().flatten(1).norm(dim=1) / (1 - self.q))
        D: Tensor = norms.norm()
        return D


def everywhere(layer: Layer) -> list[Constant]:
    singular = torch.linalg.svdvals(torch.fft.rfft2(layer.K, s=(layer.grid, layer.grid)).permute(2, 3, 0, 1))
    invertible = bool(singular.min() > layer.K.numel() * torch.finfo(layer.K.dtype).eps * layer.q)
    return [
        closed_form("q", layer.q, "‖c(K)‖", exact=layer.exact and invertible),
        closed_form("D", layer.star_norm(), "min{‖v‖, ‖Φ(0)‖/(1−q)} by examples, v = tanh(|drive| + |K|⋆v) from v = 1"),
    ]


def on(layer: Layer, classifier: Classifier, region: Region) -> list[Constant]:
    W, r = region.point.reshape(layer.drive.shape), region.radius
    at_star = region.centre == "w_star"
    bends = Bends.around(torch.conv2d(layer.padded(W), layer.K) + layer.drive, r * layer.lengths)
    T = bends.bend.amax(dim=(0, 2, 3))
    pooled = max_pool2d(W, 2).flatten(1)
    star = spectral_norm(pooled) if at_star else layer.star_norm()
    entries = W.abs() if at_star else layer.star_entries
    constants = [
        closed_form("nu_1", largest(T[:, None] * layer.squares() * T).sqrt(), "λmax(T(G∘G)T)^½, G = c(K)c(K)ᵀ", region),
        closed_form(
            "nu_2", _nu_2(layer, bends, entries), "max_a ((3s+q_a max T‖patch w*‖)² + (q_a max Tξ)²)^½", region
        ),
        closed_form("L_Phi", _L_Phi(layer, bends.slope, W, r), "max_a ‖diag(tanh'_a)[patches of w, of x, 1]‖", region),
        *classifier.constants(pooled, star, region),
    ]
    first, second = unfold(W.flatten(0, 1)[:, None], 2, stride=2).topk(2, dim=1).values.unbind(1)
    if r < float((first - second).min()) / 2**0.5:
        constants.append(classifier.eta_1(region))
    return constants


def _nu_2(layer: Layer, bends: Bends, star: Tensor) -> Tensor:
    omega = torch.conv2d(layer.padded(star**2), torch.ones_like(layer.K[:1])).sqrt()  # one number a place
    of_x = torch.conv2d(layer.images**2, layer.K.new_ones(1, 1, 3, 3)).flatten(1)
    xi = (1 + of_x.gather(1, layer.chosen.flatten(1))).sqrt().reshape(layer.chosen.shape)
    T, slope = bends.bend, bends.slope.amax(dim=(0, 2, 3))
    q_a = torch.stack([convolution_norm(K_a[None], layer.grid) for K_a in layer.K])
    return torch.hypot(3 * slope + q_a * (T * omega).amax(dim=(0, 2, 3)), q_a * (T * xi).amax(dim=(0, 2, 3))).max()


def _L_Phi(layer: Layer, slope: Tensor, W: Tensor, r: float) -> Tensor:
    n, h, s, _ = W.shape
    size = 9 * h + 10
    apart = n * s * s * size**2 * h <= WORK
    if not apart:
        slope = slope.amax(dim=1, keepdim=True).expand(-1, h, -1, -1)
    grams = W.new_zeros(h, size, size)
    step = max(1, BLOCK // (s * s))
    for start in range(0, n, step):
        block = slice(start, start + step)
        of_w = unfold(layer.padded(W[block]), 3).transpose(0, 1).flatten(1)  # 9h × places
        of_x = unfold(layer.images[block], 3)
        for a in range(h):
            weights = slope[block, a].flatten()
            winners = layer.chosen[block, a].flatten(1)[:, None].expand(-1, 9, -1)
            rest = of_x.gather(2, winners).transpose(0, 1).flatten(1)
            rest = torch.cat((rest, rest.new_ones(1, rest.shape[1]))) * weights
            if a == 0 or apart:
                rows = of_w * weights
                within = rows @ rows.T
            across = rows @ rest.T
            grams[a] += torch.cat((torch.cat((within, across), 1), torch.cat((across.T, rest @ rest.T), 1)))
    return widest(grams, 9 * h, 3 * r * slope.amax(dim=(0, 2, 3))).max()
