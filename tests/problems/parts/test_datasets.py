"""Reading the real data sets, and never an unknown pickle; nothing here touches the network."""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from on_disk import PARKINSONS, needs, put

from boundcheck.errors import InputError
from boundcheck.problems.parts import dataset_files, datasets


class Trap:
    """Leaves a trace when unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.mkdir, (os.environ["TRAP"],)


@pytest.mark.parametrize("place", ["data", "cache/boundcheck"])
@pytest.mark.parametrize("name", datasets.NEWSGROUPS)
def test_no_unknown_pickle_is_opened(name: str, place: str, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = empty / "unpickled"
    monkeypatch.setenv("TRAP", str(trace))
    for each in datasets.NEWSGROUPS:
        put(empty / place / each, pickle.dumps(Trap()))
    for permission in (False, True):
        with pytest.raises(InputError, match="not used"):
            datasets.newsgroups(download=permission)
    # one right and one wrong file are no better
    other = next(each for each in datasets.NEWSGROUPS if each != name)
    monkeypatch.setitem(dataset_files.SHA256, other, put(empty / place / other, b"right"))
    with pytest.raises(InputError, match="not used"):
        datasets.newsgroups(download=True)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Trap()))
    assert trace.exists()  # the trap works


def small_counts() -> tuple[Any, np.ndarray[Any, Any]]:
    counts = scipy.sparse.csr_matrix(np.array([[3, 0, 4], [0, 0, 0], [0, 2, 0]], dtype=np.int16))
    return counts, np.array([1, 0, 2])


def contents(counts: Any, labels: Any) -> str:
    try:
        datasets._checked(counts, labels, origin=Path("here"))
    except InputError as error:
        return str(error).split("have sha256 ")[1][:64]
    return datasets.NEWSGROUPS_CONTENTS


def test_download_by_scikit_learn_is_kept_without_pickle(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch")
    counts, labels = small_counts()
    homes: list[tuple[Path, bool]] = []

    def fetch(home: Path, *, download: bool) -> tuple[Any, Any]:
        homes.append((home, home.exists()))
        assert download
        return counts, labels

    monkeypatch.setattr(datasets, "_from_sklearn", fetch)
    monkeypatch.setattr("pooch.os_cache", lambda project: empty / "cache" / project)
    with pytest.raises(InputError, match=r"word counts have sha256 .* not used: put the file"):
        datasets.newsgroups(download=True)
    cache = empty / "cache" / "boundcheck"
    assert list(cache.iterdir()) == []  # neither a copy of unknown contents nor what it was made from
    monkeypatch.setattr(datasets, "NEWSGROUPS_CONTENTS", contents(counts, labels))
    first = datasets.newsgroups(download=True)
    np.testing.assert_allclose(first.features.toarray(), [[0.6, 0, 0.8], [0, 0, 0], [0, 1, 0]], rtol=1e-15)
    assert [existed for _, existed in homes] == [False, False]  # scikit-learn always starts from nothing
    assert [path.name for path in cache.iterdir()] == [datasets.NEWSGROUPS_COPY]
    again = datasets.newsgroups()  # now without permission, from the copy
    assert len(homes) == 2
    np.testing.assert_array_equal(again.features.toarray(), first.features.toarray())
    np.testing.assert_array_equal(again.labels, labels)

    counts.data[0] += 1
    np.savez(cache / datasets.NEWSGROUPS_COPY, data=counts.data, indices=counts.indices, indptr=counts.indptr,
             shape=counts.shape, labels=labels)  # fmt: skip
    with pytest.raises(InputError, match=r"word counts have sha256 .* not used: put the file"):
        datasets.newsgroups()
    np.savez(cache / datasets.NEWSGROUPS_COPY, data=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"cannot be read \(ValueError: Object arrays cannot be loaded"):
        datasets.newsgroups()


def test_contents_see_every_part() -> None:
    counts, labels = small_counts()
    seen = {contents(counts, labels), contents(counts, labels[::-1]), contents(2 * counts, labels)}
    seen |= {contents(counts[::-1].tocsr(), labels), contents(counts[:, ::-1].tocsr().sorted_indices(), labels)}
    wider = scipy.sparse.csr_matrix((counts.data, counts.indices, counts.indptr), shape=(3, 4))
    assert len(seen | {contents(wider, labels)}) == 6


def idx(array: np.ndarray[Any, Any], kind: int = 8) -> bytes:
    header = bytes((0, 0, kind, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(header + array.tobytes(), mtime=0)


def test_idx(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "images.gz"
    put(path, idx(images))
    np.testing.assert_array_equal(datasets.read_idx(path, 3), images)
    put(path, idx(images[0, 0]))
    np.testing.assert_array_equal(datasets.read_idx(path, 1), images[0, 0])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (idx(np.zeros((2, 3), np.uint8)), "starts with 00000802, not 00000803"),
        (idx(np.zeros((2, 3, 1), np.uint8), kind=9), "starts with 00000903, not 00000803"),
        (gzip.compress(b""), "starts with , not 00000803"),
        (
            gzip.compress(gzip.decompress(idx(np.zeros((2, 3, 4), np.uint8)))[:-1]),
            r"holds 23 bytes .* says \(2, 3, 4\)",
        ),
        (gzip.compress(gzip.decompress(idx(np.zeros((2, 3, 4), np.uint8))) + b"x"), r"holds 25 bytes"),
        (b"plain", r"is not a gzip file \(BadGzipFile"),
        (idx(np.zeros((2, 3, 4), np.uint8))[:-6], r"is not a gzip file \(EOFError"),
    ],
    ids=["axes", "kind", "empty", "short", "long", "plain", "cut"],
)
def test_broken_idx(raw: bytes, message: str, tmp_path: Path) -> None:
    put(tmp_path / "broken.gz", raw)
    with pytest.raises(InputError, match=message):
        datasets.read_idx(tmp_path / "broken.gz", 3)


def test_csv(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["name", *(f"a{i}" for i in range(16)), "status", *(f"b{i}" for i in range(6))]
    rows = [[f"phon_{i}", *(f"{i}.5" for _ in range(16)), str(i % 2), *(f"-{i}e2" for _ in range(6))] for i in range(3)]
    text = "\n".join(",".join(row) for row in [names, *rows]) + "\n"
    monkeypatch.setitem(dataset_files.SHA256, PARKINSONS, put(empty / "data" / PARKINSONS, text.encode()))
    found = datasets.parkinsons()
    np.testing.assert_array_equal(found.labels, [0, 1, 0])
    np.testing.assert_array_equal(found.features, [[i + 0.5] * 16 + [-100.0 * i] * 6 for i in range(3)])
    swapped = text.replace("status", "spread")
    monkeypatch.setitem(dataset_files.SHA256, PARKINSONS, put(empty / "data" / PARKINSONS, swapped.encode()))
    with pytest.raises(InputError, match="columns 0 and 17 are 'name' and 'spread'"):
        datasets.parkinsons()


def test_thirds() -> None:
    parts = datasets.thirds(20, seed=3)
    rows = np.concatenate([parts.train, parts.validation, parts.test])
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [6, 6, 6]
    assert len(set(rows.tolist())) == 18
    np.testing.assert_array_equal(datasets.thirds(20, seed=3).test, parts.test)
    assert not np.array_equal(datasets.thirds(20, seed=4).test, parts.test)


@needs(PARKINSONS)
def test_real_parkinsons() -> None:
    found = datasets.parkinsons()
    assert found.features.shape == (195, 22)
    assert found.features.dtype == np.float64
    assert np.bincount(found.labels).tolist() == [48, 147]
    assert found.features[0, 0] == 119.992
    assert found.features[-1, -1] == 0.148569
    assert found.features[0, 15] == 21.033  # HNR, the last before `status`
    assert found.features[0, 16] == 0.414783  # RPDE, the first after it


@needs("mnist/", "fashion-mnist/")
@pytest.mark.parametrize(("load", "mean"), [(datasets.mnist, 33.3), (datasets.fashion_mnist, 72.9)])
def test_real_images(load: Callable[[], datasets.Images], mean: float) -> None:
    found = load()
    assert found.train_images.shape == (60000, 28, 28)
    assert found.test_images.shape == (10000, 28, 28)
    assert np.bincount(found.train_labels).min() > 5000
    assert len(np.bincount(found.train_labels)) == len(np.bincount(found.test_labels)) == 10
    assert len(found.train_labels) == 60000
    assert len(found.test_labels) == 10000
    assert abs(found.train_images.mean() - mean) < 0.1


@needs(*datasets.NEWSGROUPS)
def test_real_newsgroups() -> None:
    pytest.importorskip("sklearn")
    found = datasets.newsgroups()
    assert found.features.shape == (18846, 101631)
    assert found.features.nnz == 1769365
    assert found.features.dtype == np.float64
    lengths = np.sqrt(np.asarray(found.features.multiply(found.features).sum(axis=1)).ravel())
    assert int((lengths == 0).sum()) == 535
    np.testing.assert_allclose(lengths[lengths > 0], 1, rtol=1e-13)  # sums of at most some hundred squares
    assert len(np.bincount(found.labels)) == 20
    assert len(found.labels) == 18846
