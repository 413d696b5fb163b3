"""`perdure score` from end to end: every form of input and every option, against known answers."""

from __future__ import annotations

import io
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from .cli_helpers import COSTS, KNOWN, B, R, run, says, scored, start, strict, table, write

if TYPE_CHECKING:
    from pathlib import Path

TUTORIAL = """\
98.5%,62.3%,55.1%,51.8%,49.2%
-,97.8%,58.6%,52.4%,50.1%
-,-,98.2%,61.3%,53.7%
-,-,-,97.5%,58.9%
-,-,-,-,98.1%
"""
NAMES = ["digits 0-1", "b", "c, d", "e", "f"]


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def savetxt() -> str:
    out = io.StringIO()
    np.savetxt(out, R, header="what np.savetxt writes")
    return out.getvalue()


def with_names() -> str:
    quoted = [f'"{name}"' for name in NAMES]
    rows: list[list[float | str]] = [[name, *row] for name, row in zip(quoted, R, strict=True)]
    return table(rows=[["", *quoted], *rows])


FORMS: dict[str, str | bytes] = {
    "plain.csv": table(),
    "spaces.csv": table(" , "),
    "tabs.tsv": table("\t"),
    "semicolons.csv": table(";"),
    "blanks.txt": table("   "),
    "savetxt.txt": savetxt(),
    "bom.csv": "\ufeff" + table(),
    "crlf.csv": table().replace("\n", "\r\n"),
    "no_last_newline.csv": table().rstrip("\n"),
    "commented.csv": "# not in %\n\n" + table() + "\n# and an end\n",
    "header.csv": "a,b,c,d,e\n" + table(),
    "counting_from_0.csv": "0,1,2,3,4\n" + table(),  # pandas' to_csv(index=False)
    "counting_from_1.csv": "1,2,3,4,5\n" + table(),
    "pandas.csv": table(rows=[["", 0, 1, 2, 3, 4], *([k, *row] for k, row in enumerate(R))]),
    "row_names.csv": table(rows=[["abcde"[k], *row] for k, row in enumerate(R)]),
    "names.csv": with_names(),
    "list.json": json.dumps(R),
    "object.json": json.dumps({"matrix": R}),
    "spaced.json": "\n  " + json.dumps(R, indent=4),
    "array.npy": npy(np.array(R)),
    "fortran.npy": npy(np.asfortranarray(R)),
    "matrix.npz": npz(matrix=R),
    "any_name.npz": npz(results=R),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_known_answers(name: str, tmp_path: Path) -> None:
    found = scored(write(tmp_path, name, FORMS[name]), "--initial", B)
    assert {id_: found["metrics"][id_] for id_ in KNOWN} == pytest.approx(KNOWN, abs=1e-9)


@pytest.mark.parametrize("name", ["plain.csv", "array.npy", "matrix.npz", "list.json", "names.csv"])
def bytes_of(form: str) -> bytes:
    content = FORMS[form]
    return content if isinstance(content, bytes) else content.encode()


@pytest.mark.parametrize("name", ["plain.csv", "array.npy", "matrix.npz", "list.json", "names.csv"])
def test_every_form_may_come_through_a_pipe(name: str) -> None:
    found = scored("-", "--initial", B, stdin=bytes_of(name))
    assert found["metrics"]["fwt.gem"] == pytest.approx(0.25)


def test_a_real_pipe_and_the_module_form(tmp_path: Path) -> None:
    answer = start("score", "-", "--format", "json", "--initial", B, stdin=table().encode())
    assert (answer.code, answer.err) == (0, "")
    found = strict(answer.out)["metrics"]
    assert {id_: found[id_] for id_ in KNOWN} == pytest.approx(KNOWN, abs=1e-9)
    answer = start("score", write(tmp_path, "m.csv", table()))
    assert (answer.code, answer.err) == (0, "")
    says(answer.out, "-0.1650", "backward transfer", "needs the untrained model's scores")


@pytest.mark.parametrize("blank", ["", " ", "-", "nan", "NaN"])
def test_blanks_are_unmeasured_never_zero(blank: str) -> None:
    rows = [[cell if j <= i else blank for j, cell in enumerate(row)] for i, row in enumerate(R)]
    found = scored("-", stdin=table(rows=rows).encode())
    assert found["metrics"]["acc.lower"] == pytest.approx(0.682)
    for id_ in ("acc.all", "fwt.upper", "fwt.next", "forgetting.any"):
        assert id_ not in found["metrics"]
        says(found["undefined"][id_], "not measured")


def test_null_in_json_is_unmeasured() -> None:
    found = scored("-", stdin=b'{"matrix": [[0.9, null], [0.6, 0.8]], "initial": [0.1, null]}')
    assert found["metrics"]["bwt"] == pytest.approx(-0.3)
    says(found["undefined"]["fwt.upper"], "task 1 after task 0")
    says(found["undefined"]["fwt.learned"], "task 1")


@pytest.mark.parametrize("name", ["header.csv", "row_names.csv"])
def test_a_header_or_row_names_alone_name_the_tasks(name: str) -> None:
    assert scored("-", stdin=bytes_of(name))["tasks"] == list("abcde")


def test_tasks_are_named_by_header_and_rows_or_json() -> None:
    assert scored("-", stdin=with_names().encode())["tasks"] == NAMES
    assert scored("-", stdin=json.dumps({"matrix": R, "tasks": NAMES}).encode())["tasks"] == NAMES
    for counting in ("pandas.csv", "counting_from_0.csv", "plain.csv"):
        assert scored("-", stdin=bytes_of(counting))["tasks"] == [f"task {k}" for k in range(5)]


def test_an_object_carries_everything_and_options_override_it(tmp_path: Path) -> None:
    whole = {
        "matrix": R, "initial": [float(b) for b in B.split(",")], "joint": [0.9] * 5,
        "single": [0.95] * 5, "classes": [2] * 5, "sizes": [100] * 5, "setting": "class",
    }  # fmt: skip
    path = write(tmp_path, "all.json", json.dumps(whole))
    found = scored(path)
    assert found["metrics"]["intransigence"] == pytest.approx(0.9 - 0.7925)
    assert found["metrics"]["intransigence.single"] == pytest.approx(0.95 - 0.7925)
    assert found["metrics"]["acc.pooled"] == pytest.approx(0.662)
    assert found["metrics"]["raa"] == pytest.approx(0.662)
    says(found["undefined"]["fwt.gem"], "class-incremental")
    other = scored(path, "--setting", "task", "--joint", "0.8,0.8,0.8,0.8,0.8")
    assert other["metrics"]["fwt.gem"] == pytest.approx(0.25)
    assert other["metrics"]["intransigence"] == pytest.approx(0.8 - 0.7925)


def test_values_may_come_from_files(tmp_path: Path) -> None:
    matrix = write(tmp_path, "m.csv", table())
    column = write(tmp_path, "b.txt", B.replace(",", "\n"))
    as_json = write(tmp_path, "joint.json", json.dumps([0.9] * 5))
    as_npy = write(tmp_path, "single.npy", npy(np.full(5, 0.95)))
    row = write(tmp_path, "sizes.csv", "100,100,200,100,50\n")
    classes = write(tmp_path, "classes.txt", "2 2 2 2 2\n")
    found = scored(
        matrix, "--initial", column, "--joint", as_json, "--single", as_npy, "--sizes", row,
        "--classes", classes,
    )["metrics"]  # fmt: skip
    assert found["fwt.gem"] == pytest.approx(0.25)
    assert found["fwt.learned"] == pytest.approx(0.6925)
    assert found["intransigence"] == pytest.approx(0.1075)
    assert found["intransigence.single"] == pytest.approx(0.1575)
    assert found["acc.pooled"] == pytest.approx(360 / 550)
    assert found["uraa"] == pytest.approx(6.62)
    base = np.array([float(b) for b in B.split(",")])
    rho = np.mean((np.array(R[-1]) - base) / (0.9 - base) - 1)
    assert found["forgetting.ratio"] == pytest.approx(rho)
    assert found["omega.base"] == pytest.approx((0.6 + 0.86 + 0.5 + 0.64) / 4 / 0.9)


def test_sizes_give_wilson_intervals() -> None:
    found = scored("-", "--sizes", "100,100,200,100,50", stdin=table().encode())
    ends = stats.binomtest(360, 550).proportion_ci(method="wilson")
    assert found["intervals"]["acc.pooled"] == pytest.approx([ends.low, ends.high])


def test_transposed_percent_is_the_tutorials_own_example(tmp_path: Path) -> None:
    expected = {
        "acc": 0.62, "acc.learning": 0.9802, "bwt": -0.45025, "forgetting.best": 0.45025,
        "forgetting.peak": 0.45025, "memory_stability": 0.0363051,
    }  # fmt: skip
    path = write(tmp_path, "tutorial.csv", TUTORIAL)
    found = scored(path, "--transposed", "--percent")["metrics"]
    assert {id_: found[id_] for id_ in expected} == pytest.approx(expected, abs=1e-6)
    says(run("score", path, "--transposed", "--percent").out, "62.00", "98.02", "363.05", "(%)")
    assert scored(path)["metrics"] == found  # both are plain from the numbers
    assert "acc" in scored(path, "--percent", "--no-transposed")["undefined"]


def test_transposed_swaps_what_is_trained_and_tested() -> None:
    turned = table(rows=list(zip(*R, strict=True)))
    assert scored("-", "--transposed", stdin=turned.encode()) == scored("-", stdin=table().encode())


def test_percent_applies_to_every_score_and_json_stays_a_fraction() -> None:
    rows = [[f"{100 * cell:.10g}" for cell in row] for row in R]
    initial = ",".join(f"{100 * float(b):.10g}" for b in B.split(","))
    nineties = ",".join(["90"] * 5)
    given = ("--initial", initial, "--joint", nineties, "--single", nineties, "--percent")
    found = scored("-", *given, stdin=table(rows=rows).encode())["metrics"]
    assert {id_: found[id_] for id_ in KNOWN} == pytest.approx(KNOWN, abs=1e-9)
    assert found["intransigence"] == pytest.approx(0.1075)
    assert found["intransigence.single"] == pytest.approx(0.1075)
    whole = json.dumps({"matrix": [[90, 10], [60, 80]], "initial": [5, 5], "joint": [95, 95]})
    found = scored("-", "--percent", stdin=whole.encode())["metrics"]
    assert (found["fwt.gem"], found["intransigence"]) == pytest.approx((0.05, 0.15))


@pytest.mark.parametrize("classes", ["2,2,2,2,2", "4,2,2,1,1", "1,1,1,1,6"])
def test_classes_rescale_by_chance(classes: str) -> None:
    found = scored("-", "--classes", classes, stdin=table().encode())
    seen = np.cumsum([int(c) for c in classes.split(",")])
    chance = [np.mean(1 / seen[:k] - 1 / seen[k]) for k in range(1, 5)]
    assert found["metrics"]["uraa"] == pytest.approx(0.662 * seen[-1])
    assert found["metrics"]["uraf"] == pytest.approx(0.2 / chance[-1])
    assert found["metrics"]["raa"] == pytest.approx(0.662)
    assert found["metrics"]["raf"] == pytest.approx(0.2 / chance[-1] * min(chance))
    assert found["curves"]["raa"] == pytest.approx(
        np.array(found["curves"]["aa"]) * seen / seen[-1]
    )


def test_the_setting_refuses_only_when_stated() -> None:
    def with_setting(*setting: str) -> dict[str, Any]:
        return scored(
            "-", "--classes", "2,2,2,2,2", "--initial", B, *setting, stdin=table().encode()
        )

    unstated, task = with_setting(), with_setting("--setting", "task")
    domain, by_class = with_setting("--setting", "domain"), with_setting("--setting", "class")
    assert {"fwt.upper", "fwt.gem", "raa", "raf"} <= unstated["metrics"].keys()
    assert {"fwt.upper", "fwt.gem", "fwt.next"} <= by_class["undefined"].keys()
    assert task["metrics"]["uraa"] == pytest.approx(0.662 / 0.5)
    assert {"raf", "uraf"} <= task["undefined"].keys() & domain["undefined"].keys()
    assert "fwt.upper" in task["metrics"].keys() & domain["metrics"].keys()


def test_losses_are_turned_round_and_accuracy_metrics_refused() -> None:
    losses = table(rows=[[f"{3 * (1 - cell):.10g}" for cell in row] for row in R])
    for range_ in ([], ["--range", "0,inf"], ["--range", "-5,5"], ["--range=-inf,inf"]):
        found = scored("-", "--lower-is-better", *range_, stdin=losses.encode())
        assert found["metrics"]["acc"] == pytest.approx(3 * (1 - 0.662))
        assert found["metrics"]["bwt"] == pytest.approx(3 * -0.165)
        assert found["metrics"]["forgetting.best"] == pytest.approx(3 * 0.2)
        says(found["undefined"]["rem"], "accuracies")
    found = scored("-", "--lower-is-better", "--classes", "2,2,2,2,2", stdin=losses.encode())
    says(found["undefined"]["raa"], "accuracies")


def test_rewards_may_be_negative() -> None:
    rewards = table(rows=[[f"{2 * cell - 1:.10g}" for cell in row] for row in R])
    found = scored("-", "--range", "-1,1", "--initial", "-1,-1,-1,-1,-1", stdin=rewards.encode())
    assert found["metrics"]["acc"] == pytest.approx(0.324)
    assert found["metrics"]["bwt"] == pytest.approx(-0.33)
    assert found["metrics"]["fwt.next"] == pytest.approx(2 * 0.35 - 1)
    assert found["metrics"]["fwt.gem"] == pytest.approx(2 * 0.35)
    assert "rem" in found["undefined"]


def test_costs_epsilon_and_weights(tmp_path: Path) -> None:
    matrix, costs = write(tmp_path, "m.csv", table()), write(tmp_path, "costs.csv", COSTS)
    found = scored(matrix, "--costs", costs)["metrics"]
    assert (found["ms"], found["sss"], found["ce"]) == pytest.approx((0.6, 0.6, 0.1))
    criteria = [0.682, 0.876, 0, 0.2, 0.6, 0.6, 0.1]
    assert found["clscore"] == pytest.approx(sum(criteria) / 7)
    assert scored(matrix, "--costs", costs, "--epsilon", "2")["metrics"]["ce"] == pytest.approx(0.2)
    paper = scored(matrix, "--weights", "A=.4, REM=.6")["metrics"]["clscore"]
    assert paper == pytest.approx(0.4 * 0.682 + 0.6 * 0.876)
    ours = scored(matrix, "--weights", "acc=0.25,forgetting.peak=0.75")["metrics"]["clscore"]
    assert ours == pytest.approx(0.25 * 0.662 + 0.75 * (1 - 0.225))


def test_layout_of_json() -> None:
    found = scored("-", "--sizes", "9,9,9,9,9", "--initial", B, stdin=table().encode())
    assert {"metrics", "undefined", "curves", "per_task", "intervals"} <= found.keys()
    assert not {"runs", "sd"} & found.keys()
    assert not found["metrics"].keys() & found["undefined"].keys()
    assert all(
        isinstance(value, float) and math.isfinite(value) for value in found["metrics"].values()
    )
    assert all(isinstance(reason, str) and reason for reason in found["undefined"].values())
    assert {"aa", "af", "bwt", "fixed"} <= found["curves"].keys()
    for values in (*found["curves"].values(), *found["per_task"].values()):
        assert len(values) == 5
        assert all(value is None or isinstance(value, float) for value in values)
    assert found["curves"]["aa"] == pytest.approx([0.8, 0.65, 2.06 / 3, 0.69, 0.662])
    assert found["curves"]["bwt"] == [
        None,
        *[pytest.approx(x) for x in (-0.2, -0.045, -0.29 / 3, -0.165)],
    ]
    assert found["curves"]["fixed"] == pytest.approx([sum(row) / 5 for row in R])
    assert found["per_task"]["bwt"] == [
        *[pytest.approx(x) for x in (-0.16, -0.22, 0.10, -0.38)],
        None,
    ]
    assert set(found["intervals"]) == {"acc", "acc.learning", "acc.pooled"}
    for id_, (low, high) in found["intervals"].items():
        assert 0 <= low <= found["metrics"][id_] <= high <= 1
