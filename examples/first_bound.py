"""The smallest bilevel problem, its error and its bounds.

Problem: Φ(w, λ) = λw + 1 and E(w, λ) = w at λ = q.
Method: ITD and AID-FP (k = t), from w_0 = 0.
Guarantee: Theorems 2.1 and 2.4 of Grazzi et al. 2020, and the local bounds, which this problem attains.

Prints error and bounds and draws them to first_bound.png in the current directory.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import boundcheck as bc

q, T = 0.9, 120
w_star = 1 / (1 - q)
gradient = w_star / (1 - q)  # ∇f(λ) = w'(λ) = w(λ)/(1−λ)

# the real methods
errors = {"itd": [], "aid-fp": []}
w = w_prime = v = 0.0
for _ in range(T + 1):
    errors["itd"].append(abs(w_prime - gradient))
    errors["aid-fp"].append(abs(w * v - gradient))  # ∂₂Φ(w_t)·v_t
    w_prime = q * w_prime + w
    w, v = q * w + 1, q * v + 1

# the constants of this problem: ∂₁Φ = λ, ∂₂Φ = w, ∇₁E = 1
constants = bc.Constants.given(q=q, nu_1=0, nu_2=1, eta_1=0, eta_2=0, L_E=1)
on_the_ball = bc.Constants.given(D=w_star, L_Phi=2 * w_star)  # suprema over ‖w‖ ≤ 2D
at_the_solution = bc.Constants.given(r_0=w_star, W=gradient, g_star=1)
constants = constants.replace(*on_the_ball.values(), *at_the_solution.values())

t = np.arange(T + 1)
figure, axes = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
for method in ("itd", "aid-fp"):
    colour = bc.plot.style_of(method).colour
    paper, local = (bc.bounds[name].evaluate(constants, t).values for name in (method, f"{method}-local"))
    axes.semilogy(t, paper, "--", color=colour, label=f"{method} ({bc.bounds[method].reference.number})")
    axes.semilogy(t, local, ":", color=colour, label=f"{method}-local")
    axes.semilogy(t[::6], errors[method][::6], "o", ms=3.5, color=colour, label=f"error of {method}")
    needed = bc.bounds[method].iterations(constants, eps=1e-3)
    print(
        f"{method:7s} error(20) = {errors[method][20]:8.4f}   local bound {local[20]:8.4f}   paper {paper[20]:8.4f}",
        end="",
    )
    print(f"   error ≤ 1e-3 guaranteed at t = {needed.t}" + (f", k = {needed.k}" if needed.k is not None else ""))
axes.set_xlabel("$t$")
axes.set_ylabel(r"$\|g(\lambda)-\nabla f(\lambda)\|$")
axes.set_title(r"$\Phi=\lambda w+1,\ E=w,\ \lambda=q=0.9$", fontsize=10)
axes.legend(fontsize=7, ncols=2)
figure.savefig("first_bound.png", dpi=160)
