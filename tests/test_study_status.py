"""What `perdure study` says of a study: done, failed, running, waiting, undecided, chosen."""

from __future__ import annotations

import json
import re
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from perdure import execution, studies
from perdure.cli._progress import StudyProgressView
from perdure.record import RunWriter
from perdure.report.live.store_watcher import StoreWatcher
from perdure.studies import read_study

from .cli_helpers import Answer, refused, run, says, strict, write
from .study_helpers import Failure, Fake, Scores, flat, table_of
from .test_latex import check_latex

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.execution import Job, RunEvent
    from perdure.training import RunConfig

TEXT = """
about = "does it matter?"
scenarios = ["split-digits"]
strategies = ["naive", "ewc"]
seeds = 3
[strategy.ewc]
grid.strength = [1, 2]
"""


def answer(config: RunConfig) -> Scores | Failure:
    """Return 0.7, 0.75, 0.8 of naive by seed, and 0.1 more of ewc for each unit of strength."""
    more = 0.1 * config.options.get("strength", 0)
    return flat(0.5 + 0.05 * config.seed + more)


def broken(config: RunConfig) -> Scores | Failure:
    return Failure("the loss\nis nan") if config.seed == 1 else answer(config)


class Bench:
    """A study's file and store, and the command about them with a fake executor."""

    def __init__(self, folder: Path, text: str = TEXT) -> None:
        self.file, self.store = write(folder, "mine.toml", text), folder / "store"

    def told(self, command: str, *options: str) -> Answer:
        return run("study", command, self.file, "--store", self.store, *options)

    def run(self, fake: Fake, *options: str) -> Answer:
        with patch.object(execution, "run_serially", fake):
            return self.told("run", "--serial", *options)

    def status(self) -> dict[str, Any]:
        found = self.told("status", "--format", "json")
        assert (found.code, found.err) == (0, "")
        return strict(found.out)

    def report(self) -> dict[str, Any]:
        found = self.told("report", "--format", "json")
        assert (found.code, found.err) == (0, "")
        return strict(found.out)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def of(values: list[float]) -> str:
    return f"{mean(values):.3f} ± {stdev(values):.3f}"


def test_a_study_that_has_not_begun(bench: Bench) -> None:
    said = {
        "total": 8, "done": 0, "searched": 0, "failed": {}, "running": [], "waiting": 8,
        "undecided": 1,
    }  # fmt: skip
    assert bench.status() == said  # three of naive, two of ewc's search, three of its choice
    says(bench.told("status").out, "mine: 0 of 8 runs done", "8 waiting", "1 of 2 cells wait")
    found = bench.told("report")
    assert found.code == 0
    says(found.out, "0 of 3", "not finished: 8 runs", "not met: three seeds or more")
    assert not bench.store.exists()


def test_a_study_that_is_done(bench: Bench) -> None:
    found = bench.run(Fake(answer))
    assert found.code == 0
    said = {
        "total": 8, "done": 8, "searched": 2, "failed": {}, "running": [], "waiting": 0,
        "undecided": 0,
    }  # fmt: skip
    assert bench.status() == said
    done = "mine: 8 of 8 runs done (2 of them in the search), 0 running, 0 failed, 0 waiting"
    says(bench.told("status").out, done)
    again = bench.told("report")
    assert again == Answer(0, found.out, "")  # what `run` printed at its end
    says(found.out, "mine: does it matter?", "split-digits, class-incremental, mlp")
    says(
        found.out, "selected by acc on validation data:\n  split-digits class mlp ewc: strength = 2"
    )
    says(found.out, "not met: naive and joint", "no joint", "met: hyperparameters are not selected")
    assert "failed" not in found.out
    assert "not finished" not in found.out


@pytest.mark.parametrize(
    "more",
    [
        "",
        '[select]\non = "test"\n',
        "[variant.a]\n[variant.b]\n",
        "[variant.a]\n[variant.b]\nlr = 1\n",
    ],
)
@pytest.mark.parametrize("how", [answer, broken])
def test_at_any_time_the_states_of_all_runs_add_up(tmp_path: Path, more: str, how: Any) -> None:
    bench, seen = Bench(tmp_path, TEXT + more), []

    def check() -> None:
        status = bench.status()
        states = [status["done"], len(status["running"]), len(status["failed"]), status["waiting"]]
        assert sum(states) == status["total"]
        found = re.search(
            r"(\d+) of (\d+) runs done.*, (\d+) running, (\d+) failed, (\d+) waiting",
            bench.told("status").out,
        )
        assert found is not None
        done, total, *others = map(int, found.groups())
        assert [done, *others] == states
        assert done + sum(others) == total
        seen.append(total)

    def asked(config: RunConfig) -> Any:
        check()
        if (bench.store / "mine.study.json").exists():
            (study,) = StoreWatcher(bench.store).studies
            assert study.done + study.running + study.failed + study.waiting == seen[-1]
        return how(config)

    said = []
    with patch.object(
        StudyProgressView, "_draw", lambda view, update_tables: said.append(view._status())
    ):
        bench.run(Fake(asked))
    check()
    assert len(set(seen)) == 1  # nor do runs come and go
    for line in said:
        numbers = [
            int(n) for n in re.findall(r"(\d+)(?= (?:of|runs|running|failed|waiting))", line)
        ]
        done, total, *others = numbers
        assert done + sum(others) == total == seen[0]


def test_numbers_of_every_form(bench: Bench) -> None:
    bench.run(Fake(answer))
    naive, ewc = [0.5, 0.55, 0.6], [0.7, 0.75, 0.8]
    rows = table_of(bench.told("report", "--format", "csv").out)
    assert [(row["strategy"], row["seeds"], row["acc"]) for row in rows] == [
        ("naive", "3 of 3", of(naive)), ("ewc", "3 of 3", of(ewc)),
    ]  # fmt: skip
    assert [row["bwt"] for row in rows] == ["0.000 ± 0.000"] * 2
    assert [(row["train s"], row["peak MB"]) for row in rows] == [("3", "3")] * 2  # 2, 3 and 4 s
    text = bench.told("report").out
    assert re.search(rf"^naive +3 of 3 +{of(naive)} ", text, re.MULTILINE)
    assert re.search(rf"^ewc +3 of 3 +{of(ewc)} ", text, re.MULTILINE)
    lines = bench.told("report", "--format", "markdown").out.splitlines()
    (line,) = [k for k, line in enumerate(lines) if line.startswith("| ewc | 3 of 3 |")]
    assert f"| {of(ewc)} |" in lines[line]
    assert lines[line + 1] == ""  # else the next line would be a row
    assert "- met: hyperparameters are not selected on the test set" in lines
    latex = bench.told("report", "--format", "latex").out
    assert f"ewc & 3 of 3 & {of(ewc)} &".replace("±", r"$\pm$") in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\bottomrule") == 1


def test_latex_headings_are_symbols_or_ids(bench: Bench) -> None:
    bench.run(Fake(answer))
    told = ("report", "--format", "latex", "--metrics", "acc,bwt,forgetting.best")
    heading, *rows = check_latex(bench.told(*told).out)
    symbols = [rf"$\mathrm{{{symbol}}}$" for symbol in ("ACC", "BWT", "AF")]
    assert heading[:5] == ["strategy", "seeds", *symbols]
    assert [row[0] for row in rows] == ["naive", "ewc"]
    ids = check_latex(bench.told(*told, "--ids").out)
    assert ids[0][:5] == ["strategy", "seeds", "acc", "bwt", "forgetting.best"]
    assert ids[1:] == rows


def test_notes_on_a_study_are_printed_where_it_runs(bench: Bench) -> None:
    text = bench.file.read_text().replace('"naive"', '"finetune"')
    bench.file.write_text(text)
    assert "finetune means naive" in bench.run(Fake(answer)).err
    for command in ("status", "report"):
        assert bench.told(command).err == ""


def test_the_json_report(bench: Bench) -> None:
    bench.run(Fake(answer))
    said = bench.report()
    cells = [(cell["strategy"], cell["seeds"], cell["selected"]) for cell in said["cells"]]
    assert cells == [("naive", 3, ""), ("ewc", 3, "strength = 2")]
    found = [[each["metrics"]["acc"] for each in cell["runs"]] for cell in said["cells"]]
    assert found[0] == pytest.approx([0.5, 0.55, 0.6])
    assert found[1] == pytest.approx([0.7, 0.75, 0.8])
    assert (said["failed"], said["waiting"], said["undecided"]) == ({}, [], [])
    assert strict(bench.run(Fake(answer), "--format", "json").out) == said


def test_only_some_metrics(bench: Bench) -> None:
    bench.run(Fake(answer))
    (first, _) = table_of(
        bench.told("report", "--format", "csv", "--metrics", "forgetting.best,acc").out
    )
    assert list(first) == ["strategy", "seeds", "forgetting.best", "acc", "train s", "peak MB"]
    says(refused("study", "report", bench.file, "--metrics", "ac"), "'ac'", "did you mean acc")
    twice = refused("study", "report", bench.file, "--format", "csv", "--format", "latex")
    says(twice, "--format", "given twice")


def test_a_study_in_which_runs_have_failed(bench: Bench) -> None:
    found = bench.run(Fake(broken))
    assert found.code == 1
    names = [path.parent.name for path in bench.store.rglob("failed.json")]
    assert len(names) == 2
    for name in names:
        says(found.err, f"{name} failed: the loss is nan\n")
        says(found.out, f"  {name}: the loss is nan\n")
        says(bench.told("status").out, f"failed: {name}: the loss is nan\n")
    status = bench.status()
    assert (status["done"], status["waiting"], sorted(status["failed"])) == (6, 0, sorted(names))
    assert sorted(bench.report()["failed"]) == sorted(names)
    rows = table_of(bench.told("report", "--format", "csv").out)
    assert [(row["seeds"], row["acc"]) for row in rows] == [
        ("2 of 3", of([0.5, 0.6])), ("2 of 3", of([0.7, 0.8])),
    ]  # fmt: skip
    says(bench.told("report").out, "not met: three seeds or more: split-digits class mlp naive has")
    assert bench.run(Fake(answer)).code == 1  # it is not tried again
    assert bench.run(Fake(answer), "--retry-failed").code == 0
    assert bench.status()["failed"] == {}


def test_a_study_that_was_interrupted(bench: Bench) -> None:
    def stopped(config: RunConfig) -> Any:
        return KeyboardInterrupt() if len(fake.began) == 4 else answer(config)

    fake = Fake(stopped)
    found = bench.run(fake)
    assert (found.code, found.out) == (130, "")
    says(found.err, "interrupted; 4 runs finished. The same command resumes the study")
    status = bench.status()
    assert (status["done"], status["searched"], status["waiting"]) == (4, 1, 4)
    assert status["undecided"] == 1
    says(bench.told("report").out, "3 of 3", "0 of 3", "not finished: 4 runs")
    assert bench.run(Fake(answer)).code == 0
    assert bench.status()["done"] == 8


def test_a_search_whose_every_point_fails_says_so_and_ends_with_1(bench: Bench) -> None:
    def none(config: RunConfig) -> Scores | Failure:
        return Failure("nan") if config.strategy == "ewc" else answer(config)

    found = bench.run(Fake(none))
    assert found.code == 1
    says(found.out, "split-digits class mlp ewc: no grid point has a score", "0 of 3")


def test_a_search_in_which_nothing_is_defined_ends_with_1(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TEXT + '[select]\nmetric = "bwt"\n')
    found = bench.run(Fake(lambda _: Scores(0.5, 0.5)))
    assert found.code == 1
    says(found.out, "no grid point has a score", "by bwt")
    assert "failed" not in found.out


def test_a_choice_on_the_test_set_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TEXT + '[select]\non = "test"\n')
    found = bench.run(Fake(answer))
    says(found.out, "selected by acc on the test set:", "not met: hyperparameters are not selected")
    assert bench.status()["searched"] == 1  # the other point's is one of those reported
    (said,) = [
        each for each in bench.report()["guidelines"] if "hyperparameters" in each["guideline"]
    ]
    assert said["met"] is False


def test_without_a_grid_nothing_is_said_of_choices(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TEXT.replace("grid.strength = [1, 2]", "strength = 2"))
    found = bench.run(Fake(answer))
    assert "chosen" not in found.out
    assert json.loads((bench.store / "mine.study.json").read_text())["selections"] == []


def test_a_run_that_another_program_writes_is_running(bench: Bench) -> None:
    mine = read_study(bench.file)
    name = mine.make_configs(mine.cells[0], {})[0].folder
    with RunWriter(bench.store / name, {"setting": "class"}):
        status = bench.status()
        assert (status["running"], status["waiting"]) == ([name], 7)
        says(bench.told("status").out, "1 running", "7 waiting", f"running: {name}")
    assert (bench.status()["running"], bench.status()["waiting"]) == ([], 8)


def test_several_tables_can_be_told_apart(tmp_path: Path) -> None:
    text = TEXT.replace("seeds = 3", 'seeds = 1\nsettings = ["class", "task"]')
    bench = Bench(tmp_path, text + "[variant.a]\n[variant.b]\nbatch = 8\n")
    bench.run(Fake(answer))
    rows = table_of(bench.told("report", "--format", "csv").out)
    assert [(row["setting"], row["strategy"], row["variant"]) for row in rows] == [
        (setting, strategy, variant)
        for setting in ("class", "task")
        for strategy in ("naive", "ewc")
        for variant in ("a", "b")
    ]
    assert "scenario" not in rows[0]
    says(bench.told("report", "--format", "latex").out, "setting & strategy", "task & ewc & b")
    text = bench.told("report").out
    says(text, "split-digits, class-incremental, mlp\n", "split-digits, task-incremental, mlp\n")


def test_a_metric_that_some_seed_lacks_has_no_mean(bench: Bench) -> None:
    bench.run(Fake(lambda d: Scores(0.5, 0.5) if d.seed == 1 else answer(d)))
    rows = table_of(bench.told("report", "--format", "csv").out)
    assert [row["bwt"] for row in rows] == ["", ""]
    assert rows[0]["acc"] == of([0.5, 0.5, 0.6])


def test_looking_changes_nothing(bench: Bench) -> None:
    bench.run(Fake(answer))

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in bench.store.rglob("*")}

    before = files()
    for command in (("status",), ("report",), ("run", "--dry-run")):
        assert bench.told(*command).code == 0
    assert files() == before


def test_nobody_listens_to_a_view_that_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyProgressView(studies.StudyStatus(), 2, list, show=False) as view:
        view.on_round([])
    assert capsys.readouterr() == ("", "")
    assert view.seconds_left is None


def test_time_left_is_counted_by_kind(tmp_path: Path) -> None:
    fake = Fake(answer)
    mine = read_study(write(tmp_path, "mine.toml", TEXT.replace("grid.strength = [1, 2]", "")))
    clock = iter(range(0, 10_000, 4))
    view = StudyProgressView(studies.StudyStatus(), 2, list, show=False)
    lefts: list[float | None] = []

    def on_event(job: Job, event: RunEvent) -> None:
        with patch("perdure.cli._progress.time.monotonic", lambda: next(clock)):
            view.on_event(job, event)
        lefts.append(view.seconds_left)

    studies.run_study(mine, tmp_path / "store", fake, on_event, on_round=view.on_round)
    assert view.ended == {"done": 6}
    assert lefts[0] is None  # nothing is known yet
    assert lefts[-1] == 0
    known = [left for left in lefts if left is not None]
    assert known == sorted(known, reverse=True)
    each = known[0] * 2 / 5  # five others of equal length, two at a time
    assert each > 0
    assert known[1] == pytest.approx((4 + 0.5) * each / 2)  # one of them half done
