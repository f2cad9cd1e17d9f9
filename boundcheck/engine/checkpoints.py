"""The folder of an experiment: results of finished runs, states of unfinished runs, and a fingerprint.

Files are written atomically, and are on the disk before the run continues. A folder is refused, and left as it is, if
its fingerprint has other settings or other code, or if another command is using it.
"""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boundcheck
from boundcheck.atomic_write import Results, remove, sole_use, write_whole
from boundcheck.engine.experiment import Experiment, Settings
from boundcheck.errors import InputError

SCHEMA = 1
FOLDER, FINGERPRINT = "checkpoints", "fingerprint.json"
ARRAY = "numpy array"
SHOWS = {"views", "cli"}  # folders of code that only shows results; no number depends on them
APART = {"engine", "paper", "sweeps"}  # an experiment depends only on its own folder within these


@dataclass(frozen=True)
class Checkpoint:
    """The result of a run, or the state from which to continue; the part that is done, and the seconds so far."""

    content: Any
    done: float
    seconds: float


class Store:
    """The checkpoints of one experiment, as a context manager.

    Entering raises InputError if the folder belongs to another experiment, or is in use.
    """

    def __init__(self, out: Path | Results, experiment: Experiment, settings: Settings) -> None:
        self.out = out.place if isinstance(out, Results) else out
        self.folder = self.out / FOLDER
        self._claim, self._mine = out, fingerprint(experiment, settings)
        self._held = ExitStack()

    def __enter__(self) -> Store:
        with ExitStack() as stack:
            stack.enter_context(sole_use(self._claim))
            fingerprint = self.folder / FINGERPRINT
            if fingerprint.exists():
                _refuse_another(fingerprint, self._mine, self.out)
            else:
                _make(self.folder)
                write_whole(fingerprint, json.dumps(self._mine, indent=1, ensure_ascii=False).encode(), durable=True)
            for part in self.folder.glob(".*"):  # left by a write that was killed
                remove(part)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._held.close()

    def result(self, key: str) -> Checkpoint | None:
        return self._read(self.folder / f"{key}.result")

    def state(self, key: str) -> Checkpoint | None:
        return self._read(self.folder / f"{key}.state")

    def keep_result(self, key: str, checkpoint: Checkpoint) -> None:
        self._write(self.folder / f"{key}.result", checkpoint)
        (self.folder / f"{key}.state").unlink(missing_ok=True)

    def keep_state(self, key: str, checkpoint: Checkpoint) -> None:
        self._write(self.folder / f"{key}.state", checkpoint)

    def _write(self, path: Path, checkpoint: Checkpoint) -> None:
        import torch

        contents = io.BytesIO()
        torch.save(
            {"content": _packed(checkpoint.content), "done": checkpoint.done, "seconds": checkpoint.seconds}, contents
        )
        write_whole(path, contents.getvalue(), durable=True)

    def _read(self, path: Path) -> Checkpoint | None:
        import torch

        if not path.exists():
            return None
        try:
            stored = torch.load(path, map_location="cpu", weights_only=True)
            return Checkpoint(_unpacked(stored["content"]), stored["done"], stored["seconds"])
        except Exception as why:  # torch raises many kinds of errors for damaged files
            raise InputError(
                f"{path} cannot be read ({type(why).__name__}); remove it, and that run is repeated"
            ) from why


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as why:
        raise InputError(f"{folder} cannot be created ({why.strerror}); give another --out") from why


def _packed(tree: Any) -> Any:
    """Replace arrays by tensors, which `torch.load` reads without running code from the file."""
    import numpy as np
    import torch

    if isinstance(tree, np.ndarray):
        return {ARRAY: torch.from_numpy(np.ascontiguousarray(tree)), "shape": list(tree.shape)}
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, dict):
        return {key: _packed(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_packed(value) for value in tree)
    return tree.clone() if isinstance(tree, torch.Tensor) else tree  # torch would save the whole memory behind a view


def _unpacked(tree: Any) -> Any:
    if isinstance(tree, dict):
        if ARRAY in tree:
            return tree[ARRAY].numpy().reshape(tree["shape"])
        return {key: _unpacked(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_unpacked(value) for value in tree)
    return tree


def fingerprint(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """Return everything that the results depend on, as JSON."""
    import torch

    identity: dict[str, Any] = {"schema": SCHEMA, "experiment": experiment.name, "settings": settings}
    identity |= {"boundcheck": boundcheck.__version__, "code": _code(experiment), "torch": torch.__version__}
    copy: dict[str, Any] = json.loads(json.dumps(identity, allow_nan=False))
    return copy


def _code(experiment: Experiment) -> str:
    """Return a digest of the code that results depend on: not views, the engine or other experiments."""
    package, digest = Path(boundcheck.__file__).parent, hashlib.sha256()
    folder = tuple(experiment.module.split(".")[1:-1])  # the folder of the experiment, such as ("paper", "fig1")
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package)
        folders = where.parts[:-1]
        elsewhere = bool(APART.intersection(folders[:1])) and folders[: max(1, len(folder))] != folder
        if SHOWS.isdisjoint(folders) and not elsewhere:
            digest.update(f"{where.as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _refuse_another(fingerprint: Path, mine: dict[str, Any], out: Path) -> None:
    try:
        stored = json.loads(fingerprint.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        raise InputError(
            f"{fingerprint} cannot be read ({why}); remove {fingerprint.parent}, or give another --out"
        ) from None
    if stored == mine:
        return
    pairs = [(name, stored.get(name), mine[name]) for name in mine if name != "settings"]
    before = stored.get("settings", {})
    pairs += [(name, before.get(name), mine["settings"].get(name)) for name in sorted({*before, *mine["settings"]})]
    differences = "; ".join(f"{name} was {old!r}, now {new!r}" for name, old, new in pairs if old != new)
    raise InputError(
        f"{out} holds another run ({differences}); give another --out, or remove {fingerprint.parent} to start afresh"
    )
