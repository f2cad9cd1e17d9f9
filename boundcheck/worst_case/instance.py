"""A bilevel problem with constants that are known by construction, in dimension d with one hyperparameter.

    Φ(w, λ) = w* + Uφ(x) + λ U_Zζ(V_Z x)        x = w − w*, at λ = 0, from w_0 = 0
    E(w, λ) = Σ_i Γ_i((V_g x)_i) + λ χ(e·x)

φ_i', ζ_i, γ_i = Γ_i' and χ are ramps, U, U_Z, V_Z, V_g are orthogonal and e is a unit vector. One hyperparameter is
enough: on the line through λ in the direction of the error vector, the error is the same, and no constant is larger.

    ∂₁Φ = U diag φ_i'(x_i)          q  = max_i sup|φ_i'|, ν₁ = max_i Lip φ_i'   (the norm of a diagonal matrix)
    ∂₂Φ = U_Z ζ(V_Z x)              ν₂ = max_i Lip ζ_i, L_Φ² = Σ_i sup ζ_i²
    ∇₁E = V_gᵀ γ(V_g x)             η₁ = max_i Lip γ_i, L_E² = Σ_i sup γ_i²
    ∇₂E = χ(e·x)                    η₂ = Lip χ

q, ν₁, ν₂, η₁, η₂ are exact on the whole space, where Φ contracts. L_Φ and L_E are taken over the smallest box that
contains the ball: exact for d = 1, at least the supremum for d > 1. With `symmetric`, U = I and U_Z = V_Zᵀ: then Φ is a
gradient step of length 1 on ℓ = |x|²/2 − Σ∫φ_i(x_i) − λΣ∫ζ_i((V_Z x)_i), whose Hessian I − diag φ_i' has its spectrum
in [1 − max sup φ_i', 1 − min inf φ_i']. With `value`, E = ℓ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from boundcheck.ball import BallKind
from boundcheck.worst_case.arithmetic import DECIMAL, DOUBLE, Arithmetic, Array, decimal, dot, rotation, times, turned
from boundcheck.worst_case.ramp import Ramp

RAMPS = ("phi", "zeta", "gamma", "chi")
ANGLES = ("U", "U_Z", "V_Z", "V_g", "e")


@dataclass(frozen=True)
class InstanceKind:
    """The kind of an instance: its dimension, and its required properties."""

    d: int
    symmetric: bool = False
    value: bool = False


@dataclass(frozen=True, eq=False)
class Instance:
    """A batch of instances.

    `numbers` has w_star, the five arrays of each ramp as "phi.plus" …, the angles of each rotation, and the free
    parameters of the solvers: the directions `u` of w_t − w* and `s` of v_{t,k} − v_t, and the κ for momentum methods.
    """

    kind: InstanceKind
    numbers: Mapping[str, Array]
    ops: Arithmetic = DOUBLE

    def precisely(self) -> Instance:
        """Return the same numbers in 50 digits."""
        decimals = {name: decimal(array.detach().cpu().numpy()) for name, array in self.numbers.items()}
        return Instance(self.kind, decimals, DECIMAL)

    def row(self, index: int) -> Instance:
        """Return one instance of the batch, as a batch of one."""
        return Instance(self.kind, {name: x[index : index + 1].detach() for name, x in self.numbers.items()}, self.ops)

    def ramp(self, name: str) -> Ramp:
        return Ramp(*(self.numbers[f"{name}.{field.name}"] for field in fields(Ramp)))

    def _turn(self, name: str) -> Array:
        return rotation(self.ops, self.numbers[name], self.kind.d)

    @cached_property
    def phi(self) -> Ramp:
        return self.ramp("phi")

    @cached_property
    def zeta(self) -> Ramp:
        return self.ramp("zeta")

    @cached_property
    def gamma(self) -> Ramp:
        return self.ramp("gamma")

    @cached_property
    def chi(self) -> Ramp:
        return self.ramp("chi")

    @cached_property
    def U(self) -> Array:
        return self._turn("U")

    @cached_property
    def V_Z(self) -> Array:
        return self._turn("V_Z")

    @cached_property
    def U_Z(self) -> Array:
        return turned(self.V_Z) if self.kind.symmetric else self._turn("U_Z")

    @cached_property
    def V_g(self) -> Array:
        return self._turn("V_g")

    @cached_property
    def e(self) -> Array:
        return self._turn("e")[..., 0, :]

    @property
    def start(self) -> Array:
        """w_0 − w* = −w*, because w_0 = 0."""
        return -self.numbers["w_star"]

    def step(self, x: Array) -> Array:
        """Return Φ(w) − w*."""
        return self.turn(self.phi.integral(self.ops, x))

    def linearised_at(self, x: Array) -> Linearised:
        """Return Φ and its derivative at w."""
        change, moved = self.phi.change_and_integral(self.ops, x)
        return Linearised(self, change, moved)

    def turn(self, x: Array) -> Array:
        """Return Ux."""
        return x if self.kind.symmetric else self._by(self.U, x)

    def _by(self, R: Array, x: Array) -> Array:
        """Return a rotation times x; in dimension 1 the rotation is 1."""
        return x if self.kind.d == 1 else times(R, x)

    def system(self, x: Array) -> Array:
        """Return I − ∂₁Φ(w)."""
        d = self.kind.d
        zero = 0 * x[..., :1]
        eye = self.ops.stack([self.ops.stack([zero[..., 0] + (i == j) for i in range(d)]) for j in range(d)])
        slopes = self.phi(self.ops, x)[..., None, :]
        return eye - (eye if self.kind.symmetric else self.U) * slopes

    def d2phi(self, x: Array) -> Array:
        return self._by(self.U_Z, self.zeta(self.ops, self._by(self.V_Z, x)))

    def change_of_d2phi(self, x: Array) -> Array:
        return self._by(self.U_Z, self.zeta.change(self.ops, self._by(self.V_Z, x)))

    def grad_w(self, x: Array) -> Array:
        """Return ∇₁E(w), which is w − Φ(w) if E = ℓ."""
        if self.kind.value:
            return x - self.step(x)
        return self._by(turned(self.V_g), self.gamma(self.ops, self._by(self.V_g, x)))

    def change_of_grad_w(self, x: Array) -> Array:
        if self.kind.value:
            return x - self.step(x)  # 0 at w*
        return self._by(turned(self.V_g), self.gamma.change(self.ops, self._by(self.V_g, x)))

    def change_of_grad_lam(self, x: Array) -> Array:
        if self.kind.value:
            return -self.zeta.integral(self.ops, self._by(self.V_Z, x)).sum(-1)
        return self.chi.change(self.ops, dot(self.e, x)[..., None])[..., 0]

    @cached_property
    def w_prime(self) -> Array:
        """(I − ∂₁Φ(w*))⁻¹∂₂Φ(w*)."""
        Z = self.d2phi(0 * self.start)
        if self.kind.symmetric:
            return Z / (1 - self.phi.star)
        return self.ops.solve(self.system(0 * self.start), Z)

    def constants(self, ball: str) -> dict[str, Array]:
        """Return the constants of the theorems, with suprema over ‖w‖ ≤ 2D or over B(w*, r_0)."""
        ops, origin = self.ops, 0 * self.start
        q = ops.largest(ops.maximum(abs(self.phi.highest(ops)), abs(self.phi.lowest(ops))))
        mu, L = 1 - ops.largest(self.phi.highest(ops)), 1 + ops.largest(-self.phi.lowest(ops))
        D = ops.norm(self.start)
        nu_1, nu_2 = self.phi.lipschitz(ops), self.zeta.lipschitz(ops)
        L_Phi = ops.norm(self.zeta.size(ops, *self._interval(self.V_Z, ball)))
        constants = {
            "q": q,
            "mu": mu,
            "L": L,
            "D": D,
            "r_0": D,
            "nu_1": nu_1,
            "nu_2": nu_2,
            "L_Phi": L_Phi,
            "mu_inv": 1 - q,
        }
        constants |= {"q_star": ops.largest(abs(self.phi.star)), "L_Phi_star": ops.norm(self.d2phi(origin))}
        constants |= {"W": ops.norm(self.w_prime), "g_star": ops.norm(self.grad_w(origin))}
        constants |= {"hat_rho_1": nu_1, "hat_rho_2": nu_2, "L_ell": constants["L_Phi_star"], "alpha": 1 + 0 * q}
        constants["kappa"] = L / mu if self.kind.symmetric else (1 + q) / (1 - q)
        if self.kind.value:
            return constants | {"eta_1": L, "eta_2": L_Phi, "L_E": L * D * (3 if ball == BallKind.PAPER else 1)}
        constants["L_E"] = ops.norm(self.gamma.size(ops, *self._interval(self.V_g, ball)))
        return constants | {"eta_1": self.gamma.lipschitz(ops), "eta_2": self.chi.lipschitz(ops)}

    def _interval(self, V: Array, ball: str) -> tuple[Array, Array]:
        """Return the least and the largest value of each coordinate of Vx on the ball."""
        D = self.ops.norm(self.start)[..., None]
        centre, radius = (times(V, self.start), 2 * D) if ball == BallKind.PAPER else (0 * self.start, D)
        return centre - radius, centre + radius


@dataclass(frozen=True, eq=False)
class Linearised:
    """φ'(x) − φ'(0) and φ(x) of an instance at a point."""

    instance: Instance
    change: Array
    moved: Array

    @property
    def next(self) -> Array:
        """Φ(w) − w*."""
        return self.instance.turn(self.moved)

    def d1phi(self, v: Array) -> Array:
        """Return ∂₁Φ(w)v."""
        return self.instance.turn((self.instance.phi.star + self.change) * v)

    def change_of_d1phi(self, v: Array) -> Array:
        """Return (∂₁Φ(w) − ∂₁Φ(w*))v."""
        return self.instance.turn(self.change * v)

    def both(self, v: Array, u: Array) -> Array:
        """Return ∂₁Φ(w)v + (∂₁Φ(w) − ∂₁Φ(w*))u."""
        return self.instance.turn(self.instance.phi.star * v + self.change * (v + u))
