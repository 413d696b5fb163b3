"""`perdure which`: the definitions and tools that give a number, within its rounding."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.api.definitions import TypedNumber
from perdure.metrics import Stream

from .cli_helpers import POINTS, B, R, refused, run, says, strict, table, write

README = Path(__file__).parents[1] / "README.md"
MATRIX = perdure.ScoreMatrix(R, initial=[float(b) for b in B.split(",")], sizes=[100] * 5)


def found(value: str, source: object = MATRIX) -> dict[str | None, str]:
    """Return the definitions that give a number, with how they do."""
    matches = perdure.which(source, value).matches  # type: ignore[arg-type]
    return {match.id: match.match for match in matches if match.found}


def test_every_number_of_the_readme_leads_to_the_tool_that_prints_it() -> None:
    """The table of the README was checked against the tools themselves."""
    rows = re.findall(r"^\| ([\w/, ]+) \| (.*) \|$", README.read_text(), flags=re.MULTILINE)
    names = {"M2I/I2M tables": "m2i", "Avalanche, CLEAR": "avalanche-clear"}
    cells = 0
    for label, rest in rows:
        tool = names.get(label, label.lower())
        for value, id_ in re.findall(r"\**(-?\.\d+)\**(?: `([\w.]+)`| \(a bug\))", rest):
            matches = perdure.which(MATRIX, value).matches
            printers = {match.id: match.printed_by for match in matches if match.match == "equal"}
            assert any(
                name.startswith(f"{tool} (") and (not id_ or key == id_)
                for key, printed in printers.items()
                for name in printed
            ), (label, value, printers)
            cells += 1
    assert cells >= 25


def test_the_digits_are_the_precision() -> None:
    r = [[0.9, 0.1], [0.5651, 0.8]]  # bwt is -0.3349
    assert found("-0.33", r)["bwt"] == "equal"
    assert "bwt" not in found("-0.34", r)
    assert found("-0.335", r)["bwt"] == "equal"
    assert "bwt" not in found("-0.3350", r)
    assert found("-0.3349", r)["bwt"] == "equal"
    assert found("-.3", r)["bwt"] == "equal"


def test_percentages_and_signs_are_tried_and_said() -> None:
    for text in ("-16.5", "-16.5%", "-0.165"):
        by_id = {match.id: match for match in perdure.which(MATRIX, text).matches}
        assert (by_id["bwt"].match, by_id["bwt"].percent) == ("equal", text != "-0.165")
        assert by_id["forgetting.learned"].match == "negated"
    assert "uraa" not in found("662%")  # a multiple of chance is no percentage
    assert found("66")["acc"] == "equal"


def test_a_number_in_percent_is_next_to_values_in_percent() -> None:
    """memory_stability is a variance: 0.0041902778 is 41.9 squared percentage points."""
    matrix = [[90], [80, 85], [78, 70, 95]]
    rows = {row[0]: row for row in perdure.which(matrix, "37.7").table().rows}
    assert rows["memory_stability"][1:3] == ["41.9028", "closest, in squared percent"]
    assert rows["bwt"][1:3] == ["-13.5", "closest, negated, in percent"]
    found = perdure.which(matrix, "41.9").matches[0]
    assert (found.id, found.match) == ("memory_stability", "equal")
    assert found.value == pytest.approx(0.0041902778)


def test_near_misses_are_no_matches() -> None:
    result = perdure.which(MATRIX, "0.227")
    assert not result.found
    assert [match.match for match in result.matches] == ["closest"] * 3
    assert result.matches[0].id == "forgetting.peak"
    close = perdure.which(MATRIX, "0.661")  # accuracies of 0.662 were not rounded to this
    assert {match.match for match in close.matches} == {"closest"}
    mixed = perdure.which(MATRIX, "0.218").matches
    assert [(match.id, match.match) for match in mixed] == [("forgetting.any", "equal")]


def test_what_is_undefined_is_not_listed_but_what_tools_print_anyway_is() -> None:
    r = perdure.ScoreMatrix(R, setting="class")
    (match,) = [m for m in perdure.which(r, "0.350").matches if m.id == "fwt.next"]
    says(match.note, "undefined here", "tools print it")
    ids = {m.id for m in perdure.which(r, "0.662").matches}
    assert "acc.pooled" in ids  # without sizes, tools are assumed to have equal test sets
    assert not any((m.value != m.value) for m in perdure.which(r, "0").matches)


def test_streams_and_seeds(tmp_path: Path) -> None:
    stream = Stream(
        {"a": ([1, 2, 3], [0.9, 0.5, 0.7]), "b": ([2, 3], [0.4, 0.6])}, [("a", 1), ("b", 3)]
    )
    assert found("0.5", stream)["min_acc"] == "equal"
    for seed, last in enumerate((0.5, 0.6)):
        write(tmp_path, f"s{seed}.csv", f"0.9,\n{last},0.8\n")
    both = perdure.which([tmp_path / "s0.csv", tmp_path / "s1.csv"], "-0.35")
    assert {m.id for m in both.matches if m.match == "equal"} >= {"bwt"}
    assert both.to_dict()["found"] is True
    assert "bwt" in repr(both)


def test_the_command(tmp_path: Path) -> None:
    path = write(tmp_path, "r.csv", table())
    answer = run("which", path, "--value", "-0.165")
    assert answer.code == 0
    says(answer.out, "bwt", "avalanche (StreamBWT)", "negated", "definitions compared")
    assert run("which", "-", "--value=-16.5%", stdin=table().encode()).code == 0
    nothing = run("which", path, "--value", "0.999", "--format", "json")
    assert nothing.code == 1
    assert len(strict(nothing.out)["matches"]) == 3
    assert "--percent" not in nothing.err
    points = write(tmp_path, "points.csv", POINTS)
    says(run("which", points, "--value", "0.3").out, "min_acc")
    says(refused("which", path, "--value", "nan"), "--value", "'nan'")
    says(refused("which", path, "--value", "1e999"), "--value")
    says(refused("which", path), "no number", "--value -0.33")
    says(refused("which", "--value", "1"), "no file")
    says(refused("which", tmp_path / "none.csv", "--value", "1"), "none.csv")


def test_two_methods_have_a_table_each(tmp_path: Path) -> None:
    for strategy in ("ewc", "si"):
        config = {"config": {"strategy": strategy, "seed": 0}}
        write(tmp_path, f"runs/{strategy}/run.json", json.dumps(config))
        write(tmp_path, f"runs/{strategy}/points.csv", POINTS)
        write(tmp_path, f"runs/{strategy}/done.json", "{}")
    answer = run("which", tmp_path / "runs", "--value", "0.3")
    assert answer.code == 0
    assert [answer.out.count(word) for word in ("ewc", "si\n", "min_acc")] == [1, 1, 2]
    plain = strict(run("which", tmp_path / "runs", "--value", "0.3", "--format", "json").out)
    assert list(plain["groups"]) == ["ewc", "si"]
    with pytest.raises(perdure.InputError, match="2 methods"):
        perdure.which(tmp_path / "runs", "0.3")


@pytest.mark.parametrize("text", ["", ".", "--1", "1.2.3", "0x1", "1e5000", "٣", "%"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(perdure.InputError):
        TypedNumber.parse(text)


def test_no_pytorch_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, "r.csv", table())
    code = (
        "import sys, perdure; perdure.which(sys.argv[1], '-0.165'); import perdure.cli; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_the_page_prints_what_the_command_prints(tmp_path: Path) -> None:
    page = (README.parent / "docs" / "names.md").read_text(encoding="utf-8")
    block = page.partition("$ cat results.csv\n")[2].partition("```")[0]
    numbers, _, session = block.partition("$ ")
    command, _, expected = session.partition("\n")
    path = write(tmp_path, "results.csv", numbers)
    words = [str(path) if word == "results.csv" else word for word in command.split()[1:]]
    assert expected.endswith("\n…\n")  # how many were compared changes with every new metric
    assert run(*words).out.startswith(expected.removesuffix("…\n"))


def test_the_python_of_the_page_runs() -> None:
    page = (README.parent / "docs" / "names.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    space: dict[str, object] = {}
    exec(block, space)
    assert getattr(space["matches"], "found") is True  # noqa: B009
