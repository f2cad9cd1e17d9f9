"""Tests of a device: whether it exists, and whether numbers can be read from it."""

from __future__ import annotations

import warnings

import torch

from boundcheck.errors import InputError

LONGEST_REASON = 120  # the most characters of a reason


def refuse_unless_usable(device: torch.device | str) -> None:
    """Raise an error unless tensors can be created on the device and read back.

    Parameters
    ----------
    device : torch.device or str
        A device of torch, such as "cpu", "cuda", "cuda:1" or "mps".

    Raises
    ------
    InputError
        If the device cannot be used. The message gives the reason and the devices of this machine.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the error contains all information
        why = _why_not(device)
        if why is not None:
            raise InputError(
                f"device = {str(device)!r} cannot be used: {why}; this machine has {', '.join(available())}"
            )


def available() -> list[str]:
    """Return the names of the devices of this machine."""
    names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    names += ["mps"] if torch.backends.mps.is_available() else []
    return names + [f"xpu:{i}" for i in range(torch.xpu.device_count())]


def _why_not(device: torch.device | str) -> str | None:
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        return "torch knows no device of that name"
    if kind == "meta":
        return "its tensors hold no numbers"
    try:
        float(torch.ones(1, device=device).sum())
    except Exception as why:  # each kind of device fails in its own way
        line = (str(why).strip().splitlines() or [type(why).__name__])[0]
        inside = "::" in line or "ASSERT" in line  # useful for developers of torch only
        return "torch cannot compute on it here" if inside else line.partition(". ")[0][:LONGEST_REASON]
    return None
