"""TorchOpt: `custom_root` and `ImplicitMetaGradientModule` as its users write them, against the package itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import boundcheck as bc
from boundcheck.errors import InputError

torchopt = pytest.importorskip("torchopt", reason="needs TorchOpt: pip install 'boundcheck[audit]'")
pytestmark = pytest.mark.filterwarnings("ignore:We've integrated functorch:FutureWarning")  # from inside TorchOpt
ADAPTER = bc.adapters.torchopt
X = torch.tensor([[1.0, 0.5], [0.0, 2.0], [1.0, -1.0]], dtype=torch.float64)
Y = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
HALF = 1e-8  # half of the digits of float64: all that is compared is of size 1


def ridge(params: Tensor, l2reg: Tensor, data: tuple[Tensor, Tensor]) -> Tensor:
    return ((data[0] @ params - data[1]) ** 2).mean() / 2 + l2reg * (params**2).sum() / 2


def outer_loss(params: Tensor, l2reg: Tensor) -> Tensor:
    return ((params - 1) ** 2).sum()


def solution(l2reg: Tensor) -> Tensor:
    return torch.linalg.solve(X.T @ X / 3 + l2reg * torch.eye(2, dtype=X.dtype), X.T @ Y / 3)


def exact(l2reg: Tensor) -> Tensor:
    w, lam = solution(l2reg), l2reg.detach().requires_grad_()
    H = X.T @ X / 3 + lam * torch.eye(2, dtype=X.dtype)
    return torch.autograd.grad(outer_loss(torch.linalg.solve(H, X.T @ Y / 3), w), lam)[0]


@pytest.mark.parametrize("form", ["objective", "optimality"])
@pytest.mark.parametrize("maxiter", [None, 1], ids=["default", "one step"])
def test_custom_root(form: str, maxiter: int | None) -> None:
    solve = torchopt.linear_solve.solve_normal_cg(maxiter=maxiter)

    @torchopt.diff.implicit.custom_root(torch.func.grad(ridge), argnums=1, solve=solve)
    def solver(params: Tensor, l2reg: Tensor, data: tuple[Tensor, Tensor]) -> Tensor:
        return solution(l2reg)

    w0, l2reg = torch.zeros(2, dtype=X.dtype), torch.tensor(0.3, dtype=X.dtype, requires_grad=True)
    lower: dict[str, Any] = {"objective": ridge} if form == "objective" else {"optimality": torch.func.grad(ridge)}
    problem = ADAPTER.problem(w0, l2reg, outer_loss, (X, Y), **lower)
    (g,) = torch.autograd.grad(outer_loss(solver(w0, l2reg, (X, Y)), l2reg), l2reg)
    error, enclosure = float((g - exact(l2reg)).abs()), bc.enclose(problem, g)
    assert error < 1e-6 if maxiter is None else error > 0.01
    assert enclosure.lower - HALF <= error <= enclosure.upper + HALF
    assert enclosure.side is bc.Side.UPPER


def test_a_root_function_of_the_other_sign_is_the_same_problem() -> None:
    """TorchOpt allows the residual f(x) − x of a fixed point too."""
    w0, l2reg = torch.zeros(2, dtype=X.dtype), torch.tensor(0.3, dtype=X.dtype)
    residual = torch.func.grad(lambda *args: -ridge(*args))
    problem = ADAPTER.problem(w0, l2reg, outer_loss, (X, Y), optimality=residual)
    assert bc.enclose(problem, exact(l2reg)).upper < HALF
    w = w0
    for _ in range(300):
        w = problem.phi(w, problem.lam)
    torch.testing.assert_close(w, solution(l2reg))  # so the step has the right sign, and is not too large


def test_a_scalar_parameter_has_no_gradient_by_the_default_solver() -> None:
    """CG allows itself 10 times the sum of the shapes of the unknowns, which is 0 for a scalar (torchopt#222)."""

    def objective(w: Tensor, lam: Tensor) -> Tensor:
        return (w - lam) ** 2 / 2 + w**2 / 2

    @torchopt.diff.implicit.custom_root(torch.func.grad(objective), argnums=1)
    def solver(w: Tensor, lam: Tensor) -> Tensor:
        return lam.detach() / 2

    w0, lam = torch.tensor(0.0, dtype=X.dtype), torch.tensor(1.0, dtype=X.dtype, requires_grad=True)
    (g,) = torch.autograd.grad(solver(w0, lam) ** 2, lam)
    assert float(g) == 0
    problem = ADAPTER.problem(w0, lam, lambda w, lam: w**2, objective=objective)
    assert bc.enclose(problem, g).lower == pytest.approx(0.5, rel=HALF)  # w = λ/2, so f = λ²/4


@pytest.mark.parametrize("steps", [3, 300])
def test_module(steps: int) -> None:
    torch.manual_seed(0)
    meta_model = nn.Linear(2, 1, dtype=X.dtype)

    class InnerNet(torchopt.nn.ImplicitMetaGradientModule):
        def __init__(self, meta_model: nn.Module) -> None:
            super().__init__()
            self.meta_model = meta_model
            self.model = torchopt.module_clone(meta_model, by="deepcopy", detach_buffers=True)

        def objective(self, x: Tensor, y: Tensor) -> Tensor:
            pairs = zip(self.parameters(), self.meta_parameters(), strict=True)
            pull = sum(((p - q) ** 2).sum() for p, q in pairs) / 2
            value: Tensor = ((self.model(x)[:, 0] - y) ** 2).mean() / 2 + pull
            return value

        def solve(self, x: Tensor, y: Tensor) -> Any:
            params = tuple(self.parameters())
            optimiser = torch.optim.SGD(params, lr=0.2)
            with torch.enable_grad():
                for _ in range(steps):
                    optimiser.zero_grad()
                    self.objective(x, y).backward(inputs=params)
                    optimiser.step()
            return self

    def outer(net: Any) -> Tensor:
        value: Tensor = ((net.model(X[:2])[:, 0] - 1) ** 2).sum()
        return value

    net = InnerNet(meta_model)
    problem = ADAPTER.module_problem(net, outer, X, Y)
    net.solve(X, Y)
    metas = tuple(net.meta_parameters())
    g = ADAPTER.gradients(net, torch.autograd.grad(outer(net), metas))
    assert set(g) == {"meta_model.weight", "meta_model.bias"}

    # f by its formula: the minimiser of a quadratic in (weight, bias) and a pull towards the meta-parameters
    design = torch.cat([X, torch.ones(3, 1, dtype=X.dtype)], 1)
    lam = torch.cat([meta_model.weight[0], meta_model.bias]).detach().requires_grad_()
    w = torch.linalg.solve(design.T @ design / 3 + torch.eye(3, dtype=X.dtype), design.T @ Y / 3 + lam)
    (true,) = torch.autograd.grad(((design[:2] @ w - 1) ** 2).sum(), lam)
    error = float((torch.cat([g["meta_model.weight"][0], g["meta_model.bias"]]) - true).norm())
    enclosure = bc.enclose(problem, g)
    assert error > 0.01 if steps == 3 else error < 1e-5
    assert enclosure.lower - HALF <= error <= enclosure.upper + HALF
    after = ADAPTER.module_problem(net, outer, X, Y)  # the module has other tensors as parameters now
    assert bc.enclose(after, g).upper == pytest.approx(float(enclosure.upper), abs=HALF)


def test_a_module_with_an_optimality_of_its_own() -> None:
    class Fixed(torchopt.nn.ImplicitMetaGradientModule):
        def __init__(self, meta: Tensor) -> None:
            super().__init__()
            self.meta = meta
            self.w = nn.Parameter(torch.zeros(2, dtype=X.dtype))

        def optimality(self) -> tuple[Tensor]:
            return (torch.tanh(self.w / 2 + self.meta) - self.w,)

        def solve(self) -> Any:
            with torch.no_grad():
                for _ in range(100):
                    self.w += self.optimality()[0]
            return self

    def outer(net: Any) -> Tensor:
        value: Tensor = ((net.w - 1) ** 2).sum()
        return value

    meta = torch.tensor([0.3, -0.2], dtype=X.dtype, requires_grad=True)
    net = Fixed(meta)
    problem = ADAPTER.module_problem(net, outer)
    net.solve()
    outer(net).backward()
    w, lam = torch.zeros(2, dtype=X.dtype), meta.detach().requires_grad_()
    for _ in range(100):
        w = torch.tanh(w / 2 + lam)
    (true,) = torch.autograd.grad(((w - 1) ** 2).sum(), lam)
    g = ADAPTER.gradients(net)
    error, enclosure = float((g["meta"] - true).norm()), bc.enclose(problem, g)
    assert error < 1e-4
    assert enclosure.lower - HALF <= error <= enclosure.upper + HALF


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="net is a Linear"):
        ADAPTER.module_problem(nn.Linear(2, 1), lambda net: torch.zeros(()))
    with pytest.raises(InputError, match="got no lower level; give one of objective=, optimality="):
        ADAPTER.problem(torch.zeros(2), torch.ones(()), outer_loss)
    with pytest.raises(InputError, match="returned 1 tensors; return one for each of 2"):
        ADAPTER.problem(
            (torch.zeros(2), torch.zeros(2)), torch.ones(()), lambda w, lam: w[0].sum(),
            optimality=lambda w, lam: w[0] + lam, step_size=0.1,
        )  # fmt: skip
