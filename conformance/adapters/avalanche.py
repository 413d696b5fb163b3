"""Avalanche's plugin metrics watch a strategy: here one that only says what was predicted."""

from types import SimpleNamespace

import avalanche
import numpy as np
import torch
from avalanche.benchmarks.classic.clear import CLEARMetric
from avalanche.evaluation import metrics

TOOL, VERSION = "Avalanche", avalanche.__version__
CLOCK = SimpleNamespace(train_iterations=0)


def watch(metric, case):
    """Return a plugin's result after it has seen every evaluation: before and after each task."""
    before = [round(b * n) for b, n in zip(case["initial"], case["sizes"], strict=True)]
    for row, correct in enumerate([before, *case["correct"]]):
        strategy = SimpleNamespace(clock=CLOCK, eval_every=0, is_training=False, is_eval=True)
        strategy.experience = SimpleNamespace(
            current_experience=row - 1, origin_stream=SimpleNamespace(name="test"), task_label=0
        )
        if row:
            metric.before_training_exp(strategy)
        metric.before_eval(strategy)
        for task, size in enumerate(case["sizes"]):
            strategy.experience.current_experience = task
            strategy.mb_y = torch.ones(size, dtype=torch.long)
            strategy.mb_output = (torch.arange(size) < correct[task]).long()
            metric.before_eval_exp(strategy)
            metric.after_eval_iteration(strategy)
            metric.after_eval_exp(strategy)
        result = metric.result()
        metric.after_eval(strategy)
    return float(result)


PLUGINS = {
    "acc.pooled": "StreamAccuracy",
    "forgetting.learned": "StreamForgetting",
    "bwt": "StreamBWT",
    "fwt.gem": "StreamForwardTransfer",
}
CLEAR = {
    "acc.learning": "in_domain",
    "fwt.next": "next_domain",
    "acc.lower": "accuracy",
    "bwt.all": "backward_transfer",
    "fwt.upper": "forward_transfer",
}
NAMES = PLUGINS | {id_: f"CLEARMetric: {name}" for id_, name in CLEAR.items()}
METRICS = {
    id_: lambda case, name=name: watch(getattr(metrics, name)(), case)
    for id_, name in PLUGINS.items()
} | {
    id_: lambda case, name=name: CLEARMetric().get_metrics(np.array(case["scores"]))[name]
    for id_, name in CLEAR.items()
}
NOTES = {"bwt.all": "averages the scores below the diagonal; no difference is taken"}
