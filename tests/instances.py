"""Random problems of a few dimensions whose constants are known: exactly, or as suprema proved beside the code.

Every family is a function of a seed; λ is fixed at the `lam` of the instance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from runs import Array, Instance, norm, spectral


def tensor_norm(A: Array) -> float:
    """At least sup ‖Σλ_jA_j‖ over ‖λ‖ = 1, by the three flattenings of (n, d, d); equal to it when n = 1 or d = 1."""
    n, d, _ = A.shape
    return float(min(spectral(A.reshape(n * d, d)), spectral(np.hstack(list(A))), spectral(A.reshape(n, d * d))))


def along(A: Array, w: Array) -> Array:
    """The matrix with columns A_j w, for each w of a stack."""
    return np.einsum("jab,...b->...aj", A, w)


class Draw:
    """The random ingredients all families share.

    Every other draw is scalar in w or in λ, where norms of products lose little and bounds are nearly tight.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.d = 1 if seed % 4 == 0 else int(rng.integers(1, 5))
        self.n = 1 if seed % 4 < 2 else int(rng.integers(1, 4))
        self.lam = rng.normal(size=self.n)

    def normal(self, *shape: int) -> Array:
        """A Gaussian array of a random size, or 0 in one of six cases."""
        return self.rng.normal(size=shape) * self.rng.choice([0, 0.3, 1, 1, 1, 3])

    def symmetric(self, *shape: int) -> Array:
        M = self.normal(*shape, self.d, self.d)
        return (M + np.swapaxes(M, -1, -2)) / 2

    def orthogonal(self) -> Array:
        return np.linalg.qr(self.rng.normal(size=(self.d, self.d)))[0]


@dataclass(frozen=True)
class Upper:
    """E = ½wᵀQw + pᵀw + λᵀRw: ∇₁E = Qw + p + Rᵀλ and ∇₂E = Rw, so η₁ = ‖Q‖ and η₂ = ‖R‖ exactly."""

    Q: Array
    p: Array
    R: Array

    @classmethod
    def of(cls, draw: Draw) -> Upper:
        return cls(draw.symmetric(), draw.normal(draw.d), draw.normal(draw.n, draw.d))

    def parts(self, lam: Array) -> dict[str, Callable[..., Array]]:
        return {
            "outer": lambda w, lam: 0.5 * (w @ self.Q * w).sum(-1) + w @ (self.p + self.R.T @ lam),
            "grad_w": lambda w: w @ self.Q + self.p + self.R.T @ lam,
            "grad_lam": lambda w: w @ self.R.T,
        }

    @property
    def eta(self) -> dict[str, float]:
        return {"eta_1": float(spectral(self.Q)), "eta_2": float(spectral(self.R))}


@cache
def bilinear(seed: int) -> Instance:
    """(a) Φ = (A + Σλ_jA_j)w + b + Bλ, not symmetric; with M = A + Σλ_jA_j: q = ‖M‖, ν₁ = 0, μ_λ = σ_min(I−M)."""
    draw = Draw(seed)
    d, n, lam = draw.d, draw.n, draw.lam
    A_j, b, B, E = draw.normal(n, d, d), draw.rng.normal(size=d), draw.normal(d, n), Upper.of(draw)
    M = draw.rng.normal(size=(d, d))
    M *= draw.rng.choice([0, 0.3, 0.6, 0.8, 0.95]) / spectral(M)
    A = M - np.einsum("j,jab", lam, A_j)
    gap = np.linalg.svd(np.eye(d) - M, compute_uv=False)
    inverse = {"mu_inv": float(gap[-1]), "kappa": float(gap[0] / gap[-1])}
    constants = {"q": float(spectral(M)), "nu_1": 0.0, "nu_2": tensor_norm(A_j), **inverse, **E.eta}
    return Instance(
        f"bilinear-{seed}",
        lam,
        phi=lambda w, lam: w @ (A + np.einsum("j,jab", lam, A_j)).T + b + B @ lam,
        d1phi=lambda w: np.broadcast_to(M, (*w.shape, d)),
        d2phi=lambda w: along(A_j, w) + B,
        w_0=draw.normal(d),
        sups=lambda centre, radius: constants,
        **E.parts(lam),
    )


def sup_cos(x: Array, radius: float) -> Array:
    """sup |cos| over [x−radius, x+radius]: 1 if a multiple of π is inside, else at an end."""
    inside = np.floor((x + radius) / np.pi) >= np.ceil((x - radius) / np.pi)
    return np.where(inside, 1.0, np.maximum(abs(np.cos(x - radius)), abs(np.cos(x + radius))))


@cache
def saturating(seed: int) -> Instance:
    """(b) Φ = Uᵀ(a∘sin(Vw+φ+Fδ)) + Σδ_jA_jw + Bλ with δ = λ minus the λ in question; U, V orthogonal.

    ∂₁Φ = Uᵀdiag(a cos x)V with x = Vw+φ, so ‖∂₁Φ‖ = max|a cos x|, and its derivative along w is Uᵀdiag(a sin x Vẇ)V,
    of norm ≤ max|a sin x|; so for ∂₂Φ, with F for V. On a ball each x_i moves in an interval.
    """
    draw = Draw(seed)
    d, n, lam, rng = draw.d, draw.n, draw.lam, draw.rng
    U, V, phase = draw.orthogonal(), draw.orthogonal(), rng.uniform(-np.pi, np.pi, d)
    a = rng.choice([0.3, 0.6, 0.8, 0.95]) * rng.uniform(-1, 1, d) ** rng.choice([0, 1])
    A_j, B, F, E = draw.normal(n, d, d), draw.normal(d, n), draw.normal(d, n), Upper.of(draw)

    def phi(w: Array, at: Array) -> Array:
        return (a * np.sin(w @ V.T + phase + F @ (at - lam))) @ U + along(A_j, w) @ (at - lam) + B @ at

    def sups(centre: Array, radius: float) -> dict[str, float]:
        x = V @ centre + phase
        q, nu_1 = (float(max(abs(a) * sup_cos(y, radius))) for y in (x, x - np.pi / 2))
        nu_2 = tensor_norm(A_j) + nu_1 * float(spectral(F))
        return {"q": q, "nu_1": nu_1, "nu_2": nu_2, "mu_inv": 1 - q, "kappa": (1 + q) / (1 - q), **E.eta}

    return Instance(
        f"saturating-{seed}",
        lam,
        phi=phi,
        d1phi=lambda w: U.T @ ((a * np.cos(w @ V.T + phase))[..., None] * V),
        d2phi=lambda w: U.T @ ((a * np.cos(w @ V.T + phase))[..., None] * F) + along(A_j, w) + B,
        w_0=draw.normal(d),
        sups=sups,
        **E.parts(lam),
    )


@cache
def descent(seed: int, log_cosh: bool = False, value: bool = False, step: str | float = "") -> Instance:
    """(c), (d), (f) Gradient descent on ℓ = ½wᵀH(λ)w − b(λ)ᵀw + Σc_i log cosh (Uw)_i; `value` puts E = ℓ.

    H = H_0 + Σλ_jH_j, b = b_0 + Bλ, U orthogonal. With x = Uw, ∇²₁ℓ = H + Uᵀdiag(c sech²x)U, whose derivative along w
    has norm ≤ max c_i|2 sech²x_i tanh x_i|; on a ball x_i moves in an interval. ∇²₂₁ℓ = [H_jw] − B, so
    ρ̂₂ = sup‖Σλ_jH_j‖. Φ = w − α(λ)∇₁ℓ with ∇α = `slope`, which is 0 when the kind of `step` is asked for.
    """
    draw = Draw(seed)
    d, n, lam, rng = draw.d, draw.n, draw.lam, draw.rng
    U, V, B, b, H_j = draw.orthogonal(), draw.orthogonal(), draw.normal(d, n), rng.normal(size=d), draw.symmetric(n)
    spectrum = rng.uniform(1, rng.choice([1, 1.5, 4, 30, 200]), d) * rng.choice([0.1, 1])
    c, E = rng.uniform(0, 3, d) * log_cosh, Upper.of(draw)
    H, low, high = V.T @ np.diag(spectrum) @ V, float(spectrum.min()), float(spectrum.max())
    steps = {"best": 2 / (low + high + max(c)), "short": 1 / (high + max(c)), "long": 1.9 / (high + max(c))}
    alpha = float(step if isinstance(step, float) else steps[step or rng.choice(list(steps))])
    alpha *= 0.7 if d == 1 and not isinstance(step, float) else 1.0  # 1/L would solve a scalar quadratic in one step
    slope = draw.normal(n) * alpha / 3 * (step == "")

    def ell(w: Array, at: Array) -> Array:
        curved = w @ H + along(H_j, w) @ (at - lam)
        return 0.5 * (curved * w).sum(-1) - w @ (b + B @ at) + np.log(np.cosh(w @ U.T)) @ c

    def grad(w: Array, at: Array = lam) -> Array:
        return w @ H + along(H_j, w) @ (at - lam) - b - B @ at + (c * np.tanh(w @ U.T)) @ U

    def sups(centre: Array, radius: float) -> dict[str, float]:
        near, far = np.maximum(abs(U @ centre) - radius, 0), abs(U @ centre) + radius
        mu, L = low + float(min(c / np.cosh(far) ** 2)), high + float(max(c / np.cosh(near) ** 2))
        steepest = np.clip(np.arctanh(1 / np.sqrt(3)), near, far)  # |2 sech² tanh| grows up to there, then falls
        rho_1, rho_2 = float(max(2 * c * np.tanh(steepest) / np.cosh(steepest) ** 2)), tensor_norm(H_j)
        # Z(w)−Z(w*) = −α[H_jδ] − (∇₁ℓ(w)−∇₁ℓ(w*))∇αᵀ; on a quadratic that is −[(αH_j + ∂_jα H)δ]
        nu_2 = alpha * rho_2 + L * float(norm(slope))
        if not log_cosh:
            nu_2 = min(nu_2, tensor_norm(alpha * H_j + slope[:, None, None] * H))
        # ‖∇₂ℓ(w)−∇₂ℓ(w*)‖ ≤ (‖∇²₂₁ℓ(w*)‖ + ρ̂₂r/2)r, r at most the distance to the farthest point of the ball
        farthest = radius + float(norm(centre - instance.w_star))
        eta = {"eta_1": L, "eta_2": fixed["L_ell"] + rho_2 * farthest / 2} if value else E.eta
        q = max(1 - alpha * mu, alpha * L - 1)
        curvature = {"mu": mu, "L": L, "kappa": L / mu, "hat_rho_1": rho_1, "hat_rho_2": rho_2}
        return {**curvature, **eta, "q": q, "mu_inv": alpha * mu, "nu_1": alpha * rho_1, "nu_2": nu_2}

    of_ell = {"outer": ell, "grad_w": grad, "grad_lam": lambda w: np.einsum("...aj,...a", along(H_j, w) / 2 - B, w)}
    fixed = {"alpha": alpha, "grad_alpha": float(norm(slope)), "m": float(d)}
    instance = Instance(
        f"descent-{seed}",
        lam,
        phi=lambda w, at: w - (alpha + slope @ (at - lam)) * grad(w, at),
        d1phi=lambda w: np.eye(d) - alpha * (H + U.T @ ((c / np.cosh(w @ U.T) ** 2)[..., None] * U)),
        d2phi=lambda w: -alpha * (along(H_j, w) - B) - grad(w)[..., None] * slope,
        w_0=draw.normal(d),
        sups=sups,
        fixed=fixed,
        **(of_ell if value else E.parts(lam)),
    )
    fixed["L_ell"] = float(spectral(along(H_j, instance.w_star) - B))
    return instance


def scalar(
    q: float, w_star: float, w_0: float, nu: tuple[float, float], beta: float, E: Upper, value: bool
) -> Instance:
    """Φ = w* + q(w−w*) + ν₁(w−w*)|w−w*|/2 + (λ−q)(ν₂w+β), at λ = q ≥ 0: every constant is attained.

    ∂₁Φ = q + ν₁|w−w*| and ∂₂Φ = ν₂w + β. It is gradient descent with α = 1 on the ℓ with ∇₁ℓ = w − Φ.
    """
    (nu_1, nu_2), lam, star = nu, np.array([q]), np.array([w_star])

    def phi(w: Array, at: Array) -> Array:
        return star + q * (w - star) + nu_1 * (w - star) * abs(w - star) / 2 + (at - q) * (nu_2 * w + beta)

    def ell(w: Array, at: Array) -> Array:
        apart = abs(w - star)
        return ((1 - q) * apart**2 / 2 - nu_1 * apart**3 / 6 - (at - q) * (nu_2 * w / 2 + beta) * w)[..., 0]

    def sups(centre: Array, radius: float) -> dict[str, float]:
        farthest = radius + float(norm(centre - star))
        low, high = sorted((q, q + nu_1 * farthest))  # of ∂₁Φ
        lipschitz = {"nu_1": abs(nu_1), "nu_2": nu_2, "hat_rho_1": abs(nu_1), "hat_rho_2": nu_2}
        inverse = {"mu": 1 - high, "mu_inv": 1 - high, "L": 1 - low, "kappa": (1 - low) / (1 - high)}
        eta = {"eta_1": 1 - low, "eta_2": fixed["L_ell"] + nu_2 * farthest / 2} if value else E.eta
        return {**lipschitz, **inverse, **eta, "q": max(high, -low)}

    fixed = {"alpha": 1.0, "grad_alpha": 0.0, "m": 1.0, "L_ell": abs(nu_2 * w_star + beta)}
    of_ell = {"outer": ell, "grad_w": lambda w: w - phi(w, lam), "grad_lam": lambda w: -(nu_2 * w / 2 + beta) * w}
    return Instance(
        "scalar",
        lam,
        phi=phi,
        d1phi=lambda w: (q + nu_1 * abs(w - star))[..., None],
        d2phi=lambda w: (nu_2 * w + beta)[..., None],
        w_0=np.array([w_0]),
        sups=sups,
        fixed=fixed,
        **(of_ell if value else E.parts(lam)),
    )


def tight(q: float, nu_1: float = 0.0, E: Upper | None = None) -> Instance:
    """(e) Φ = λw + b at λ = q and E = w, from w_0 = 0: the local bounds are equalities."""
    E = E or Upper(np.zeros((1, 1)), np.ones(1), np.zeros((1, 1)))
    return scalar(q, 1.0, 0.0, (nu_1, 1.0), 0.0, E, False)


@cache
def kinked(seed: int, value: bool = False) -> Instance:
    """Scalar instances in which the ν₁ terms dominate: away from w* and within ‖w‖ ≤ 2D, ∂₁Φ grows to 0.95 or falls."""
    draw = Draw(4 * seed)  # d = n = 1
    q, change = ((0.0, 0.95), (0.2, 0.75), (0.5, 0.45), (0.7, -0.7), (0.9, -0.9))[seed % 5]
    w_star = draw.rng.normal()
    nu_1 = change / (3 * abs(w_star)) * draw.rng.choice([0.05, 0.3, 1])
    w_0 = w_star * (1 + draw.rng.uniform(-3, 3))
    E, nu_2, beta = Upper.of(draw), draw.rng.choice([0, 0, 0.3]), draw.rng.normal()
    return scalar(q, w_star, w_0, (nu_1, nu_2), beta, E, value)


@dataclass(frozen=True, eq=False)
class Drift:
    """An instance, the solution at the λ before, the length of the step from there, and sup ‖w'‖ on the way."""

    instance: Instance
    r_prev: float
    lam_step: float
    W_path: float


@cache
def drifting(seed: int) -> Drift:
    """Φ = Mw + b + B sin λ with one λ: w(λ) = (I−M)⁻¹(b + B sin λ) and ‖w'‖ = ‖(I−M)⁻¹B‖ |cos λ|, with a known sup."""
    draw = Draw(seed)
    d, rng = draw.d, draw.rng
    lam, step = rng.uniform(-np.pi, np.pi, 1), rng.choice([0.0, 0.1, 1.0, 3.0]) * rng.choice([-1, 1])
    M, b, B = rng.normal(size=(d, d)), rng.normal(size=d), rng.normal(size=(d, 1))
    M *= rng.choice([0, 0.3, 0.6, 0.8, 0.95]) / spectral(M)
    inverse, before = np.linalg.inv(np.eye(d) - M), lam - step
    E = Upper(draw.symmetric(), draw.normal(d), draw.normal(1, d))
    constants = {"q": float(spectral(M)), "nu_1": 0.0, "nu_2": 0.0, **E.eta}
    w_prev = inverse @ (b + B @ np.sin(before))
    w_0 = w_prev + draw.normal(d) * rng.choice([0, 0.1, 1])
    instance = Instance(
        f"drifting-{seed}",
        lam,
        phi=lambda w, at: w @ M.T + b + B @ np.sin(at),
        d1phi=lambda w: np.broadcast_to(M, (*w.shape, d)),
        d2phi=lambda w: np.broadcast_to(B * np.cos(lam), (*w.shape, 1)),
        w_0=w_0,
        sups=lambda centre, radius: constants,
        **E.parts(lam),
    )
    largest = float(spectral(inverse @ B) * sup_cos(lam - step / 2, abs(step) / 2)[0])
    return Drift(instance, float(norm(w_0 - w_prev)), abs(float(step)), largest)
