"""A context for work inside a user's training loop that restores random generators, torch modes and threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.threads import threads_for


@contextmanager
def undisturbed(problem: Problem) -> Iterator[None]:
    """Restore the random generators of Python, numpy and torch, the modes of torch and the threads after the block."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = [problem.device] if problem.device.type == "cuda" else []
    try:
        with (
            torch.random.fork_rng(devices=devices),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast(problem.device.type, enabled=False),
            threads_for(problem),
        ):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
