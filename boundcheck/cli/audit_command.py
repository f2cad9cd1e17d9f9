"""The command `audit`: check a hypergradient from a file against its problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundcheck.cli.options import Device, Dtype, Json, ProblemName, Seed, SetProblem, asked_problem, print_json
from boundcheck.errors import InputError

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem


def audit(
    problem: ProblemName,
    g: Annotated[str, typer.Argument(metavar="G", help="The hypergradient: a .npy or .pt file.")],
    w: Annotated[str, typer.Option("--w", help="The inner solution that it was computed from, likewise.")] = "",
    v: Annotated[str, typer.Option("--v", help="The solution of the linear system, likewise.")] = "",
    lam: Annotated[str, typer.Option("--lam", help="The λ at which it was computed, likewise.")] = "",
    previous: Annotated[str, typer.Option("--previous", help="An earlier λ that it may belong to, likewise.")] = "",
    set_problem: SetProblem = None,
    seed: Seed = None,
    dtype: Dtype = "",
    device: Device = "",
    as_json: Json = False,
) -> None:
    """Show the error of a hypergradient from any source, in per cent and degrees, and which part of it is wrong."""
    from boundcheck.trust.audit import audit as run
    from boundcheck.views.terminal import show_audit

    loaded = asked_problem(problem, seed, dtype, device, set_problem)
    vectors = {name: _read(path, name, loaded) for name, path in (("g", g), ("w", w), ("v", v)) if path}
    lams = {name: _read(path, "lam", loaded) for name, path in (("lam", lam), ("previous", previous)) if path}
    result = run(loaded, **vectors, **lams)
    if as_json:
        print_json(show_audit.as_json(loaded.about(), result))
    else:
        show_audit.show(loaded.about(), result)


def _read(path: str, name: str, problem: Problem) -> Any:
    """Read an array, or a structure of tensors, from a file. An array of the right size is flattened."""
    import numpy as np
    import torch

    file = Path(path)
    if file.suffix not in (".npy", ".pt", ".pth"):
        raise InputError(f"{path} is neither .npy nor .pt; write it with numpy.save or torch.save")
    try:
        value = np.load(file) if file.suffix == ".npy" else torch.load(file, weights_only=True, map_location="cpu")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; give an existing file") from None
    except Exception as error:  # numpy and torch raise many kinds of errors for files of other formats
        text = " ".join(str(error).split())[:120]
        raise InputError(f"cannot read {path}: {text}; write it with numpy.save or torch.save") from None
    if isinstance(value, np.ndarray):
        if value.dtype not in (np.float32, np.float64):
            raise InputError(f"{path} holds {value.dtype}; give float32 or float64")
        value = torch.from_numpy(value)
    size = problem.n if name in ("g", "lam") else problem.d
    if isinstance(value, torch.Tensor) and value.numel() == size:
        value = value.reshape(-1)
    return _to(value, problem.device)


def _to(value: Any, device: Any) -> Any:
    """Move a structure of tensors to a device."""
    from torch.utils._pytree import tree_map

    return tree_map(lambda x: x.to(device) if hasattr(x, "to") else x, value)
