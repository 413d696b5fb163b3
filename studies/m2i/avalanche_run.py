# mypy: disable-error-code="import-not-found, attr-defined"
# ruff: noqa: E402
"""M2I or I2M by Avalanche itself, as the code of Faber et al. calls it: what does it compute?

python studies/m2i/avalanche_run.py m2i class GDumb --device cuda

Run it where avalanche-lib 0.2.1, which the paper used, can be imported next to perdure, whose data
and network are used. That version was made for PyTorch 1: what it imports from packages and from
PyTorch that is not there, and is not needed here, is declared first. The scenario has 60 labels in
the class-incremental setting and 10 in the domain-incremental one, which the paper prints as
task-incremental. `perdure score` reads the accuracy matrix that --output writes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import types
import typing
import warnings
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import data

import perdure
from perdure.models.architectures import wide_vgg9
from perdure.scenarios import Scenario, make_scenario


class Placeholder(types.ModuleType):
    """A module in which every name is a class without methods."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def declare(name: str, *, always: bool = False) -> None:
    """Let a package be imported, by a placeholder if it is not installed."""
    try:
        importlib.import_module("" if always else name)
    except (ImportError, ValueError):
        sys.modules[name] = Placeholder(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)


warnings.simplefilter("ignore")
if not torch.version.cuda:  # torchvision's compiled part does not load next to such a PyTorch
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
data.dataset.T_co = typing.TypeVar("T_co", covariant=True)
data.Subset.__init__ = lambda self, dataset, indices: vars(self).update(  # type: ignore[method-assign]
    dataset=dataset, indices=indices
)
if hasattr(data.Subset, "__getitems__"):
    del data.Subset.__getitems__  # Avalanche's subsets only know one index at a time
for package in ("quadprog", "wandb", "pycocotools", "pycocotools.mask", "pycocotools.coco",
                "pycocotools.cocoeval", "lvis", "gdown", "GPUtil"):  # fmt: skip
    declare(package)
for package in ("avalanche.models.mobilenetv1", "torch.utils.tensorboard",
                "torch.utils.tensorboard.summary"):  # fmt: skip
    declare(package, always=True)
vars(importlib.import_module("torchvision.datasets")).setdefault("Kinetics400", object)

import avalanche.training
from avalanche.benchmarks import nc_benchmark
from avalanche.benchmarks.utils import AvalancheTensorDataset
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.utils import get_last_fc_layer

LABELS = 60  # outputs of the network, in both settings
OPTIONS: dict[str, dict[str, object]] = {  # of the settings in the paper's repository
    "EWC": {"ewc_lambda": 1.0, "mode": "separate", "decay_factor": None},
    "SynapticIntelligence": {"si_lambda": 1.0, "eps": 0.001},
    "MAS": {"lambda_reg": 1.0},
    "LwF": {"alpha": 2.0, "temperature": 1.0},
    "GEM": {"patterns_per_exp": 256},
    "AGEM": {"patterns_per_exp": 256},
    "Replay": {"mem_size": 200},
}


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=["m2i", "i2m"])
    parser.add_argument("setting", choices=["class", "domain"])
    parser.add_argument("strategy", help="a class of avalanche.training, for example GDumb")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bfloat16", action="store_true", help="train in bfloat16")
    parser.add_argument("--initialization", default="torchvision", help="torchvision or pytorch")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--width", type=float, default=1.0, help="factor of the network's layers")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=6, help="train on the first ones only")
    parser.add_argument("--output", type=Path, help="JSON file for the accuracy matrix")
    return parser.parse_args()


def as_avalanche(scenario: Scenario, device: torch.device) -> tuple[list[Any], list[Any]]:
    """Return the training and the test sets, normalized, with labels from 0 in each task."""
    parts: tuple[list[Any], list[Any]] = ([], [])
    for number, task in enumerate(scenario.tasks):
        mean, std = (
            torch.tensor(values[number]).view(-1, 1, 1) for values in (scenario.mean, scenario.std)
        )
        for part, images, rows in zip(
            parts, (scenario.train, scenario.test), (task.train, task.test), strict=True
        ):
            x = (torch.as_tensor(images.x[rows]).float() / 255 - mean) / std
            labels = [int(label) - min(task.classes) for label in images.y[rows]]
            part.append(AvalancheTensorDataset([*x.to(device)], labels))
    return parts


def make_strategy(arguments: argparse.Namespace, model: torch.nn.Module) -> Any:
    """Return Avalanche's strategy, with the optimizer and the options of the paper's code."""
    options = dict(OPTIONS.get(arguments.strategy, {}))
    if arguments.strategy == "CWRStar":
        options["cwr_layer_name"] = get_last_fc_layer(model)[0]
    strategy: Any = getattr(avalanche.training, arguments.strategy)(
        model,
        torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9),
        torch.nn.CrossEntropyLoss(),
        train_mb_size=128, train_epochs=arguments.epochs, eval_mb_size=256, eval_every=-1,
        evaluator=EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
        device=torch.device(arguments.device), **options,
    )  # fmt: skip
    if arguments.bfloat16:
        forward = strategy.forward

        def forward_in_bfloat16() -> Tensor:
            with torch.autocast(strategy.device.type, torch.bfloat16, enabled=strategy.is_training):
                output: Tensor = forward().float()
            return output

        strategy.forward = forward_in_bfloat16
    return strategy


def main() -> None:
    """Train on every task, and evaluate on all of them after each."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    is_class = arguments.setting == "class"
    scenario = make_scenario(arguments.scenario, setting="class", size=arguments.image_size)
    train, test = as_avalanche(scenario, torch.device(arguments.device))
    benchmark = nc_benchmark(
        train, test, n_experiences=0, one_dataset_per_exp=True, shuffle=False,
        task_labels=not is_class, class_ids_from_zero_from_first_exp=is_class,
        class_ids_from_zero_in_each_exp=not is_class,
    )  # fmt: skip
    model = wide_vgg9(
        scenario.shape, LABELS, width=arguments.width, initialization=arguments.initialization
    )
    strategy, matrix, start = make_strategy(arguments, model), [], time.perf_counter()
    for experience in benchmark.train_stream[: arguments.tasks]:
        strategy.train(experience, num_workers=0)
        values = strategy.eval(benchmark.test_stream)
        scores = {name.split("Exp")[-1]: values[name] for name in values if "Top1_Acc_Exp" in name}
        matrix.append([scores[number] for number in sorted(scores)])
        seconds = time.perf_counter() - start
        print(f"{seconds:6.0f} s  {[round(score, 3) for score in matrix[-1]]}", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps({"matrix": matrix}) + "\n", encoding="utf-8")
    if len(matrix) == len(train):
        ids = ["acc.lower", "bwt.consecutive", "bwt.all", *([] if is_class else ["fwt.upper"])]
        print({id_: round(perdure.score(matrix).metrics[id_], 3) for id_ in ids})


if __name__ == "__main__":
    sys.exit(main())
