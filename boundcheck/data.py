"""Real data sets: found in a folder or a cache, or downloaded when allowed; every file is checked before it is used.

Looked for in the folder that the environment variable BOUNDCHECK_DATA names, then in the user's cache. Nothing is
downloaded unless `download=True` or BOUNDCHECK_DOWNLOAD=1. Downloads and 20 newsgroups need
`pip install 'boundcheck[data]'`.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import os
import tempfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from boundcheck.errors import InputError

SHA256 = {
    "fashion-mnist/t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    "fashion-mnist/train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "fashion-mnist/train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "mnist/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "mnist/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "mnist/train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "mnist/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "parkinsons/parkinsons.data": "a36116c2deac07895b79ce97a2f99a1b3720ac4892995ff5c3b9ccb397ed2bc5",
    "sklearn_home/20news-bydate_py3.pkz": "a7f1eb5bc436ed1d6358d9666350b3eaf0ac62b5718b82f59d69e98f78f10bee",
    "sklearn_home/20newsgroup_vectorizedremove-headers-footers-quotes_py3.pkl": (
        "dc2f79a075ea144241c28800f04ee8bda4006b85a66d93a992cf6622c729e9eb"
    ),
}
URLS = {
    "fashion-mnist": "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "parkinsons": "https://archive.ics.uci.edu/ml/machine-learning-databases/parkinsons/",
}
ALLOW = "download=True or BOUNDCHECK_DOWNLOAD=1"
NEWSGROUPS = tuple(name for name in SHA256 if name.startswith("sklearn_home/"))
NEWSGROUPS_COPY = "20newsgroups.npz"  # in the cache only: counts and labels without pickle, checked by their contents
NEWSGROUPS_CONTENTS = "e6a81882986e2175366787ef62ce89599189a8879fd7f2d63c4de971c005f3a8"


@dataclass(frozen=True)
class Parkinsons:
    """UCI Parkinsons (Little et al. 2008): 195 recordings × 22 features; label 1 for people with the disease."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Images:
    """Images of 28 × 28 bytes and their classes 0…9: 60000 to train on and 10000 to test."""

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
    """The CSV without its column 0, `name`; column 17, `status`, is the label."""
    path = find("parkinsons/parkinsons.data", download)
    with path.open(encoding="ascii") as file:
        header = file.readline().strip().split(",")
        if header[0] != "name" or header[17] != "status":
            raise InputError(f"{path}: columns 0 and 17 are {header[0]!r} and {header[17]!r}; use the original file")
        table = np.loadtxt(file, delimiter=",", usecols=range(1, 24), dtype=np.float64)
    return Parkinsons(np.delete(table, 16, axis=1), table[:, 16].astype(np.int64))


def mnist(download: bool | None = None) -> Images:
    """LeCun's handwritten digits."""
    return _images("mnist", download)


def fashion_mnist(download: bool | None = None) -> Images:
    """Zalando's articles of clothing."""
    return _images("fashion-mnist", download)


def newsgroups(download: bool | None = None) -> Newsgroups:
    """Counts of words without headers, footers and quotes, each document scaled to length 1 (535 are empty).

    These are the features of scikit-learn's `fetch_20newsgroups_vectorized`, with its vocabulary of 101631 words. The
    paper says tf-idf; see `tfidf` of `boundcheck.problems.newsgroups`.
    """
    counts, labels = _newsgroups_counts(download)
    return Newsgroups(unit_rows(counts.astype(np.float64)), labels)


def unit_rows(X: Any) -> Any:
    """A scipy CSR matrix with every row that is not empty scaled to Euclidean length 1."""
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    lengths[lengths == 0] = 1.0
    return scipy.sparse.csr_matrix((X.data / np.repeat(lengths, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)


@dataclass(frozen=True)
class Thirds:
    """Row numbers of three parts of equal size (the rest of a division by three stays out)."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def thirds(count: int, seed: int) -> Thirds:
    """`count` rows split at random."""
    order, third = np.random.default_rng(seed).permutation(count), count // 3
    return Thirds(order[:third], order[third : 2 * third], order[2 * third : 3 * third])


def find(name: str, download: bool | None = None) -> Path:
    """Where the file `name` of SHA256 lies, its contents checked."""
    for place in _folders():
        if (place / name).is_file():
            return verified(place / name, SHA256[name])
    folder, _, base = name.partition("/")
    url = URLS[folder] + base
    if not _allowed(download):
        raise InputError(f"{base} not found: {_put(name)}, or allow its download from {url} with {ALLOW}")
    pooch = _optional("pooch", f"downloading {url}")
    try:
        place = Path(pooch.os_cache("boundcheck")) / folder
        path = pooch.retrieve(url, known_hash=f"sha256:{SHA256[name]}", fname=base, path=place)
    except Exception as error:  # whatever the network, the disk or the checksum raise
        raise InputError(f"download of {url} failed ({_one_line(error)}); {_put(name)}") from error
    return verified(Path(path), SHA256[name])


def verified(path: Path, sha256: str) -> Path:
    """`path` again if its contents have this checksum; computed once per process while the file does not change."""
    stat = path.stat()
    found = _digest(path, stat.st_size, stat.st_mtime_ns)
    if found != sha256:
        raise _unverified(path, found, sha256)
    return path


def _copy_verified(path: Path, target: Path, sha256: str) -> None:
    """The bytes of `path` at `target`, if they have this checksum: the very bytes that were hashed are written."""
    contents = path.read_bytes()
    found = hashlib.sha256(contents).hexdigest()
    if found != sha256:
        raise _unverified(path, found, sha256)
    target.write_bytes(contents)


def _unverified(path: Path, found: str, sha256: str) -> InputError:
    return InputError(
        f"{path} has sha256 {found}, not {sha256}; it is not used: replace it by the original file, or remove it"
    )


def read_idx(path: Path, dims: int) -> NDArray[np.uint8]:
    """An array of bytes with `dims` axes from a gzipped idx file."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is no gzip file ({_one_line(error)}); replace it by the original file") from error
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
    array: NDArray[np.uint8] = np.frombuffer(bytearray(raw), np.uint8, offset=start)  # writable, as torch wants it
    return array.reshape(shape)


def _images(folder: str, download: bool | None) -> Images:
    def labels(part: str) -> NDArray[np.int64]:
        return read_idx(find(f"{folder}/{part}-labels-idx1-ubyte.gz", download), 1).astype(np.int64)

    def images(part: str) -> NDArray[np.uint8]:
        return read_idx(find(f"{folder}/{part}-images-idx3-ubyte.gz", download), 3)

    return Images(images("train"), labels("train"), images("t10k"), labels("t10k"))


def _newsgroups_counts(download: bool | None) -> tuple[Any, NDArray[np.int64]]:
    """Counts (scipy CSR, int16) and classes. A pickle can run any code, so none is opened with an unknown checksum."""
    for folder in _folders():
        present = [verified(folder / name, SHA256[name]) for name in NEWSGROUPS if (folder / name).is_file()]
        if len(present) == len(NEWSGROUPS):
            with tempfile.TemporaryDirectory() as private:  # so that what was verified is what is opened
                for name in NEWSGROUPS:
                    _copy_verified(folder / name, Path(private) / Path(name).name, SHA256[name])
                return _checked(*_from_sklearn(Path(private), download=False), origin=folder / "sklearn_home")
    cache = _cache()
    if cache is not None and (cache / NEWSGROUPS_COPY).is_file():
        return _checked(*_from_copy(cache / NEWSGROUPS_COPY), origin=cache / NEWSGROUPS_COPY)
    if not _allowed(download):
        raise InputError(
            f"20 newsgroups not found: {_put(*NEWSGROUPS)}, or allow scikit-learn to download and count it with {ALLOW}"
        )
    cache = Path(_optional("pooch", "finding the user's cache").os_cache("boundcheck"))
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{cache} cannot be made ({_one_line(error)}); {_put(*NEWSGROUPS)}") from error
    with tempfile.TemporaryDirectory(dir=cache) as fresh:  # so that what scikit-learn opens there is of its own making
        counts, labels = _from_sklearn(Path(fresh) / "sklearn_home", download=True)
        _checked(counts, labels, origin=Path("what scikit-learn made of the archive"))
        copy = Path(fresh) / NEWSGROUPS_COPY
        np.savez_compressed(
            copy, data=counts.data, indices=counts.indices, indptr=counts.indptr, shape=counts.shape, labels=labels
        )
        copy.replace(cache / NEWSGROUPS_COPY)
    return counts, labels


def _from_sklearn(home: Path, *, download: bool) -> tuple[Any, NDArray[np.int64]]:
    datasets = _optional("sklearn.datasets", "reading 20 newsgroups")
    try:
        found = datasets.fetch_20newsgroups_vectorized(
            subset="all", remove=("headers", "footers", "quotes"), data_home=str(home), download_if_missing=download,
            normalize=False,
        )  # fmt: skip
    except Exception as error:
        raise InputError(f"scikit-learn gave no 20 newsgroups ({_one_line(error)}); {_put(*NEWSGROUPS)}") from error
    counts = found.data.tocsr()
    counts.sort_indices()
    return counts, found.target.astype(np.int64)


def _from_copy(path: Path) -> tuple[Any, NDArray[np.int64]]:
    try:
        with np.load(path, allow_pickle=False) as saved:
            parts = (saved["data"], saved["indices"], saved["indptr"])
            return scipy.sparse.csr_matrix(parts, shape=tuple(saved["shape"])), saved["labels"]
    except Exception as error:
        raise InputError(f"{path} cannot be read ({_one_line(error)}); remove it") from error


def _checked(counts: Any, labels: NDArray[np.int64], *, origin: Path) -> tuple[Any, NDArray[np.int64]]:
    found = hashlib.sha256(repr(tuple(int(n) for n in counts.shape)).encode())
    for array in (counts.indptr, counts.indices, counts.data, labels):
        found.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    if found.hexdigest() != NEWSGROUPS_CONTENTS:
        raise InputError(
            f"{origin}: the word counts have sha256 {found.hexdigest()}, not {NEWSGROUPS_CONTENTS}; they are not used: "
            f"{_put(*NEWSGROUPS)}"
        )
    return counts, labels


def _folders() -> list[Path]:
    named, cache = os.environ.get("BOUNDCHECK_DATA"), _cache()
    return [Path(folder).expanduser() for folder in (named, cache) if folder]


def _cache() -> Path | None:
    """The user's cache; None without pooch, which knows where it is on each platform."""
    try:
        return Path(importlib.import_module("pooch").os_cache("boundcheck"))
    except ImportError:
        return None


def _allowed(download: bool | None) -> bool:
    return os.environ.get("BOUNDCHECK_DOWNLOAD") == "1" if download is None else download


def _put(*names: str) -> str:
    """What to put where."""
    given, cache = os.environ.get("BOUNDCHECK_DATA"), _cache()
    named = Path(given).expanduser() if given else "$BOUNDCHECK_DATA"
    files = (
        f"the file with sha256 {SHA256[name]} at {named}/{name}" + (f" or at {cache / name}" if cache else "")
        for name in names
    )
    return f"put {' and '.join(files)}{'' if given else ' (BOUNDCHECK_DATA is not set)'}"


def _optional(module: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"sklearn.datasets": "scikit-learn"}.get(module, module)
        raise InputError(f"{purpose} needs {package}, not installed: pip install 'boundcheck[data]'") from error


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
