"""Who may write into a run folder: one writer, no old run, and never a forked child."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from perdure.record import RecordError, RunWriter, read_input
from perdure.record.io import lock as lock_module

from .cli_helpers import environment
from .writer_helpers import Disk, Interrupt, disk, one_line, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["disk"]  # a fixture

UNHEARD = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
LINE = "1,a,a,probe,0.5,2"
HOLD = """
import sys
from perdure.record import RunWriter

writer = RunWriter(sys.argv[1], {}, overwrite=True)
writer.append_points(["1,a,a,probe,0.5,2"])
print("holds it", flush=True)
sys.stdin.read()
writer.close()
print("closed", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another process write into `folder`; it closes when its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "holds it\n"
        yield process
        process.kill()


def is_held(folder: Path) -> bool:
    """Return whether this process keeps another one from writing into `folder`."""
    ask = f"from perdure.record import RunWriter; RunWriter({str(folder)!r}, {{}})"
    answer = subprocess.run(
        [sys.executable, "-c", ask], env=environment(), capture_output=True, text=True, check=False
    )
    held = f"process {os.getpid()} on" in answer.stderr
    assert held or "holds an unfinished run already" in answer.stderr, answer.stderr
    return held


def in_child(do: object) -> int:
    """Do something in a forked child and return how that ended: 0 if it raised nothing."""
    assert callable(do)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def content(folder: Path) -> dict[str, bytes]:
    """Return all files but the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_two_writers_of_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (tmp_path / "other name").symlink_to(folder)
    with RunWriter(folder, {}) as writer:
        for path in (folder, tmp_path / "other name", tmp_path / "x" / ".." / "run"):
            for overwrite in (False, True):
                with one_line("another evaluator of this process", "close it first"):
                    RunWriter(path, {}, overwrite=overwrite)
        assert is_held(folder)
        writer.append_points([LINE])
    assert recorded(folder) == [LINE]
    RunWriter(folder, {}, overwrite=True).close()


def test_a_writer_in_another_process_is_named(tmp_path: Path) -> None:
    began = datetime.now(UTC).replace(microsecond=0)
    with another_process(tmp_path) as other:
        before = content(tmp_path)
        for overwrite in (False, True):
            with one_line(f"process {other.pid} on {socket.gethostname()} (since ", "wait for it"):
                RunWriter(tmp_path, {}, overwrite=overwrite)
        since = datetime.fromisoformat(json.loads((tmp_path / "lock").read_text())["since"])
        assert began <= since <= datetime.now(UTC)
        assert content(tmp_path) == before
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.close()
        assert other.stdout.readline() == "closed\n"  # and it lives on
        assert not (tmp_path / "lock").exists()
        RunWriter(tmp_path, {}, overwrite=True).close()


def test_a_killed_writer_frees_the_folder(tmp_path: Path) -> None:
    with another_process(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with one_line("holds an unfinished run already"):
            RunWriter(tmp_path, {})
        RunWriter(tmp_path, {}, overwrite=True).close()


def test_a_child_that_outlives_a_killed_writer_holds_nothing(tmp_path: Path) -> None:
    """A loader's worker may live on for a while."""
    forks = HOLD.replace(
        'print("holds it", flush=True)\n',
        "if not os.fork():\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n",
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"import os, time{forks}", str(tmp_path)],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        os.kill(child, 0)  # it lives
        RunWriter(tmp_path, {}, overwrite=True).close()
        os.kill(child, signal.SIGKILL)


@UNHEARD
def test_an_interrupt_takes_no_lock_from_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else tries to write here, and is interrupted between any two operations."""
    monkeypatch.setattr(lock_module, "LOCK_TIMEOUT", 0.0)
    with RunWriter(tmp_path, {}) as writer:
        holder = (tmp_path / "lock").read_text()
        for number in range(200):
            with Interrupt(number, "io/folder.py", "io/lock.py") as at, suppress(RecordError):
                RunWriter(tmp_path, {}, overwrite=True)
            assert (tmp_path / "lock").exists(), at
            assert (tmp_path / "lock").read_text() == holder, at
            if not at:
                break
        assert number > 5
        writer.append_points([LINE])
        assert is_held(tmp_path)


@UNHEARD
def test_an_interrupt_at_the_start_leaves_the_folder_free(tmp_path: Path) -> None:
    for number in range(200):
        writer = None
        with Interrupt(number, "io/folder.py", "io/lock.py", "record/writer.py") as at:
            writer = RunWriter(tmp_path, {}, overwrite=True)
        if writer is not None:
            writer.close()
        with RunWriter(tmp_path, {}, overwrite=True) as another:
            another.append_points([LINE])
        if not at:
            break
    assert number > 30


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with one_line("no locks available"):
        RunWriter(tmp_path, {})


def test_a_folder_that_is_copied_stays_locked(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", {}):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        assert is_held(tmp_path / "run")


def test_a_forked_child_that_closes_frees_and_writes_nothing(tmp_path: Path) -> None:
    with RunWriter(tmp_path, {}) as writer:
        writer.append_points([LINE])
        before = content(tmp_path)
        assert in_child(writer.close) == 0
        assert content(tmp_path) == before
        assert is_held(tmp_path)
        writer.append_points([LINE.replace("1", "2", 1)])
        assert len(recorded(tmp_path)) == 2


def test_a_forked_child_leaves_what_waits_to_its_parent(tmp_path: Path, disk: Disk) -> None:
    with RunWriter(tmp_path, {}) as writer:
        disk.plan = [-1]
        with pytest.raises(RecordError):
            writer.append_points([LINE])
        before = content(tmp_path)
        assert in_child(writer.close) == 0
        assert content(tmp_path) == before
    assert recorded(tmp_path) == [LINE]


def test_a_forked_child_cannot_write_beside_its_parent(tmp_path: Path) -> None:
    def try_to() -> None:
        with one_line(f"process {os.getppid()} on"):
            RunWriter(tmp_path, {}, overwrite=True)

    with RunWriter(tmp_path, {}):
        assert in_child(try_to) == 0
        assert is_held(tmp_path)


def test_a_folder_without_rights() -> None:
    with tempfile.TemporaryDirectory() as home, as_nobody(Path(home)) as folder:
        for path in (folder, folder / "deeper" / "run"):
            with one_line(str(path), "permission denied", "permissions"):
                RunWriter(path, {})
        assert list(folder.iterdir()) == []


@contextmanager
def as_nobody(home: Path) -> Iterator[Path]:
    """Yield a folder in which this process may not write; root does not mind rights otherwise."""
    folder = home / "run"
    folder.mkdir()
    folder.chmod(0o555)
    home.chmod(0o755)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(before)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with one_line("run: file exists", "choose another record folder"):
        RunWriter(tmp_path / "run", {})
    with one_line("run/deeper: not a directory"):
        RunWriter(tmp_path / "run" / "deeper", {})
    assert (tmp_path / "run").read_text() == "mine"


def test_a_folder_where_a_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "points.csv").mkdir()
    with one_line("holds an unfinished run"):
        RunWriter(tmp_path, {})
    with one_line("is a directory"):
        RunWriter(tmp_path, {}, overwrite=True)
    assert not (tmp_path / "lock").exists()
    (tmp_path / "points.csv").rmdir()
    RunWriter(tmp_path, {}, overwrite=True).close()


@pytest.mark.parametrize(
    "name",
    [
        "run.json", "points.csv", "costs.csv", "gradients.csv", "done.json",
        "per_example/0.bin", "per_example/0.npy", "per_example/tasks.json",
    ],
)  # fmt: skip
def test_anything_of_a_run_protects_its_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"old")
    state = "a finished" if name == "done.json" else "an unfinished"
    with one_line(f"holds {state} run already", "choose another record folder", "overwrite=True"):
        RunWriter(tmp_path, {})
    assert content(tmp_path) == {name: b"old"}
    with RunWriter(tmp_path, {}, overwrite=True) as writer:
        writer.append_points([LINE])
    assert set(content(tmp_path)) == {"run.json", "points.csv"}


def test_only_a_run_is_replaced(tmp_path: Path) -> None:
    others = {"notes.txt": b"1",
              "checkpoint/model.safetensors": b"2", "per_example/README.md": b"3",
              "points.csv.bak": b"4", "old/points.csv": b"5"}  # fmt: skip
    for name, text in others.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    with RunWriter(tmp_path, {"old": True}) as writer:
        writer.append_points([LINE])
        writer.finish()
    with one_line("holds a finished run"):
        RunWriter(tmp_path, {})
    with RunWriter(tmp_path, {"new": True}, overwrite=True) as writer:
        writer.append_points([LINE.replace("a", "b")])
    left = content(tmp_path)
    assert {name: left.pop(name) for name in others} == others
    assert set(left) == {"run.json", "points.csv"}
    assert json.loads(left["run.json"]) == {"new": True}
    assert recorded(tmp_path) == [LINE.replace("a", "b")]


def test_a_run_that_is_being_replaced_looks_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it removes the old run: what is left is never taken for a whole one."""
    real = Path.unlink
    for number in range(9):
        folder = tmp_path / str(number)
        with RunWriter(folder, {}) as writer:
            writer.append_points(["1,a,a,full,0.5,2", "2,b,a,full,0.5,2", "2,b,b,full,0.5,2"])
            writer.append_gradients("1,a,1.0,")
            writer.write_costs({"a": {}, "b": {}})
            writer.finish()
        left = number  # files that go before the kill

        def unlink(path: Path, *, missing_ok: bool = False) -> None:
            nonlocal left
            if left == 0 and path.name != "lock":
                raise KeyboardInterrupt
            left -= path.name != "lock"
            real(path, missing_ok=missing_ok)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", unlink)
            try:
                RunWriter(folder, {}, overwrite=True).close()
            except KeyboardInterrupt:
                assert (folder / "done.json").exists() == (number == 0)
                if (folder / "points.csv").exists() and number:
                    assert "unfinished" in str(read_input(str(folder)).notes)
            else:
                assert number > 4


@pytest.mark.parametrize("description", [{"a": Path()}, {"a": float("nan")}])
def test_a_description_that_cannot_be_written_frees_the_folder(
    tmp_path: Path, description: dict[str, object]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        RunWriter(tmp_path, description)
    RunWriter(tmp_path, {}, overwrite=True).close()


def test_a_full_disk_at_the_start_leaves_the_folder_free(tmp_path: Path, disk: Disk) -> None:
    """Of the lock's own text, then of the first line of points.csv."""
    handles = len(list(Path("/proc/self/fd").iterdir()))
    for plan in ([-1], [None, -1], [None, 7, -1]):
        disk.plan = list(plan)
        with one_line("no space left on device"):
            RunWriter(tmp_path / "run", {}, overwrite=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
    RunWriter(tmp_path / "run", {}, overwrite=True).close()


def test_what_could_not_begin_leaves_nothing(tmp_path: Path, disk: Disk) -> None:
    disk.plan = [None, -1]
    with pytest.raises(RecordError):
        RunWriter(tmp_path, {})
    RunWriter(tmp_path, {}).close()


def test_a_relative_folder_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with RunWriter("runs/mine", {}) as writer:
        monkeypatch.chdir(tmp_path / "elsewhere")
        writer.append_points([LINE])
        writer.write_metadata({"setting": "class"})
        writer.write_costs({"a": {}})
        writer.finish()
    assert set(content(tmp_path)) == {
        f"runs/mine/{name}" for name in ("run.json", "points.csv", "costs.csv", "done.json")
    }


def test_a_closed_writer_writes_nothing(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, {})
    writer.append_points([LINE])
    writer.append_gradients("1,a,0.5,")
    writer.finish()
    writer.close()
    writer.close()
    before = content(tmp_path)
    for write in (
        partial(writer.append_gradients, "2,a,0.5,"),
        partial(writer.append_points, [LINE]),
        partial(writer.write_costs, {}),
        partial(writer.write_metadata, {}),
        writer.finish,
    ):
        with pytest.raises(RecordError, match="is closed"):
            write()
        assert content(tmp_path) == before
