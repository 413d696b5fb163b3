"""Somebody else's store, a second process, a changed record: nothing is written or believed."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.execution import FailureEvent, NoteEvent, RunEvent
from perdure.execution.collector import Collector
from perdure.execution.jobs import Job, perform
from perdure.record import InputError, RecordError, RunFolder, RunWriter, load_summary
from perdure.record.archive import pack_run, unpack_run
from perdure.record.io.folder import replace
from perdure.record.io.lock import Lock

from .cli_helpers import environment, run, says
from .strategy_helpers import blobs, short_config
from .study_helpers import flat, made_run
from .test_training_resume import on, stopped, whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STUDY = """\
scenarios = ["split-digits"]
strategies = ["naive", "replay"]
seeds = 2
[run]
iterations = 10
every = 5
hidden = "8"
"""
SECRET = "keep me"
# Names that a program may write, or did write once, while it replaces a file or locks a folder.
PLANTED = (
    "scores.json", ".scores.json.new", "lock", ".run.json.new", ".done.json.new",
    ".failed.json.new", ".points.csv.new", ".costs.csv.new", ".state.safetensors.new",
)  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished study: its file and its store."""
    folder = tmp_path_factory.mktemp("study")
    file, store = folder / "mine.toml", folder / "runs"
    file.write_text(STUDY)
    assert run("study", "run", file, "--store", store, "--serial").code == 0
    return file, store


def content(folder: Path) -> dict[str, Any]:
    """Return every name in a folder with its time, and where it leads or what it holds."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes(),  # noqa: PTH115
        )
        for path in sorted(folder.rglob("*"))
    }


def hostile(study: tuple[Path, Path], folder: Path) -> tuple[Path, Path, Path]:
    """Return a copy of the study, full of links to a file of the reader's, and that file."""
    file, store, victim = folder / "mine.toml", folder / "runs", folder / "mine.txt"
    shutil.copy(study[0], file)
    shutil.copytree(study[1], store)
    victim.write_text(SECRET)
    for kept in store.glob("*/scores.json"):
        kept.unlink()
    for each in [path for path in store.iterdir() if path.is_dir()]:
        for name in PLANTED:
            (each / name).symlink_to(victim)
    for name in (".mine.study.json.new", ".shared"):
        (store / name).symlink_to(victim)
    return file, store, victim


READING: dict[str, Callable[[Path, Path, Path], list[Any]]] = {
    "status": lambda file, store, _: ["study", "status", file, "--store", store],
    "study report": lambda file, store, _: ["study", "report", file, "--store", store],
    "score": lambda _, store, __: ["score", store],
    "compare": lambda _, store, __: ["compare", store],
    "plot": lambda _, store, out: ["plot", "curves", store, "-o", out / "a.png"],
    "report": lambda _, store, out: ["report", store, "-o", out / "a.html"],
    "run": lambda _, store, __: [
        "run", "split-digits", "naive", "--iterations", "10", "--every", "5", "--set", "hidden=8",
        "--seeds", "2", "--store", store,
    ],
    "study run": lambda file, store, _: ["study", "run", file, "--store", store, "--serial"],
}  # fmt: skip


@pytest.mark.parametrize("command", [name for name in READING if name != "study run"])
def test_who_reads_a_store_writes_nothing_into_it(
    command: str, study: tuple[Path, Path], tmp_path: Path
) -> None:
    file, store, victim = hostile(study, tmp_path)
    before = content(store)
    answer = run(*READING[command](file, store, tmp_path))
    assert (answer.code, answer.err.count("Traceback")) == (0, 0)
    assert content(store) == before
    assert victim.read_text() == SECRET


def test_who_runs_a_study_writes_through_no_link(study: tuple[Path, Path], tmp_path: Path) -> None:
    file, store, victim = hostile(study, tmp_path)
    assert run(*READING["study run"](file, store, tmp_path)).code == 0
    assert victim.read_text() == SECRET


READ_ONLY = """
import errno, os, sys
from perdure.cli import main

store = sys.argv.pop(1)

def refuse(event, args):
    writes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink")
    if event == "open":
        writes = args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if writes and os.path.abspath(str(args[0])).startswith(store):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), args[0])

sys.addaudithook(refuse)
main()
"""


def read_only(store: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the command where nothing in `store` can be made, changed or removed."""
    return subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(store), *map(str, arguments)],
        capture_output=True, text=True, check=False, env=environment(), timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["study report", "study run", "run"])
def test_a_file_system_that_may_only_be_read(
    command: str, study: tuple[Path, Path], tmp_path: Path
) -> None:
    file, store = study
    answer = read_only(store, *READING[command](file, store, tmp_path))
    assert (answer.returncode, answer.stderr.count("Traceback")) == (0, 0)
    assert answer.stdout == run(*READING[command](file, store, tmp_path)).out


def test_a_run_that_is_left_to_do_needs_a_place(study: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(STUDY.replace("seeds = 2", "seeds = 3"))
    answer = read_only(study[1], *READING["study run"](file, study[1], tmp_path))
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    says(answer.stderr.splitlines()[-1], "cannot be written to")


# Links and pipes in place of files


def test_a_file_is_replaced_under_a_name_that_nobody_foresees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, int]] = []
    real = os.open

    def watched(path: Any, flags: int, *rest: Any) -> int:
        opened.append((str(path), flags))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", watched)
    for text in ("one", "two"):
        replace(tmp_path / "a.json", text)
    assert (tmp_path / "a.json").read_text() == "two"
    assert len({name for name, _ in opened}) == 2
    for _, flags in opened:
        assert flags & os.O_EXCL
        assert flags & os.O_NOFOLLOW
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["lock", "points.csv"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "hard link"])
def test_a_record_goes_into_files_of_its_own(name: str, kind: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "run", tmp_path / "mine.txt"
    folder.mkdir()
    if kind.endswith("link"):
        victim.write_text(SECRET)
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "hard link":
        (folder / name).hardlink_to(victim)
    else:
        (folder / name).symlink_to(victim)
    if name == "lock" or kind == "dangling":
        with pytest.raises(RecordError, match=f"run/{name}: a link or a pipe, expected a file"):
            RunWriter(folder, {}, overwrite=True)
    else:  # what is replaced is the link, not what it leads to
        RunWriter(folder, {}, overwrite=True).close()
        assert not (folder / name).is_symlink()
    assert victim.exists() == kind.endswith("link")
    assert not victim.exists() or victim.read_text() == SECRET
    assert not RunFolder(folder).is_locked()


@pytest.mark.parametrize("name", ["per_example", "checkpoint"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_folders_of_a_record_are_no_links(name: str, overwrite: bool, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    for path in (elsewhere, folder):
        path.mkdir()
    for file in ("0.bin", "0.npy", "tasks.json", "state.safetensors", ".a.new"):
        (elsewhere / file).write_text(SECRET)
    (folder / name).symlink_to(elsewhere)
    before = content(elsewhere)
    with pytest.raises(RecordError, match=f"run/{name}: a link, expected a folder"):
        RunWriter(folder, {}, overwrite=overwrite)
    assert content(elsewhere) == before


def test_a_run_of_a_store_is_no_link(tmp_path: Path) -> None:
    elsewhere, store = tmp_path / "elsewhere", tmp_path / "runs"
    what = short_config("naive")
    made_run(elsewhere, flat(0.5))
    store.mkdir()
    (store / what.folder).symlink_to(elsewhere)
    before, events = content(elsewhere), list[RunEvent]()
    assert perform(Job(what, store / what.folder, overwrite=True), events.append) == 1
    assert isinstance(events[0], FailureEvent)
    says(events[0].reason, "a link, expected a folder")
    collector = Collector([Job(what, store / what.folder, overwrite=True)])
    says(collector.start_attempt(0, 0, sees_store=False).refusal or "", "a link, expected a folder")
    says(collector.store_files(0, 0, {"run.json": b"{}"}) or "", "a link, expected a folder")
    assert content(elsewhere) == before


def test_what_is_sent_replaces_links(tmp_path: Path) -> None:
    victim, folder = tmp_path / "mine.txt", tmp_path / "run"
    victim.write_text(SECRET)
    folder.mkdir()
    for name in ("run.json", ".run.json.new", ".points.csv.new"):
        (folder / name).symlink_to(victim)
    with pytest.raises(InputError, match="inside its folder"):
        unpack_run({"run.json": b"{}"}, folder)
    (folder / "run.json").unlink()
    unpack_run({"run.json": b"{}", "points.csv": b"x"}, folder)
    assert victim.read_text() == SECRET
    assert pack_run(folder) == {"run.json": b"{}", "points.csv": b"x"}


# A second process


def test_a_process_id_that_is_alive_again_is_no_running_run(tmp_path: Path) -> None:
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "lock").write_text(json.dumps(who))
    assert not RunFolder(tmp_path).is_locked()
    lock = Lock(tmp_path)
    assert RunFolder(tmp_path).is_locked()
    lock.release()
    assert not RunFolder(tmp_path).is_locked()
    (tmp_path / "lock").write_text(json.dumps(who | {"host": "elsewhere"}))
    assert RunFolder(tmp_path).is_locked()  # not every file system carries locks between hosts


def test_looking_at_a_lock_refuses_nobody(tmp_path: Path) -> None:
    """Whoever looks holds the lock for a moment: whoever writes then waits for that moment."""
    import fcntl
    import threading

    (tmp_path / "lock").write_text("{}")
    looking = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    timer = threading.Timer(0.05, os.close, [looking])
    timer.start()
    Lock(tmp_path).release()
    timer.join()


@pytest.mark.parametrize("saved", [False, True], ids=["from its start", "from a checkpoint"])
def test_a_run_that_another_process_finishes_meanwhile_stays(
    saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, folder = short_config("naive"), tmp_path / "run"
    if saved:
        stopped(what, folder, 5)
    finished = whole(what, tmp_path / "whole")
    module: Any = importlib.import_module("perdure.training.single_run")
    real = module.build_evaluator

    def later(*arguments: Any, **options: Any) -> Any:
        """Come to the lock after the other process is done."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(finished, folder)
        return real(*arguments, **options)

    monkeypatch.setattr(module, "build_evaluator", later)
    job, events = Job(what, folder, resume=True), list[RunEvent]()
    assert perform(job, events.append, scenario=blobs()) == 0
    assert NoteEvent("finished by another process meanwhile") in events
    left = content(folder)
    assert {name: value[1] for name, value in left.items() if name != "scores.json"} == {
        name: value[1] for name, value in content(finished).items()
    }
    job.overwrite, job.resume = "unfinished", False  # as `study run --restart` restarts
    events.clear()
    assert perform(job, events.append, scenario=blobs()) == 0
    assert NoteEvent("finished by another process meanwhile") in events
    assert {name: value[1] for name, value in content(folder).items() if name != "scores.json"} == {
        name: value[1] for name, value in content(finished).items()
    }


def test_a_loop_does_not_cut_a_finished_run_by_mistake(tmp_path: Path) -> None:
    data = {"a": perdure_data()}
    folder = tmp_path / "run"
    with perdure.Evaluator(data, record=folder, count_flops=False) as evaluator:
        model = linear()
        with evaluator.task("a", model):
            evaluator.step(model)
            state = evaluator.state_dict()
            evaluator.step(model)
    before = content(tmp_path / "run")
    with pytest.raises(RecordError, match="holds a finished run; overwrite=True resumes it"):
        perdure.Evaluator(data, record=perdure.Record(folder, resume=state))
    assert content(tmp_path / "run") == before
    resumed = perdure.Evaluator(data, record=perdure.Record(folder, resume=state, overwrite=True))
    assert not (tmp_path / "run" / "done.json").exists()
    resumed.close(finished=False)


def linear() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def perdure_data() -> Any:
    import torch

    return torch.randn(8, 3), torch.arange(8) % 2


def test_what_is_sent_late_changes_no_finished_run(tmp_path: Path) -> None:
    folder, what = tmp_path / "run", short_config("naive")
    made_run(folder, flat(0.5))
    collector = Collector([Job(what, folder, resume=True)])
    before = content(folder)
    assert collector.store_files(0, -1, {"points.csv": b"step\n", "run.json": b"{}"}) is None
    assert content(folder) == before


# A record that was changed


@pytest.mark.parametrize("fault", ["edited", "longer", "cut", "deleted", "replaced"])
@pytest.mark.parametrize("name", ["points.csv", "per_example/0.bin", "gradients.csv"])
def test_a_record_that_was_changed_is_not_called_finished(
    name: str, fault: str, tmp_path: Path
) -> None:
    def damage(path: Path) -> None:
        text = path.read_bytes()
        if fault == "edited":
            with path.open("r+b") as file:
                file.seek(len(text) - 2)
                file.write(bytes([text[-2] ^ 1]))
        elif fault == "longer":
            path.write_bytes(text + b"9")
        elif fault == "cut":
            os.truncate(path, len(text) - 1)
        else:
            path.unlink()
        if fault == "replaced":
            path.write_bytes(text)  # the same text, but what follows goes to the old file

    model = linear()
    evaluator = perdure.Evaluator({"a": perdure_data()}, record=tmp_path, count_flops=False)
    with evaluator.task("a", model):
        evaluator.step(model)
        evaluator.record_gradients(model, model.weight.sum())
        evaluator.step(model)
    state = evaluator.state_dict()
    damage(tmp_path / name)
    with pytest.raises(RecordError, match=f"{name}: removed or changed by another process"):
        evaluator.close()
    assert not (tmp_path / "done.json").exists()
    if fault in ("edited", "cut"):  # also if the run was stopped, and is resumed
        with pytest.raises(RecordError, match="not those that were there"):
            perdure.Evaluator(
                {"a": perdure_data()},
                record=perdure.Record(tmp_path, resume=state),
                count_flops=False,
            )


def test_scores_of_points_that_have_changed_are_computed_again(tmp_path: Path) -> None:
    made_run(tmp_path, flat(0.5))
    load_summary(tmp_path, keep=True)
    points, times = tmp_path / "points.csv", (tmp_path / "points.csv").stat()
    points.write_text(points.read_text().replace("0.5", "0.7"))
    os.utime(points, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load_summary(tmp_path).metrics["acc"] == pytest.approx(0.7)


def test_every_damaged_byte_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    what, folder = short_config("naive"), stopped(short_config("naive"), tmp_path / "run", 5)
    path = folder / "checkpoint" / "state.safetensors"
    good = path.read_bytes()
    for place in [*range(0, len(good), len(good) // 40), len(good) - 1]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(InputError, match=r"state\.safetensors: .*`restart=True`"):
            on(what, folder)
    path.write_bytes(good)
    on(what, folder)


def test_a_study_with_a_damaged_checkpoint_is_restarted(tmp_path: Path) -> None:
    file, store = tmp_path / "mine.toml", tmp_path / "runs"
    file.write_text(STUDY.replace("seeds = 2", "seeds = 1"))
    command = ("study", "run", file, "--store", store, "--serial")
    assert run(*command).code == 0
    first, second = sorted(path for path in store.iterdir() if path.is_dir())
    expected, kept = (first / "points.csv").read_bytes(), content(second)
    (first / "done.json").unlink()
    (first / "checkpoint").mkdir()
    (first / "checkpoint" / "state.safetensors").write_bytes(b"rubbish")
    answer = run(*command)
    assert answer.code == 1
    says(answer.out, "--restart")
    assert run(*command, "--restart").code == 0
    assert (first / "points.csv").read_bytes() == expected
    assert content(second) == kept
