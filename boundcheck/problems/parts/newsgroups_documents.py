"""The documents of 20 newsgroups, or similar random documents, in three parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from boundcheck.problems.parts import datasets
from boundcheck.problems.parts.cross_entropy import one_hot, only_synthetic, synthetic_size
from boundcheck.problems.parts.sparse_matrix import SparseMatrix, squared_norm_bound
from boundcheck.problems.parts.synthetic_data import Draw

AT_ONCE = 10**7  # the most random numbers that are drawn at once


@dataclass(frozen=True)
class DocumentParts:
    """Training, validation and test documents, with their classes as rows of the identity."""

    X: SparseMatrix
    Y: Tensor
    X_val: SparseMatrix
    Y_val: Tensor
    X_test: SparseMatrix
    Y_test: Tensor
    words: int  # the number p of all words, also if some are left out
    squared_norm: float  # at least λmax(XᵀX)
    squared_norm_val: float  # the same for X_val


def load_documents(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    tfidf: bool = False,
    used_words: bool = False,
    synthetic: bool = False,
    size: int | None = None,
    features: int | None = None,
    classes: int | None = None,
    download: bool | None = None,
) -> DocumentParts:
    """Return the three parts for `make` with the same arguments."""
    draw = Draw.seeded(seed, dtype, device)
    if synthetic:
        sizes = (("size", size, 30), ("features", features, 40), ("classes", classes, 4))
        n, p, c = (synthetic_size(*each) for each in sizes)
        documents = _random_documents(draw, 3 * n, p, c)
    else:
        only_synthetic(size=size, features=features, classes=classes)
        documents, c = datasets.newsgroups(download), 20
    X = inverse_frequencies(documents.features) if tfidf else documents.features
    parts = datasets.thirds(len(documents.labels), seed)
    rows, words = (parts.train, parts.validation, parts.test), X.shape[1]
    if used_words:
        X = X[:, used_words_of(X[parts.train])]
    X_train, X_val, X_test = (SparseMatrix.from_scipy(X[part], dtype=dtype, device=device) for part in rows)
    Y, Y_val, Y_test = (draw.place(one_hot(torch.from_numpy(documents.labels[part]), c)) for part in rows)
    # rounding to dtype increases an entry by at most the factor 1 + eps
    rounding = (1 + torch.finfo(dtype).eps) ** 2
    squared_norm, squared_norm_val = (squared_norm_bound(X[part]) * rounding for part in rows[:2])
    return DocumentParts(X_train, Y, X_val, Y_val, X_test, Y_test, words, squared_norm, squared_norm_val)


def used_words_of(X: Any) -> np.ndarray:
    """Return the columns of a scipy CSR matrix that are not empty, sorted by the number of entries, largest first."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    order = np.argsort(-counts, kind="stable")
    return order[: np.count_nonzero(counts)]


def inverse_frequencies(X: Any) -> Any:
    """Return tf-idf: counts of any scale times log((1+n)/(1+documents with the word)) + 1, then scaled to unit length.

    This is scikit-learn's `TfidfTransformer`, fitted to all documents.
    """
    n, p = X.shape
    weights = np.log((1 + n) / (1 + np.bincount(X.indices, minlength=p))) + 1
    return datasets.unit_rows(
        scipy.sparse.csr_matrix((X.data * weights[X.indices], X.indices, X.indptr), shape=X.shape)
    )


def _random_documents(draw: Draw, count: int, p: int, c: int) -> datasets.Newsgroups:
    """Return documents of about six words each; a random linear model of the words gives the class."""
    block = max(1, AT_ONCE // p)  # documents at once; all documents of the size of the real data would take 15 GB
    pieces = [_random_words(draw, min(block, count - start), p) for start in range(0, count, block)]
    words = scipy.sparse.vstack(pieces, format="csr")
    labels = (words @ draw.normal(p, c).numpy() + 0.1 * draw.normal(count, c).numpy()).argmax(axis=1)
    return datasets.Newsgroups(datasets.unit_rows(words), labels)


def _random_words(draw: Draw, count: int, p: int) -> scipy.sparse.csr_matrix:
    chance = torch.rand(count, p, generator=draw.generator, dtype=torch.float32, device="cpu")
    return scipy.sparse.csr_matrix((draw.normal(count, p).abs() * (chance < min(1.0, 6 / p))).numpy())
