"""Results on the disk: whole sets, one writer at a time, and nothing of a writer that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command

from boundcheck import atomic_write, folder_lock
from boundcheck.atomic_write import sole_use, sole_use_of_file, write_whole
from boundcheck.errors import InputError

COUNT = """
import sys
from pathlib import Path
from boundcheck.errors import InputError
from boundcheck.atomic_write import sole_use
place, number = Path(sys.argv[1]), int(sys.argv[2])
while number:
    try:
        with sole_use(place / "out"):
            counter = place / "counter"
            counter.write_text(str(int(counter.read_text()) + 1))
            number -= 1
    except InputError as why:
        assert "is in use: another command is at work in it" in str(why), why
"""


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_set_gets_there_together_and_nothing_else_stays(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with sole_use(out) as results:
        assert [path.name for path in results.write({"a": b"1", "b": b"1"})] == ["a", "b"]
        with pytest.raises(ZeroDivisionError), results.together() as parts:
            (parts / "a").write_text(str(1 / 0))
        with results.together() as parts:
            (parts / "b").write_text("3")
            assert (out / "b").read_text() == "1"
    assert contents(out) == {"a": "1", "b": "3"}


def test_without_results_no_folder_is_left(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for place in ("old/new/out", "out"):
        with pytest.raises(RuntimeError), sole_use(tmp_path / place):
            raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert not list((tmp_path / "old").iterdir())


def test_a_folder_where_a_file_should_be_stops_the_whole_set(tmp_path: Path) -> None:
    (tmp_path / "out" / "b").mkdir(parents=True)
    with pytest.raises(InputError, match="out cannot be written: b is a folder there; remove it"):  # noqa: SIM117
        with sole_use(tmp_path / "out") as results:
            results.write({"a": b"1", "b": b"1"})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b"]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path = '.*nowhere/a' cannot be written \(No such file or directory\); give"):
        write_whole(tmp_path / "nowhere" / "a", b"1")
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="taken is a file; give another directory"), sole_use(tmp_path / "taken"):
        pass


def test_the_second_one_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    for use, path in ((sole_use, tmp_path), (sole_use_of_file, tmp_path / "a.html")):
        with use(path):
            with pytest.raises(InputError, match="is in use: another command is at work in it; wait for it, or give"):  # noqa: SIM117
                with use(path):
                    pass
            write_whole(tmp_path / "b.html", b"1")  # beside it
        with use(path):
            pass


def test_a_claim_is_passed_on(tmp_path: Path) -> None:
    with sole_use(tmp_path) as outer, sole_use(outer) as inner:
        assert inner is outer


@pytest.mark.parametrize(
    "arguments",
    [("check", "scalar", "--t", "5"), ("worst", "itd", "--quick"), ("paper", "fig1", "--quick"), ("page",)],
    ids=lambda arguments: arguments[0],
)
def test_every_command_refuses_a_place_in_use(boundcheck: Command, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    out = tmp_path / ("a.html" if arguments[0] == "page" else "out")
    with sole_use_of_file(out) if arguments[0] == "page" else sole_use(out):
        done = boundcheck(*arguments, "--out", str(out))
    assert done.returncode == 2
    assert done.stderr.startswith(f"boundcheck: --out {out} is in use: another command is at work in it; wait for it")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_processes_take_turns(tmp_path: Path) -> None:
    """A lost update would show that two had the folder at once."""
    (tmp_path / "counter").write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path), "150"]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
    assert (tmp_path / "counter").read_text() == "450"
    assert not list(tmp_path.rglob(".*"))


def test_a_lock_that_its_owner_removed_before_it_was_locked_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    original = folder_lock._open

    def late(path: Path) -> tuple[int, bool]:
        result = original(path)
        if not opened:
            path.unlink()  # as its owner does when it is done
        opened.append(path)
        return result

    monkeypatch.setattr(folder_lock, "_open", late)
    with sole_use(tmp_path):
        assert len(opened) == 2
        assert (tmp_path / atomic_write.WORK / folder_lock.LOCK).exists()


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    for work in (tmp_path / "out" / atomic_write.WORK, tmp_path / f"{atomic_write.WORK}-a"):
        (work / atomic_write.PARTS / "below").mkdir(parents=True)
        (work / folder_lock.LOCK).touch()
        (work / atomic_write.PARTS / "below" / "half").write_text("ha")
    with sole_use(tmp_path / "out"):
        pass
    write_whole(tmp_path / "a", b"1")
    assert {path.name for path in tmp_path.rglob("*")} == {"out", "a"}


def test_a_set_on_its_way_gets_there(tmp_path: Path) -> None:
    """Killed after two of four files had moved: the others follow with the next claim."""
    complete = tmp_path / atomic_write.WORK / atomic_write.COMPLETE
    complete.mkdir(parents=True)
    for name in "abcd":
        (tmp_path / name if name in "ab" else complete / name).write_text("new")
    (tmp_path / "c").write_text("old")
    with sole_use(tmp_path):
        pass
    assert contents(tmp_path) == dict.fromkeys("abcd", "new")


def test_ctrl_c_waits_until_the_set_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(source: str, target: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), sole_use(tmp_path) as results:
        results.write({"a": b"1", "b": b"1", "c": b"1"})
    assert contents(tmp_path) == dict.fromkeys("abc", "1")


def test_without_locks_what_is_there_keeps_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with sole_use(tmp_path) as results:
        results.write({"a": b"1"})
        with pytest.raises(InputError, match=r"in use: .*\.boundcheck is there; remove it if no other command is"):  # noqa: SIM117
            with sole_use(tmp_path):
                pass
    with sole_use(tmp_path):
        pass
    assert contents(tmp_path) == {"a": "1"}


def test_durable_files_are_flushed_before_they_move_and_their_names_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    replace = os.replace

    def flushed(file: int) -> None:
        done.append("flush " + os.readlink(f"/proc/self/fd/{file}").removeprefix(str(tmp_path)))

    def moved(source: Path, target: Path) -> None:
        done.append(f"move {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", moved)
    write_whole(tmp_path / "a", b"1", durable=True)
    assert done == ["flush /.boundcheck-a/parts/a", "move a", "flush "]
