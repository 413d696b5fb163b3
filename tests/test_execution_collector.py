"""What runs on other machines send home: written so that a kill leaves a run that can go on."""

from __future__ import annotations

import os
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from perdure.execution import Job, NoteEvent, ProgressEvent
from perdure.execution.collector import Collector
from perdure.execution.jobs import decode_job, encode_job
from perdure.record import InputError, RecordError
from perdure.record.archive import lock_run, pack_run, remove_run, unpack_run
from perdure.training import make_config, run

if TYPE_CHECKING:
    from pathlib import Path

STATE = "checkpoint/state.safetensors"
SHORT = make_config(epochs=1, every=5, settings={"hidden": "16"})


class Killed(BaseException):
    """The end of the process that writes."""


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """A run as it is sent home: after each of its checkpoints, and finished."""
    folder = tmp_path_factory.mktemp("node") / "run"
    sent: list[dict[str, bytes]] = []
    run(
        SHORT, folder, checkpoint_every=0,
        on_checkpoint=lambda: sent.append(pack_run(folder)),
    )  # fmt: skip
    return [*sent[:: len(sent) // 3], pack_run(folder)]


def resumable(files: dict[str, bytes]) -> dict[str, int]:
    """Return how much of each growing file there is."""
    return {name: len(data) for name, data in files.items() if name.endswith((".csv", ".bin"))}


def test_killed_at_every_write(
    pieces: list[dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = pieces[-1]
    assert "done.json" in last
    assert STATE not in last
    assert all(STATE in piece and "done.json" not in piece for piece in pieces[:-1])
    fsync = os.fsync
    for number, (before, after) in enumerate(pairwise(pieces)):
        for writes in range(len(after)):
            folder = tmp_path / f"{number}-{writes}"
            unpack_run(before, folder)
            left = iter([True] * writes)

            def dies(file: int, left: Any = left) -> None:
                if not next(left, False):
                    raise Killed
                fsync(file)

            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", dies)
                with pytest.raises(Killed):
                    unpack_run(after, folder)
            found = pack_run(folder)
            assert found[STATE] == before[STATE]  # the newer one comes last
            assert "done.json" not in found
            for name, size in resumable(before).items():
                assert found[name][:size] == before[name][:size], name
            if writes % 4 == number:
                run(SHORT, folder, resume=True)  # and it does go on, to the same end
                finished = pack_run(folder)
                assert finished["points.csv"] == last["points.csv"]
                assert (
                    finished["done.json"].split(b"weights")[1]
                    == last["done.json"].split(b"weights")[1]
                )
    unpack_run(pieces[0], tmp_path / "whole")
    unpack_run(last, tmp_path / "whole")
    assert pack_run(tmp_path / "whole") == last  # and the checkpoint is gone
    assert not (tmp_path / "whole" / "checkpoint").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/tmp/x",
        "a/../../x",
        "a/../x",
        "",
        ".",
        "..",
        "a//b",
        "./a",
        "a\\..\\x",
        "out/x",
        "a\0b",
    ],
)
def test_nothing_is_written_outside(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="inside its folder"):
        unpack_run({"run.json": b"{}", name: b"evil"}, folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_locks_and_half_written_files_stay(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "run"
    unpack_run({"points.csv": b"step"}, folder)
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / ".points.csv.new").write_text("half")
    with lock_run(folder):
        assert (folder / "lock").exists()
        assert pack_run(folder) == {"points.csv": b"step"}
        with pytest.raises(RecordError, match="writes here"), lock_run(folder):
            pass
    remove_run(folder)
    assert pack_run(folder) == {}


def job(folder: Path, **more: Any) -> Job:
    return Job(SHORT, folder, **more)


def test_a_run_that_comes_back_late_is_not_listened_to(
    pieces: list[dict[str, bytes]], tmp_path: Path
) -> None:
    collector = Collector([job(tmp_path / "run", resume=True)])
    assert collector.start_attempt(0, 0, sees_store=False).files == {}
    collector.add_event(0, 0, ProgressEvent(0.1))
    collector.add_event(0, 0, NoteEvent("slow"))
    collector.add_event(0, 0, ProgressEvent(0.2))
    assert collector.take_events() == [(0, ProgressEvent(0.2)), (0, NoteEvent("slow"))]
    assert collector.store_files(0, 0, pieces[0]) is None
    assert collector.start_attempt(0, 1, sees_store=False).files == pieces[0]
    assert collector.start_attempt(0, 1, sees_store=True).files == {}
    assert collector.store_files(0, 1, pieces[1]) is None
    collector.add_event(0, 0, NoteEvent("here I am again"))
    assert "elsewhere" in (collector.store_files(0, 0, pieces[0]) or "")
    assert collector.take_events() == []
    assert pack_run(tmp_path / "run") == pieces[1]
    assert collector.store_files(0, 1, pieces[-1]) is None
    assert collector.start_attempt(
        0, 2, sees_store=False
    ).finished  # lost after it was finished: not done again


def test_a_fresh_run_replaces_once(pieces: list[dict[str, bytes]], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    unpack_run(pieces[-1], folder)
    assert Collector([job(folder, resume=True)]).start_attempt(0, 0, sees_store=False).finished
    collector = Collector([job(folder, overwrite=True)])
    with lock_run(folder):
        assert "writes here" in (collector.start_attempt(0, 0, sees_store=True).refusal or "")
        assert "writes here" in (collector.store_files(0, 0, pieces[0]) or "")
    assert pack_run(folder) == pieces[-1]
    begun = collector.start_attempt(0, 0, sees_store=True)
    assert (begun.finished, begun.files, pack_run(folder)) == (False, {}, {})
    assert collector.store_files(0, 0, pieces[0]) is None
    assert (
        collector.start_attempt(0, 1, sees_store=False).files == pieces[0]
    )  # only the first attempt is fresh


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    collector = Collector([job(tmp_path / "run")])
    collector.start_attempt(0, 0, sees_store=False)
    assert "exists" in (collector.store_files(0, 0, {"run.json": b"{}"}) or "")


@pytest.mark.parametrize("seconds", [0.0, 0.1, 120.0, inf])
def test_a_job_arrives_as_it_was_sent(tmp_path: Path, seconds: float) -> None:
    job = Job(SHORT, tmp_path / "run", checkpoint_every=seconds, overwrite="unfinished")
    assert decode_job(encode_job(job)) == job
