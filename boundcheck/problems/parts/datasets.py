"""Read the real data sets from verified files, which `dataset_files.py` finds.

20 newsgroups and all downloads need `pip install 'boundcheck[data]'`.
"""

from __future__ import annotations

import gzip
import hashlib
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from boundcheck.atomic_write import sole_use_of_file
from boundcheck.errors import InputError
from boundcheck.problems.parts import dataset_files

NEWSGROUPS = tuple(name for name in dataset_files.SHA256 if name.startswith("sklearn_home/"))
NEWSGROUPS_COPY = "20newsgroups.npz"  # only in the cache: counts and labels without pickle, verified by contents
NEWSGROUPS_CONTENTS = "e6a81882986e2175366787ef62ce89599189a8879fd7f2d63c4de971c005f3a8"


@dataclass(frozen=True)
class Parkinsons:
    """UCI Parkinsons (Little et al. 2008): 195 recordings × 22 features; label 1 for people with the disease."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Images:
    """Images of 28 × 28 bytes and their classes 0…9: 60000 training images and 10000 test images."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class Newsgroups:
    """20 newsgroups: a scipy CSR matrix of 18846 documents × 101631 words, and classes 0…19."""

    features: Any
    labels: NDArray[np.int64]


def parkinsons(download: bool | None = None) -> Parkinsons:
    """Return the recordings: the CSV without column 0, `name`; column 17, `status`, is the label."""
    path = dataset_files.find("parkinsons/parkinsons.data", download)
    with path.open(encoding="ascii") as file:
        header = file.readline().strip().split(",")
        if header[0] != "name" or header[17] != "status":
            raise InputError(f"{path}: columns 0 and 17 are {header[0]!r} and {header[17]!r}; use the original file")
        table = np.loadtxt(file, delimiter=",", usecols=range(1, 24), dtype=np.float64)
    return Parkinsons(np.delete(table, 16, axis=1), table[:, 16].astype(np.int64))


def mnist(download: bool | None = None) -> Images:
    """Return LeCun's handwritten digits."""
    return _images("mnist", download)


def fashion_mnist(download: bool | None = None) -> Images:
    """Return Zalando's articles of clothing."""
    return _images("fashion-mnist", download)


def newsgroups(download: bool | None = None) -> Newsgroups:
    """Return word counts without headers, footers and quotes, with documents scaled to length 1 (535 are empty).

    These are the features of scikit-learn's `fetch_20newsgroups_vectorized`, with its vocabulary of 101631 words. The
    paper says tf-idf; see `tfidf` of `boundcheck.problems.newsgroups`.
    """
    counts, labels = _newsgroups_counts(download)
    return Newsgroups(unit_rows(counts.astype(np.float64)), labels)


def unit_rows(X: Any) -> Any:
    """Return a scipy CSR matrix with the rows scaled to Euclidean length 1, except for empty ones."""
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    lengths[lengths == 0] = 1.0
    return scipy.sparse.csr_matrix((X.data / np.repeat(lengths, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)


@dataclass(frozen=True)
class Thirds:
    """Row numbers of three parts of equal size; one or two rows may be left out."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def thirds(count: int, seed: int) -> Thirds:
    """Split `count` rows at random."""
    order, third = np.random.default_rng(seed).permutation(count), count // 3
    return Thirds(order[:third], order[third : 2 * third], order[2 * third : 3 * third])


def read_idx(path: Path, dims: int) -> NDArray[np.uint8]:
    """Read an array of bytes with `dims` axes from a gzipped idx file."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a gzip file ({dataset_files.one_line(error)}); replace it by the original file"
        ) from error
    start = 4 + 4 * dims
    if len(raw) < start or raw[:4] != bytes((0, 0, 8, dims)):  # two zeros, 8 for bytes, the number of axes
        raise InputError(
            f"{path} starts with {raw[:4].hex()}, not {bytes((0, 0, 8, dims)).hex()}; replace it by the original file"
        )
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", dims, 4))
    if len(raw) - start != int(np.prod(shape)):
        raise InputError(
            f"{path} holds {len(raw) - start} bytes and its header says {shape}; replace it by the original file"
        )
    array: NDArray[np.uint8] = np.frombuffer(bytearray(raw), np.uint8, offset=start)  # writable, for torch
    return array.reshape(shape)


def _images(folder: str, download: bool | None) -> Images:
    def labels(part: str) -> NDArray[np.int64]:
        return read_idx(dataset_files.find(f"{folder}/{part}-labels-idx1-ubyte.gz", download), 1).astype(np.int64)

    def images(part: str) -> NDArray[np.uint8]:
        return read_idx(dataset_files.find(f"{folder}/{part}-images-idx3-ubyte.gz", download), 3)

    return Images(images("train"), labels("train"), images("t10k"), labels("t10k"))


def _newsgroups_counts(download: bool | None) -> tuple[Any, NDArray[np.int64]]:
    """Return counts (scipy CSR, int16) and classes. Pickles can run code, so only verified ones are opened."""
    for folder in dataset_files.folders():
        present = [
            dataset_files.verified(folder / name, dataset_files.SHA256[name])
            for name in NEWSGROUPS
            if (folder / name).is_file()
        ]
        if len(present) == len(NEWSGROUPS):
            with tempfile.TemporaryDirectory() as private:  # the copy cannot change after it was verified
                for name in NEWSGROUPS:
                    dataset_files.copy_verified(
                        folder / name, Path(private) / Path(name).name, dataset_files.SHA256[name]
                    )
                return _checked(*_from_sklearn(Path(private), download=False), origin=folder / "sklearn_home")
    cache = dataset_files.user_cache()
    if cache is not None and (cache / NEWSGROUPS_COPY).is_file():
        return _checked(*_from_copy(cache / NEWSGROUPS_COPY), origin=cache / NEWSGROUPS_COPY)
    if not dataset_files.allowed(download):
        raise InputError(
            f"20 newsgroups not found: {dataset_files.remedy(*NEWSGROUPS)}, or allow scikit-learn to download and "
            f"count it with {dataset_files.ALLOW}"
        )
    cache = Path(dataset_files.optional("pooch", "finding the user's cache").os_cache("boundcheck"))
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{cache} cannot be made ({dataset_files.one_line(error)}); {dataset_files.remedy(*NEWSGROUPS)}"
        ) from error
    with sole_use_of_file(cache / NEWSGROUPS_COPY) as results:
        fresh = results.work / "sklearn_home"  # a new folder, so that scikit-learn opens only its own files
        counts, labels = _from_sklearn(fresh, download=True)
        _checked(counts, labels, origin=Path("what scikit-learn made of the archive"))
        arrays = {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": counts.shape}
        with results.together() as parts:
            np.savez_compressed(parts / NEWSGROUPS_COPY, labels=labels, **arrays)
    return counts, labels


def _from_sklearn(home: Path, *, download: bool) -> tuple[Any, NDArray[np.int64]]:
    datasets = dataset_files.optional("sklearn.datasets", "reading 20 newsgroups")
    try:
        bunch = datasets.fetch_20newsgroups_vectorized(
            subset="all", remove=("headers", "footers", "quotes"), data_home=str(home), download_if_missing=download,
            normalize=False,
        )  # fmt: skip
    except Exception as error:
        raise InputError(
            f"scikit-learn gave no 20 newsgroups ({dataset_files.one_line(error)}); {dataset_files.remedy(*NEWSGROUPS)}"
        ) from error
    counts = bunch.data.tocsr()
    counts.sort_indices()
    return counts, bunch.target.astype(np.int64)


def _from_copy(path: Path) -> tuple[Any, NDArray[np.int64]]:
    try:
        with np.load(path, allow_pickle=False) as saved:
            parts = (saved["data"], saved["indices"], saved["indptr"])
            return scipy.sparse.csr_matrix(parts, shape=tuple(saved["shape"])), saved["labels"]
    except Exception as error:
        raise InputError(f"{path} cannot be read ({dataset_files.one_line(error)}); remove it") from error


def _checked(counts: Any, labels: NDArray[np.int64], *, origin: Path) -> tuple[Any, NDArray[np.int64]]:
    digest = hashlib.sha256(repr(tuple(int(n) for n in counts.shape)).encode())
    for array in (counts.indptr, counts.indices, counts.data, labels):
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    if digest.hexdigest() != NEWSGROUPS_CONTENTS:
        raise InputError(
            f"{origin}: the word counts have sha256 {digest.hexdigest()}, not {NEWSGROUPS_CONTENTS}; "
            f"they are not used: {dataset_files.remedy(*NEWSGROUPS)}"
        )
    return counts, labels
