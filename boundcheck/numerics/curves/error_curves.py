"""Error curves: ‖g(t) − ∇f‖ of every method at every t = 1 … T, for many λ at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck import methods as names
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves import cost
from boundcheck.numerics.curves.all_methods import evaluate
from boundcheck.numerics.curves.sizes import measure
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import Progress, no_progress, reporting_to


@dataclass(frozen=True, eq=False)
class Curves(Mapping[str, "np.ndarray"]):
    """The errors ‖g(t) − ∇f(λ)‖ of several methods: ``curves["itd"]`` is an array of samples × t.

    This is a mapping from the names of the methods to their errors.

    Attributes
    ----------
    t : ndarray of shape (T,)
        The times 1 … T.
    errors : mapping from str to ndarray of shape (samples, T)
        The errors by method.
    lam : Tensor of shape (samples, n)
        The values of λ.
    reference : ReferenceSolution
        The exact ∇f, w(λ) and v at each λ.
    algorithm : str or None
        The algorithm for ITD; None if ITD was not computed.
    """

    t: np.ndarray
    errors: Mapping[str, np.ndarray]
    lam: Tensor
    reference: ReferenceSolution
    algorithm: str | None

    @property
    def exact(self) -> Tensor:
        """The exact ∇f at each λ, of shape (samples, n)."""
        return self.reference.value

    @property
    def diverged(self) -> dict[str, list[int | None]]:
        """For each method and sample, the first t at which the error is not finite; None if all errors are finite."""
        broken = {method: ~np.isfinite(errors) for method, errors in self.errors.items()}
        return {
            method: [int(self.t[row.argmax()]) if row.any() else None for row in rows]
            for method, rows in broken.items()
        }

    def __repr__(self) -> str:
        shape = f"{len(self.lam)} λ, t = 1 … {len(self.t)}"
        broken = {m: min(t for t in ts if t) for m, ts in self.diverged.items() if any(ts)}
        return f"Curves({', '.join(self.errors)}; {shape}{f'; diverged from t = {broken}' if broken else ''})"

    def __getitem__(self, method: str) -> np.ndarray:
        try:
            return self.errors[method]
        except KeyError:
            raise UnknownNameError.among("curve", method, self.errors) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.errors)

    def __len__(self) -> int:
        return len(self.errors)


@on_few_threads
@torch.no_grad()
def error_curves(
    problem: Problem | str,
    methods: Sequence[str] | None = None,
    t: int = 200,
    samples: int = 1,
    seed: int | None = None,
    *,
    lam: Any = None,
    memory: int = 1 << 30,
    algorithm: str = "auto",
    progress: Progress | None = None,
) -> Curves:
    """Compute the error ‖g(t) − ∇f(λ)‖ of every method at every t.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name that `load_problem` accepts.
    methods : sequence of str, optional
        The methods: "itd", "itd-truncated:K", "aid-fp", "aid-cg", "aid-cgn"; "aid-cg:10" fixes k = 10, otherwise k =
        t. By default "itd", "aid-fp" and "aid-cg", or "aid-cgn" in place of "aid-cg" if ∂₁Φ is known not to be
        symmetric.
    t : int
        The largest number of lower-level steps; 200 by default. Errors are computed for each of 1 … t.
    samples : int
        The number of λ to draw; 1 by default. One sample without a seed is the problem's own λ.
    seed : int, optional
        The seed for drawing λ; by default the seed of the problem.
    lam : structure of the hyperparameters, or tensor of shape (n,) or (samples, n), optional
        One λ, or one in each row, to use instead of random ones. Not together with `samples` and `seed`.
    memory : int
        The memory budget in bytes; 1 GiB by default.
    algorithm : {"auto", "wavefront", "forward", "dense"}
        The algorithm for ITD. "auto", the default, chooses the cheapest.
    progress : callable (what, done, of) -> None, optional
        Called with a description of the current stage, the amount done and the total.

    Returns
    -------
    Curves
        ``curves["itd"]`` is an array of samples × t.

    Raises
    ------
    UnknownNameError
        If there is no method or algorithm with the given name.
    InputError
        If an argument is not valid, or if `memory` is too small for the problem.
    AssumptionError
        If a method is "aid-cg" and ∂₁Φ is not symmetric, or I − ∂₁Φ is not positive definite.
    DivergenceError
        If w(λ) cannot be found.
    UserCodeError
        If a function of the user raises an error.

    Examples
    --------
    >>> import boundcheck as bc
    >>> curves = bc.error_curves(bc.problems.scalar(q=0.5), ["itd", "aid-fp:3"], t=4)
    >>> curves["itd"].shape
    (1, 4)
    >>> curves["itd"][0].round(3)
    array([4.  , 3.  , 2.  , 1.25])
    """
    problem = require_problem(problem)
    method_list = methods_of(problem, methods)
    T = steps_of(t)
    refuse_unless_budget(memory)
    return compute(problem, method_list, T, lams_of(problem, samples, seed, lam), memory, algorithm, progress).curves


@dataclass(frozen=True, eq=False)
class Computed:
    """Error curves, and the states z_0 … z_T at the first λ, of shape (T + 1, state)."""

    curves: Curves
    states: Tensor


def compute(
    problem: Problem, methods: Sequence[Method], T: int, lams: Tensor, memory: int, algorithm: str = "auto",
    progress: Progress | None = None,
) -> Computed:  # fmt: skip
    """Compute the curves of `error_curves` for valid arguments."""
    problem = quick(problem)
    first = Prepared(problem, lams[:1])
    schedule = cost.choose(measure(problem, first, T), len(lams), [m.name for m in methods], algorithm, memory)
    errors = {m: np.empty((len(lams), T)) for m in methods}
    references = []
    states = first.lams.new_empty(0)
    starts = range(0, len(lams), schedule.samples)
    for done, start in enumerate(starts):
        piece = slice(start, start + schedule.samples)
        prepared = first if start == 0 and len(lams[piece]) == 1 else Prepared(problem, lams[piece])
        with reporting_to(progress if len(starts) == 1 or progress is None else no_progress):
            batch = batches.run(problem, prepared, T, constant=schedule.constant)
            references.append(reference(problem, lams[piece], prepared, batch.z))
            for m, values in evaluate(batch, references[-1].value, methods, schedule).items():
                errors[m][piece] = values.cpu().numpy()
        if start == 0:
            states = batch.z[0] if len(batch.z) == 1 else batch.z[0].clone()
        if progress is not None:
            progress("error curves", done + 1, len(starts))
    curves = Curves(
        t=np.arange(1, T + 1),
        errors={str(m): values for m, values in errors.items()},
        lam=lams,
        reference=ReferenceSolution.of(references),
        algorithm=schedule.algorithm,
    )
    return Computed(curves, states)


def steps_of(t: Any) -> int:
    """Return `t` if it is a number of steps of at least 1, and raise an error otherwise."""
    return names.count(t, "t", least=1)


def refuse_unless_budget(memory: Any) -> None:
    """Raise an InputError unless `memory` is a number of bytes."""
    if isinstance(memory, bool) or not isinstance(memory, int) or memory <= 0:
        raise InputError(f"memory must be a number of bytes, such as 2**30 (got {memory!r})")


def methods_of(problem: Problem, method_names: Sequence[str] | None) -> list[Method]:
    """Return the methods with the given names, each once; the default methods if no names are given."""
    if method_names is None:
        method_names = names.default_methods(problem.symmetric)
    if isinstance(method_names, str):
        method_names = [method_names]
    parsed = list(dict.fromkeys(names.parse(m) for m in method_names))
    if not parsed:
        raise InputError("methods is empty; name at least one, as in methods=['itd', 'aid-cg:10']")
    for m in parsed:
        names.refuse_random(m, "leave it out here; check_stochastic measures means over many runs")
    if any(m.name == "exact" for m in parsed):
        raise InputError("the method exact is what errors are measured against; leave it out")
    return parsed


def lams_of(problem: Problem, samples: int, seed: int | None, lam: Any) -> Tensor:
    """Return the values of λ for a run, one in each row."""
    if lam is not None:
        if samples != 1 or seed is not None:
            raise InputError("samples and seed draw λ, and lam was given; leave out either lam or the others")
        many = isinstance(lam, Tensor) and lam.dim() == 2 and lam.shape[-1] == problem.n
        if many and not len(lam):
            raise InputError("lam has no rows; give at least one λ")
        return torch.stack([problem.checked(each, "lam") for each in (lam if many else [lam])])
    names.count(samples, "samples", least=1)
    if samples == 1 and seed is None:
        return problem.checked(problem.lam, "lam")[None]
    return problem.sample(samples, seed)
