"""Finding, checking and downloading the files of the real data sets; nothing here touches the network."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from on_disk import PARKINSONS, put

from boundcheck.errors import InputError
from boundcheck.problems.parts import dataset_files, datasets

LOADERS: dict[str, Callable[..., Any]] = {
    PARKINSONS: datasets.parkinsons,
    "mnist/train-images-idx3-ubyte.gz": datasets.mnist,
    "fashion-mnist/train-images-idx3-ubyte.gz": datasets.fashion_mnist,
    datasets.NEWSGROUPS[0]: datasets.newsgroups,
    datasets.NEWSGROUPS[1]: datasets.newsgroups,
}


@pytest.mark.parametrize("name", LOADERS)
def test_missing_file_says_what_to_put_where(name: str, empty: Path) -> None:
    for permission in (None, False):
        with pytest.raises(InputError) as caught:
            LOADERS[name](download=permission)
        text = str(caught.value)
        assert "\n" not in text
        for part in (
            str(empty / "data" / name),
            str(empty / "cache" / "boundcheck" / name),
            dataset_files.SHA256[name],
            "BOUNDCHECK_DOWNLOAD=1",
            "download=True",
        ):
            assert part in text


def test_missing_file_with_no_folder_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOUNDCHECK_DATA")
    with pytest.raises(InputError, match=r"at \$BOUNDCHECK_DATA/parkinsons/parkinsons.data .* is not set"):
        datasets.parkinsons()


@pytest.mark.parametrize("place", ["data", "cache/boundcheck"])
def test_found_in_both_places_and_named_folder_first(place: str, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = empty / place / PARKINSONS
    monkeypatch.setitem(dataset_files.SHA256, PARKINSONS, put(path, b"contents"))
    assert dataset_files.find(PARKINSONS) == path
    put(empty / "cache" / "boundcheck" / PARKINSONS, b"contents")
    assert dataset_files.find(PARKINSONS) == path


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("place", ["data", "cache/boundcheck"])
def test_changed_file_is_refused(name: str, place: str, empty: Path) -> None:
    path = empty / place / name
    found = put(path, b"something else")
    with pytest.raises(InputError) as caught:
        LOADERS[name](download=True)  # a wrong file that is there is not downloaded again
    for part in (str(path), found, dataset_files.SHA256[name], "not used"):
        assert part in str(caught.value)


def test_checksum_is_computed_once_until_the_file_changes(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = empty / "file"
    right = put(path, b"first")
    reads: list[Path] = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (reads.append(self), read_bytes(self))[1])
    assert dataset_files.verified(path, right) == dataset_files.verified(path, right) == path
    assert reads == [path]
    put(path, b"second, longer")
    with pytest.raises(InputError, match="not used"):
        dataset_files.verified(path, right)


def test_permission_to_download(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch")
    asked: list[dict[str, Any]] = []
    good = put(empty / "upstream", b"the file")

    def retrieve(url: str, **options: Any) -> str:
        asked.append({"url": url, **options})
        path = Path(options["path"]) / options["fname"]
        put(path, b"the file")
        return str(path)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    monkeypatch.setattr("pooch.os_cache", lambda project: empty / "cache" / project)
    monkeypatch.setitem(dataset_files.SHA256, PARKINSONS, good)
    monkeypatch.setenv("BOUNDCHECK_DOWNLOAD", "1")
    with pytest.raises(InputError, match="not found"):
        dataset_files.find(PARKINSONS, download=False)  # the argument is above the environment
    path = dataset_files.find(PARKINSONS)
    assert path == empty / "cache" / "boundcheck" / PARKINSONS
    assert dataset_files.find(PARKINSONS, download=False) == path
    assert [(a["url"].split("/")[-1], a["known_hash"]) for a in asked] == [("parkinsons.data", f"sha256:{good}")]


def test_failed_download_is_one_line(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch")

    def retrieve(url: str, **options: Any) -> str:
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr("pooch.retrieve", retrieve)
    with pytest.raises(InputError, match=r"failed \(ConnectionError: no network\); put the file"):
        datasets.parkinsons(download=True)


def test_without_the_optional_packages(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("BOUNDCHECK_DATA", str(empty / "data"))
    for module in ("pooch", "sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"parkinsons/parkinsons.data, or allow") as caught:
        datasets.parkinsons(download=False)
    assert "cache" not in str(caught.value).replace(str(empty), "")
    with pytest.raises(InputError, match=r"needs pooch, not installed: pip install 'boundcheck\[data\]'"):
        datasets.parkinsons(download=True)
    monkeypatch.setitem(dataset_files.SHA256, PARKINSONS, put(empty / "data" / PARKINSONS, b"here"))
    assert dataset_files.find(PARKINSONS).is_file()  # a file that is there needs neither
    for name in datasets.NEWSGROUPS:
        monkeypatch.setitem(dataset_files.SHA256, name, put(empty / "data" / name, b"here"))
    with pytest.raises(InputError, match=r"needs scikit-learn, not installed: pip install 'boundcheck\[data\]'"):
        datasets.newsgroups()
