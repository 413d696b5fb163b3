"""What the fuzzer spoils: files and folders that every command reads well, and the commands."""

from __future__ import annotations

import gzip
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import numpy as np

from perdure import execution, studies, training
from perdure.data import load
from perdure.report.live.store_watcher import StoreWatcher

from .check_helpers import two_tasks
from .cli_helpers import COSTS, POINTS, Answer, R, run, table
from .data_helpers import write_pack

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "Kind", "make_corpus"]

STUDY = """\
about = "two strategies, small"
scenarios = ["split-digits"]
strategies = ["naive", "ewc"]
seeds = 1

[run]
epochs = 1
every = 30
hidden = 8

[strategy.ewc.grid]
strength = [1, 10]

[select]
metric = "acc"
seeds = 1
"""
ROWS = [list(row) for row in R]
FILES: dict[str, str] = {
    "matrix.csv": table(), "matrix.tsv": table("\t"), "matrix.txt": table(" "),
    "lower.csv": "after,a,b,c\na,.9,,\nb,.6,.8,\nc,.5,.7,.9\n",
    "percent.csv": table(rows=[[f"{100 * cell:.1f}%" for cell in row] for row in R]),
    "semicolon.csv": "a;b\n0.9;0.1\n0.5;0.8\n", "matrix.json": json.dumps(ROWS),
    "fields.json": json.dumps({
        "matrix": ROWS, "tasks": list("abcde"), "classes": [2] * 5, "setting": "class",
        "initial": [0.1] * 5, "joint": [0.9] * 5, "single": [0.9] * 5, "sizes": [10] * 5,
    }),
    "methods.json": json.dumps({"er": [ROWS, ROWS], "ewc": {"0": ROWS, "seed 1": ROWS}}),
    "ragged.csv": ".9\n.6,.85\n.45,.7,.95\n", "ragged.json": "[[0.9], [0.6, 0.8]]",
    "commas.csv": "a;b\n0,9;0,1\n0,5;0,8\n", "upper.csv": "90,50\n,80\n",
    "long.csv": "method,seed,trained,tested,score\ner,0,,a,.1\ner,0,a,a,.9\ner,0,b,a,.5\n"
                "er,0,b,b,.8\newc,0,a,a,.7\n",
    "log.csv": POINTS, "stream.csv": "step,tested,score,n\n1,a,.5,10\n2,a,.25,10\n2,b,.5,10\n",
    "avalanche.csv": "eval_exp,training_exp,eval_accuracy\n0,0,.9\n0,1,.5\n1,1,.8\n",
    "costs.csv": COSTS, "vector.csv": "2,2,2,2,2\n", "vector.json": "[2, 2, 2, 2, 2]",
}  # fmt: skip


class Kind(NamedTuple):
    """A part of the corpus: its folder, which files are spoiled, and who reads them.

    Arguments have {file} for the spoiled one and {folder} for the copy of the part.
    """

    folder: str
    pattern: str
    commands: tuple[tuple[int, str], ...]  # how often, relative to the others; what
    codes: frozenset[int] = frozenset({0, 2})


MATRIX = (
    (8, "score {file} --per-task"),
    (4, "score {file} --format json"), (2, "score {file} --percent"),
    (2, "score {file} --transposed --upper measured --format csv"),
    (2, "score {file} --as tutorial"),
    (2, "score - --format markdown"), (3, "score {folder}/matrix.csv --classes {file}"),
    (2, "score {folder}/matrix.csv --initial {file}"),
    (2, "score {folder}/matrix.csv --costs {file}"),
    (3, "compare a={file} b={folder}/matrix.csv"), (2, "score {file} {folder}/matrix.csv"),
    (2, "plan --from-run {file}"), (1, "plot heatmaps {file} -o {folder}/out.svg"),
    (1, "report {file} -o {folder}/out.html"), (1, "score {folder}/*"),
)  # fmt: skip
RUNS = (
    (8, "score {parent}"),
    (4, "score {folder}/runs --format json"), (2, "score {parent}/points.csv"),
    (2, "score {folder}/**/points.csv"), (3, "compare {folder}/runs"),
    (2, "plan --from-run {parent}"),
    (2, "watch {folder}/runs"),
    (1, "plot curves {folder}/runs -o {folder}/out.svg"),
    (1, "plot gradients {folder}/runs -o {folder}/out.svg"),
    (1, "report {folder}/runs -o {folder}/out.html"),
    (1, "compare {folder}/runs --format csv --details"),
)  # fmt: skip
STUDIES = (
    (4, "study status {folder}/small.toml --store {folder}/runs"),
    (4, "study status {folder}/small.toml --store {folder}/runs --format json"),
    (4, "study report {folder}/small.toml --store {folder}/runs"),
    (1, "study report {folder}/small.toml --store {folder}/runs --format json"),
    (1, "plot heatmaps {folder}/small.toml --store {folder}/runs -o {folder}/out.svg"),
    (1, "report {folder}/small.toml --store {folder}/runs -o {folder}/out.html"),
)
CHECKS = (
    (4, "check {parent} --requirements {folder}/gate.toml --format markdown"),
    (3, "check {folder}/base --baseline {folder}/baseline.json --require acc>=base --format junit"),
    (2, "check {folder}/base --baseline {parent} --require acc>=base --format junit"),
    (2, "flips {parent}"), (2, "flips {folder}/base --against {folder}/baseline.json"),
    (2, "freeze {parent} -o {folder}/out.json"),
)  # fmt: skip
RESUME = (
    "run split-digits naive --epochs 1 --every 30 --set hidden=8 --seeds 1 --device cpu --store "
    "{folder}/stopped"
)
DATA = (
    (1, "data list"), (2, "data where mnist"), (3, "data verify mnist --format json"),
    (4, "load mnist"),
)  # fmt: skip
WIDE = "-o {folder}/out --columns score=eval/{{tested}}/acc,trained=task"
NAMED = f"--order red,green,blue {WIDE}"
IMPORTS: tuple[tuple[int, Kind], ...] = (
    (1, Kind("imports/tensorboard", "*/*", ((1, f"import tensorboard {{file}} {NAMED}"),))),
    (1, Kind("imports/wandb", "*", ((1, f"import wandb {{file}} {WIDE}"),))),
    (1, Kind("imports/mlflow", "*", ((1, f"import mlflow {{file}} {NAMED}"),))),
    (1, Kind("imports/trackio", "*", ((1, f"import trackio {{file}} {WIDE}"),))),
    (1, Kind("imports/tables", "*.jsonl", ((1, f"import table {{file}} {WIDE},step=iter"),))),
    (1, Kind("imports/tables", "*.csv", ((1, (
        "import table {file} --columns step=iter,trained=task,tested=evaluated,score=accuracy "
        "-o {folder}/out"
    )),))),
    (1, Kind("imports/huggingface", "*/*", ((1, "import huggingface {folder} -o {folder}/out"),))),
    (4, Kind("imports/frameworks", "**/*", (
        (4, "import auto {file} -o {folder}/out"), (1, "import mammoth {file} -o {folder}/out"),
        (1, "import avalanche {file} -o {folder}/out"), (1, "import facil {file} -o {folder}/out"),
        (1, "import renate {folder} -o {folder}/out"),
    ))),
    (2, Kind("imports/lm_eval", "**/*", ((1, (
        "import lm-eval {folder} --order base,sql --control facts -o {folder}/out"
    )),))),
)  # fmt: skip
KINDS: tuple[tuple[int, Kind], ...] = (
    *IMPORTS,
    (10, Kind("files", "*", MATRIX)),
    (8, Kind("store", "runs/*/**/*", RUNS)),
    (3, Kind("store", "small.toml", STUDIES)),
    (3, Kind("store", "runs/**/*.json", STUDIES)),
    (3, Kind("checks", "**/*", CHECKS, frozenset({0, 1, 2, 3}))),
    (1, Kind("store", "stopped/**/*", ((1, RESUME),), frozenset({0, 1, 2}))),
    (1, Kind("data", "**/*", DATA, frozenset({0, 1, 2}))),
)


def make_corpus(folder: Path) -> None:
    """Write the whole corpus: matrices, logs, a store with a study, a stopped run, a dataset."""
    files = folder / "files"
    files.mkdir(parents=True)
    for name, text in FILES.items():
        (files / name).write_text(text)
    np.save(files / "matrix.npy", np.array(R))
    np.save(files / "vector.npy", np.array([2, 2, 2, 2, 2]))
    np.savez(files / "plain.npz", matrix=np.array(R))
    np.savez_compressed(files / "fields.npz", matrix=np.array(R), initial=np.full(5, 0.1))
    checks = folder / "checks"
    two_tasks(checks / "base", 100, forgot=5)
    run("freeze", checks / "base", "-o", checks / "baseline.json")
    (checks / "gate.toml").write_text('require = ["no task drops more than .02"]\nlevel = 0.9\n')
    store = folder / "store"
    store.mkdir()
    (store / "small.toml").write_text(STUDY)
    studies.run_study(
        studies.read_study(store / "small.toml"), store / "runs", execution.run_serially,
        lambda *_: None,
    )  # fmt: skip
    for command in ("status", "report"):  # they write scores.json
        run("study", command, store / "small.toml", "--store", store / "runs")
    first = training.make_config(
        "split-digits",
        "naive",
        epochs=1,
        every=30,
        seed=1,
        gradients=1,
        evaluate_train=True,
        settings={"hidden": 8},
    )
    training.run(first, store / "runs" / first.folder)
    failed = store / "runs" / "failed"
    failed.mkdir()
    (failed / "failed.json").write_text('{"error": "out of memory", "code": 1, "at": "now"}')
    _stopped(store / "stopped")
    write_imports(folder / "imports")
    write_pack(folder / "data" / "mirror" / "mnist", 12, 6)
    (folder / "data" / "mirror" / "mnist" / "source.json").write_text('{"files": {}}')


def write_imports(folder: Path) -> None:
    """Write results of other tools, as they are in the repository."""
    fixtures = Path(__file__).parent / "fixtures" / "import"
    for name in ("tensorboard", "wandb", "tables"):
        shutil.copytree(fixtures / "trackers" / name, folder / name)
    for name, file in (("mlflow", "mlflow.db"), ("trackio", "toy.db")):
        (folder / name).mkdir()
        packed = fixtures / "trackers" / name / f"{file}.gz"
        (folder / name / file).write_bytes(gzip.decompress(packed.read_bytes()))
    for name in ("avalanche", "pycil", "mammoth", "facil", "clarena", "renate"):
        shutil.copytree(fixtures / name, folder / "frameworks" / name)
    for name in ("base", "sql"):
        shutil.copytree(fixtures / "lm_eval" / "results" / name, folder / "lm_eval" / name)
    for k, task in enumerate("ab", start=1):
        place = folder / "huggingface" / f"{k}-{task}"
        place.mkdir(parents=True)
        scores = {f"predict_exact_match_for_{name}": 10.5 * k for name in "ab"[:k]}
        (place / "all_results.json").write_text(json.dumps(scores))


def _stopped(store: Path) -> None:
    what = training.make_config(
        "split-digits", "naive", epochs=1, every=30, settings={"hidden": 8}, device="cpu"
    )

    def stop(share: float, _: object) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        training.run(what, store / what.folder, on_progress=stop, checkpoint_every=0)


def call(words: list[str], folder: Path, stdin: bytes) -> Answer:
    """Do what a command says in this process; those in CALLS stand for what is no command.

    `perdure watch` serves without end, so its page is asked for once.
    """
    variables = {"PERDURE_DATA": str(folder / "mirror"), "PERDURE_CACHE": str(folder / "cache")}
    with (
        patch.dict("os.environ", variables),
        patch.object(execution, "run_in_processes", _serially),
    ):
        if words[0] not in CALLS:
            return run(*words, stdin=stdin)
        try:
            CALLS[words[0]](words[1])
        except ValueError as error:
            return Answer(2, "", f"perdure: {' '.join(str(error).split())}\n")
        return Answer(0, "", "")


def _serially(jobs: list[execution.Job], *_: object, **__: object) -> None:
    execution.run_serially(jobs, lambda *_: None)


def _watch(store: str) -> None:
    watching = StoreWatcher(Path(store))
    for _ in range(3):
        watching.poll(list(watching.listing))
    for name in watching.listing:
        watching.curves(name)


CALLS: dict[str, Callable[[str], object]] = {
    "load": load,
    "watch": _watch,
}
