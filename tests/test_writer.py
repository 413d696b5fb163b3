"""The writer of a run folder on a disk that refuses: nothing is lost, torn or written twice."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perdure.record import RecordError, RunWriter, csv_field, open_run, read_input
from perdure.record.io import files as _files
from perdure.record.io.folder import Appender, replace

from .cli_helpers import environment, run
from .writer_helpers import (
    EXAMPLES,
    HEADER,
    Disk,
    Interrupt,
    disk,
    evaluate,
    hits_of,
    name_of,
    one_line,
    recorded,
    right,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.record import ScoreInput

__all__ = ["disk"]  # a fixture


def two_tasks(folder: Path) -> RunWriter:
    writer = RunWriter(folder, {"setting": "class"})
    writer.add_per_example(["a"], np.arange(EXAMPLES))
    writer.add_per_example(["a", "b"], np.arange(EXAMPLES))
    return writer


def check_whole(folder: Path, steps: int) -> None:
    """Fail unless all of two tasks is there, once and in order."""
    found = recorded(folder)
    assert [line.split(",")[:3:2] for line in found] == [
        [str(step), task] for step in range(1, steps + 1) for task in "ab"
    ]
    for number in range(2):
        mine = hits_of(folder, number)
        assert list(mine) == list(range(1, steps + 1))
        for step, row in mine.items():
            np.testing.assert_array_equal(row, right(step, number))
    source = read_input(str(folder))
    assert {task: len(hits) for task, hits in source.per_example.items()} == {
        "a": steps,
        "b": steps,
    }


def test_an_append_is_whole_or_waits(tmp_path: Path, disk: Disk) -> None:
    """Any number of writes that fail or are cut short, anywhere."""
    chance = random.Random(0)
    for number in range(200):
        disk.plan = []
        file = Appender(tmp_path / f"{number}", HEADER.encode())
        file.append(b"")
        expected = [HEADER]
        for step in range(6):
            line = f"{step},a,a,probe,{chance.random()},10\n"
            expected.append(line)
            disk.plan = chance.choices([None, -1, 1, 5, 30], k=chance.randint(0, 4))
            try:
                file.append(line.encode())
            except RecordError:
                there = file.path.read_text()
                assert "".join(expected).startswith(there)
                assert there.endswith("\n"), "half a line stays behind"
            else:
                assert file.path.read_text() == "".join(expected)
        disk.plan = []
        file.append(b"")
        assert file.path.read_text() == "".join(expected)
        file.close()
        file.close()


def test_what_a_full_disk_refuses_is_written_when_there_is_room(tmp_path: Path, disk: Disk) -> None:
    with RunWriter(tmp_path, {}) as writer:
        disk.then = -1
        for step in range(1, 4):
            with one_line("points.csv", "no space left on device", "Free disk space"):
                writer.append_points([f"{step},a,a,probe,0.5,2"])
        assert recorded(tmp_path) == []
        disk.then = None
        writer.append_points(["4,a,a,probe,0.5,2"])
        assert recorded(tmp_path) == [f"{step},a,a,probe,0.5,2" for step in range(1, 5)]


@pytest.mark.parametrize("room", [-1, 5])
@pytest.mark.parametrize("refused", [0, 1, 2])
def test_no_write_of_an_evaluation_is_lost_if_the_disk_is_full(
    tmp_path: Path, disk: Disk, refused: int, room: int
) -> None:
    """Refused are the hits of a, those of b, or the lines; or they are cut short."""
    with two_tasks(tmp_path) as writer:
        evaluate(writer, 1, "a", ["a", "b"])
        disk.plan = [*([None] * refused), *([room, -1] if room > 0 else [-1])]
        with pytest.raises(RecordError, match="no space left"):
            evaluate(writer, 2, "a", ["a", "b"])
        assert read_input(str(tmp_path)).stream is not None
        evaluate(writer, 3, "a", ["a", "b"])
    check_whole(tmp_path, 3)


@pytest.mark.parametrize(
    "refused",
    [
        0,
        1,
        2,
    ],
)
def test_no_line_is_there_before_its_hits(tmp_path: Path, disk: Disk, refused: int) -> None:
    """Also if only they are refused: who is killed then leaves no line without hits."""
    with two_tasks(tmp_path) as writer:
        for step in range(1, 4):
            disk.plan = [*([None] * refused), -1] if step == 2 else []
            try:
                evaluate(writer, step, "a", ["a", "b"])
            except RecordError:
                assert step == 2
            steps = {int(line.split(",")[0]) for line in recorded(tmp_path)}
            for number in range(2):
                assert steps <= set(hits_of(tmp_path, number)), step
    check_whole(tmp_path, 3)


def test_what_waits_is_written_when_the_run_is_closed(tmp_path: Path, disk: Disk) -> None:
    writer = two_tasks(tmp_path)
    evaluate(writer, 1, "a", ["a", "b"])
    disk.plan = [None, None, -1]
    with pytest.raises(RecordError):
        evaluate(writer, 2, "a", ["a", "b"])
    writer.close()
    check_whole(tmp_path, 2)


def test_closing_says_so_if_something_is_lost(tmp_path: Path, disk: Disk) -> None:
    writer = two_tasks(tmp_path)
    evaluate(writer, 1, "a", ["a", "b"])
    disk.then = -1
    with pytest.raises(RecordError):
        evaluate(writer, 2, "a", ["a", "b"])
    with pytest.raises(RecordError, match="no space left"):
        writer.close()
    disk.then = None
    writer.close()
    check_whole(tmp_path, 1)
    RunWriter(tmp_path, {}, overwrite=True).close()


def test_a_run_is_not_done_before_everything_is_written(tmp_path: Path, disk: Disk) -> None:
    with two_tasks(tmp_path) as writer:
        disk.then = -1
        with pytest.raises(RecordError):
            writer.append_points(["1,a,a,probe,0.5,2"])
        with one_line("points.csv", "no space left"):
            writer.finish()
        assert not (tmp_path / "done.json").exists()
        disk.then = None
        writer.finish()
    assert recorded(tmp_path) == ["1,a,a,probe,0.5,2"]
    assert (tmp_path / "done.json").exists()


def test_sync_writes_what_waits(tmp_path: Path, disk: Disk) -> None:
    with two_tasks(tmp_path) as writer:
        disk.plan = [-1]
        with pytest.raises(RecordError):
            writer.append_points(["1,a,a,probe,0.5,2"])
        writer.sync()
        assert recorded(tmp_path) == ["1,a,a,probe,0.5,2"]


def test_gradients_that_do_not_fit_are_not_lost(tmp_path: Path, disk: Disk) -> None:
    with RunWriter(tmp_path, {}) as writer:
        disk.plan = [-1]
        with one_line("gradients.csv", "no space left"):
            writer.append_gradients("1,a,0.5,")
        writer.append_gradients("2,a,0.25,1.0")
        disk.plan = [3, -1]
        with pytest.raises(RecordError):
            writer.append_gradients("3,a,0.25,1.0")
        writer.append_gradients("4,a,0.25,1.0")
    text = (tmp_path / "gradients.csv").read_text().splitlines()
    assert [line[:1] for line in text] == ["s", "1", "2", "3", "4"]


def test_the_disk_has_everything_before_a_run_is_called_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_tasks(tmp_path) as writer:
        evaluate(writer, 1, "a", ["a", "b"])
        writer.append_gradients("1,a,0.5,")
        synced: list[str] = []
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(name_of(file)))
        writer.finish()
    assert set(synced[:-1]) >= {"points.csv", "gradients.csv", "0.bin", "1.bin"}
    assert synced[-1].startswith(".done.json.")


def test_the_disk_has_the_indices_that_hits_are_read_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(name_of(file)))
    with two_tasks(tmp_path) as writer:
        evaluate(writer, 1, "a", ["a", "b"])
        writer.sync()
    assert {"0.npy", "1.npy"} <= {re.sub(r"^\.(.*)\.\w+\.new", r"\1", name) for name in synced}


def test_a_small_file_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    replace(path, "old")

    def full(file: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with one_line("run.json", "no space left"):
        replace(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """The system writes what fits before it refuses the rest."""
    writer = RunWriter(tmp_path, {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        lines = [f"{step},a,a,probe,0.5,2" for step in range(1, 6)]
        for line in lines[:3]:
            writer.append_points([line])
        for line in lines[3:]:
            with pytest.raises(RecordError, match=r"points\.csv: file too large"):
                writer.append_points([line])
        assert recorded(tmp_path) == lines[:3]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.close()
    assert recorded(tmp_path) == lines


FULL = """
import sys
from pathlib import Path
import numpy as np
from perdure.record import RecordError, RunWriter
from tests.writer_helpers import EXAMPLES, evaluate

folder = Path(sys.argv[1])
writer = RunWriter(folder / "run", {})
writer.add_per_example(["a"], np.arange(EXAMPLES))
ballast = (folder / "ballast").open("wb", buffering=0)
refused = 0
for step in range(1, 3001):
    if step == 5:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            pass
    try:
        evaluate(writer, step, "a", ["a"])
    except RecordError as error:
        refused += 1
        assert "no space left on device" in str(error)
    if step == 2500:
        ballast.truncate(0)
writer.close()
print(refused, flush=True)
"""


def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    """A file system of 256 KiB, in a namespace of its own."""
    (tmp_path / "full.py").write_text(FULL)
    (tmp_path / "small").mkdir()
    script = (
        f"mount -t tmpfs -o size=256k none {tmp_path}/small && "
        f"{sys.executable} {tmp_path}/full.py {tmp_path}/small && "
        f"cp -r {tmp_path}/small/run {tmp_path}/run"
    )
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to mount a small file system")
    try_out = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(tmp_path / "small")]
    if subprocess.run(try_out, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small file system")
    variables = environment()
    variables["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
    answer = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) > 100
    assert [int(line.split(",")[0]) for line in recorded(tmp_path / "run")] == [*range(1, 3001)]
    assert list(hits_of(tmp_path / "run", 0)) == [*range(1, 3001)]
    check_one = read_input(str(tmp_path / "run")).per_example["a"]
    assert len(check_one) == 3000


def test_an_interrupt_between_any_two_operations_of_an_append(tmp_path: Path, disk: Disk) -> None:
    """Whatever is interrupted, the next append leaves whole lines, each of them once."""
    for number in range(100):
        file = Appender(tmp_path / str(number), b"0\n")
        file.append(b"")
        disk.plan = [4, -1, 4, 7]
        with pytest.raises(RecordError):
            file.append(b"waits\n")
        with Interrupt(number, "io/folder.py") as at:
            file.append(b"comes now\n")
        file.append(b"next\n")
        file.close()
        text = (tmp_path / str(number)).read_text()
        assert text in ("0\nwaits\ncomes now\nnext\n", "0\nwaits\nnext\n"), at
        if not at:
            assert "comes now" in text
            break
    assert number > 8


def test_an_interrupt_between_any_two_operations_of_an_evaluation(tmp_path: Path) -> None:
    for number in range(100):
        folder = tmp_path / str(number)
        with two_tasks(folder) as writer:
            evaluate(writer, 1, "a", ["a", "b"])
            with Interrupt(number, "io/folder.py", "record/writer.py") as at:
                evaluate(writer, 2, "a", ["a", "b"])
            evaluate(writer, 3, "a", ["a", "b"])
        steps = [int(line.split(",")[0]) for line in recorded(folder)]
        assert steps in ([1, 1, 2, 2, 3, 3], [1, 1, 3, 3]), at
        for task in range(2):
            mine = hits_of(folder, task)
            assert set(steps) <= set(mine), at
            for step, row in mine.items():
                np.testing.assert_array_equal(row, right(step, task))
        assert read_input(str(folder)).per_example["b"].steps.tolist() == sorted(set(steps))
        if not at:
            break
    assert number > 20


def write_a_run(writer: RunWriter, describe: dict[str, object]) -> Iterator[str]:
    """Write a run of two tasks, one operation at a time; say which one was done."""
    step = 0
    for number, trained in enumerate("ab"):
        tasks = list("ab")[: number + 1]
        writer.write_metadata(describe | {"classes": [2] * (number + 1)})
        yield f"describe {trained}"
        writer.append_points([f"{step},{trained},{trained},initial,0.1,{EXAMPLES}"])
        yield f"initial {trained}"
        writer.add_per_example(tasks, np.arange(EXAMPLES))
        yield f"hits of {trained}"
        for _ in range(3):
            step += 1
            writer.append_gradients(f"{step},{trained},0.5,")
            yield f"gradient {step}"
            evaluate(writer, step, trained, tasks)
            yield f"probe {step}"
        writer.add_per_example(tasks, np.arange(20), whole=True)
        half = np.arange(20) < 10
        writer.append_points(
            [f"{step},{trained},{task},full,0.5,20" for task in tasks],
            whole_sets=[(k, [step], half[None]) for k in range(len(tasks))],
        )
        yield f"full {step}"
        writer.write_costs({task: {"model_bytes": 100.0, "seconds_train": 1.0} for task in tasks})
        yield f"costs of {trained}"
        writer.sync()
    writer.finish(steps=step)
    yield "done"


def test_a_reader_may_come_after_any_byte(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes of five bytes, with a reader between any two: it never meets an error."""
    writer = RunWriter(tmp_path, {})
    operations = write_a_run(writer, {"setting": "class"})
    assert [next(operations), next(operations)] == ["describe a", "initial a"]
    seen: list[ScoreInput] = []

    def look() -> None:
        source = read_input(str(tmp_path))
        assert source.stream is not None
        if len(seen) % 30 == 0:
            assert run("score", tmp_path).code == 0
        seen.append(source)

    disk.then, disk.after = 5, look
    monkeypatch.setattr(os, "fsync", lambda file: look())  # before a small file is replaced, too
    for operation in operations:
        look()
        if operation == "gradient 1":
            open_run(tmp_path)
    assert len(seen) > 80
    assert not any("unfinished" in note for note in seen[-1].notes)
    assert any("unfinished" in note for note in seen[-2].notes)
    assert {task: hits.shape for task, hits in seen[-1].per_example_at_ends.items()} == {
        "a": (2, 20),
        "b": (1, 20),
    }
    writer.close()


def test_a_run_opens_after_any_byte_of_its_gradients(tmp_path: Path, disk: Disk) -> None:
    with RunWriter(tmp_path, {}) as writer:
        writer.append_points(["1,a,a,probe,0.5,2"])
        disk.then, disk.after = 5, lambda: open_run(tmp_path)
        writer.append_gradients("1,a,0.5,0.25")
        (tmp_path / "gradients.csv").write_bytes(b"")
        open_run(tmp_path)


def test_a_writer_may_go_on_between_any_two_operations_of_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read is what was there at some moment: a finished run is whole."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    for start, speed in product(range(2, 30), (1, 3, 100)):
        folder = tmp_path / f"{start}-{speed}"
        with RunWriter(folder, {}) as writer:
            operations = write_a_run(writer, {"setting": "class"})
            for _ in range(start):
                next(operations, None)
            with monkeypatch.context() as patched:
                after_each_read(patched, partial(go_on, operations, speed))
                source = read_input(str(folder))
        assert source.stream is not None
        if not any("unfinished" in note for note in source.notes):
            assert source.stream.grid.tolist() == [1, 2, 3, 4, 5, 6], start
            assert source.matrix is not None
            assert source.matrix.notes == ()


def go_on(operations: Iterator[str], count: int) -> None:
    for _ in islice(operations, count):
        pass


def after_each_read(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something whenever a reader has read a file of a run to its end."""
    real = _files.read_limited

    def read(*arguments: Any) -> bytes:
        found = real(*arguments)
        do()
        return found

    monkeypatch.setattr(_files, "read_limited", read)


READER = """
import sys, time
from pathlib import Path
from perdure.record import read_input

folder, count, start = Path(sys.argv[1]), 0, time.monotonic()
print("ready", flush=True)
while "unfinished" in str(read_input(str(folder)).notes) and time.monotonic() - start < 300:
    count += 1
    if count == 5:
        print("has read", flush=True)
"""


def test_a_reader_in_another_process_never_meets_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    writer = two_tasks(folder)
    evaluate(writer, 1, "a", ["a", "b"])
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(folder)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert reader.stdout is not None
    reader.stdout.readline()
    for step in range(2, 1500):
        evaluate(writer, step, "a", ["a", "b"])
        if step % 20 == 0:
            writer.write_metadata({"setting": "class", "notes": [f"step {step}"]})
            writer.write_costs({"a": {"model_bytes": float(step)}})
    assert reader.stdout.readline() == "has read\n"
    writer.finish()
    writer.close()
    _, err = reader.communicate(timeout=60)
    assert err == ""
    assert reader.returncode == 0


def test_hits_go_before_the_lines_that_speak_of_them(tmp_path: Path, disk: Disk) -> None:
    with two_tasks(tmp_path) as writer:
        disk.written.clear()
        evaluate(writer, 1, "a", ["a", "b"])
    assert disk.written == ["0.bin", "1.bin", "points.csv"]


@pytest.mark.parametrize(
    "name", ["plain", "a, b", 'say "a"', "数字 é", " a ", "#1", "'", "a;b", ","]
)
def test_names_of_tasks(tmp_path: Path, name: str) -> None:
    with RunWriter(tmp_path, {}) as writer:
        field = csv_field(name)
        writer.add_per_example([name], np.arange(EXAMPLES))
        evaluate(writer, 1, field, [field])
        writer.append_points([f"1,{field},{field},full,0.5,20"])
        writer.append_gradients(f"1,{field},0.5,")
        writer.write_costs({name: {"model_bytes": 3.0}})
        writer.finish()
    found = open_run(tmp_path)
    assert found.matrix is not None
    assert found.costs is not None
    assert found.gradients is not None
    assert found.matrix.tasks == found.costs.tasks == found.gradients.trained == (name,)
    np.testing.assert_array_equal(found.per_example[name][0], right(1, 0))
    assert json.loads((tmp_path / "per_example/tasks.json").read_text()) == [name]


def test_notes_and_scale_of_a_run_are_read(tmp_path: Path) -> None:
    scale = {"low": None, "high": None, "lower_is_better": True}
    with RunWriter(tmp_path, {"notes": ["it rained"], "scale": scale}) as writer:
        writer.append_points(["1,a,a,full,5.5,2", "2,b,a,full,7.5,2", "2,b,b,full,1.5,2"])
        writer.finish()
    answer = run("score", tmp_path, "--metrics", "acc,forgetting.any", "--format", "json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["metrics"] == {"acc": 4.5, "forgetting.any": 2.0}
    assert "it rained" in found["notes"]
