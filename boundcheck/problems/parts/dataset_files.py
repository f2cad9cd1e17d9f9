"""Find the files of the real data sets in a folder or a cache, or download them if allowed, and verify them.

The folder is the one that the environment variable BOUNDCHECK_DATA names; the user's cache is next. Nothing is
downloaded unless `download=True` or BOUNDCHECK_DOWNLOAD=1.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

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


def find(name: str, download: bool | None = None) -> Path:
    """Return the path of the file `name` of SHA256, with verified contents."""
    for place in folders():
        if (place / name).is_file():
            return verified(place / name, SHA256[name])
    folder, _, base = name.partition("/")
    url = URLS[folder] + base
    if not allowed(download):
        raise InputError(f"{base} not found: {remedy(name)}, or allow its download from {url} with {ALLOW}")
    pooch = optional("pooch", f"downloading {url}")
    try:
        place = Path(pooch.os_cache("boundcheck")) / folder
        path = pooch.retrieve(url, known_hash=f"sha256:{SHA256[name]}", fname=base, path=place)
    except Exception as error:  # network, disk and checksum raise many kinds of errors
        raise InputError(f"download of {url} failed ({one_line(error)}); {remedy(name)}") from error
    return verified(Path(path), SHA256[name])


def verified(path: Path, sha256: str) -> Path:
    """Return `path` if its contents have this checksum, which is computed again only if the file changes."""
    stat = path.stat()
    digest = _digest(path, stat.st_size, stat.st_mtime_ns)
    if digest != sha256:
        raise _unverified(path, digest, sha256)
    return path


def copy_verified(path: Path, target: Path, sha256: str) -> None:
    """Copy a file if its contents have this checksum. The same bytes are hashed and written."""
    contents = path.read_bytes()
    digest = hashlib.sha256(contents).hexdigest()
    if digest != sha256:
        raise _unverified(path, digest, sha256)
    target.write_bytes(contents)


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _unverified(path: Path, digest: str, sha256: str) -> InputError:
    return InputError(
        f"{path} has sha256 {digest}, not {sha256}; it is not used: replace it by the original file, or remove it"
    )


def folders() -> list[Path]:
    """Return the folders in which to look for files, in order."""
    named, cache = os.environ.get("BOUNDCHECK_DATA"), user_cache()
    return [Path(folder).expanduser() for folder in (named, cache) if folder]


def user_cache() -> Path | None:
    """Return the user's cache, as pooch gives it for the platform; None without pooch."""
    try:
        return Path(importlib.import_module("pooch").os_cache("boundcheck"))
    except ImportError:
        return None


def allowed(download: bool | None) -> bool:
    """Return whether to download: `download`, or if it is None, the choice of the environment."""
    return os.environ.get("BOUNDCHECK_DOWNLOAD") == "1" if download is None else download


def remedy(*names: str) -> str:
    """Return advice on where to put these files."""
    named_folder, cache = os.environ.get("BOUNDCHECK_DATA"), user_cache()
    named = Path(named_folder).expanduser() if named_folder else "$BOUNDCHECK_DATA"
    files = (
        f"the file with sha256 {SHA256[name]} at {named}/{name}" + (f" or at {cache / name}" if cache else "")
        for name in names
    )
    return f"put {' and '.join(files)}{'' if named_folder else ' (BOUNDCHECK_DATA is not set)'}"


def optional(module: str, purpose: str) -> Any:
    """Import a module of the extra `data`; the error without it says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"sklearn.datasets": "scikit-learn"}.get(module, module)
        raise InputError(f"{purpose} needs {package}, not installed: pip install 'boundcheck[data]'") from error


def one_line(error: Exception) -> str:
    """Return the type and the text of an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
