"""continuum's logger takes predictions: after each task, those for all tasks seen so far."""

from importlib.metadata import version

import numpy as np
from continuum.metrics import Logger

TOOL, VERSION = "continuum", version("continuum")


def log(case):
    """Return a logger with as many correct predictions as the case says."""
    logger = Logger(list_subsets=["test"])
    for row, correct in enumerate(case["correct"]):
        if row:
            logger.end_task()
        for task, size in enumerate(case["sizes"][: row + 1]):
            predicted = (np.arange(size) < correct[task]).astype(int)
            logger.add([predicted, np.ones(size, int), np.full(size, task)], subset="test")
    return logger


NAMES = {
    "acc.pooled": "accuracy",
    "acc.incremental": "average_incremental_accuracy",
    "acc.lower": "accuracy_A",
    "bwt.all": "backward_transfer",
    "bwt.positive": "positive_backward_transfer",
    "rem": "remembering",
    "fwt.upper": "forward_transfer",
    "forgetting.best": "forgetting",
}
METRICS = {id_: lambda case, name=name: getattr(log(case), name) for id_, name in NAMES.items()}
LEFT_OUT = "leaves out the task learned just before, but divides as if it were included"
NOTES = {
    "acc.incremental": "pools the test examples of the tasks, so large test sets count more",
    "bwt.all": LEFT_OUT,
    "bwt.positive": f"`backward_transfer` {LEFT_OUT}",
    "rem": f"`backward_transfer` {LEFT_OUT}",
    "fwt.upper": "averages tasks that have been learned",
    "forgetting.best": "leaves out the last older task and the last step, but divides by T - 1",
}
