"""What a module holds beside its parameters: buffers, parametrizations, weights that are no parameters, copies."""

from __future__ import annotations

import pytest
import torch
from pieces import normal, zeros
from ridge_modules import LAM, Ridge, X, Y, same_as
from torch import Tensor, nn

import boundcheck as bc


def test_batch_norm_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1, bias=False)).double()
    net(X + 2)  # statistics that are not 0 and 1
    net.eval()
    problem = bc.Problem.from_loss(
        lambda m, h: ((m(X)[:, 0] - Y) ** 2).mean() + h.exp().sum() * sum(p.square().sum() for p in m.parameters()),
        lambda m, h: ((m(X)[:, 0] - Y - 1) ** 2).mean(), net, LAM, step_size=0.05,
    )  # fmt: skip
    mean, std = net[0].running_mean.clone(), (net[0].running_var + net[0].eps).sqrt()

    def predict(w: Tensor) -> Tensor:
        return ((X - mean) / std * w[:3] + w[3:6]) @ w[6:]

    plain = bc.Problem.from_loss(
        lambda w, h: ((predict(w) - Y) ** 2).mean() + h.exp().sum() * w.square().sum(),
        lambda w, h: ((predict(w) - Y - 1) ** 2).mean(), problem.w0, LAM, step_size=0.05,
    )  # fmt: skip
    same_as(problem, plain, ("itd", "aid-fp", "aid-cgn"))
    for brought in (net.train(), {"net": net}):
        with pytest.raises(bc.InputError, match=r"0 is a BatchNorm1d in training mode"):
            bc.Problem.from_loss(lambda m, h: h.sum(), lambda m, h: h.sum(), brought, LAM)


@pytest.mark.parametrize("in_place", [True, False])
def test_buffers_that_a_call_changes_are_refused_and_set_back(in_place: bool) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(zeros(3))
            self.register_buffer("calls", zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            if in_place:
                self.calls.add_(1)
            else:
                self.calls = self.calls + 1
            return x @ self.weight

    net = Counter()
    with pytest.raises(bc.InputError, match=r"outer_loss changes the buffer params\['net'\]\.calls"):
        bc.Problem.from_loss(
            lambda m, h: m["net"].weight.square().sum() * h.exp().sum(), lambda m, h: m["net"](X).sum(), {"net": net},
            LAM,
        )  # fmt: skip
    assert net.calls.tolist() == [0.0]


class Cube(nn.Module):
    """A weight that is the cube of its parameter."""

    def forward(self, x: Tensor) -> Tensor:
        return x**3


def test_parametrizations_work() -> None:
    net = nn.Linear(3, 1, bias=False).double()
    nn.utils.parametrize.register_parametrization(net, "weight", Cube())
    start = normal(3, seed=6) / 9
    nn.utils.vector_to_parameters(start, net.parameters())
    problem = bc.Problem.from_loss(
        lambda m, h: ((m(X)[:, 0] - Y) ** 2).mean() + h.exp().sum() * m.weight.square().sum(),
        lambda m, h: ((m(X)[:, 0] - Y - 1) ** 2).mean(), net, LAM, step_size=0.02,
    )  # fmt: skip
    plain = bc.Problem.from_loss(
        lambda w, h: ((X @ w**3 - Y) ** 2).mean() + h.exp().sum() * (w**6).sum(),
        lambda w, h: ((X @ w**3 - Y - 1) ** 2).mean(), start, LAM, step_size=0.02,
    )  # fmt: skip
    same_as(problem, plain, ("itd", "aid-fp", "aid-cgn"))


def test_weights_that_are_no_parameters_are_refused_by_name() -> None:
    from torch.nn.utils import parametrizations, prune

    def refused(module: nn.Module, message: str) -> None:
        with pytest.raises(bc.InputError, match=message):
            bc.Problem.from_loss(lambda m, h: m(X).sum(), lambda m, h: h.sum(), module, LAM)

    refused(
        prune.l1_unstructured(nn.Linear(3, 1).double(), "weight", 1), r"params: the module has pruned.*prune\.remove"
    )
    with pytest.warns(FutureWarning, match="weight_norm"):
        old = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 1).double()))
    refused(old, "params: 0 has the old weight_norm")
    refused(parametrizations.weight_norm(nn.Linear(3, 1).double()), "weight_norm, whose second derivatives")
    refused(nn.LazyLinear(1), "weight without a shape yet")


def test_a_copy_of_a_parameter_is_not_the_parameter_of_the_call() -> None:
    module = Ridge(zeros(3))
    kept = module.layer.weight

    def loss(m: Ridge, h: Tensor) -> Tensor:
        return ((m(X) - Y) ** 2).mean() + h.exp().sum() * kept.square().sum()

    with pytest.raises(bc.InputError, match=r"inner_loss uses params\.layer\.weight itself"):
        bc.Problem.from_loss(loss, lambda m, h: m.l2(), module, LAM)
    start = kept.detach()  # to be drawn towards the start is another matter
    bc.Problem.from_loss(
        lambda m, h: h.exp().sum() * (m.layer.weight - start).square().sum(), lambda m, h: m.l2(), module, LAM
    )
