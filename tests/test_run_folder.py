"""Run folders: whole, unfinished, torn at any byte, and folders that are none."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

import perdure
from perdure.metrics import min_acc
from perdure.record import InputError, InputOptions, read_input

HEADER = "step,trained,tested,kind,score,n\n"
TASK_A = "0,a,a,initial,.1,4\n1,a,a,probe,.5,2\n2,a,a,probe,.7,2\n2,a,a,full,.75,4\n"
TASK_B = """\
2,b,b,initial,.2,4
3,b,a,probe,.25,2
3,b,b,probe,.5,2
4,b,a,probe,.5,2
4,b,b,probe,.75,2
4,b,a,full,.55,4
4,b,b,full,.85,4
"""
COSTS = "task,model_bytes,stored_bytes,data_bytes\na,100,0,50\nb,200,0,50\n"


def run(folder: Path, points: str = TASK_A + TASK_B, *, done: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "points.csv").write_bytes((HEADER + points).encode())
    (folder / "run.json").write_text(json.dumps({"setting": "class", "classes": [2, 3]}))
    if done:
        (folder / "done.json").write_text("{}")
    return folder


def test_a_whole_run(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    (folder / "costs.csv").write_text(COSTS)
    (folder / "gradients.csv").write_text("step,trained,plasticity,stability\n")
    found = read_input(str(folder))
    assert found.matrix is not None
    assert found.stream is not None
    assert found.costs is not None
    assert found.matrix.tasks == ("a", "b")
    np.testing.assert_equal(found.matrix.scores, [[0.75, np.nan], [0.55, 0.85]])
    assert found.matrix.setting == "class"
    assert found.matrix.classes is not None
    assert found.matrix.classes.tolist() == [2, 3]
    assert found.costs.column("model_bytes").tolist() == [100, 200]
    assert found.notes == []
    assert min_acc(found.stream) == 0.25
    summary = perdure.summary(found.matrix, stream=found.stream, costs=found.costs)
    assert summary.metrics["acc"] == pytest.approx(0.7)
    assert summary.metrics["raa"] == pytest.approx(0.7)
    assert summary.metrics["ms"] == 0.75


def test_only_points_are_needed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder)
    (folder / "run.json").unlink()
    found = read_input(str(folder))
    assert found.matrix is not None
    assert (found.matrix.setting, found.matrix.classes) == (None, None)
    assert (found.costs, found.per_example) == (None, {})


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no points\.csv in it, expected a run folder or a file"):
        read_input(str(tmp_path))
    with pytest.raises(InputError, match="nothing: no such file"):
        read_input(str(tmp_path / "nothing"))
    (tmp_path / "points.csv").mkdir()
    with pytest.raises(InputError, match=r"points\.csv: a folder, expected a regular file"):
        read_input(str(tmp_path))


def test_an_unfinished_run_is_scored_over_its_finished_tasks(tmp_path: Path) -> None:
    begun = "".join(TASK_B.splitlines(keepends=True)[:4])  # b has begun, and was probed
    found = read_input(str(run(tmp_path / "run", TASK_A + begun, done=False)))
    assert found.matrix is not None
    assert found.stream is not None
    assert found.matrix.tasks == ("a",)
    assert found.matrix.scores.tolist() == [[0.75]]
    assert found.matrix.classes is not None
    assert found.matrix.classes.tolist() == [2]
    assert found.stream.spans == (("a", 2),)
    assert found.stream.grid.tolist() == [1, 2]
    assert any("unfinished" in note and "1 finished task" in note for note in found.notes)


def test_a_task_begun_but_not_finished_is_not_called_never_trained(tmp_path: Path) -> None:
    begun = "".join(TASK_B.splitlines(keepends=True)[:4])
    found = read_input(str(run(tmp_path / "run", TASK_A + begun, done=False)))
    assert found.matrix is not None
    assert not any("never trained" in note for note in found.matrix.notes)


def test_an_unfinished_run_between_two_tasks(tmp_path: Path) -> None:
    found = read_input(str(run(tmp_path / "run", TASK_A + TASK_B, done=False)))
    assert found.matrix is not None
    assert found.matrix.tasks == ("a", "b")
    assert any("unfinished" in n and "2 finished tasks" in n.replace("(s)", "s")
               for n in found.notes)  # fmt: skip


def test_a_task_whose_last_evaluation_is_not_complete_has_not_finished(tmp_path: Path) -> None:
    """Killed between the lines on a and on b at the end of b: b itself is not there yet."""
    points = "1,a,a,full,.75,4\n2,b,a,full,.55,4\n"
    found = read_input(str(run(tmp_path / "run", points, done=False)))
    assert found.matrix is not None, found.no_matrix
    assert found.matrix.tasks == ("a",)


def test_a_task_that_another_one_followed_has_finished(tmp_path: Path) -> None:
    """Nothing was tested whole, but training went on to b: a is finished, b is not."""
    points = "1,a,a,probe,.5,2\n2,a,a,probe,.7,2\n3,b,a,probe,.6,2\n3,b,b,probe,.1,2\n"
    found = read_input(str(run(tmp_path / "run", points, done=False)))
    assert any("unfinished" in note for note in found.notes)
    assert found.matrix is not None, found.no_matrix
    assert found.matrix.tasks == ("a",)
    assert found.matrix.scores.tolist() == [[0.7]]


def test_an_unfinished_run_in_its_first_task(tmp_path: Path) -> None:
    found = read_input(str(run(tmp_path / "run", "1,a,a,probe,.5,2\n", done=False)))
    assert found.matrix is None
    assert "no task has ended" in found.no_matrix
    assert any("unfinished" in note for note in found.notes)


@pytest.mark.parametrize("name", ["b", '"b, with a comma"', "bé数", '"say ""b"""'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("direct", [True, False])
def test_a_last_line_torn_at_any_byte_is_left_out(
    tmp_path: Path, name: str, end: str, direct: bool
) -> None:
    """A whole last line without its end may be a number cut short: ours always end theirs."""
    whole = (HEADER + TASK_A).replace("\n", end).encode()
    last = f"3,a,{name},probe,.125,200{end}".encode()
    folder = run(tmp_path / "run")
    path = folder / "points.csv"
    for cut in range(len(last)):
        path.write_bytes(whole + last[:cut])
        found = read_input(str(path if direct else folder))
        assert found.stream is not None
        assert found.stream.names == ("a",), last[:cut]
        assert found.stream.grid.tolist() == [1, 2]
        said = [note for note in found.notes if "the last line is cut off" in note]
        assert len(said) == (cut > 0), last[:cut]
        assert all("points.csv" in note for note in said)
    path.write_bytes(whole + last)
    found = read_input(str(folder))
    assert found.stream is not None
    assert found.stream.grid.tolist() == [1, 2, 3]
    assert not any("cut off" in note for note in found.notes)


def test_a_line_torn_in_the_middle_is_an_error(tmp_path: Path) -> None:
    broken = TASK_A.replace("1,a,a,probe,.5,2\n", "1,a,a,pro\n")
    with pytest.raises(InputError, match=r"points\.csv line 3: 4 fields, expected 6"):
        read_input(str(run(tmp_path / "run", broken)))


def test_a_run_killed_at_any_byte_keeps_its_finished_tasks(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", TASK_A, done=False)
    path = folder / "points.csv"
    for cut in range(len(TASK_B) - 1):
        path.write_text(HEADER + TASK_A + TASK_B[:cut])
        found = read_input(str(folder))
        assert found.matrix is not None, TASK_B[:cut]
        assert found.matrix.scores[0, 0] == 0.75
        assert found.matrix.tasks[0] == "a"


def test_the_last_line_of_costs_torn_at_any_byte_is_left_out(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    whole = COSTS.index("b,")
    for cut in range(whole, len(COSTS)):
        (folder / "costs.csv").write_text(COSTS[:cut])
        found = read_input(str(folder))
        assert found.costs is None  # of one task they would say something else
        assert any("costs of 1 task, expected 2" in note for note in found.notes)
        assert any("costs.csv" in note and "cut off" in note for note in found.notes) == (
            cut > whole
        )


def test_costs_torn_in_their_first_line_lose_no_scores(tmp_path: Path) -> None:
    """Readers come at any time: also before the first task's costs are written."""
    folder = run(tmp_path / "run", TASK_A, done=False)
    for cut in range(COSTS.index("\n") + 1, COSTS.index("b,") - 1):
        (folder / "costs.csv").write_text(COSTS[:cut])
        found = read_input(str(folder))
        assert found.matrix is not None
        assert found.costs is None or found.costs.tasks == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", ""),
        ("[1]", ""),
        ("[" * 100_000, ""),
        ('{"setting": "tasks"}', "setting"),
        ('{"setting": 3}', "setting"),
        ('{"classes": [2]}', "class"),
        ('{"classes": [2, 0]}', "class"),
        ('{"classes": [2, "many"]}', "class"),
        ('{"classes": [2, {}]}', "class"),
        ('{"classes": 2}', "class"),
    ],
    ids=lambda text: text[:24],
)
def test_a_broken_description_names_its_file(tmp_path: Path, text: str, what: str) -> None:
    folder = run(tmp_path / "run")
    (folder / "run.json").write_text(text)
    with pytest.raises(InputError, match=rf"run\.json.*{what}"):
        read_input(str(folder))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    (folder / "costs.csv").write_text(COSTS)
    for name, place in (
        ("points.csv", ": byte 20 "),
        ("run.json", ""),
        ("costs.csv", ": byte 20 "),
    ):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(kept[:20] + b"\xff" + kept[20:])
        with pytest.raises(InputError, match=name + place):
            read_input(str(folder))
        (folder / name).write_bytes(kept)


PLAIN = HEADER + TASK_A
QUOTED = "".join(
    ",".join(f'"{field}"' for field in line.split(",")) + "\n" for line in PLAIN.splitlines()
)


@pytest.mark.parametrize(
    "text",
    [PLAIN, "\ufeff" + PLAIN, PLAIN.replace("\n", "\r\n"), PLAIN[:-1], QUOTED],
    ids=["plain", "byte order mark", "windows", "no last line end", "all quoted"],
)
def test_points_from_other_tools(tmp_path: Path, text: str) -> None:
    path = tmp_path / "points.csv"
    path.write_bytes(text.encode())
    for found in (read_input(str(path)), read_input("-", pipe=io.BytesIO(text.encode()))):
        assert found.matrix is not None
        assert found.matrix.scores.tolist() == [[0.75]]
        assert found.notes == []


def test_a_foreign_last_line_is_left_out_only_if_it_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(HEADER + TASK_A + "3,a,a,probe,.5")
    found = read_input(str(path))
    assert found.stream is not None
    assert found.stream.grid.tolist() == [1, 2]
    assert any("the last line is cut off" in note for note in found.notes)


def test_what_is_given_beside_a_file(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    (tmp_path / "costs.csv").write_text(COSTS)
    given = InputOptions(setting="task", classes=[4, 4], subsample=2)
    found = read_input(str(folder / "points.csv"), given, costs=tmp_path / "costs.csv")
    assert found.matrix is not None
    assert found.stream is not None
    assert found.costs is not None
    assert found.matrix.setting == "task"
    assert found.matrix.classes is not None
    assert found.matrix.classes.tolist() == [4, 4]
    assert found.stream.grid.tolist() == [2, 4]
    assert found.costs.tasks == ("a", "b")
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        read_input(str(folder), costs=tmp_path / "missing.csv")


def test_a_run_whose_task_returns_has_a_stream_and_a_reason(tmp_path: Path) -> None:
    points = TASK_A + TASK_B + "5,a,a,full,.6,4\n5,a,b,full,.5,4\n"
    found = read_input(str(run(tmp_path / "run", points)))
    assert found.matrix is None
    assert "task 'a' returns" in found.no_matrix
    assert found.stream is not None
    assert min_acc(found.stream) == 0.5


def test_the_documented_query_has_acc_of_every_run(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    for name in ("one", "two"):
        run(tmp_path / name)
    formats = Path(__file__).parent.parent / "docs" / "formats.md"
    query = formats.read_text().partition('duckdb.sql("""')[2].partition('"""')[0]
    rows = duckdb.sql(query.replace("runs/*", f"{tmp_path}/*")).fetchall()
    assert rows == [("one", pytest.approx(0.7)), ("two", pytest.approx(0.7))]
