"""A problem of your own with minibatches: multinomial logistic regression on handwritten digits.

Problem: ℓ = cross-entropy of a linear module on 400 digits plus Σ_c e^λ_c ‖w_c‖²/2, with one penalty for each class;
E = cross-entropy on 400 others.
Method: SID, which reads ten digits in each step. The minibatch is the third argument of the inner loss, and the loss is
a mean over it. boundcheck proves that from the code.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import boundcheck as bc

images, classes = load_digits(return_X_y=True)
X = torch.tensor(images, dtype=torch.float64).reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16) / 16  # 4 × 4 pixels
y = torch.tensor(classes)
train, validation = (X[:400], y[:400]), (X[400:800], y[400:800])

model = torch.nn.Linear(16, 10, bias=False, dtype=torch.float64)
torch.nn.init.zeros_(model.weight)  # the theorems assume a start at 0


def inner_loss(module, lam, batch):
    X, y = batch
    return F.cross_entropy(module(X), y) + (lam.exp()[:, None] * module.weight**2).sum() / 2


def outer_loss(module, lam):
    X, y = validation
    return F.cross_entropy(module(X), y)


lam = torch.full((10,), -1.0, dtype=torch.float64)
L = torch.linalg.eigvalsh(train[0].T @ train[0])[-1] / (2 * len(train[0])) + lam.exp().max()  # cross-entropy curves ≤ ½
problem = bc.Problem.from_loss(
    inner_loss, outer_loss, model, lam, step_size=1 / float(L), data=train, batch=10, name="digits"
)

if __name__ == "__main__":
    print(problem)
    print(bc.hypergradient(problem, "sid", t=200, k=200))
