"""Files that are no files, lie about their size, or are nested without end: one line, code 2."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.torch import save_file

from perdure.record import (
    InputError,
    RecordError,
    open_run,
    parse_matrices,
    read_input,
    read_points,
)
from perdure.record.io.files import find_matches, parse_json
from perdure.record.io.folder import Appender
from perdure.training.checkpoint import FILE, _digest, _read

from .cli_helpers import COSTS, POINTS, environment, installed, refused, run, says, start, table
from .cli_helpers import write as write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 300  # seconds: only what waits for ever takes as long
MIB = 1 << 20
TWO = 'scenarios = ["split-digits"]\nstrategies = ["naive"]\n'
GRADIENTS = "step,trained,plasticity,stability\n1,a,0.5,\n"


@pytest.fixture(autouse=True)
def awake() -> Iterator[None]:
    """Fail, instead of waiting for a pipe without end."""

    def ring(*_: object) -> None:
        raise AssertionError("waits for ever")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "a pipe, expected a regular file"),
    "folder": (lambda path: path.mkdir(), "a folder, expected a regular file"),
    "device": (to_zero, "a device, expected a regular file"),
    "loop": (to_itself, "too many levels of symbolic links"),
    "hole": (hole, "too large"),
}


def make_run(folder: Path) -> Path:
    """Make a folder with every file that a run may have."""
    write_file(folder, "points.csv", POINTS)
    write_file(folder, "run.json", '{"config": {"strategy": "naive"}}')
    write_file(folder, "done.json", "{}")
    write_file(folder, "costs.csv", "".join(COSTS.splitlines(keepends=True)[:3]))
    write_file(folder, "gradients.csv", GRADIENTS)
    write_file(folder, "per_example/tasks.json", '["a", "b"]')
    write_file(folder, "per_example/0.bin", b"")
    np.save(folder / "per_example" / "0.npy", np.arange(8))
    return folder


# Who reads which file; {file} is in the place of a good one, {run} a run that has it.
READERS = {
    "a matrix": ("m.csv", "score {file}"),
    "several": ("m.csv", "score {file} {good}"),
    "class counts": ("v.csv", "score {good} --classes {file}"),
    "initial scores": ("v.csv", "score {good} --initial {file}"),
    "costs": ("c.csv", "score {good} --costs {file}"),
    "hits": ("h/0.bin", "score {folder}/log.csv --per-example {folder}/h"),
    "compare": ("m.csv", "compare a={file} b={good}"),
    "plan": ("p.csv", "plan --from-run {file}"),
    "plot": ("m.csv", "plot heatmaps {file} -o {folder}/x.svg"),
    "report": ("m.csv", "report {file} -o {folder}/x.html"),
    "points.csv": ("run/points.csv", "score {run}"),
    "points.csv itself": ("run/points.csv", "score {file}"),
    "run.json": ("run/run.json", "score {run}"),
    "costs.csv": ("run/costs.csv", "score {run}"),
    "ids of examples": ("run/per_example/0.npy", "score {run}"),
    "names of tasks": ("run/per_example/tasks.json", "score {run}"),
    "gradients.csv": ("run/gradients.csv", "plot gradients {run} -o {folder}/x.svg"),
    "a study's status": ("s.toml", "study status {file} --store {folder}/store"),
    "a study's report": ("s.toml", "study report {file} --store {folder}/store"),
    "a study": ("s.toml", "study run {file} --store {folder}/store"),
    "a study to plot": ("s.toml", "plot curves {file} -o {folder}/x.svg"),
}


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_by_what_it_is(
    reader: str, special: str, tmp_path: Path
) -> None:
    name, command = READERS[reader]
    make, words = SPECIAL[special]
    make_run(tmp_path / "run")
    if name == "h/0.bin":
        write_file(tmp_path, "h/0.npy", (tmp_path / "run/per_example/0.npy").read_bytes())
    path = tmp_path / name
    path.unlink(missing_ok=True)
    make(path)
    good = write_file(tmp_path, "good.csv", table())
    write_file(tmp_path, "log.csv", POINTS)
    said = refused(
        *(
            word.format(file=path, good=good, run=tmp_path / "run", folder=tmp_path)
            for word in command.split()
        )
    )
    others = {
        ("h/0.bin", "hole"): "step 0 does not follow 0",  # it may be long; what it holds is wrong
        ("m.csv", "folder"): "expected a run or a folder of runs",
        ("p.csv", "folder"): "expected a run folder or a file",
        ("m.csv", "hole"): "expected a row of scores",
        ("p.csv", "hole"): "expected a row of scores",
    }
    words = others.get((name, special), words)
    says(said, str(path), words)


@pytest.mark.parametrize("special", SPECIAL)
def test_a_checkpoint_that_is_no_file(special: str, tmp_path: Path) -> None:
    make, words = SPECIAL[special]
    make(tmp_path / "state.safetensors")
    words = "not a checkpoint that can be read" if special == "hole" else words
    with pytest.raises(InputError, match=rf"state\.safetensors: {words}.*`restart=True`"):
        _read(tmp_path / FILE)


def test_a_checkpoint_nested_without_end(tmp_path: Path) -> None:
    metadata = {"state": DEEP, "sha256": _digest(DEEP, {})}
    save_file({}, tmp_path / "state.safetensors", metadata=metadata)
    with pytest.raises(
        InputError, match=r"state\.safetensors: .*nested too deeply.*`restart=True`"
    ):
        _read(tmp_path / FILE)


def test_who_writes_does_not_wait_for_a_pipe_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "points.csv")
    for keep in (None, (10, "0" * 64)):
        with pytest.raises(RecordError, match=r"points\.csv"):
            Appender(tmp_path / "points.csv", keep=keep)


@pytest.mark.parametrize("special", [each for each in SPECIAL if each != "loop"])
@pytest.mark.parametrize("name", ["failed.json", "scores.json", "done.json", "lock"])
def test_nobody_waits_for_what_only_adds_to_a_run(name: str, special: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / name).unlink(missing_ok=True)
    SPECIAL[special][0](folder / name)
    answer = run("score", folder)
    assert (answer.code, answer.err) == (0, "")
    assert open_run(folder).finished


def test_a_pipe_that_the_shell_connects_is_read(tmp_path: Path) -> None:
    write_file(tmp_path, "m.csv", table())
    expected = start("score", tmp_path / "m.csv", "--format", "json").out
    (command,) = installed()
    for words in (
        f"{command} score <(cat m.csv) --format json",
        f"cat m.csv | {command} score /dev/stdin --format json",
    ):
        done = subprocess.run(
            ["bash", "-c", words], cwd=tmp_path, env=environment(), capture_output=True, check=True,
            timeout=PATIENCE,
        )  # fmt: skip
        assert done.stdout.decode() == expected
    os.mkfifo(tmp_path / "p")
    says(refused("score", tmp_path / "p"), "standard input", "- <")


def test_links_to_a_folder_itself_do_not_multiply_the_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "run")
    for name in ("x", "y", "z"):
        (tmp_path / "a" / name).symlink_to(".")
    assert find_matches(f"{tmp_path}/**/points.csv") == [f"{tmp_path}/a/run/points.csv"]
    assert run("score", f"{tmp_path}/**/points.csv").code == 0


def peak(call: Callable[[], object]) -> int:
    """Return how many bytes of memory a refusal takes at most."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def archive(method: int, size: int) -> bytes:
    """Return an archive whose one array unpacks to `size` bytes, and says that it has 1000."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file, file.open("matrix.npy", "w") as entry:
        for _ in range(size // MIB):
            entry.write(bytes(MIB))
    data = bytearray(out.getvalue())
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, 1000)
    return bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_is_not_unpacked_beyond_what_it_says(method: int) -> None:
    data = archive(method, 256 * MIB)
    assert len(data) < MIB
    assert peak(lambda: parse_matrices(data, "m.npz")) < 16 * MIB


AMPLIFIED = {
    "empty lists": b"[" + b"[]," * (4 * MIB),
    "empty lines": b".9,.1\n" + b"\n" * (16 * MIB),
    "one line of commas": b".9,.1\n" + b"," * (16 * MIB),
}


@pytest.mark.parametrize("case", AMPLIFIED)
def test_a_matrix_takes_no_more_memory_than_a_few_times_its_bytes(case: str) -> None:
    data = AMPLIFIED[case]
    assert peak(lambda: parse_matrices(data, "m")) < 4 * len(data)


def test_a_hole_in_hits_takes_no_memory(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    os.truncate(folder / "per_example" / "0.bin", 1 << 34)
    assert peak(lambda: read_input(str(folder))) < 64 * MIB


def test_points_of_more_tasks_than_a_matrix_can_hold(tmp_path: Path) -> None:
    """Of 10,001 tasks no matrix is made; of 100,001 nothing is read."""
    lines = [f"{k},t{k},t{k},0.5" for k in range(100_001)]
    path = write_file(tmp_path, "points.csv", "\n".join(["step,trained,tested,score", *lines, ""]))
    says(refused("score", path), "points.csv line 100002", "more than 100000 tasks")
    fewer = "\n".join(["step,trained,tested,score", *lines[:10_001], ""])
    answer = run("score", write_file(tmp_path, "fewer.csv", fewer), "--metrics", "acc,min_acc")
    says(answer.out + answer.err, "a score matrix is made for 10000 at most")


DEEP = "[" * 100_000 + "]" * 100_000
BRANCH = '{"a":' * 500 + "1" + "}" * 500  # Python reads it, but may not go through it


@pytest.mark.parametrize("deep", [DEEP, BRANCH, f'{{"config": {BRANCH}}}', f'{{"x": {DEEP}}}'])
@pytest.mark.parametrize("name", ["run.json", "per_example/tasks.json"])
def test_json_without_end_is_refused_wherever_it_is(name: str, deep: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    write_file(folder, name, deep)
    good = write_file(tmp_path, "good.csv", POINTS)
    says(refused("score", folder), name, "nested too deeply")
    says(refused("plan", "--from-run", folder), name, "nested too deeply")
    if name == "run.json":
        says(refused("compare", f"a={folder}", f"b={good}"), name, "nested too deeply")


@pytest.mark.parametrize("deep", [DEEP, BRANCH, "{", "[]", '{"error": {"a": []}}'])
def test_a_reason_that_cannot_be_read_is_no_reason_to_fail(deep: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "done.json").unlink()
    write_file(folder, "failed.json", deep)
    answer = run("score", folder)
    assert (answer.code, answer.err) == (0, "")
    assert "the run failed" in answer.out


def test_what_is_nested_as_deeply_as_allowed_is_read() -> None:
    assert parse_json("[" * 64 + "]" * 64, "x") is not None
    with pytest.raises(InputError, match="at most 64 levels"):
        parse_json("[" * 65 + "]" * 65, "x")


LONG = [*range(1, 200)]
GRID = "[grid]\n" + "".join(f"{name} = {LONG}\n" for name in ("batch", "epochs", "every"))
VARIANTS = "".join(f"[variant.v{k}]\nevery = {k}\n" for k in range(1, 100))
STUDIES = {
    "seeds": ("seeds = 100000000\n", "100000000 seeds"),
    "grid": (GRID, "expected at most 100000 runs"),
    "variants": ("seeds = 5000\n" + VARIANTS, "99 combinations with 5000 seeds"),
    "long key": ("a." * 400_000 + "a = 1\n", "a key of more than 64 parts"),
    "long table": ("[" + "a." * 400_000 + "a]\n", "a key of more than 64 parts"),
    "nested": (f"about = {'[' * 900}{']' * 900}\n", "nested too deeply"),
    "nested as far as it can be read": (f"about = {'[' * 90}{']' * 90}\n", "nested too deeply"),
    "too long": ("#" * (2 * MIB), "too large"),
}


@pytest.mark.parametrize("case", STUDIES)
def test_a_study_without_end_is_refused_before_it_is_listed(case: str, tmp_path: Path) -> None:
    text, words = STUDIES[case]
    file = write_file(tmp_path, "s.toml", TWO + text)
    for command in ("status", "report", "run"):
        says(refused("study", command, file, "--store", tmp_path / "store"), words)


def test_so_many_seeds_are_refused() -> None:
    says(refused("run", "--seeds", "100000000", "--dry-run"), "--seeds", "at most 100000")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    matrix = write_file(tmp_path, "m.csv", table())
    says(refused("report", matrix, "-o", tmp_path / "loop"), "loop", "symbolic links")


CUT_OFF = {
    "a header of three": "a,b,c\n.9,.1,.2\n.5,.8,.3\n",
    "a header over a triangle": "a,b,c\n.9,,\n.6,.8,\n",
    "a header of two": "a,b\n.9,\n",
    "named rows": "after,a,b,c\na,.9,.1,.2\nb,.5,.8,.3\n",
    "a triangle": ".9,,\n.6,.8,\n",
    "one row of a triangle": ".9,\n",
    "named rows of a triangle": "a,.9,,\nb,.6,.8,\n",
    "lists": "[[0.9, null, null], [0.6, 0.8, null]]",
}


@pytest.mark.parametrize("case", CUT_OFF)
def test_a_matrix_without_its_last_rows_is_refused(case: str, tmp_path: Path) -> None:
    path = write_file(tmp_path, "m.csv", CUT_OFF[case])
    said = refused("score", path)
    says(said, "m.csv")
    assert "cut off" in said or "square" in said


def test_whole_matrices_with_names_or_last_delimiters_are_read() -> None:
    for text in (
        ",a,b\n0,.9,\n1,.5,.8\n",
        "after,a,b\n1,.9,\n2,.5,.8\n",
        ",7,9\n7,.9,\n9,.5,.8\n",
        ".9,.1,\n.5,.8,\n",
    ):
        found = parse_matrices(text.encode(), "m.csv")[0].fields["matrix"]
        assert (found.shape, found[1].tolist()) == ((2, 2), [0.5, 0.8])


def test_a_second_initial_score_is_refused(tmp_path: Path) -> None:
    text = POINTS.replace("0,,b,initial,0.1\n", "0,,b,initial,0.1\n0,,b,initial,0.9\n")
    path = write_file(tmp_path, "run/points.csv", text)
    says(refused("score", path), "line 4", "a second initial of 'b' at step 0")
    says(refused("score", path.parent), "line 4", "a second initial of 'b' at step 0")


@pytest.mark.parametrize("ours", [False, True])
def test_a_run_and_its_points_agree_on_a_last_line_without_end(ours: bool, tmp_path: Path) -> None:
    path = write_file(tmp_path, "run/points.csv", POINTS.rstrip("\n"))
    if ours:
        write_file(tmp_path, "run/run.json", "{}")
        write_file(tmp_path, "run/done.json", "{}")
    of_folder, of_file = (
        run("score", path.parent, "--format", "json"),
        run("score", path, "--format", "json"),
    )
    assert (of_folder.code, of_file.code) == (0, 0)
    assert json.loads(of_folder.out)["metrics"] == json.loads(of_file.out)["metrics"]
    assert json.loads(of_file.out)["metrics"]["acc"] == pytest.approx(0.7 if ours else 0.65)


@pytest.mark.parametrize("column", ["step", "kind", "score", "n"])
def test_one_cell_does_not_widen_a_column(column: str, tmp_path: Path) -> None:
    header = "step,trained,tested,kind,score,n"
    cells = dict(zip(header.split(","), ["5000", "a", "a", "probe", "0.5", "9"], strict=True))
    lines = [f"{step},a,a,probe,0.5,9" for step in range(1, 4000)]
    lines.append(",".join((cells | {column: "0" * 100_000}).values()))
    path = write_file(tmp_path, "points.csv", "\n".join([header, *lines, ""]))
    with pytest.raises(InputError, match="line 4001"):
        read_points(path.read_text(), "points.csv")
    tracemalloc.start()
    with pytest.raises(InputError):
        read_points(path.read_text(), "points.csv")
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("key", ["classes", "examples", "seed"])
def test_a_number_that_no_float_can_hold(key: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    said = json.loads((folder / "run.json").read_text())
    text = json.dumps(said | {key: ["HUGE", "HUGE"]}).replace('"HUGE"', "9" * 400)
    (folder / "run.json").write_text(text)
    says(refused("score", folder), "run.json", "a number is too long")
