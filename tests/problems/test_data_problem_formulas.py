"""The three problems of section 4.2 are the paper's formulas on the data as the paper treats them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import torch
from data_problems import MAKES, point
from torch import Tensor
from torch.nn.functional import cross_entropy

from boundcheck.problems.fashion_mnist import load as load_fashion
from boundcheck.problems.parkinson import load as load_parkinson
from boundcheck.problems.parts import datasets, newsgroups_documents
from boundcheck.problems.parts.newsgroups_documents import inverse_frequencies, load_documents
from boundcheck.problems.parts.synthetic_data import Draw


def test_newsgroups_is_the_papers_formula() -> None:
    sizes = {"size": 7, "features": 9, "classes": 3}
    problem, parts = MAKES["newsgroups"](), load_documents(synthetic=True, **sizes)
    w, lam = point(problem)
    W = w.reshape(9, 3)
    X, X_val = (matrix.X.to_dense() for matrix in (parts.X, parts.X_val))
    penalty = sum(math.exp(lam[j]) * float(W[j, i]) ** 2 for i in range(3) for j in range(9)) / (2 * 3 * 9)
    inner = float(cross_entropy(X @ W, parts.Y.argmax(1))) + penalty
    assert float(problem.inner(w, lam)) == pytest.approx(inner, rel=1e-13)
    assert float(problem.outer(w, lam)) == pytest.approx(
        float(cross_entropy(X_val @ W, parts.Y_val.argmax(1))), rel=1e-13
    )
    assert float(torch.linalg.matrix_norm(X, ord=2)) ** 2 <= parts.squared_norm
    assert not torch.equal(X, X_val)


def test_fashion_is_the_papers_formula() -> None:
    problem = MAKES["fashion-mnist"](beta=2.5)
    parts = load_fashion(synthetic=True, validation_size=8, features=4, classes=3)
    w, lam = point(problem)
    W, X = w.reshape(4, 3), lam.reshape(3, 4)
    inner = float(cross_entropy(X @ W, torch.arange(3))) + 2.5 / (2 * 3 * 4) * float(w.norm()) ** 2
    assert float(problem.inner(w, lam)) == pytest.approx(inner, rel=1e-13)
    outer = float(cross_entropy(parts.X_val @ W, parts.Y_val.argmax(1)))
    assert float(problem.outer(w, lam)) == pytest.approx(outer, rel=1e-13)


def test_parkinson_is_the_papers_formula() -> None:
    problem, parts = MAKES["parkinson"](), load_parkinson(synthetic=True, size=6, features=3)
    w, lam = point(problem)

    def kernel(A: Tensor) -> Tensor:
        scaled = (A[:, None] - parts.X[None]) ** 2 * lam[1:].exp()
        return torch.exp(-scaled.sum(-1))

    H = kernel(parts.X) + math.exp(lam[0]) * torch.eye(6, dtype=torch.float64)
    assert float(problem.inner(w, lam)) == pytest.approx(float(w @ H @ w / 2 - w @ parts.y), rel=1e-12)
    outer = float((parts.y_val - kernel(parts.X_val) @ w).norm()) ** 2 / 2
    assert float(problem.outer(w, lam)) == pytest.approx(outer, rel=1e-12)
    w_star = problem.solution(problem.prepare(lam))  # type: ignore[misc]
    torch.testing.assert_close(H @ w_star, parts.y, rtol=0, atol=1e-13)
    torch.testing.assert_close(problem.lam, torch.tensor([0.0] + 3 * [-math.log(3)], dtype=torch.float64))
    assert set(parts.y.tolist()) <= {0.0, 1.0}


def test_inverse_frequencies_are_those_of_scikit_learn() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    rng = np.random.default_rng(0)
    counts = scipy.sparse.csr_matrix(rng.poisson(0.4, (30, 12)).astype(np.float64))
    expected = text.TfidfTransformer().fit_transform(counts).toarray()
    for features in (counts, datasets.unit_rows(counts)):  # the scale of a row does not matter
        np.testing.assert_allclose(inverse_frequencies(features).toarray(), expected, rtol=1e-13)
    plain, weighted = (load_documents(synthetic=True, tfidf=t).X.X.to_dense() for t in (False, True))
    assert torch.equal(plain > 0, weighted > 0)
    assert not torch.allclose(plain, weighted, rtol=1e-2)


def test_standardised_by_the_training_part() -> None:
    parts = load_parkinson(synthetic=True, standardise=True)
    torch.testing.assert_close(parts.X.mean(0), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-14)
    torch.testing.assert_close(parts.X.std(0, correction=0), torch.ones(5, dtype=torch.float64))
    assert float(parts.X_val.mean(0).abs().max()) > 1e-3


def test_random_documents_are_drawn_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once they would not fit at the size of the real data; about six words each, rows of unit length."""
    monkeypatch.setattr(newsgroups_documents, "AT_ONCE", 50 * 40)
    found = newsgroups_documents._random_documents(Draw.seeded(0, torch.float64, "cpu"), 120, 40, 3)
    assert found.features.shape == (120, 40)
    assert 5 < found.features.nnz / 120 < 7
    lengths = np.sqrt(found.features.multiply(found.features).sum(axis=1))
    assert np.allclose(lengths[lengths > 0], 1)
    assert set(found.labels) == {0, 1, 2}
