"""The forms in which people have their numbers: each is read as the same matrices, and said."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure.record import InputError, parse_matrices

from .cli_helpers import refused, run, says, scored, write

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
LOWER = np.array([[0.9, np.nan, np.nan], [0.6, 0.85, np.nan], [0.45, 0.7, 0.95]])
FULL = np.array([[0.9, 0.3, 0.2], [0.6, 0.85, 0.3], [0.45, 0.7, 0.95]])
SEEDS = np.stack([FULL, FULL - 0.05, FULL - 0.02])
ACC, BWT = 0.7, -0.3  # of FULL and of LOWER, by hand: (.45+.7+.95)/3 and (.45-.9+.7-.85)/2


def triangle(matrix: np.ndarray) -> list[list[float]]:
    return [row[: k + 1].tolist() for k, row in enumerate(matrix)]


def lines(matrix: np.ndarray, separator: str = ",", form: str = "{:g}") -> str:
    cells = [["" if np.isnan(v) else form.format(v) for v in row] for row in matrix]
    return "\n".join(separator.join(row) for row in cells) + "\n"


def long(matrix: np.ndarray, *names: str, tasks: str = "abc") -> list[str]:
    return [
        ",".join([*names, tasks[i], tasks[j], f"{matrix[i, j]:g}"])
        for i in range(len(matrix))
        for j in range(len(matrix))
        if not np.isnan(matrix[i, j])
    ]


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


ONE_MATRIX: dict[str, tuple[str | bytes, str]] = {
    "ragged.json": (json.dumps(triangle(LOWER)), "lower triangle of 3 tasks"),
    "ragged_object.json": (json.dumps({"matrix": triangle(LOWER)}), "lower triangle of 3 tasks"),
    "ragged.csv": (".9\n.6,.85\n.45,.7,.95\n", "lower triangle of 3 tasks"),
    "ragged.tsv": (".9\n.6\t.85\n.45\t.7\t.95\n", "lower triangle of 3 tasks"),
    "ragged.txt": (".9\n.6 .85\n.45 .7 .95\n", "lower triangle of 3 tasks"),
    "ragged_names.csv": ("a,.9\nb,.6,.85\nc,.45,.7,.95\n", "lower triangle of 3 tasks"),
    "ragged_header.csv": ("a,b,c\n.9\n.6,.85\n.45,.7,.95\n", "lower triangle of 3 tasks"),
    "ragged_both.csv": (",a,b,c\na,.9\nb,.6,.85\nc,.45,.7,.95\n", "lower triangle of 3 tasks"),
    "commas.csv": (lines(FULL, ";", "{:.2f}").replace(".", ","), "decimal commas"),
    "commas.tsv": (lines(FULL, "\t", "{:.2f}").replace(".", ","), "decimal commas"),
    "commas_header.csv": ("a;b;c\n" + lines(FULL, ";").replace(".", ","), "decimal commas"),
    "percent.csv": (lines(100 * FULL), "scores up to 95 are read as percent"),
    "percent.npy": (npy(100 * FULL), "scores up to 95 are read as percent"),
    "percent_signs.csv": (lines(100 * FULL, ",", "{:g}%"), "percent signs"),
    "percent_commas.csv": (lines(FULL * 100, ";", "{:.1f} %").replace(".", ","), "percent signs"),
    "upper.csv": (lines(LOWER.T), "columns are read as the trained tasks"),
    "upper_percent.npy": (npy(100 * LOWER.T), "columns are read as the trained tasks"),
    "long.csv": ("trained,tested,score\n" + "\n".join(long(FULL)) + "\n", ""),
    "long_lower.csv": ("trained,tested,score\n" + "\n".join(long(LOWER)) + "\n", ""),
    "long_percent.csv": ("trained,tested,score\n" + "\n".join(long(100 * FULL)), "percent"),
    "long_commas.csv": (
        "\n".join(["trained,tested,score", *long(FULL)]).replace(",", ";").replace(".", ","),
        "decimal commas",
    ),
    "one_method.json": (json.dumps({"er": FULL.tolist()}), ""),
    "one_seed.npy": (npy(FULL[None]), ""),
}


@pytest.mark.parametrize("name", ONE_MATRIX)
def test_one_matrix_in_any_form(name: str, tmp_path: Path) -> None:
    content, note = ONE_MATRIX[name]
    path = write(tmp_path, name, content)
    result = scored(path)
    assert result["metrics"]["acc"] == pytest.approx(ACC)
    assert result["metrics"]["bwt"] == pytest.approx(BWT)
    says(" ".join(result["notes"]), note)
    assert bool(result["notes"]) == bool(note) or name.startswith("upper")
    data = content.encode() if isinstance(content, str) else content
    assert scored("-", stdin=data)["metrics"] == result["metrics"]
    assert perdure.score(path).metrics == result["metrics"]


SEVERAL_SEEDS: dict[str, str | bytes] = {
    "seeds.npy": npy(SEEDS),
    "seeds_percent.npy": npy(100 * SEEDS),
    "seeds.npz": npz(anything=SEEDS),
    "seeds_matrix.npz": npz(matrix=SEEDS, classes=np.array([2, 2, 2])),
    "seeds.json": json.dumps(SEEDS.tolist()),
    "by_seed.json": json.dumps({f"seed {k}": m.tolist() for k, m in enumerate(SEEDS)}),
    "er.json": json.dumps({"er": SEEDS.tolist()}),
    "er_by_seed.json": json.dumps({"er": {str(k): m.tolist() for k, m in enumerate(SEEDS)}}),
    "seeds.csv": "\n".join(
        ["seed,trained,tested,score", *(line for k in range(3) for line in long(SEEDS[k], str(k)))]
    ),
}


@pytest.mark.parametrize("name", SEVERAL_SEEDS)
def test_seeds_of_one_method_in_one_file(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, SEVERAL_SEEDS[name])
    result = scored(path)
    acc = [float(np.mean(matrix[-1])) for matrix in SEEDS]
    assert result["metrics"]["acc"] == pytest.approx(np.mean(acc))
    assert result["sd"]["acc"] == pytest.approx(np.std(acc, ddof=1))
    assert [one["metrics"]["acc"] for one in result["runs"]] == pytest.approx(acc)
    says(result["notes"][0], "mean over 3 matrices", "seed")
    assert perdure.score(path).metrics["acc"] == result["metrics"]["acc"]


TWO_METHODS: dict[str, str | bytes] = {
    "methods.json": json.dumps({"er": SEEDS.tolist(), "ewc": (100 * SEEDS - 10).tolist()}),
    "by_seed.json": json.dumps({
        "er": {str(k): m.tolist() for k, m in enumerate(SEEDS)},
        "ewc": {str(k): (m - 0.1).tolist() for k, m in reversed([*enumerate(SEEDS)])},
    }),
    "fields_by_seed.json": json.dumps({
        "er": {"0": SEEDS[0].tolist(), "1": SEEDS[1].tolist(), "2": SEEDS[2].tolist(),
               "classes": [2, 2, 2]},
        "ewc": {f"seed_{k}": (m - 0.1).tolist() for k, m in enumerate(SEEDS)},
        "tasks": ["a", "b", "c"],
    }),
    "fields.json": json.dumps({
        "er": {"matrix": SEEDS.tolist()},
        "ewc": {"matrix": (SEEDS - 0.1).tolist()},
        "classes": [2, 2, 2],
    }),
    "methods.npz": npz(er=SEEDS, ewc=SEEDS - 0.1),
    "long.csv": "\n".join([
        "method,seed,trained,tested,score",
        *(
            line
            for k in range(3)
            for name, off in (("er", 0), ("ewc", 0.1))
            for line in long(SEEDS[k] - off, name, str(k))
        ),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_METHODS)
def test_methods_in_one_file(name: str, tmp_path: Path) -> None:
    """Unit and orientation are those of each method: one may be in percent."""
    path = write(tmp_path, name, TWO_METHODS[name])
    groups = scored(path)["groups"]
    means = {"er": SEEDS[:, -1].mean(), "ewc": SEEDS[:, -1].mean() - 0.1}
    found = {method: group["metrics"]["acc"] for method, group in groups.items()}
    assert found == pytest.approx(means)
    answer = json.loads(run("compare", path, "--metrics", "acc", "--format", "json").out)
    pair = answer["metrics"]["acc"]["pairs"][0]
    assert abs(pair["difference"]) == pytest.approx(0.1)  # the same in every seed: paired right
    assert perdure.score_groups(path).groups.keys() == {"er", "ewc"}
    with pytest.raises(InputError, match=r"er, ewc, expected one; `perdure.score_groups`"):
        perdure.score(path)
    says(refused("score", f"mine={path}"), "er, ewc", "omit mine=")


def test_methods_of_one_file_in_a_figure(tmp_path: Path) -> None:
    path = write(tmp_path, "methods.json", TWO_METHODS["methods.json"])
    answer = run("plot", "heatmaps", path, "-o", tmp_path / "a.svg")
    says(answer.err + answer.out, "methods.json: ewc: scores up to 85 are read as percent")
    says((tmp_path / "a.svg").read_text(), "er", "ewc")


def test_a_file_per_seed_with_the_same_methods(tmp_path: Path) -> None:
    for k, matrix in enumerate(SEEDS):
        write(tmp_path, f"s{k}.json", json.dumps({"er": matrix.tolist(), "ewc": FULL.tolist()}))
    groups = scored(*(tmp_path / f"s{k}.json" for k in range(3)))["groups"]
    assert groups["er"]["metrics"]["acc"] == pytest.approx(SEEDS[:, -1].mean())
    assert len(groups["ewc"]["runs"]) == 3


def test_arrays_in_python() -> None:
    assert perdure.score(triangle(LOWER)).metrics["bwt"] == pytest.approx(BWT)
    assert perdure.metrics.bwt(triangle(LOWER)) == pytest.approx(BWT)
    assert perdure.score(SEEDS).metrics["acc"] == pytest.approx(SEEDS[:, -1].mean())
    assert perdure.score(list(100 * SEEDS)).metrics["acc"] == pytest.approx(SEEDS[:, -1].mean())
    assert perdure.score(LOWER.T).metrics["bwt"] == pytest.approx(BWT)
    nothing: Any = [[0.9, None], [0.6, 0.8]]
    assert perdure.score(nothing).metrics["acc"] == pytest.approx(0.7)
    methods = {"er": SEEDS, "ewc": [100 * matrix - 10 for matrix in SEEDS]}
    groups = perdure.score_groups(methods).groups
    assert groups["ewc"].summary.metrics["acc"] == pytest.approx(SEEDS[:, -1].mean() - 0.1)
    report = perdure.compare(methods, metrics=["acc"])
    assert report.metrics["acc"].means["er"].mean == pytest.approx(SEEDS[:, -1].mean())


REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "long_twice.csv": (
        "trained,tested,score\na,a,.9\na,a,.8\n", ("line 3", "second", "'a'", "seed and method")
    ),
    "long_untrained.csv": (
        "trained,tested,score\na,a,.9\na,b,.8\n", ("line 3", "'b' is never trained", "leave")
    ),
    "long_score.csv": (
        "trained,tested,score\na,a,x\nb,a,.5\nb,b,.5\n", ("line 2", "score", "'x'", "number")
    ),
    "long_column.csv": (
        "trained,tested,score,lr\na,a,.9,1\n", ("line 1", "'lr' is unknown", "method,seed")
    ),
    "long_empty.csv": ("trained,tested,score\n", ("no scores", "expected lines")),
    "long_mixed.csv": (
        "trained;tested;score\na;a;0,9\nb;a;0.5\nb;b;0,5\n", ("decimal commas", "points")
    ),
    "seed_twice.json": (
        json.dumps({"er": {"0": [[0.5]], "seed 0": [[0.5]]}}), ("er, seed 0", "twice", "once")
    ),
    "seeds_of_seeds.json": (
        json.dumps({"er": {"0": [[[0.5]], [[0.5]]]}}), ("er: seed 0", "2 matrices", "expected one")
    ),
    "tasks_differ.json": (
        json.dumps([[[0.5]], [[0.5, 0.1], [0.1, 0.5]]]), ("matrix 1", "2 tasks", "expected 1")
    ),
    "units_differ.json": (
        json.dumps([[[0.5]], [[50]]]), ("matrix 0", "above 1", "matrix 1", "one unit")
    ),
    "turned.json": (
        json.dumps([[[0.5, None], [0.1, 0.5]], [[0.5, 0.1], [None, 0.5]]]),
        ("matrix 1", "below the diagonal", "matrix 0", "one orientation"),
    ),
    "initial.json": (
        json.dumps({"matrix": [[90, 10], [50, 80]], "initial": [0.1, 0.2]}),
        ("in percent", "--initial is above 1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_clear_is_refused_with_the_fix(name: str, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    says(refused("score", write(tmp_path, name, content)), name, *words)


def test_what_the_user_states_is_not_detected(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", "0.9,0.3\n0,0.8\n")
    assert scored(path, "--no-transposed")["metrics"]["acc"] == pytest.approx(0.4)
    assert scored(path, "--transposed")["metrics"]["acc"] == pytest.approx(0.55)
    losses = write(tmp_path, "l.csv", "20,30\n40,50\n")
    found = scored(losses, "--lower-is-better")
    assert found["metrics"]["acc"] == 45
    assert not any("percent" in note for note in found["notes"])
    with pytest.raises(InputError, match="expected 0 to 1"):
        perdure.score(losses, percent=False)


@pytest.mark.parametrize(
    "score",
    [
        lambda path: perdure.score(path),
        lambda path: perdure.score_groups(path),
    ],
)
def test_a_log_in_percent_is_read_as_such(score: Callable[[Path], Any], tmp_path: Path) -> None:
    text = "step,trained,tested,score\n1,a,a,50\n2,a,a,90\n3,b,a,0\n3,b,b,80\n"
    path = write(tmp_path, "log.csv", text)
    result = scored(path)
    assert result["metrics"]["acc"] == pytest.approx(0.4)
    says(" ".join(result["notes"]), "scores up to 90 are read as percent")
    score(path)


def test_the_untrained_model_in_a_long_table(tmp_path: Path) -> None:
    rows = ["trained,tested,score", ",a,.5", ",b,.25", "a,a,.9", "a,b,.3", "b,a,.6", "b,b,.8"]
    found = scored(write(tmp_path, "m.csv", "\n".join(rows)))
    assert found["metrics"]["fwt.gem"] == pytest.approx(0.3 - 0.25)
    assert found["tasks"] == ["a", "b"]


def test_numbered_tasks_in_another_order_are_pointed_out(tmp_path: Path) -> None:
    rows = ["trained,tested,score", "0,0,.5", "10,0,.5", "10,10,.5", "2,2,.5", "2,0,.5", "2,10,.5"]
    found = scored(write(tmp_path, "m.csv", "\n".join(rows)))
    assert found["tasks"] == ["0", "10", "2"]
    says(" ".join(found["notes"]), "order of the lines, 0, 10, 2")


def test_a_missing_file_is_named_plainly(tmp_path: Path) -> None:
    write(tmp_path, "results.csv", "0.9\n")
    line = refused("score", tmp_path / "reslts.csv")
    says(line, "no such file or folder", "did you mean results.csv?")
    assert "pattern" not in line
    says(refused("score", tmp_path / "*.json"), "no file or folder matches this pattern")


def test_the_option_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "m.csv", lines(FULL))
    says(run("score", path).out, "needs the untrained model's scores (--initial)", "(--classes)")
    says(perdure.score(path).undefined["fwt.gem"], "scores (`initial=`)")
    log = write(tmp_path, "p.csv", "step,trained,tested,score\n1,a,a,.5\n2,b,b,.5\n2,b,a,.5\n")
    says(scored(log)["undefined"]["fwt.gem"], "lines of kind initial at step 0, or --initial")


TABLE_FILES: dict[str, str | bytes] = {
    "results.csv": lines(FULL),
    "triangle.json": json.dumps(triangle(LOWER)),
    "export.csv": lines(FULL, ";").replace(".", ","),
    "percent.csv": lines(100 * FULL),
    "columns.csv": lines(FULL.T),
    "long.csv": "\n".join(["trained,tested,score", *long(FULL)]),
    "methods.csv": TWO_METHODS["long.csv"],
    "seeds.npy": npy(SEEDS),
    **{f"s{k}.csv": lines(matrix) for k, matrix in enumerate(SEEDS)},
    "methods.json": json.dumps({"er": FULL.tolist(), "ewc": (FULL - 0.1).tolist()}),
    "seeds.json": TWO_METHODS["by_seed.json"],
    "er.npy": npy(100 * FULL),
    "ewc.csv": lines(FULL - 0.1),
    "points.csv": "step,trained,tested,score\n1,a,a,.9\n2,b,a,.6\n2,b,b,.8\n",
    "losses.csv": lines(3 * FULL),
}


def test_the_table_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command in "what to type" works on numbers that look as its row says."""
    page = (ROOT / "docs" / "formats.md").read_text()
    table = page.partition("what to type\n")[2].partition("`score`, `compare`, `plot`")[0]
    commands = re.findall(r"`perdure ((?:score|compare) [^`]*)`", table)
    calls = re.findall(r"`(perdure\.[^`]*)`", table)
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) - 1 == len(commands) + len(calls) - 1  # the last but one has two calls
    for name, content in TABLE_FILES.items():
        write(tmp_path, name, content)
    monkeypatch.chdir(tmp_path)
    unused = set(TABLE_FILES)
    for command in commands:
        words = command.split()
        answer = run(*words, "--metrics", "acc", "--format", "json")
        assert answer.code == 0, f"{command}: {answer.err}"
        unused -= {word.partition("=")[2] or word for word in words}
        if "losses" not in command and "points" not in command:
            says(answer.out, '"acc"')
    assert not unused
    for call in calls:
        result = eval(
            call, {"perdure": perdure, "array": SEEDS, "train": lambda seed: SEEDS[seed % 3]}
        )
        assert result.metrics


def test_a_long_table_of_many_large_matrices_takes_little_memory(tmp_path: Path) -> None:
    """Each matrix of 1000 tasks takes 8 MB from 10 kB of text."""
    rows = [f"{m},{k},{k},.5" for m in range(200) for k in range(1000)]
    path = write(tmp_path, "m.csv", "\n".join(["method,trained,tested,score", *rows]))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="too large, expected matrices of 4000000 entries"):
            parse_matrices(path.read_bytes(), "m.csv")
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_long_triangle_is_read_in_any_order_of_its_lines(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    lines = ["t1,t1,.9", "t2,t1,.45\nt2,t2,.95", "t3,t2,.7\nt3,t3,.8\nt3,t1,.4"]
    file = tmp_path / "long.csv"
    file.write_text("\n".join(["trained,tested,score", *(lines[k] for k in order)]) + "\n")
    summary = perdure.score(file)
    assert summary.tasks == ("t1", "t2", "t3")
    assert summary.metrics["acc"] == pytest.approx((0.4 + 0.7 + 0.8) / 3)
    assert summary.metrics["bwt"] == pytest.approx((0.4 - 0.9 + 0.7 - 0.95) / 2)
    assert not any("transposed" in note for note in summary.notes)
