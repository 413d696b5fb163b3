"""The recipes of docs/frameworks.md run as they are printed, and leave training as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import perdure
from perdure._extras import is_installed

from ..evaluator_helpers import lines, net, sets, watch
from ..evaluator_loops import seeded
from .helpers import (
    PAGE,
    TASKS,
    evaluation_data,
    needs,
    run_recipe,
    same,
    train_data,
    weights,
)
from .table import ROWS

pytestmark = pytest.mark.filterwarnings("ignore", "error::perdure.EvaluationWarning")


def test_the_page_has_the_rows_of_the_table() -> None:
    printed = re.findall(r"^\| (.+?) [\d.]+ \| (.*?) \| differ by up to [\d.]+ \| bit-identical \|$", PAGE, flags=re.MULTILINE)  # fmt: skip  # noqa: E501
    assert printed == [(name, own) for _, _, name, _, own in ROWS]


class NoEvaluator:
    """Takes the place of an evaluator and does nothing."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> NoEvaluator:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def task(self, *args: Any) -> Any:
        return nullcontext()

    def step(self, model: object) -> None:
        pass


def run(heading: str, library: Any) -> dict[str, Any]:
    """Return the names that a recipe leaves."""
    seeded()
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)
    names = {
        "perdure": library, "torch": torch, "model": net(), "test_sets": evaluation_data(),
        "train_sets": {task: train_data(task) for task in TASKS},
    }  # fmt: skip
    if heading == "JAX and Flax":
        for part in ("test_sets", "train_sets"):
            names[part] = {name: (x.numpy(), y.numpy()) for name, (x, y) in names[part].items()}
    run_recipe(heading, names)
    return names


@pytest.mark.parametrize(
    ("heading", "package"),
    [("skorch", "skorch"), ("fastai", "fastai.basics"), ("Keras 3", "keras")],
)
def test_a_recipe_records_and_leaves_training_as_it_was(
    heading: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.chdir(tmp_path)
    needs(package)
    alone = run(heading, SimpleNamespace(Evaluator=NoEvaluator))
    evaluated = run(heading, perdure)
    assert same(trained_weights(alone), trained_weights(evaluated))
    (folder,) = (tmp_path / "runs").iterdir()
    found = lines(folder)
    assert {line.trained for line in found} == {"a", "b"}
    steps = max(line.step for line in found)
    assert [line.step for line in found if line.tested == "a" and line.kind == "probe"] == [
        *range(1, steps + 1)
    ]
    assert perdure.open_run(folder).finished


def trained_weights(names: dict[str, Any]) -> dict[str, Any]:
    """Return the weights by number: Keras counts layers in their names."""
    model = names["net"].module_ if "net" in names else names["model"]
    return {str(k): value for k, value in enumerate(weights(model).values())}


def test_jax_records_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("flax.nnx", "optax")
    monkeypatch.chdir(tmp_path)
    run("JAX and Flax", perdure)
    found = lines(tmp_path / "runs" / "jax")
    assert [(line.step, line.tested) for line in found if line.trained == "a"] == [
        (step, "a") for step in range(1, 5)
    ]
    assert perdure.open_run(tmp_path / "runs" / "jax").finished


def read_tensorboard(names: dict[str, Any]) -> dict[str, Any]:
    names["writer"].close()
    loader = needs("tensorboard.backend.event_processing.event_accumulator")
    events = loader.EventAccumulator("runs/tensorboard").Reload()
    return {name: events.Scalars(name)[-1].value for name in events.Tags()["scalars"]}


def read_wandb(names: dict[str, Any]) -> dict[str, Any]:
    run = names["wandb"].run
    run.log({}, step=1000)  # values of a step count once there is another
    logged = dict(run.summary)
    run.finish()
    return logged


def read_mlflow(names: dict[str, Any]) -> dict[str, Any]:
    mlflow = names["mlflow"]
    number = mlflow.active_run().info.run_id
    mlflow.end_run()
    return dict(mlflow.get_run(number).data.metrics)


def read_trackio(names: dict[str, Any]) -> dict[str, Any]:
    trackio = names["trackio"]
    trackio.finish()
    (run,) = trackio.Api().runs("perdure")
    rows = trackio.SQLiteStorage.get_logs("perdure", run.name)
    return {name: value for row in rows for name, value in row.items()}


LOGGERS = {
    "TensorBoard": ("tensorboard", read_tensorboard),
    "Weights & Biases": ("wandb", read_wandb),
    "MLflow": ("mlflow", read_mlflow),
    "trackio": ("trackio", read_trackio),
}


@pytest.mark.parametrize("heading", LOGGERS)
def test_a_logger_gets_what_the_summary_says(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, read = LOGGERS[heading]
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_DIR", "TRACKIO_DIR", "HF_HOME"):  # trackio reads its own when imported
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    needs(package)
    names = run(heading, perdure)
    with perdure.Evaluator(sets("ab"), record=names["record"]) as evaluator:
        watch(evaluator, net(), [("a", 3), ("b", 3)])
    logged, summary = read(names), evaluator.summary().metrics
    for id_ in ("acc", "min_acc", "wf10"):
        assert float(logged[f"final/{id_}"]) == pytest.approx(summary[id_])
    (last,) = [p.score for p in lines(tmp_path / "runs" / "mine")
               if (p.step, p.tested, p.kind) == (6, "a", "probe")]  # fmt: skip
    assert float(logged["probe/a"]) == pytest.approx(last)


def test_a_figure_goes_to_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loader = needs("tensorboard.backend.event_processing.event_accumulator")
    names = run("TensorBoard", perdure)
    with perdure.Evaluator(sets("ab"), record=names["record"]) as evaluator:
        watch(evaluator, net(), [("a", 3), ("b", 3)])
    run_recipe("Figures", names)
    names["writer"].add_figure("curves", names["figure"])
    names["writer"].close()
    (image,) = loader.EventAccumulator("runs/tensorboard").Reload().Images("curves")
    assert image.width > 100


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("with_lightning", "lightning"), ("with_transformers", "transformers"),
        ("with_lora", "trl"), ("with_avalanche", "avalanche"), ("with_jax", "flax"),
    ],
)  # fmt: skip
def test_an_example_runs_and_records(name: str, package: str, tmp_path: Path) -> None:
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    if not is_installed(package):
        pytest.skip(f"needs {package}, see `make test-frameworks`")
    # torchvision's compiled part may be that of another build of PyTorch; nothing here uses it.
    start = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])"
    if package == "avalanche":
        start = f"import tests.frameworks.test_avalanche; {start}"
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start, str(path), str(tmp_path / "run")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES.parent)},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    run = perdure.open_run(tmp_path / "run")
    assert run.finished
    metrics = run.summary().metrics
    assert metrics["acc.learning"] > 0.8  # it learns
    assert metrics["acc"] < metrics["acc.learning"]  # and forgets
    assert f"acc.learning     ↑   {metrics['acc.learning']:.4f}" in answer.stdout
    if name == "with_lora":
        assert metrics["retention"] < 0
        assert "retention" in run.summary().intervals
