"""CapyMOA's evaluator counts predictions in a confusion matrix; importing it needs Java."""

from types import SimpleNamespace

import torch
from capymoa.__about__ import __version__
from capymoa.ocl.evaluation._evaluator import _OCLEvaluator

TOOL, VERSION = "CapyMOA", __version__


def evaluate(case):
    """Return CapyMOA's metrics of as many correct predictions as the case says."""
    tasks = len(case["sizes"])
    evaluator = _OCLEvaluator(task_count=tasks, eval_step_count=1, class_count=2)
    correct = torch.tensor(case["correct"], dtype=torch.int)
    evaluator.cm[:, 0, :, 1, 1] = correct
    evaluator.cm[:, 0, :, 1, 0] = torch.tensor(case["sizes"], dtype=torch.int) - correct
    return evaluator.build(SimpleNamespace(windowed=None), torch.zeros(tasks + 1))


def evaluate_stream(case):
    """Return CapyMOA's mean over all evaluations; None where a task is trained twice."""
    tasks = list(case["scores"])
    if len(case["spans"]) > len(tasks):
        return None
    steps = len(case["scores"][tasks[-1]])
    evaluator = _OCLEvaluator(len(tasks), steps, class_count=2)
    for number, task in enumerate(tasks):
        for position, (_, accuracy) in enumerate(case["scores"][task], start=number * steps):
            right = round(20 * accuracy)  # accuracies are multiples of 1/20
            counts = torch.tensor([20 - right, right])
            evaluator.cm[position // steps, position % steps, number, 1] = counts
    return evaluator.build(SimpleNamespace(windowed=None), torch.zeros(len(tasks) + 1))


NAMES = {
    "acc": "accuracy_final",
    "acc.all": "accuracy_all_avg",
    "acc.incremental": "accuracy_seen_avg",
    "bwt.all": "backward_transfer",
    "fwt.upper": "forward_transfer",
    "aaa": "anytime_accuracy_seen_avg",
}


def get(case, name):
    """Return one of CapyMOA's metrics of a case, None if it cannot be evaluated."""
    evaluated = evaluate(case) if "correct" in case else evaluate_stream(case)
    return None if evaluated is None else float(getattr(evaluated, name))


METRICS = {id_: lambda case, name=name: get(case, name) for id_, name in NAMES.items()}
NOTES = {"aaa": "equal numbers of evaluations per task; no task that returns"}
