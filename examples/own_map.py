"""A problem of your own from a fixed-point map: a small recurrent layer at its equilibrium.

Problem: w = tanh(Aw + λ) with ‖A‖ = 0.8, E = ½‖w − target‖².
Method: ITD, AID-FP, and AID with CG on the normal equations, because A is not symmetric.
Constants: boundcheck proves them from the code of the map. Here some are derived by hand and given with `known`, as you
would do for a map with an operation that has no rule.
"""

import torch

import boundcheck as bc

generator = torch.Generator().manual_seed(0)
A = torch.randn(6, 6, generator=generator, dtype=torch.float64)
A *= 0.8 / torch.linalg.matrix_norm(A, 2)
target = torch.linspace(-0.5, 0.5, 6, dtype=torch.float64)
zeros = torch.zeros(6, dtype=torch.float64)


def fp_map(w, lam):
    return torch.tanh(A @ w + lam)


def outer_loss(w, lam):
    return ((w - target) ** 2).sum() / 2


# |tanh'| ≤ 1 and |tanh''| ≤ 4/(3√3), so ‖∂₁Φ‖ ≤ ‖A‖, and ∂₁Φ and ∂₂Φ change by at most 4/(3√3) times ‖A‖² and ‖A‖
known = bc.Constants.given(q=0.8, nu_1=0.77 * 0.8**2, nu_2=0.77 * 0.8, L_Phi=1.0, side="upper")
problem = bc.Problem.from_map(fp_map, outer_loss, zeros, zeros + 0.3, name="layer", known=known)

if __name__ == "__main__":
    print(bc.check(problem, ["itd", "aid-fp", "aid-cgn"], t=60).table())
