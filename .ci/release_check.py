"""Tries a release as a stranger would get it: `make release-check`, which runs `make wheel` before it.

1. The wheel holds the package and its data (page, fonts, licences, py.typed), and no tests, documentation, benchmarks.
2. The wheel that is built from the source archive is the same, byte for byte.
3. Installed in an empty environment, far from this folder, the commands work.
4. Every extra can be installed.

Any failure ends it with exit code 1. Standard library only.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = (
    "boundcheck/py.typed",
    "boundcheck/views/page/static/page.html",
    "boundcheck/views/page/static/main.js",
    "boundcheck/views/page/vendor/katex.min.js",
    "boundcheck/views/page/vendor/katex.LICENSE",
    "boundcheck/views/page/vendor/uPlot.iife.min.js",
    "boundcheck/views/page/vendor/uplot.LICENSE",
    "boundcheck/views/page/vendor/fonts/KaTeX_Main-Regular.woff2",
)
EXTRAS = {"audit", "bench", "data", "dev", "distributed", "docs", "frames", "rigorous", "teach"}


class ReleaseError(Exception):
    """Something in the release is wrong."""


def expect(fact: bool, message: str) -> None:
    """Raise ReleaseError with `message` unless `fact`."""
    if not fact:
        raise ReleaseError(message)


def run(*command: str | Path, cwd: Path, env: dict[str, str]) -> str:
    """The output of a command that must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    """The one file of that pattern."""
    files = sorted(folder.glob(pattern))
    expect(len(files) == 1, f"{folder} holds {len(files)} files {pattern}, not one; run make wheel")
    return files[0]


def check_contents(wheel: Path) -> set[str]:
    """The wheel holds what the tree has under boundcheck/ and nothing else; returns its extras."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        message = email.message_from_bytes(archive.read(metadata))
    missing = [name for name in NEEDED if name not in names]
    expect(not missing, f"not in the wheel: {', '.join(missing)}")
    info = metadata.split("/")[0]
    foreign = sorted(name for name in names if name.split("/")[0] not in ("boundcheck", info))
    expect(not foreign, f"does not belong into the wheel: {', '.join(foreign)}")
    tracked = run("git", "ls-files", "boundcheck", cwd=ROOT, env=dict(os.environ)).split()
    package = {name for name in names if name.startswith("boundcheck/")}
    difference = sorted(package ^ set(tracked))
    expect(not difference, f"the wheel and the tree differ in: {', '.join(difference)}")
    extras = set(message.get_all("Provides-Extra") or [])
    expect(extras == EXTRAS, f"extras {sorted(extras)}, expected {sorted(EXTRAS)}")
    return extras


def check_source(source: Path, wheel: Path, work: Path, env: dict[str, str]) -> None:
    """The source archive, unpacked elsewhere, builds the same wheel."""
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # early 3.10 and 3.11 have no filters
    with tarfile.open(source) as archive:
        archive.extractall(work / "source", **safe)
    folder = only(work / "source", "boundcheck-*")
    for name in ("tests/conftest.py", "docs/theorems.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile"):
        expect((folder / name).exists(), f"{name} is not in the source archive")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", work / "again", folder, cwd=work, env=env)
    first, again = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, only(work / "again", "*.whl")))
    expect(first == again, "the wheel of the source archive is another one than that of the tree")


def check_commands(python: Path, version: str, work: Path, env: dict[str, str]) -> None:
    """The commands of a first session, in the empty environment."""
    command = python.parent / "boundcheck"
    where = run(python, "-c", "import boundcheck; print(boundcheck.__file__)", cwd=work, env=env)
    expect(str(ROOT / "boundcheck") not in where, f"{where.strip()} is this tree, not the installed wheel")
    expect(version in run(command, "--version", cwd=work, env=env), f"boundcheck --version does not say {version}")
    run(command, "check", "scalar", "--t", "20", "--out", "out", cwd=work, env=env)
    verdict = json.loads((work / "out" / "report.json").read_text())["verdict"]
    expect(verdict == "holds", f"check scalar ends with {verdict}, not with holds")
    expect((work / "out" / "errors.png").read_bytes()[:4] == b"\x89PNG", "check --out wrote no picture")
    run(command, "page", "scalar", "--t", "20", "--out", "scalar.html", cwd=work, env=env)
    page = (work / "scalar.html").read_text()
    expect("uPlot" in page and "font/woff2" in page and "katex" in page, "the page lacks its libraries or fonts")
    expect("aid-fp" in run(command, "list", "bounds", cwd=work, env=env), "boundcheck list bounds names no aid-fp")
    javascript = run(command, "bound", "aid-fp", "--javascript", cwd=work, env=env)
    expect("function" in javascript, "boundcheck bound --javascript prints no function")
    run(command, "worst", "itd", "--t", "1", "--dim", "1", "--quick", cwd=work, env=env)


def main() -> int:
    """Run all checks; print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path, help="folder with the wheel and the source archive")
    dist = parser.parse_args().dist.resolve()
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "MPLBACKEND": "agg"}
    try:
        wheel, source = only(dist, "*.whl"), only(dist, "*.tar.gz")
        version = wheel.name.split("-")[1]
        extras = check_contents(wheel)
        print(f"ok: {wheel.name} holds the package, its data, and nothing else", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            check_source(source, wheel, work, env)
            print(f"ok: {source.name} builds the same wheel", flush=True)
            venv.create(work / "empty", with_pip=True)
            python = work / "empty" / "bin" / "python"
            run(python, "-m", "pip", "install", "--quiet", wheel, cwd=work, env=env)
            check_commands(python, version, work, env)
            print(f"ok: installed with Python {sys.version.split()[0]}, the commands work", flush=True)
            for extra in sorted(extras):
                run(python, "-m", "pip", "install", "--quiet", "--dry-run", f"{wheel}[{extra}]", cwd=work, env=env)
                print(f"ok: boundcheck[{extra}] can be installed", flush=True)
    except ReleaseError as why:
        print(f"release check failed: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
