"""The folder of an experiment: a file for each finished run, one for each run under way, and what they belong to.

Every file is there whole or not at all, on the disk before the run goes on. A folder made with other settings, or by
code that computes otherwise, is refused: nothing in it is used or removed. So is one that another command is using.
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
SHOWS = {"views", "cli"}  # folders of what people look at: a change there changes no number
APART = {"engine", "paper", "sweeps"}  # folders of which each experiment depends on its own part alone


@dataclass(frozen=True)
class Checkpoint:
    """A run so far: its result, or the state to go on from; how much is done, and the seconds it took."""

    content: Any
    done: float
    seconds: float


class Store:
    """Entered for one experiment with its settings; InputError where the folder is that of another one, or in use."""

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
            for part in self.folder.glob(".*"):  # of a write that was killed
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
        except Exception as why:  # a damaged file may raise anything in torch
            raise InputError(
                f"{path} cannot be read ({type(why).__name__}); remove it, and that run is repeated"
            ) from why


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as why:
        raise InputError(f"{folder} cannot be created ({why.strerror}); give another --out") from why


def _packed(tree: Any) -> Any:
    """Arrays as tensors: those are read again without running what a file says."""
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
    return tree.clone() if isinstance(tree, torch.Tensor) else tree  # for a view, torch would write all of its memory


def _unpacked(tree: Any) -> Any:
    if isinstance(tree, dict):
        if ARRAY in tree:
            return tree[ARRAY].numpy().reshape(tree["shape"])
        return {key: _unpacked(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_unpacked(value) for value in tree)
    return tree


def fingerprint(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """All that results depend on, as JSON."""
    import torch

    identity: dict[str, Any] = {"schema": SCHEMA, "experiment": experiment.name, "settings": settings}
    identity |= {"boundcheck": boundcheck.__version__, "code": _code(experiment), "torch": torch.__version__}
    copy: dict[str, Any] = json.loads(json.dumps(identity, allow_nan=False))
    return copy


def _code(experiment: Experiment) -> str:
    """A digest of the code that computes: the package without what only shows, the engine and other experiments."""
    package, digest = Path(boundcheck.__file__).parent, hashlib.sha256()
    folder = tuple(experiment.module.split(".")[1:-1])  # ("paper", "fig1"), its folder, or ("sweeps",)
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
