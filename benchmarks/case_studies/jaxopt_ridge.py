"""JAXopt's ridge regression at its settings: `python benchmarks/case_studies/jaxopt_ridge.py`.

The lower level is the ridge regression of JAXopt's paper (arXiv:2105.15183), ½‖Xw − y‖² + ½θ‖w‖², with θ = 10. The
data are scikit-learn's diabetes patients, standardised, half of them for validation. With the argument
float64 everything is in float64.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rows import row, title
from sklearn.datasets import load_diabetes

import boundcheck as bc

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # "JAXopt is no longer maintained"
    import jaxopt

DTYPE = np.float64 if "float64" in sys.argv else np.float32
jax.config.update("jax_enable_x64", DTYPE is np.float64)
X, Y = load_diabetes(return_X_y=True)
X, Y = X / X.std(0), (Y - Y.mean()) / Y.std()
X_TRAIN, X_VAL, Y_TRAIN, Y_VAL = (part.astype(DTYPE) for part in (X[::2], X[1::2], Y[::2], Y[1::2]))
THETA = DTYPE(10.0)


def objective(w: Any, theta: Any) -> Any:
    """The lower-level loss."""
    residual = jnp.dot(X_TRAIN, w) - Y_TRAIN
    return (jnp.sum(residual**2) + theta * jnp.sum(w**2)) / 2


def val_loss(w: Any, theta: Any) -> Any:
    """The upper-level loss."""
    return jnp.mean((jnp.dot(X_VAL, w) - Y_VAL) ** 2)


def closed_form(init_w: Any, theta: Any) -> Any:
    """The paper's solver."""
    matrix = X_TRAIN.T @ X_TRAIN + theta * jnp.eye(X_TRAIN.shape[1])
    return jnp.linalg.solve(matrix, X_TRAIN.T @ Y_TRAIN)


def main() -> None:
    """The derivative of the validation loss by θ."""
    start = jnp.zeros(X_TRAIN.shape[1], dtype=DTYPE)
    problem = bc.adapters.jaxopt.problem(start, THETA, val_loss, fun=objective)
    root, solve = jaxopt.implicit_diff.custom_root, jaxopt.linear_solve
    slope = jax.grad(objective)
    solvers = {
        "custom_root(F), w in closed form (the paper)": root(slope)(closed_form),
        "custom_root(F, solve=solve_cg)": root(slope, solve=solve.solve_cg)(closed_form),
        "custom_root(F, solve=solve_cg with tol = 0.3)": root(slope, solve=lambda A, b: solve.solve_cg(A, b, tol=0.3))(
            closed_form
        ),
    }
    for label, options in {
        "GradientDescent(objective), maxiter = 500, tol = 1e-3": {},
        "GradientDescent(objective, tol=1e-6)": {"tol": 1e-6},
        "GradientDescent(objective, maxiter=20000, tol=1e-6)": {"maxiter": 20000, "tol": 1e-6},
    }.items():
        solver = jaxopt.GradientDescent(objective, **options)
        solvers[label] = lambda w, theta, solver=solver: solver.run(w, theta).params
    solvers["LBFGS(objective)"] = lambda w, theta: jaxopt.LBFGS(objective).run(w, theta).params
    title(f"JAXopt, ridge regression, {DTYPE.__name__}", "jaxopt", "jax", "scikit-learn")
    for label, solver in solvers.items():
        g = jax.grad(lambda theta, solver=solver: val_loss(solver(start, theta), theta))(THETA)
        w = bc.adapters.from_numpy(problem, solver(start, THETA), of="params")
        row(label, problem, bc.adapters.from_numpy(problem, g), w)


if __name__ == "__main__":
    main()
