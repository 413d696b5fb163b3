"""`perdure runs`: what a store holds, deleting whole runs, and archives that are not trusted."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

import perdure
from perdure.cli import main
from perdure.record import InputError
from perdure.record.io.lock import Lock
from perdure.record.store import (
    extract_archive,
    finish_removals,
    write_archive,
)

from .cli_helpers import (
    POINTS,
    environment,
    judged_refusal,
    refused,
    run,
    says,
    scored,
    strict,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def make_run(
    store: Path, strategy: str, seed: int, *, done: bool = True, failed: bool = False
) -> Path:
    folder = store / f"digits-{strategy}-s{seed}"
    config = {"scenario": "digits", "strategy": strategy, "seed": seed}
    write(folder, "run.json", json.dumps({"config": config}))
    write(folder, "points.csv", POINTS)
    write(folder, "extra/0.bin", b"x" * 9000)
    if done:
        write(folder, "done.json", "{}")
    if failed:
        write(folder, "failed.json", '{"error": "it broke"}')
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "runs"
    for seed in (0, 1):
        make_run(store, "replay", seed)
    make_run(store, "ewc", 0, done=False, failed=True)
    make_run(store, "si", 0, done=False)
    write(store, "study.json", "{}")  # what is in a store besides runs
    return store


def names(store: Path) -> set[str]:
    return {path.name for path in store.iterdir() if path.is_dir()}


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_list_says_what_each_run_is_and_takes(store: Path) -> None:
    listed = strict(run("runs", "list", store, "--format", "json").out)
    assert [entry["name"] for entry in listed["runs"]] == sorted(names(store))
    assert {entry["name"]: entry["status"] for entry in listed["runs"]} == {
        "digits-replay-s0": "finished", "digits-replay-s1": "finished",
        "digits-ewc-s0": "failed", "digits-si-s0": "interrupted",
    }  # fmt: skip
    for entry in listed["runs"]:
        contents = sum(map(len, tree(Path(entry["path"])).values()))
        assert contents <= entry["size"] <= contents + 4 * 8192  # whole blocks
    assert listed["size"] == sum(entry["size"] for entry in listed["runs"])
    text = run("runs", "list", store).out
    says(text, "digits-si-s0", "interrupted", "on disk", "4 runs,")
    assert "3 runs" not in text


def test_list_filters_and_sorts(store: Path) -> None:
    write(store, "digits-si-s0/checkpoint/state.safetensors", b"x" * 100_000)
    shown = strict(run("runs", "list", store, "--strategy", "er", "--format", "json").out)["runs"]
    assert [entry["seed"] for entry in shown] == [0, 1]
    shown = strict(run("runs", "list", store, "--sort", "size", "--format", "json").out)["runs"]
    assert shown[-1]["strategy"] == "si"
    says(run("runs", "list", store, "--status", "running").out, "0 runs")
    says(refused("runs", "list", store / "none"), "no such folder")


def test_rm_in_a_script_needs_yes(store: Path) -> None:
    before = tree(store)
    says(refused("runs", "rm", store / "digits-si-s0"), "--yes")
    assert tree(store) == before
    assert run("runs", "rm", store / "digits-si-s0", "--yes").code == 0
    assert names(store) == {"digits-replay-s0", "digits-replay-s1", "digits-ewc-s0"}


@pytest.mark.parametrize(("answer", "left"), [("y\n", 3), ("n\n", 4), ("", 4), ("yes\n", 3)])
def test_rm_on_a_terminal(store: Path, answer: str, left: int) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    terminal = Terminal(io.BytesIO(answer.encode()))
    out = io.StringIO()
    words = ["perdure", "runs", "rm", str(store / "digits-ewc-s0")]
    with (
        patch.object(sys, "argv", words), patch.object(sys, "stdin", terminal),
        patch.object(sys, "stdout", out), pytest.raises(SystemExit) as end,
    ):  # fmt: skip
        main()
    assert end.value.code == (0 if left == 3 else 1)
    says(out.getvalue(), "Delete 1 run", "[y/N]", "digits-ewc-s0")
    assert len(names(store)) == left


def test_rm_selects_within_a_store(store: Path) -> None:
    says(refused("runs", "rm", store, "--yes"), "a folder of 4 runs", "--status", "--all")
    assert run("runs", "rm", store, "--status", "failed", "--yes").code == 0
    assert names(store) == {"digits-replay-s0", "digits-replay-s1", "digits-si-s0"}
    assert run("runs", "rm", f"{store}/*-replay-*", "--yes").code == 0
    assert names(store) == {"digits-si-s0"}
    assert run("runs", "rm", store, "--all", "--yes").code == 0
    assert [path.name for path in store.iterdir()] == ["study.json"]


def test_rm_refuses_what_is_no_run(store: Path, tmp_path: Path) -> None:
    precious = write(tmp_path, "precious/thesis.tex", "all of it").parent
    (store / "link").symlink_to(store / "digits-si-s0")
    before = tree(tmp_path)
    for path in (precious, store / "study.json", store / "link", tmp_path / "none"):
        judged_refusal(run("runs", "rm", path, "--yes"))
        judged_refusal(run("runs", "rm", store / "digits-si-s0", path, "--yes"))
    assert tree(tmp_path) == before


def test_rm_leaves_a_running_run_and_says_so(store: Path) -> None:
    lock = Lock(store / "digits-si-s0")
    try:
        answer = run("runs", "rm", store, "--all", "--yes")
        assert answer.code == 1
        says(answer.err, "digits-si-s0", "is running")
        assert names(store) == {"digits-si-s0"}
    finally:
        lock.release()


def test_rm_does_not_follow_links_out_of_a_run(store: Path, tmp_path: Path) -> None:
    precious = write(tmp_path, "precious/thesis.tex", "all of it")
    (store / "digits-si-s0" / "out").symlink_to(precious.parent)
    assert run("runs", "rm", store / "digits-si-s0", "--yes").code == 0
    assert precious.read_text() == "all of it"


def test_an_interrupted_removal_leaves_no_half_of_a_run(store: Path) -> None:
    def stop(path: Path) -> None:
        (path / "run.json").unlink()
        raise KeyboardInterrupt

    with patch("perdure.record.store.shutil.rmtree", stop):
        assert run("runs", "rm", store / "digits-si-s0", "--yes").code == 130
    assert "digits-si-s0" not in names(store)
    listed = strict(run("runs", "list", store, "--format", "json").out)["runs"]
    assert len(listed) == 3  # and nothing hidden
    assert finish_removals(store) == 1
    assert names(store) == {"digits-replay-s0", "digits-replay-s1", "digits-ewc-s0"}


def test_an_archive_gives_the_same_runs_back(store: Path, tmp_path: Path) -> None:
    (store / "digits-replay-s0" / "secret").symlink_to("/etc/passwd")
    file = tmp_path / "all.zip"
    answer = run("runs", "archive", store, "-o", file)
    assert answer.code == 0
    says(answer.out, "all.zip: 4 runs")
    says(answer.err, "archiving 4 runs")
    (store / "digits-replay-s0" / "secret").unlink()
    copy = tmp_path / "copy"
    assert run("runs", "extract", file, "--store", copy).code == 0
    expected = {name: data for name, data in tree(store).items() if name != "study.json"}
    assert tree(copy) == expected
    words = ("--metrics", "acc,min_acc")
    assert scored(copy / "digits-replay-s0", *words) == scored(store / "digits-replay-s0", *words)
    says(refused("runs", "extract", file, "--store", copy), "exists already")
    says(refused("runs", "archive", store, "-o", file), "exists", "--force")
    assert run("runs", "archive", store, "-o", file, "--force", "--status", "failed").code == 0
    assert [p.name for p in extract_archive(file, tmp_path / "one")] == ["digits-ewc-s0"]


def test_an_interrupted_archive_leaves_nothing(store: Path, tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "out").mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_archive([store / "digits-si-s0"], tmp_path / "out" / "a.zip", on_bytes=stop)
    assert list((tmp_path / "out").iterdir()) == []
    write_archive([store / "digits-si-s0"], tmp_path / "out" / "a.zip")
    with pytest.raises(KeyboardInterrupt):
        extract_archive(tmp_path / "out" / "a.zip", tmp_path / "new", on_bytes=stop)
    assert list((tmp_path / "new").iterdir()) == []


def hostile_archives() -> Iterator[tuple[str, bytes]]:
    """Yield archives that try to do more than hold runs."""
    for name in (
        "../evil/run.json", "/evil/run.json", "run/../../evil.json", "run/a/../../../evil",
        "run\\..\\run.json", "run/C:/run.json", "run.json", "run/", ".hidden/run.json", "run//x",
        "run/./run.json",
    ):  # fmt: skip
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr(zipfile.ZipInfo(name), "{}")
        yield name, data.getvalue()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        link = zipfile.ZipInfo("run/run.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    yield "a link", data.getvalue()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("run/notes.txt", "no run")
    yield "no run", data.getvalue()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("run/run.json", "{}")
    yield "another compression", data.getvalue()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/run.json", "{}")
        archive.writestr("run/points.csv", "x" * 100_000)
    cut = data.getvalue().replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    yield "longer than it states", cut
    yield "cut off", data.getvalue()[:-30]
    yield "no archive", b"PK\3\4" + b"nonsense" * 10
    yield "empty", b""


@pytest.mark.parametrize(("name", "data"), list(hostile_archives()))
def test_a_hostile_archive_is_refused_and_writes_nothing(
    name: str, data: bytes, tmp_path: Path
) -> None:
    file = write(tmp_path, "in/hostile.zip", data)
    store = tmp_path / "deep" / "er" / "runs"
    store.mkdir(parents=True)
    before = tree(tmp_path)
    judged = run("runs", "extract", file, "--store", store)
    assert judged.code == 2, name
    assert "Traceback" not in judged.err
    assert judged.out == ""
    assert tree(tmp_path) == before
    assert list(store.iterdir()) == []


def test_an_archive_larger_than_the_disk_is_refused(store: Path, tmp_path: Path) -> None:
    write_archive([store / "digits-si-s0"], tmp_path / "a.zip")
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    with (
        patch("perdure.record.archive.shutil.disk_usage", lambda _: usage),
        pytest.raises(InputError, match="room"),
    ):
        extract_archive(tmp_path / "a.zip", tmp_path / "new")


def test_listing_loads_no_pytorch(store: Path) -> None:
    code = (
        "import sys; from perdure.record.store import list_stored_runs; "
        "assert len(list_stored_runs(sys.argv[1])) == 4; import perdure.cli; "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store)], env=environment() | os.environ, check=False
    )
    assert done.returncode == 0


def test_list_fits_a_terminal_and_tells_task_orders_apart(
    tmp_path: Path,
) -> None:
    for k, order in enumerate((None, [2, 0, 1, 4, 3])):
        config = {"scenario": "split-digits", "strategy": "replay", "seed": 0, "task_order": order}
        folder = tmp_path / f"split-digits-replay-s0-0123456{k}"
        write(folder, "run.json", json.dumps({"config": config}))
    lines = run("runs", "list", tmp_path).out.splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["published", "2,0,1,4,3"]
    assert max(map(len, lines)) <= 80
    listed = strict(run("runs", "list", tmp_path, "--format", "json").out)["runs"]
    assert [entry["task_order"] for entry in listed] == [None, [2, 0, 1, 4, 3]]
    config = {"scenario": "x", "strategy": "mine", "seed": 3}
    write(tmp_path / "own", "run.json", json.dumps({"config": config}))
    assert run("runs", "list", tmp_path / "own").out.splitlines()[1].split()[-3:] == [
        "x", "mine", "3"
    ]  # fmt: skip


def test_an_empty_store_and_a_list_in_python(store: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    says(refused("runs", "list", tmp_path / "empty"), "no runs in it", "`perdure run` records")
    lines = repr(perdure.list_runs(store)).splitlines()
    assert lines[0] == "4 runs"
    assert [line.split() for line in lines[1:3]] == [
        ["digits-ewc-s0", "failed"], ["digits-replay-s0", "finished"]
    ]  # fmt: skip
