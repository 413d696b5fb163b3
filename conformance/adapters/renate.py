"""Renate's metrics are functions of a matrix of accuracies."""

import renate
from renate.evaluation.metrics import classification

TOOL, VERSION = "Renate", renate.__version__


def call(name):
    """Return a function of a case that calls Renate's function after the last task."""

    def compute(case):
        accuracies = {"accuracy": case["scores"], "accuracy_init": [case["initial"]]}
        return getattr(classification, name)(accuracies, len(case["scores"]) - 1, case["sizes"])

    return compute


NAMES = {
    "acc": "average_accuracy",
    "acc.pooled": "micro_average_accuracy",
    "forgetting.any": "forgetting",
    "bwt": "backward_transfer",
    "fwt.gem": "forward_transfer",
}
METRICS = {id_: call(name) for id_, name in NAMES.items()}
NOTES = {}
