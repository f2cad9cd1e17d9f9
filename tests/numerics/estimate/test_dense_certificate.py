"""Ends of spectra and norms of matrices: certified by Cholesky factorisations."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from spectra import F64, PLANTED, draws, encloses, planted, spectra

from boundcheck.numerics.estimate.lanczos import dense_norm, dense_symmetric
from boundcheck.numerics.program.cholesky_certificate import has_factorisation
from boundcheck.side import Side


@PLANTED
def test_dense_ends_are_certified(n: int, name: str) -> None:
    H = planted(spectra(n)[name])
    spectrum = spectra(n)[name]
    low, top, scale = float(spectrum.min()), float(spectrum.max()), float(spectrum.abs().max())
    found = dense_symmetric(H)
    assert (found.largest.side, found.smallest.side) == (Side.EXACT, Side.EXACT)
    encloses(found.largest, top, n * scale)
    encloses(found.smallest, low, n * scale, low=True)
    margin = found.largest.value - found.largest.estimate
    assert margin <= 4 * (n + 2) ** 2 * torch.finfo(F64).eps * scale
    if scale:  # the factorisation tells a shift that is too small, on either side
        assert has_factorisation(H, found.largest.value)
        assert not has_factorisation(H, found.largest.value - 2 * margin)
        assert has_factorisation(-H, -found.smallest.value)
        assert not has_factorisation(-H, -found.smallest.value - 2 * (found.smallest.estimate - found.smallest.value))
    sigma = dense_norm(H)
    encloses(sigma, scale, n * scale)
    assert sigma.value <= (1 + 4 * (n + 2) ** 2 * torch.finfo(F64).eps) * scale


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6), st.floats(-200, 200))
def test_dense_norm_property(rows: int, columns: int, seed: int, exponent: float) -> None:
    J = 10**exponent * torch.randn(rows, columns, generator=draws(seed), dtype=F64)
    found, truth = dense_norm(J), float(torch.linalg.matrix_norm(J, 2))
    assert (1 - 1e-14) * truth <= found.value <= (1 + 1e-12) * truth
    assert found.side is Side.EXACT
