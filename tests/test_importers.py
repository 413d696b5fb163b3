"""`perdure import`: the command and the function, whichever reader; folders are written whole."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Literal

import pytest

import perdure
from perdure.importers import READERS, Evaluation, ImportedRun, choose_reader, recognize_path
from perdure.importers.imported import ONLY_ENDS, write_run
from perdure.importers.reading import load_reader, write_runs

from .cli_helpers import refused, run, says

FIXTURES = Path(__file__).parent / "fixtures" / "import"
VERBS: tuple[Literal["read", "recognize"], ...] = ("read", "recognize")
ICARL = FIXTURES / "pycil" / "icarl.log"


def two_tasks(**fields: object) -> ImportedRun:
    evaluations = [
        Evaluation(1, "a", "a", 0.75),
        Evaluation(2, "b", "a", 0.5),
        Evaluation(2, "b", "b", 1.0),
    ]
    return ImportedRun(tool="toy", **({"evaluations": evaluations} | fields))  # type: ignore[arg-type]


def test_every_reader_has_its_functions_and_is_listed() -> None:
    listed = run("import", "--list").out
    for name, reader in READERS.items():
        path, _, suffix = reader.module.partition(":")
        module = import_module(f"perdure.importers.{path}")
        assert module.__doc__
        for verb in VERBS:
            function = load_reader(name, verb)
            assert callable(function), name
            assert function.__module__ == module.__name__, name
            assert function.__name__ == (f"{verb}_{suffix}" if suffix else verb), name
        says(listed, name, reader.tool)
    assert json.loads(run("import", "--list", "--format", "json").out)["readers"].keys() == (
        READERS.keys()
    )


def test_no_reader_takes_another_tools_file_for_its_own() -> None:
    for path in sorted(FIXTURES.glob("*/*")):
        if path.is_file() and path.suffix != ".json":
            assert len(recognize_path(path)) <= 1, (path, recognize_path(path))
    for folder in ("pycil", "continuum"):
        assert recognize_path(FIXTURES / folder / "none.txt") == {}


def test_auto_says_why_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    answer = run("import", "auto", ICARL, "-o", tmp_path / "x")
    assert answer.code == 0
    says(answer.err, "is read as PyCIL, PILOT (pycil)", "trainer.py")
    looked = run("import", "auto", ICARL)
    assert looked.code == 0
    says(looked.out, "is read as PyCIL", f"next: perdure import pycil {ICARL} -o runs/pycil")
    unknown = tmp_path / "notes.txt"
    unknown.write_text("nothing of the kind\n")
    says(refused("import", "auto", unknown), "not recognized", "pycil")
    says(refused("import", "auto", tmp_path / "none"), "no such file or folder")
    says(refused("import", "auto"), "nothing to import")
    mixed = [ICARL, FIXTURES / "clarena" / "acc.csv"]
    says(refused("import", "auto", *mixed), "not all are results of one tool", "clarena, pycil")


@pytest.mark.parametrize("name", ["avalanche", "pycil", "mammoth", "facil", "clarena", "renate"])
def test_folders_are_recognized_by_a_file_in_them(name: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / name, tmp_path / "deep" / "er" / name)
    reasons = recognize_path(tmp_path)
    assert list(reasons) == [name]
    says(reasons[name], f"it contains deep/er/{name}/")


def test_an_ambiguous_file_is_refused_with_the_candidates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(READERS, "other", READERS["pycil"])
    with pytest.raises(ValueError, match=r"could be .*pycil \(.*; other \(.*name the reader"):
        choose_reader([ICARL])


def test_an_existing_run_is_replaced_only_by_force(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    arguments = ("import", "pycil", ICARL, "--metric", "nme", "-o", folder)
    assert run(*arguments).code == 0
    before = (folder / "points.csv").read_text()
    says(refused(*arguments), "exists already", "--output", "--force")
    says(refused("import", "pycil", ICARL, "--metric", "cnn", "-o", folder), "exists already")
    assert (folder / "points.csv").read_text() == before
    answer = run("import", "pycil", ICARL, "--metric", "cnn", "-o", folder, "--force")
    assert answer.code == 0
    assert (folder / "points.csv").read_text() != before
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_is_not_a_run_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for force in ((), ("--force",)):
        answer = refused(
            "import", "pycil", ICARL, "--metric", "nme", "-o", tmp_path / "mine", *force
        )
        says(answer, "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    file = tmp_path / "file"
    file.write_text("x")
    refused("import", "pycil", ICARL, "--metric", "nme", "-o", file, "--force")
    assert file.read_text() == "x"


def test_a_run_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    back = [Evaluation(2, "a", "a", 0.5), Evaluation(1, "b", "a", 0.5)]
    with pytest.raises(ValueError, match=r"toy: step is 1 after step 2"):
        write_run(two_tasks(evaluations=back), tmp_path / "x")
    bad = [Evaluation(1, "a", "a", 75.0)]
    with pytest.raises(ValueError, match=r"log.txt: score .* expected"):
        write_run(two_tasks(evaluations=bad, files=[Path("log.txt")]), tmp_path / "x")
    with pytest.raises(ValueError, match="no evaluation found"):
        write_run(two_tasks(evaluations=[]), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_several_runs_become_folders_of_their_own_below_the_output(tmp_path: Path) -> None:
    runs = [two_tasks(label=label) for label in ("../../seed 1", "seed 2", "seed 2", "")]
    folders = write_runs(runs, tmp_path / "x")
    assert [folder.name for folder in folders] == ["seed-1", "seed-2-1", "seed-2-2", "run3"]
    assert {folder.parent for folder in folders} == {tmp_path / "x"}
    assert len(perdure.list_runs(tmp_path / "x")) == 4
    (tmp_path / "y" / "run1").mkdir(parents=True)
    (tmp_path / "y" / "run1" / "mine").touch()
    with pytest.raises(ValueError, match=r"run1: exists already"):
        write_runs([two_tasks(), two_tasks()], tmp_path / "y")
    assert not (tmp_path / "y" / "run0").exists()


def test_the_user_describes_the_run(tmp_path: Path) -> None:
    answer = run(
        "import", "pycil", ICARL, "--metric", "nme", "-o", tmp_path / "x", "--seed", "5",
        "--config", "strategy=mine", "--config", "lr=0.5", "--format", "json",
    )  # fmt: skip
    (entry,) = json.loads(answer.out)["runs"]
    assert (entry["config"]["seed"], entry["config"]["strategy"]) == (5, "mine")
    assert entry["config"]["lr"] == 0.5
    metadata = json.loads((tmp_path / "x" / "run.json").read_text())
    assert metadata["config"] == entry["config"]
    assert metadata["imported"] == {"tool": "PyCIL", "version": None, "files": [str(ICARL)]}
    assert metadata["notes"] == entry["notes"]
    assert (tmp_path / "x" / "done.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pycli", ICARL, "-o", "x"], "did you mean pycil"),
        ([], "nothing to import"),
        (["pycil", "-o", "x"], "nothing to import; name files"),
        (["pycil", ICARL], "--output is missing"),
        (["pycil", "none.log", "-o", "x"], "none.log: no such file"),
        (["pycil", ICARL, "-o", "x", "--control", "00-09"], "which is trained"),
        (["pycil", ICARL, "-o", "x", "--control", "mmlu"], "which is not evaluated; tasks: 00-09"),
        (["pycil", ICARL, "-o", "x", "--order", "a,,b"], "--order is 'a,,b'"),
        (["pycil", ICARL, "-o", "x", "--config", "lr"], "--config has 'lr'"),
        (["pycil", ICARL, "-o", "x", "--metric", "svm"], "no run of 'svm' found"),
        (["continuum", ICARL, "-o", "x"], "perdure.import_results(OBJECT"),
    ],
)
def test_mistakes_have_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    says(refused("import", *arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_the_function_returns_the_runs(tmp_path: Path) -> None:
    (nme,) = perdure.import_results("auto", ICARL, output=tmp_path / "x", metric="nme")
    assert perdure.score(nme.folder).metrics["acc"] == pytest.approx((0.20 + 0.34 + 0.17) / 3)
    with pytest.raises(TypeError, match="type int, expected the name of a reader"):
        perdure.import_results(3, output=tmp_path / "y")
    with pytest.raises(ValueError, match="paths is not used"):
        perdure.import_results(object(), ICARL, output=tmp_path / "y")


def test_a_run_that_was_evaluated_at_ends_only_says_so(tmp_path: Path) -> None:
    perdure.import_results("pycil", ICARL, output=tmp_path / "x", metric="nme")
    assert ONLY_ENDS in perdure.score(tmp_path / "x").notes
