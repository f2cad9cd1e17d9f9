"""The proof of a bound on a run: the value after each link, and where it is loose or broken."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from boundcheck.compare.applied import Applied
from boundcheck.compare.report import Trace
from boundcheck.estimate.floor import FACTOR

ROUNDING = 1e-9  # relative: chains are sums of products of a dozen numbers, each rounded once


def trace(
    applied: Applied, ts: np.ndarray, observed: Mapping[str, np.ndarray], errors: np.ndarray, floor: np.ndarray
) -> Trace | None:
    """The chain at every t of `ts` where the error is more than rounding and all is finite.

    None where there is no such t, and where the proof is not encoded or cannot be measured.
    """
    inputs = applied.inputs(ts)
    given = frozenset(inputs) | frozenset(applied.observed)
    chain = applied.bound.proof(given)
    if chain is None:
        return None
    numbers = {**inputs, **observed, "error": errors}
    if any(name not in numbers for name in chain.symbols):
        return None
    spread = {name: np.broadcast_to(numbers[name], ts.shape) for name in chain.symbols}
    fine = np.all([np.isfinite(x) for x in spread.values()], axis=0) & (errors > floor)
    if not fine.any():
        return None
    found = chain.evaluate({name: x[fine] for name, x in spread.items()})
    before = np.concatenate([found.values[:1], found.values[:-1]])
    broken = found.values < before * (1 - ROUNDING) - FACTOR * floor[fine]
    links = found.links
    return Trace(
        links=tuple(link.name for link in links),
        because=tuple(link.because for link in links),
        uses=tuple(link.uses for link in links),
        t=ts[fine],
        values=found.values,
        slacks=found.slacks,
        broken=broken,
    )
