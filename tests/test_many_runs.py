"""Thousands of runs through DuckDB: what each of them holds when it is read alone, and no more."""

import csv
import io
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure.record import InputError, open_run, read_input, read_points
from perdure.record.io.text import decode
from perdure.record.many import Runs, open_runs

HEADER = "step,trained,tested,kind,score,n\n"
LINES = "1,a,a,probe,.5,2\n2,a,a,full,.75,1000\n3,b,a,full,.25,1000\n3,b,b,full,.5,1000\n"
KINDS = ("initial", "probe", "full")
Row = tuple[Any, ...]


def run(
    folder: Path, lines: str = LINES, header: str = HEADER, *, state: str = "done", **said: Any
) -> Path:
    """Return a run folder: `done`, still `growing`, or `foreign` (without run.json)."""
    folder.mkdir(parents=True)
    (folder / "points.csv").write_bytes((header + lines).encode())
    if state != "foreign":
        (folder / "run.json").write_text(json.dumps(said))
    if state == "done":
        (folder / "done.json").write_text("{}")
    return folder


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def alone(folder: Path) -> list[Row]:
    """Return the points of one run as our own reader has them."""
    name = str(folder / "points.csv")
    ours = (folder / "run.json").exists()  # a last line of ours without a line end is cut off
    points = read_points(decode(Path(name).read_bytes(), name, growing=True), name, ours=ours)
    names = (*points.names, None)
    columns = zip(
        points.step.tolist(), points.trained, points.tested, points.kind,
        points.score.tolist(), points.n.tolist(), strict=True,
    )  # fmt: skip
    return [
        (str(folder), step, names[trained], names[tested], KINDS[kind], score, n or None)
        for step, trained, tested, kind, score, n in columns
    ]


def held(runs: Runs) -> set[str]:
    """Return the names of the runs that DuckDB does not read from their files."""
    rows = runs.query("SELECT DISTINCT file FROM held.points").fetchall()
    return {Path(file).parent.name for (file,) in rows}


def some_run(rng: random.Random) -> tuple[str, str]:
    """Return the lines of a run, with everything that a matrix may lack, and its state."""
    tasks = rng.sample(["1", "a, b", 'say "x"', "two\nlines", "ä☃", "t x", "NULL", "-"], 4)
    spans = tasks[: rng.randint(1, 4)] + ([tasks[0]] if rng.random() < 0.2 else [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    step = 0
    for place, trained in enumerate(spans):
        writer.writerow([step, trained, trained, "initial", rng.random(), 7])
        for _ in range(rng.randint(1, 3)):
            step += 1
            for tested in tasks[rng.choice([0, 0, 1]) : place + rng.randint(0, 2)]:
                n = rng.choice([5, 50, ""])
                writer.writerow([step, trained, tested, "probe", rng.random(), n])
        for tested in rng.choice([tasks[: place + 1]] * 3 + [[trained], tasks[1:3], []]):
            writer.writerow([step, trained, tested, "full", rng.random(), rng.choice([100, ""])])
    return text.getvalue(), rng.choice(["done", "growing", "foreign"])


def entries(folder: Path, finished_step: float) -> dict[tuple[str, str], Row]:
    """Return score, n and kind of R[i, j] by a plain loop over the lines up to a step."""
    best: dict[tuple[str, str], tuple[bool, int, Row]] = {}
    for _, step, trained, tested, kind, score, n in alone(folder):
        if kind == "initial" or step > finished_step:
            continue
        rank = (kind == "full", step, (score, n, kind))
        best[trained, tested] = max(best.get((trained, tested), rank), rank, key=lambda r: r[:2])
    return {cell: row for cell, (_, _, row) in best.items()}


def test_300_runs_say_what_each_says_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(4)
    folders = []
    for k in range(300):
        lines, state = some_run(rng)
        folders.append(run(tmp_path / f"run {k:03d}", lines, state=state))
    runs = open_runs(tmp_path / "*")
    assert (len(runs), list(runs), runs.skipped) == (300, folders, {})
    expected = [row for folder in folders for row in alone(folder)]
    assert ordered(runs.points.fetchall()) == ordered(expected)
    matrices: dict[str, dict[tuple[str, str], Row]] = {}
    for name, trained, tested, score, n, kind in runs.final().fetchall():
        matrices.setdefault(name, {})[trained, tested] = (score, n, kind)
    accs = {name: (tasks, acc) for name, tasks, acc in runs.acc().fetchall()}
    assert list(accs) == [str(folder) for folder in folders]
    seen: Counter[str] = Counter()
    for folder in folders:
        source = read_input(str(folder))
        tasks, acc = accs[str(folder)]
        if source.matrix is None:
            assert str(folder) not in matrices
            assert (tasks, acc) == (None, None)
            seen[source.no_matrix.split("' ")[-1]] += 1
            continue
        mine = matrices[str(folder)]
        names = source.matrix.tasks
        grid = [[mine.get((i, j), [np.nan])[0] for j in names] for i in names]
        np.testing.assert_equal(grid, source.matrix.scores)
        assert source.stream is not None
        reference = entries(folder, source.stream.spans[-1].last)
        assert mine == {cell: reference[cell] for cell in mine}
        assert list(dict.fromkeys(i for i, _ in mine)) == list(names)
        assert tasks == len(names)
        expected_acc = source.summary().metrics.get("acc")
        assert acc == (expected_acc and pytest.approx(expected_acc, rel=1e-12))
        seen["no acc" if acc is None else f"{len(names)} tasks"] += 1
        seen["unfinished"] += any("unfinished" in note for note in source.notes)
    reasons = ["was not tested while it was learned", "no acc", "unfinished"]
    reasons += ["returns: a score matrix learns every task once", "1 tasks", "2 tasks", "4 tasks"]
    assert min(seen[reason] for reason in reasons) > 5, seen  # the law was put to work
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("state", ["done", "growing", "foreign"])
def test_a_torn_last_line_is_left_out_wherever_it_is_torn(tmp_path: Path, state: str) -> None:
    last = '4,b,"a, é",probe,.25,1000\n'
    data = (HEADER + LINES + last).encode()
    for cut in range(len(last.encode()) + 1):
        folder = run(tmp_path / f"{cut:02d}", state=state)
        (folder / "points.csv").write_bytes(data[: len(data) - cut])
    runs = open_runs(tmp_path / "*")
    assert ordered(runs.points.fetchall()) == ordered([row for f in runs for row in alone(f)])
    counts = runs.query("SELECT run, count(*) FROM points GROUP BY run ORDER BY run").fetchall()
    for folder, (_, count) in zip(runs, counts, strict=True):
        for path in (folder, folder / "points.csv"):  # the same, however a run is named
            points = read_input(str(path)).points
            assert points is not None
            assert state == "growing" or len(points.step) == count
    torn = [note for note in runs.notes if "cut off" in note]
    if state == "foreign":  # another tool may end no last line; only a broken one is left out
        whole = 1 + len(",1000\n")  # the column n may be empty, or any number
        assert [count for _, count in counts] == [5] * (whole - 1) + [4] * (len(counts) - whole + 1)
        assert torn[0].startswith(f"{tmp_path / '06' / 'points.csv'}: the last line is cut off")
        return
    assert [count for _, count in counts] == [5] + [4] * (len(last.encode()))
    assert torn[0] == f"{tmp_path / '01' / 'points.csv'}: the last line is cut off and was left out"
    assert len(torn) == len(last.encode()) - 1  # without any of it, the file is whole


def test_a_writer_at_work_changes_nothing_that_was_opened(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", state="growing")
    runs = open_runs(folder)
    before = runs.points.fetchall()
    with (folder / "points.csv").open("a") as file:
        file.write("4,b,b,probe,.5,10")  # of 1000
    assert runs.points.fetchall() == before
    assert len(runs.acc().fetchall()) == 1
    assert runs.notes == ("1 of 1 runs are unfinished: held as they stood",)
    again = open_runs(folder)
    assert ordered(again.points.fetchall()) == ordered(before)
    assert "cut off" in again.notes[0]


def test_other_tools_files(tmp_path: Path) -> None:
    files = {
        "order": "score,tested,step\n.5,1,1\n.25,NULL,1\n",
        "no kind": "step,trained,tested,score,n\n1,,a,.5,\n2,,a,1,3\n",
        "blanks": " step , trained,tested ,score\n 1 , a,b , 5e-1 \n",
        "crlf": "step,trained,tested,score\r\n1,a,a,.5\r\n2,a,a,.5\r\n",
        "mac": "step,trained,tested,score\r1,a,a,.5\r2,a,a,.5\r",
        "mark": "\ufeffstep,tested,score\n1,a,0.1\n",
        "quoted": '"step","tested","score"\n1,"a ""b"", c\nd","0.5"\n\n2,""" ,",1\n',
        "odd quotes": 'step,tested,score\n1, "a",.5\n1,b"c,.5\n1,\t\'d,.5\n',
        "odd numbers": "step,tested,score\n007,a,+.5\n8,a,1.\n",
    }  # fmt: skip
    for name, text in files.items():
        folder = run(tmp_path / name, text, "", state="foreign")
        (folder / "points.csv").write_bytes(text.encode())
    runs = open_runs(tmp_path / "*")
    rows = {name: [row[1:] for row in alone(tmp_path / name)] for name in files}
    assert ordered([(str(tmp_path / n), *r) for n in files for r in rows[n]]) == ordered(
        runs.points.fetchall()
    )
    assert rows["order"] == [
        (1, None, "1", "probe", 0.5, None),
        (1, None, "NULL", "probe", 0.25, None),
    ]
    assert rows["no kind"][1] == (2, None, "a", "probe", 1.0, 3)
    assert rows["blanks"] == [(1, " a", "b ", "probe", 0.5, None)]
    assert [row[2] for row in rows["quoted"]] == ['a "b", c\nd', '" ,']
    assert [row[2] for row in rows["odd quotes"]] == [' "a"', 'b"c', "\t'd"]
    assert set(files) - held(runs) == {"order"}
    assert {name: acc for name, _, acc in runs.acc().fetchall()}[str(tmp_path / "order")] is None
    types = [str(type_) for type_ in runs.points.types]
    assert types == ["VARCHAR", "BIGINT", "VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE", "BIGINT"]


BROKEN = {
    "points.csv": {
        "step": "1.5,a,a,probe,.5,1\n",
        "step with _": "1_0,a,a,probe,.5,1\n",
        "fields": "9,a,a,probe,.5\n",
        "a field too many": "9,b,b,probe,.5,1,\n",
        "kind": "9,b,b,test,.5,1\n",
        "no kind": "9,b,b,,.5,1\n",
        "score": "9,b,b,probe,nan,1\n",
        "huge": "9,b,b,probe,1e400,1\n",
        "percent": "9,b,b,probe,50,1\n",
        "n": "9,b,b,probe,.5,0\n",
        "n with a point": "9,b,b,probe,.5,1.0\n",
        "nothing tested": "9,b,,probe,.5,1\n",
        "nothing trained": "9,,b,probe,.5,1\n",
        "twice": "3,b,b,full,.5,1\n",
        "two trained": "3,a,c,full,.5,1\n",
        "open quote": '9,b,"b,probe,.5,1\n',
        "letters after a quote": '9,b,"b"c,probe,.5,1\n',
        "blank after a quote": '9,b,"b" ,probe,.5,1\n',
        "NUL": "9,b,b\0,probe,.5,1\n",
        "blank line": " \n",
    },
    "costs.csv": {
        "twice": "task,model_bytes\na,1\na,2\n",
        "column": "task,money\na,1\n",
        "below 0": "task,model_bytes\na,-1\n",
    },
    "gradients.csv": {
        "norm": "step,trained,plasticity,stability\n1,a,.5,-1\n",
        "text": "step,trained,plasticity,stability\n1,a,x,1\n",
        "step": "step,trained,plasticity,stability\n1e1,a,1,1\n",
        "column": "step,trained,plasticity\n1,a,1\n",
        "column twice": "step,trained,plasticity,stability,step\n1,a,1,1,1\n",
    },
    "run.json": {"cut": '{"seed": 1', "a list": "[]", "setting": '{"setting": "new"}'},
}


@pytest.mark.parametrize(
    ("file", "case"), [(file, case) for file, cases in BROKEN.items() for case in cases]
)
def test_a_broken_line_is_named_by_file_and_line(tmp_path: Path, file: str, case: str) -> None:
    for name in "abc":
        run(tmp_path / name)
    text = BROKEN[file][case]
    (tmp_path / "b" / file).write_text(HEADER + LINES + text if file == "points.csv" else text)
    with pytest.raises(InputError) as found:
        open_runs(tmp_path / "*")
    assert str(found.value).startswith(str(tmp_path / "b" / file))
    assert "\n" not in str(found.value)
    with pytest.raises(InputError) as expected:
        open_run(tmp_path / "b")
    assert str(found.value) == str(expected.value)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    for file, head in (("gradients.csv", "step,trained,plasticity,stability"), ("points.csv", "")):
        data = (head or HEADER.strip()).encode() + b"\n1,\xff,.5,.5\n"
        (folder / file).write_bytes(data)
        with pytest.raises(InputError, match=rf"{file}: byte {data.index(255)} is not UTF-8"):
            open_runs(folder)


MESS = [
    '"', '""', ",", "\n", " ", "\r", "\r\n", "\0", "a", "0", ".", "-", "+", "e", "_", "nan", "\t",
    "\\", "#", "'", "é", "\ufeff", ",,", ",\n", '"\n', ' "', '" ', '"a"', "\xa0", "１", "\x0b",
]  # fmt: skip


def refused(folder: Path) -> str | None:
    try:
        alone(folder)
    except InputError as error:
        return str(error)
    return None


def test_a_mess_is_read_as_our_reader_reads_it_or_refused_as_it_refuses(tmp_path: Path) -> None:
    rng = random.Random(8)
    names = ["a", "1", "t x", '"a,b"', '"q""q"', '"l\nm"', "é"]
    good = []
    for k in range(80):
        text = HEADER + "".join(f"{i},a,{rng.choice(names)},probe,.5,10\n" for i in range(1, 4))
        at = rng.choice([rng.randrange(len(text)), text.rindex(",a,") + 3])
        text = text[:at] + rng.choice(MESS) + text[at + rng.randint(0, 1) :]
        folder = run(tmp_path / f"{k}", state="foreign")
        (folder / "points.csv").write_bytes(text.encode())
        refusal = refused(folder)
        if refusal is None:
            good.append(folder)
            continue
        with pytest.raises(InputError) as found:
            open_runs(folder)
        assert str(found.value) == refusal
    runs = open_runs(good)
    assert ordered(runs.points.fetchall()) == ordered([r for f in good for r in alone(f)])
    assert 15 < len(good) < 60
    assert 0 < len(held(runs)) < len(good) - 10


HOSTILE = [
    "it's", 'say "x"', "a b", "g*", "g?", "g[1]", "[!a]", "**", "step=90", "ü☃", "e\u0301",
    "two\nlines", "back\\slash", "\\[x]", "~", "s3:", "x.gz", "{a,b}", "$(x)", "%s", "-",
    "'; DROP TABLE held.files; --",
]  # fmt: skip


def test_any_name_of_a_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, name in enumerate(HOSTILE, start=1):
        run(tmp_path / "in" / name, f"{at},a,a,probe,.5,1\n")
    runs = open_runs(tmp_path / "in" / "*")
    expected = {(str(tmp_path / "in" / name), at) for at, name in enumerate(HOSTILE, start=1)}
    assert set(runs.query("SELECT run, step FROM points").fetchall()) == expected
    assert {name for name, _, _ in runs.acc().fetchall()} == {name for name, _ in expected}
    assert held(runs) == {name for name in HOSTILE if set(name) & set("*?[")}
    monkeypatch.chdir(tmp_path / "in")
    for at, name in enumerate(HOSTILE, start=1):
        assert open_runs(name).query("SELECT run, step FROM points").fetchall() == [(name, at)]
    near = open_runs("../in/*")
    monkeypatch.chdir("/")
    assert near.query("SELECT count(*), min(run) FROM points").fetchall() == [
        (len(HOSTILE), "../in/" + min(HOSTILE))
    ]


def test_what_is_no_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    run(tmp_path / "runs" / "good")
    run(tmp_path / "runs" / "begun", "", state="growing")
    run(tmp_path / "runs" / "torn", "1,a,a,pro", state="growing")
    run(tmp_path / "runs" / "unborn", "", "step,tra", state="growing")
    (tmp_path / "runs" / "empty").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("hello")
    runs = open_runs(str(tmp_path / "runs" / "*"))
    assert [folder.name for folder in runs] == ["good"]
    assert {Path(path).name: reason for path, reason in runs.skipped.items()} == {
        "begun": "no evaluations in its points.csv yet",
        "torn": "no evaluations in its points.csv yet",
        "unborn": "no evaluations in its points.csv yet",
        "empty": "no points.csv in it",
        "notes.txt": "not a folder",
    }
    assert repr(runs) == "Runs(1 folders, 5 skipped, 0 notes)"
    several: list[str | Path] = [
        tmp_path / "runs" / "good",
        f"{tmp_path}/runs/g*",
        f"{tmp_path}/**/points.csv",
    ]
    assert [folder.name for folder in open_runs(several)] == ["good"]


def test_nothing_found_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "runs" / "empty").mkdir(parents=True)
    for pattern, what in {
        f"{tmp_path}/none/*": f"'{tmp_path}/none/*': matches nothing",
        "": "'': matches nothing",
        f"{tmp_path}/runs": f"{tmp_path}/runs: no points.csv in it",
        f"{tmp_path}/r*/**": "in it (nor a run in 1 other matches)",
    }.items():
        with pytest.raises(InputError, match=r"expected run folders.*'runs/\*'") as found:
            open_runs(pattern)
        assert what in str(found.value)
    with pytest.raises(InputError, match=r"no run folders given, expected .*'runs/\*'"):
        open_runs([])


def test_without_duckdb_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        InputError, match=r"^duckdb is not installed.*pip install 'perdure\[train\]'$"
    ):
        open_runs(run(tmp_path / "run"))


def test_costs_gradients_and_descriptions(tmp_path: Path) -> None:
    first, second = run(tmp_path / "1", seed=3, name="ä"), run(tmp_path / "2", state="growing")
    other = run(tmp_path / "3", state="foreign")
    bare = open_runs(tmp_path / "*")
    assert bare.costs.fetchall() == bare.gradients.fetchall() == []
    assert bare.gradients.columns == ["run", "step", "trained", "plasticity", "stability"]
    assert bare.costs.columns[:3] == ["run", "task", "seconds_train"]
    (first / "costs.csv").write_text('data_bytes,task,seconds_train\n7,"a, b",\n8,b,1.5\n')
    (second / "costs.csv").write_text("task,data_bytes\na,1000\nb,20")
    (other / "costs.csv").write_text("task,data_bytes\n")
    norms = "step,trained,plasticity,stability\n1,a,0.5,\n2,1,1e-3,2\n"
    for folder in (first, second, other):
        (folder / "gradients.csv").write_text(norms + ("3,a,1,10" if folder == second else ""))
    runs = open_runs(tmp_path / "*")
    query = "SELECT run, task, seconds_train, data_bytes, peak_bytes FROM costs ORDER BY ALL"
    assert runs.query(query).fetchall() == [
        (str(first), "a, b", None, 7.0, None),
        (str(first), "b", 1.5, 8.0, None),
        (str(second), "a", None, 1000.0, None),
    ]
    expected = [
        row
        for folder in (first, second, other)
        for row in ((str(folder), 1, "a", 0.5, None), (str(folder), 2, "1", 0.001, 2.0))
    ]
    assert ordered(runs.gradients.fetchall()) == ordered(expected)
    assert [note.split(":")[0] for note in runs.notes if "cut off" in note] == [
        str(second / "costs.csv"),
        str(second / "gradients.csv"),
    ]
    assert runs.descriptions.columns == ["run", "finished", "description"]
    query = "SELECT finished, description->>'$.seed', description->>'$.name' FROM runs ORDER BY run"
    assert runs.query(query).fetchall() == [
        (True, "3", "ä"),
        (False, None, None),
        (None, None, None),
    ]


def test_norms_of_a_run_that_diverged(tmp_path: Path) -> None:
    for name, norms in {"1": "1,inf,1e400", "2": "1,nan,2", "3": "1,,0.5"}.items():
        folder = run(tmp_path / name)
        (folder / "gradients.csv").write_text(f"step,plasticity,stability\n{norms}\n")
    rows = open_runs(tmp_path / "*").query("SELECT * FROM gradients ORDER BY run").fetchall()
    assert [row[1:] for row in rows] == [
        (1, None, float("inf"), float("inf")),
        (1, None, None, 2.0),
        (1, None, None, 0.5),
    ]
    for folder, _, _, plasticity, stability in rows:
        alone = open_run(folder).gradients
        assert alone is not None
        expected = [np.nan if norm is None else norm for norm in (plasticity, stability)]
        np.testing.assert_equal([alone.plasticity[0], alone.stability[0]], expected)


def test_scores_have_the_scale_of_their_run(tmp_path: Path) -> None:
    lines = "1,a,a,probe,2.5,1\n"
    run(tmp_path / "loss", lines, scale={"low": 0, "lower_is_better": True})
    run(tmp_path / "accuracy", "1,a,a,probe,.5,1\n")
    runs = open_runs(tmp_path / "*")
    assert [acc for _, _, acc in runs.acc().fetchall()] == [0.5, 2.5]
    assert held(runs) == set()
    endless = run(tmp_path / "endless", lines + "2,a,a,probe,1e400,1\n", scale={"low": 0})
    with pytest.raises(InputError, match=r"endless/points.csv line 3: score is '1e400'"):
        open_runs(endless)
    (endless / "points.csv").unlink()
    run(tmp_path / "percent", lines)
    with pytest.raises(
        InputError, match=r"percent/points.csv line 2: score is 2.5, expected 0 to 1"
    ):
        open_runs(tmp_path / "*")


def test_whole_files_are_left_to_duckdb_and_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()
    plain_open = os.open

    def counted(path: Any, *args: Any, **options: Any) -> int:
        opened[str(path)] += 1
        return plain_open(path, *args, **options)

    first = '0,a,a,initial,.1,5\n0,b,b,initial,.1,5\n1,b,b,initial,.1,""\n'
    for k in range(20):
        run(tmp_path / f"{k}", first + LINES, state="done" if k % 2 else "foreign")
    monkeypatch.setattr(os, "open", counted)
    runs = open_runs(tmp_path / "*")
    assert runs.query("SELECT count(*) FROM points").fetchall() == [(140,)]
    assert set(opened.values()) == {1}
    assert len(opened) == 30
    assert held(runs) == set()
