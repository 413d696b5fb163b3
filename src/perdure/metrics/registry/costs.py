"""Rows of the cost metrics and the scores that combine them with accuracy."""

from __future__ import annotations

from ..functional import costs
from .metric import DIAZ, OURS, Metric

__all__ = ["COSTS_METRICS"]

# fmt: off
COSTS_METRICS: dict[str, Metric] = {
    "ms": Metric(
        "model size efficiency", r"\mathrm{MS}",
        r"\min\big(1, \tfrac1T \sum_i \mathrm{Mem}(\theta_1) / \mathrm{Mem}(\theta_i)\big)",
        f"{DIAZ} eq. 5", "costs", costs.ms, needs=("model_bytes",), unit="none",
        distinction="Model size efficiency; the tutorial's MS is memory_stability. What a method "
        "keeps per parameter counts; the paper did not count LwF's teacher: see ms.copies.",
        interpretation="1: the model did not grow."),
    "ms.copies": Metric(
        "model size efficiency with copies", r"\mathrm{MS}_{+}",
        r"\min\big(1, \tfrac1T \sum_i (\mathrm{Mem}(\theta_1) + \mathrm{Mem}(K_1))"
        r" / (\mathrm{Mem}(\theta_i) + \mathrm{Mem}(K_i))\big)",
        OURS, "costs", costs.ms_copies, needs=("model_bytes", "copies_bytes"), unit="none",
        distinction="ms with the copies that a method keeps next to the model (K): a teacher, "
        "its recorded outputs, the initial weights. The paper's MS leaves them out.",
        interpretation="1: neither the model nor its copies grew."),
    "sss": Metric(
        "samples storage efficiency", r"\mathrm{SSS}",
        r"1 - \min\big(1, \tfrac1T \sum_i \mathrm{Mem}(M_i) / \mathrm{Mem}(D)\big)",
        f"{DIAZ} eq. 6", "costs", costs.sss, needs=("stored_bytes", "data_bytes"), unit="none",
        distinction="Stored samples when each task starts, relative to all data by the end.",
        interpretation="1: nothing is stored; storing all of ten equal tasks gives .55."),
    "ce": Metric(
        "computational efficiency", r"\mathrm{CE}",
        r"\min\big(1, \tfrac1T \sum_i \mathrm{Ops}_{\uparrow\downarrow}(Tr_i)\,\varepsilon"
        r" / \mathrm{Ops}(Tr_i)\big)",
        f"{DIAZ} eq. 7", "costs", costs.ce, needs=("flops_one_pass", "flops_train"), unit="none",
        distinction="One pass over the data relative to all training operations; evaluation is "
        "excluded. State epsilon.",
        interpretation="1: no more than one pass (times epsilon)."),
    "clscore": Metric(
        "CLscore", r"CL_{\mathrm{score}}", r"\sum_c w_c c", f"{DIAZ} eq. 8",
        "runs", costs.clscore, needs=("criteria",), unit="none",
        distinction="Seven criteria, equal weights unless stated. The paper has two different "
        "W2; the one in the caption of its table gives its numbers.",
        interpretation="It depends on the weights: report them."),
    "clstability": Metric(
        "CLstability", r"CL_{\mathrm{stability}}", r"1 - \sum_c w_c\,\mathrm{std}(c)",
        f"{DIAZ} eq. 9", "runs", costs.clstability, needs=("criteria", "runs"), unit="none",
        distinction="Over runs, with the sample SD.",
        interpretation="1: all runs agree."),
}
# fmt: on
