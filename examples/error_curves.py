"""Section 4.1 of the paper in one page: the error of each method at every t, on LR, KRR, BR and HR.

Problem: the four synthetic problems, three values of λ each.
Method: ITD, AID-FP and AID-CG with k = t and with k = 10.
Reference: Figure 1 of Grazzi et al. 2020 (there with 20 values of λ).

Draws error_curves.png in the current directory: median and range over λ.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import boundcheck as bc

METHODS = ["itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10"]

figure, panels = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for axes, name in zip(panels, ("lr", "krr", "br", "hr"), strict=True):
    problem = bc.load_problem(name, seed=0)
    curves = bc.error_curves(problem, METHODS, t=150, samples=3, seed=0)
    scale = np.linalg.norm(curves.exact.numpy(), axis=1, keepdims=True)
    for method in METHODS:
        style = bc.plot.style_of(method)  # the colour of the method in every figure; a fixed k is dashed
        relative = curves[method] / scale
        middle = np.median(relative, axis=0)
        axes.fill_between(curves.t, relative.min(axis=0), relative.max(axis=0), color=style.colour, alpha=0.12, lw=0)
        axes.semilogy(curves.t, middle, color=style.colour, ls=style.dashes, lw=1.2, label=method)
    best = min(METHODS, key=lambda m: np.median(curves[m][:, -1]))
    print(f"{name:4s} d = {problem.d}, n = {problem.n}, {problem.dynamics.name}: least error at t = 150 by {best}")
    axes.set_title(f"{name.upper()}, {problem.dynamics.name}", fontsize=10)
    axes.set_xlabel("$t$")
panels[0].set_ylabel(r"$\|g(\lambda)-\nabla f(\lambda)\|\,/\,\|\nabla f(\lambda)\|$")
panels[0].plot([], [], color="0.5", alpha=0.3, lw=6, label="shaded: range over 3 λ")
panels[0].legend(fontsize=7)
figure.savefig("error_curves.png", dpi=130)
