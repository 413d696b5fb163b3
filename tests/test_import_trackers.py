"""Trackers and tables: files of the real tools, spoiled ones, and what they cannot say."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import struct
import zlib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.importers import Evaluation, ImportedRun, ImportOptions, read_runs
from perdure.importers.tensorboard import iter_scalars
from perdure.record import InputError

from .cli_helpers import run

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURE = Path(__file__).parent / "fixtures" / "import" / "trackers"
TASKS = ("red", "green", "blue")
WIDE = {"score": "eval/{tested}/acc", "trained": "task"}
LONG = {"step": "iter", "trained": "task", "tested": "evaluated", "score": "accuracy"}
SOURCES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "torch": ("tensorboard", "tensorboard/torch", {"columns": WIDE, "order": TASKS}),
    "tensors": ("tensorboard", "tensorboard/tensors", {"columns": WIDE, "order": TASKS}),
    "tensorboardX": ("tensorboard", "tensorboardx", {"columns": WIDE, "order": TASKS}),
    "wandb": ("wandb", "wandb", {"columns": WIDE}),
    "mlflow": ("mlflow", "mlflow/mlflow.db", {"columns": WIDE, "order": TASKS}),
    "trackio": ("trackio", "trackio/toy.db", {"columns": WIDE}),
    "JSON Lines": ("table", "tables/log.jsonl", {"columns": WIDE | {"step": "iter"}}),
    "CSV": ("table", "tables/log.csv", {"columns": LONG}),
}


def logged() -> list[Evaluation]:
    """Return what the script that made the files logged."""
    spec = spec_from_file_location("make_trackers", FIXTURE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        Evaluation(step, trained, tested, score, kind="probe")
        for step, trained, scores in module.evaluations()
        for tested, score in scores.items()
    ]


def place(name: str, tmp_path: Path) -> Path:
    """Return a copy of a fixture; databases are compressed in the repository."""
    source = FIXTURE / SOURCES[name][1]
    copy = tmp_path / source.name
    if source.suffix == ".db":
        copy.write_bytes(gzip.decompress(Path(f"{source}.gz").read_bytes()))
    elif source.is_dir():
        shutil.copytree(source, copy)
    else:
        shutil.copy(source, copy)
    return copy


def read(name: str, path: Path, **options: Any) -> list[ImportedRun]:
    reader, _, stated = SOURCES[name]
    return read_runs(reader, [path], ImportOptions(**(stated | options)))


@pytest.mark.parametrize("name", SOURCES)
def test_every_tracker_gives_the_scores_that_were_logged(name: str, tmp_path: Path) -> None:
    first, *_ = read(name, place(name, tmp_path))
    assert first.evaluations == logged()
    assert any("n is empty" in note for note in first.notes)
    assert any("is a probe" in note for note in first.notes)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "CSV"])
def test_files_are_recognized(name: str, tmp_path: Path) -> None:
    path = place(name, tmp_path)
    columns = ",".join(f"{k}={v}" for k, v in SOURCES[name][2]["columns"].items())
    words = ("--columns", columns, "-o", tmp_path / "run", "--order", ",".join(TASKS))
    code, out, err = run("import", "auto", path, *words)
    assert code == 0, err
    assert f"({SOURCES[name][0]})" in err
    assert "3 tasks, 12 evaluations" in out


def test_what_the_files_say_about_runs(tmp_path: Path) -> None:
    (wandb,) = read("wandb", FIXTURE / "wandb")
    assert wandb.config == {"lr": 0.1, "seed": 3}
    assert (wandb.label, wandb.version) == ("toy", "0.31.0")
    (trackio,) = read("trackio", place("trackio", tmp_path))
    assert trackio.config == {"lr": 0.1, "seed": 3}
    first, second = read("mlflow", place("mlflow", tmp_path))
    assert [first.label, second.label] == ["seed0", "seed1"]
    assert second.config == {"lr": 0.1, "seed": 1}
    assert second.evaluations[0].score == pytest.approx(0.7)
    (table,) = read("CSV", FIXTURE / "tables" / "log.csv", columns=LONG | {"n": "examples"})
    assert {e.n for e in table.evaluations} == {400}


def test_imported_runs_are_scored(tmp_path: Path) -> None:
    columns = "score=eval/{tested}/acc,trained=task"
    words = ("--order", "red,green,blue", "--columns", columns, "-o", tmp_path / "runs")
    assert run("import", "mlflow", place("mlflow", tmp_path), *words).code == 0
    metrics = perdure.score(tmp_path / "runs" / "seed0").metrics
    assert metrics["acc"] == pytest.approx((0.4 + 0.65 + 0.9) / 3)
    assert metrics["bwt"] == pytest.approx((0.4 - 0.9 + 0.65 - 0.9) / 2)


# Spoiled files of bytes: a number is never wrong, whatever was cut off or changed.


@pytest.mark.parametrize("name", ["torch", "tensors", "wandb"])
def test_cut_off_files_have_the_first_scores(name: str, tmp_path: Path) -> None:
    (path,) = [file for file in place(name, tmp_path).iterdir() if file.is_file()]
    data, whole = path.read_bytes(), logged()
    lengths, noted = [], 0
    for end in range(0, len(data), 37):
        path.write_bytes(data[:end])
        try:
            (imported,) = read(name, path)
        except InputError:
            lengths.append(0)
            continue
        lengths.append(len(imported.evaluations))
        noted += any("cut off" in note for note in imported.notes)
        assert imported.evaluations == whole[: lengths[-1]]
    assert lengths == sorted(lengths)
    assert lengths[-1] >= 11
    assert noted > len(lengths) / 2


@pytest.mark.parametrize("name", ["torch", "tensors", "wandb"])
def test_changed_bytes_are_noticed(name: str, tmp_path: Path) -> None:
    (path,) = [file for file in place(name, tmp_path).iterdir() if file.is_file()]
    data, whole = path.read_bytes(), logged()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            (imported,) = read(name, path)
        except InputError:
            continue
        assert imported.evaluations == whole[: len(imported.evaluations)]


@pytest.mark.parametrize("name", ["mlflow", "trackio"])
def test_spoiled_databases_end_in_one_line(name: str, tmp_path: Path) -> None:
    path = place(name, tmp_path)
    data = path.read_bytes()
    refused = 0
    for at in range(0, len(data), len(data) // 40):
        for spoiled in (data[:at], data[:at] + b"\xff" * 64 + data[at + 64 :]):
            path.write_bytes(spoiled)
            message = refusal(lambda: read(name, path))
            assert "\n" not in message
            refused += bool(message)
    assert refused > 20


def refusal(action: Callable[[], object]) -> str:
    try:
        action()
    except InputError as error:
        return str(error)
    return ""


def test_a_database_that_is_being_written_is_refused(tmp_path: Path) -> None:
    path = place("trackio", tmp_path)
    path.with_name("toy.db-wal").write_bytes(b"rows")
    with pytest.raises(InputError, match=r"toy.db-wal has rows that are not in it yet"):
        read("trackio", path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["toy.db", "toy.db-wal"]


def test_a_view_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE VIEW metrics AS SELECT 1 AS step")
        database.execute("CREATE TABLE configs (x)")
    database.close()
    with pytest.raises(InputError, match="no table 'metrics'"):
        read("trackio", path)


def test_mlflow_leaves_out_deleted_runs_and_refuses_its_file_store(tmp_path: Path) -> None:
    path = place("mlflow", tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'seed0'")
    database.close()
    (imported,) = read("mlflow", path)
    assert imported.label == "seed1"
    assert any("1 deleted runs" in note for note in imported.notes)
    store = tmp_path / "mlruns" / "0"
    store.mkdir(parents=True)
    (store / "meta.yaml").write_text("name: toy\n")
    with pytest.raises(InputError, match=r"file store of MLflow is not read.*migrate-filestore"):
        read("mlflow", tmp_path / "mlruns")


# Event files


def event(step: int, tag: str, value: bytes) -> bytes:
    """Return a record written by hand; `value` is the field of the value."""
    inner = b"\x0a" + bytes([len(tag)]) + tag.encode() + value
    summary = b"\x0a" + size(len(inner)) + inner
    return record(b"\x10" + size(step) + b"\x2a" + size(len(summary)) + summary)


def size(number: int) -> bytes:
    parts = []
    while True:
        number, low = number >> 7, number & 0x7F
        parts.append(low | (0x80 if number else 0))
        if not number:
            return bytes(parts)


def record(message: bytes) -> bytes:
    head = struct.pack("<Q", len(message))
    return head + masked(head) + message + masked(message)


def masked(data: bytes) -> bytes:
    """Return the masked CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def test_only_scalars_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.importers.tensorboard.MAX_RECORD", 1000)
    path = tmp_path / "events.out.tfevents.1"
    simple = b"\x15" + struct.pack("<f", 0.1)
    double = b"\x42\x0b\x08\x02\x22" + size(8) + struct.pack("<d", 0.1)
    text = b"\x42\x06\x08\x07\x42\x02hi"
    image = b"\x22" + size(2000) + bytes(2000)
    parts = [event(7, "a", simple), event(8, "pixels", image), event(9, "words", text)]
    path.write_bytes(b"".join(parts) + event(10, "b", double.replace(b"\x0b", b"\x0c", 1)))
    scalars = [(s.step, s.tag, s.value) for s in iter_scalars(path)]
    assert scalars == [(7, "a", 0.1), (10, "b", 0.1)]


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    (first,) = (FIXTURE / "tensorboard" / "torch").iterdir()
    shutil.copy(first, tmp_path / "events.out.tfevents.1")
    shutil.copy(first, tmp_path / "events.out.tfevents.2")
    with pytest.raises(InputError, match=r"tfevents.2: 'task' is at step 50 after step 300.*two"):
        read_runs("tensorboard", [tmp_path])
    folders = tmp_path / "runs" / "a", tmp_path / "runs" / "b"
    for folder in folders:
        folder.mkdir(parents=True)
        shutil.copy(first, folder)
    with pytest.raises(InputError, match="in 2 folders below it"):
        read_runs("tensorboard", [tmp_path / "runs"])


def test_a_resumed_run_has_several_event_files(tmp_path: Path) -> None:
    simple = b"\x15" + struct.pack("<f", 0.5)
    for k in (1, 2):
        (tmp_path / f"events.out.tfevents.{k}").write_bytes(event(k, "acc/a", simple))
    (imported,) = read("torch", tmp_path, columns={"score": "acc/{tested}"}, order=())
    assert [(e.step, e.trained, e.score) for e in imported.evaluations] == [
        (1, None, 0.5), (2, None, 0.5)
    ]  # fmt: skip
    assert any("without task boundaries" in note for note in imported.notes)


# W&B


def log_file(records: list[bytes]) -> bytes:
    """Return a LevelDB log with these records, which may be longer than a block."""
    data = b":W&B\xe1\xbe\x00"
    for whole in records:
        rest, first = whole, True
        while rest or first:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += bytes(room)
                room = 32768
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
                first, not rest
            ]
            checksum = zlib.crc32(bytes([kind]) + part)
            data += struct.pack("<IHB", checksum, len(part), kind) + part
            first = False
    return data


def history(values: dict[str, object]) -> bytes:
    items = b""
    for name, value in values.items():
        text = json.dumps(value).encode()
        inner = b"\x0a" + size(len(name)) + name.encode() + b"\x82\x01" + size(len(text)) + text
        items += b"\x0a" + size(len(inner)) + inner
    return b"\x12" + size(len(items)) + items


@pytest.mark.parametrize("length", [10, 32740, 32749, 32754, 100_000])
def test_records_may_continue_in_the_next_block(length: int, tmp_path: Path) -> None:
    path = tmp_path / "run-x.wandb"
    rows = [
        {"_step": k, "task": "a", "eval/a/acc": k / 4, "text": "x" * length} for k in range(1, 4)
    ]
    path.write_bytes(log_file([history(row) for row in rows]))
    (imported,) = read("wandb", path)
    assert [(e.step, e.score) for e in imported.evaluations] == [(1, 0.25), (2, 0.5), (3, 0.75)]


# Tables, and what is the same for all of them


def write_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(scores: str, task: object = "a") -> list[dict[str, object]]:
    return [
        {"step": k, "task": task, "eval": {"a": {"acc": float(score)}}}
        for k, score in enumerate(scores.split(), start=1)
    ]


def read_rows(tmp_path: Path, rows: list[dict[str, object]], **options: Any) -> ImportedRun:
    path = write_lines(tmp_path / "x.jsonl", rows)
    (imported,) = read_runs("table", [path], ImportOptions(**({"columns": WIDE} | options)))
    return imported


def test_nested_objects_percent_and_missing_values(tmp_path: Path) -> None:
    imported = read_rows(tmp_path, rows_of("50 nan 75"))
    assert [(e.step, e.score) for e in imported.evaluations] == [(1, 0.5), (3, 0.75)]
    assert any("read as percent" in note for note in imported.notes)
    assert read_rows(tmp_path, rows_of("50 75"), percent=True).evaluations[0].score == 0.5
    with pytest.raises(InputError, match="scores from 2 to 3, expected accuracies"):
        read_rows(tmp_path, rows_of("2 3"))
    losses = read_rows(tmp_path, rows_of("2 3"), lower_is_better=True)
    assert losses.scale.lower_is_better
    assert [e.score for e in losses.evaluations] == [2, 3]


def test_numbered_tasks_get_names_from_the_order(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"step": 10 * k, "task": k, f"eval/{name}/acc": 0.5} for k, name in ((1, "a"), (2, "b"))
    ]
    imported = read_rows(tmp_path, rows, order=("a", "b"))
    assert [e.trained for e in imported.evaluations] == ["a", "b"]
    with pytest.raises(InputError, match=r"trained are 1, 2, and evaluated a, b.*`order=`"):
        read_rows(tmp_path, rows)
    with pytest.raises(InputError, match="expected numbers from 0 or 1 for the 1 names"):
        read_rows(tmp_path, rows, order=("a",))
    named: list[dict[str, object]] = [row | {"task": "ab"[k]} for k, row in enumerate(rows)]
    with pytest.raises(InputError, match="learned in the order a,b, but order is b,a"):
        read_rows(tmp_path, named, order=("b", "a"))


def test_the_task_of_a_step_counts_before_or_after_the_score(tmp_path: Path) -> None:
    score = {"eval/a/acc": 0.5}
    rows: list[dict[str, object]] = [
        {"step": 1, **score}, {"step": 1, "task": "a"}, {"step": 2, **score},
        {"step": 3, "task": "a"}, {"step": 3, **score}, {"step": 3, "task": "b"},
        {"step": 4, **score},
    ]  # fmt: skip
    imported = read_rows(tmp_path, rows)
    assert [(e.step, e.trained) for e in imported.evaluations] == [
        (1, "a"), (2, "a"), (3, "a"), (4, "b")
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"line 1: nothing says which task was trained at step 1"):
        read_rows(tmp_path, [{"step": 1, **score}, {"step": 2, "task": "a", **score}])


def test_the_name_of_a_score_may_say_both_tasks(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"step": 1, "after_a/b": 0.25, "after_a/a": 0.5}, {"step": 2, "after_b/a": 0.125},
    ]  # fmt: skip
    imported = read_rows(tmp_path, rows, columns={"score": "after_{trained}/{tested}"})
    assert [(e.trained, e.tested, e.score) for e in imported.evaluations] == [
        ("a", "b", 0.25), ("a", "a", 0.5), ("b", "a", 0.125)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda lines: [*lines, *lines], "line 14: a score of 'red' at step 50 after step 300"),
        (lambda lines: [*lines, lines[-1]], "line 13: a score of 'red' at step 300 again"),
        (lambda lines: lines[::-1], "at step 250 after step 300"),
        (lambda lines: [*lines[:3], lines[3][:20], *lines[4:]], "line 4: .*is not JSON"),
        (lambda lines: [lines[0], "[]"], "line 2: expected an object"),
        (lambda lines: [line.replace(": 50", ": -50") for line in lines], "iter is -50, expected"),
        (lambda lines: [line.replace("0.75", '"x"') for line in lines], "is 'x', expected a numb"),
        (
            lambda lines: [line.replace("iter", "it") for line in lines],
            "step is 'iter', expected one of it",
        ),
        (
            lambda lines: [line.replace("eval/", "test/") for line in lines],
            "expected one of iter, task, loss",
        ),
        (lambda lines: [], "nothing was logged"),
    ],
)
def test_spoiled_tables_are_refused(
    spoil: Callable[[list[str]], list[str]], message: str, tmp_path: Path
) -> None:
    lines = (FIXTURE / "tables" / "log.jsonl").read_text().splitlines()
    path = tmp_path / "log.jsonl"
    path.write_text("".join(line + "\n" for line in spoil(lines)))
    with pytest.raises(InputError, match=message):
        read("JSON Lines", path)


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    for name in ("JSON Lines", "CSV"):
        path = place(name, tmp_path)
        path.write_text(path.read_text()[:-14])
        (imported,) = read(name, path)
        assert imported.evaluations == logged()[: len(imported.evaluations)]
        assert any("cut off" in note for note in imported.notes)


def test_csv_in_other_forms(tmp_path: Path) -> None:
    text = (FIXTURE / "tables" / "log.csv").read_text()
    path = tmp_path / "log.csv"
    for changed in (text.replace(",", ";"), text.replace(",", "\t"), text.replace("\n", "\r\n")):
        path.write_bytes(changed.encode())
        assert read("CSV", path)[0].evaluations == logged()
    header, *lines = text.splitlines(keepends=True)
    path.write_text(header + "".join(sorted(lines, key=lambda line: line.split(",")[2])))
    by_task = read("CSV", path)[0].evaluations
    assert sorted(by_task) == sorted(logged())
    path.write_text("step,trained,tested,score,n,kind\n0,,a,0.1,5,initial\n1,a,a,.5,5,full\n")
    (own,) = read_runs("table", [path], ImportOptions())
    assert [e.kind for e in own.evaluations] == ["initial", "full"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"stp": "iter"}, "columns has 'stp', expected step, trained, tested, score, n or kind"),
        ({"score": "eval/{trained}/acc"}, "expected {tested} once"),
        ({"score": "{tested}{tested}"}, "expected {tested} once"),
        ({"score": "accuracy", "step": "iter"}, "no evaluated task in 'tested'"),
        ({"score": "acc"}, "score is 'acc', expected one of iter, task, evaluated, accuracy"),
        ({"step": "iter"}, "which of iter, task, evaluated, accuracy, examples, note are scores"),
        ({"score": "accuracy", "tested": "evaluated"}, "line 2: no step; say which"),
        (LONG | {"n": "task"}, "task is 'red', expected a number"),
        (LONG | {"kind": "task"}, "kind is 'red', expected initial or probe or full"),
    ],
)
def test_wrong_columns_are_explained(columns: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("{", r"\{")):
        read("CSV", FIXTURE / "tables" / "log.csv", columns=columns)


def test_no_machine_is_in_the_files() -> None:
    for path in FIXTURE.rglob("*"):
        if path.is_file() and not path.name.startswith("make."):  # nor its bytecode
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            for word in (b"/home", b"/root", b"/tmp", b"/work", b"/Users"):
                assert word not in data, path
