r"""A row of the registry, everything about one metric, and the rows that need no score matrix.

These are of streams of evaluations, of control tasks and of costs. In the formulas R_{i,j} is the
score on task j after learning task i and T the number of tasks, both counted from 1; b_j, J_j and
S_j are the scores on task j of the untrained, the joint and the single-task model, and O_i the mean
score on tasks 1 to i of a model trained offline on them. F_c and b_c are the scores on control task
c at the end and before training, C is the number of control tasks. `plain_formula` turns their
LaTeX into characters that a terminal shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

from ..functional import costs, forgetting, gap, learning, worst_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CONTROL_METRICS", "COSTS_METRICS", "NEEDS", "STREAM_METRICS", "Metric", "plain_formula"]

NEEDS = {
    "control": "control tasks, evaluated before training and later but never trained (`control=`)",
    "initial": "the untrained model's scores (`initial=`)",
    "joint": "the scores of a model trained on all tasks at once (`joint=`)",
    "single": "the scores of models trained on one task each (`single=`)",
    "offline": "the scores of models trained offline on the tasks so far (`offline=`)",
    "classes": "how many classes each task brings (`classes=`)",
    "setting": "the setting: class, task or domain; class by default",
    "sizes": "how many test examples each task has (`sizes=`)",
    "unseen": "scores on tasks before they are learned",
    "zero-shot": "scores on tasks before they are learned, by a model that can name their classes",
    "boundaries": "task boundaries",
    "every iteration": "an evaluation at every iteration",
    "model_bytes": "model_bytes of every task (costs)",
    "copies_bytes": "copies_bytes of every task (costs)",
    "stored_bytes": "stored_bytes of every task (costs)",
    "data_bytes": "data_bytes of every task (costs)",
    "flops_one_pass": "flops_one_pass of every task (costs)",
    "flops_train": "flops_train of every task (costs)",
    "criteria": "seven criteria: A, REM, BWT+, FWT, MS, SSS, CE",
    "runs": "several runs",
}

GEM = "Lopez-Paz & Ranzato 2017 (GEM)"
DIAZ = "Díaz-Rodríguez et al. 2018"
DELANGE = "De Lange et al. 2023"
MICHEL = "Michel et al. 2023"
FABER = "Faber et al. 2023 (M2I/I2M)"
TUTORIAL = "Evaluation Metrics for Continual Learning (tutorial)"
KEMKER = "Kemker & Kanan 2018 (FearNet)"
HAYES = "Hayes et al. 2019 (ExStream)"
OURS = "perdure"
PIECE = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.")
SYMBOLS = {
    r"\sum": "Σ", r"\max": "max", r"\min": "min", r"\arg": "arg ", r"\le": "≤", r"\ge": "≥",
    r"\in": "∈", r"\dots": "…", r"\int": "∫", r"\downarrow": "↓", r"\uparrow": "↑",
    r"\Delta": "Δ", r"\Omega": "Ω", r"\beta": "β", r"\gamma": "γ", r"\rho": "ρ", r"\theta": "θ",
    r"\varepsilon": "ε", r"\big": "", r"\Big": "", r"\,": " ", r"\;": " ", r"\%": "%",
    r"\{": "{", r"\}": "}",
}  # fmt: skip
WRAPPERS = {r"\mathrm": "{}", r"\text": "{}", r"\overline": "mean({})"}
FRACTIONS = (r"\frac", r"\tfrac")


@dataclass(frozen=True)
class Metric:
    """One metric: its formula, its source, the function that computes it and how to read it.

    Attributes:
        name: short name in words.
        symbol: symbol in LaTeX.
        formula: formula in LaTeX.
        source: where the formula comes from.
        input: what the function takes.
        function: computes the metric.
        low: smallest possible value for accuracies.
        high: largest possible value for accuracies.
        better: whether higher or lower values are better.
        needs: keys of `NEEDS`, what it needs besides its input.
        accepts: which scores it is defined for.
        is_score: whether it is a score itself; otherwise it is a change or a ratio.
        unit: unit of the value.
        curve: computes the value after each task, where that is not the metric of the tasks so far.
        parameter: argument of `function` that is part of the id, as 10 in `wf10`.
        distinction: how it differs from metrics of similar name.
        interpretation: what its values mean.
        rule_of_thumb: which accuracies are good.
    """

    name: str
    symbol: str
    formula: str
    source: str
    input: Literal["matrix", "stream", "control", "costs", "runs"]
    function: Callable[..., float]
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    needs: tuple[str, ...] = ()
    accepts: Literal["any", "not negative", "accuracy"] = "any"
    is_score: bool = False
    unit: Literal["score", "squared score", "none"] = "score"
    curve: Callable[..., NDArray[np.float64]] | None = None
    parameter: Literal["window", "beta"] | None = None
    distinction: str = ""
    interpretation: str = ""
    rule_of_thumb: str = ""


def plain_formula(latex: str) -> str:
    r"""Return a formula of the registry as one line of plain text.

    An index of one word follows an underscore, a longer one is in brackets.

    Example:
        >>> plain_formula(r"\frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j})")
        '1/(T-1) Σ[j<T] (R[T,j] - R[j,j])'
        >>> plain_formula(r"\mathrm{BWT}_{\mathrm{all}}")
        'BWT_all'
    """
    pieces = iter(PIECE.findall(latex))
    text = re.sub(r"\s+", " ", _sequence(pieces)).strip()
    text = text.replace("( ", "(").replace("arg min", "argmin").replace("Δ ", "Δ")
    return re.sub(r"\]\^(\S+)", r"..\1]", text)  # the limits of a sum


def _sequence(pieces: Iterator[str]) -> str:
    """Return the text up to the closing brace, or to the end."""
    text = ""
    for piece in pieces:
        if piece == "}":
            break
        text += _index(piece, _argument(pieces)) if piece in ("_", "^") else _one(piece, pieces)
    return text


def _one(piece: str, pieces: Iterator[str]) -> str:
    if piece == "{":
        return _sequence(pieces)
    if piece in FRACTIONS:
        return "/".join(_in_parentheses(_argument(pieces)) for _ in range(2))
    if piece in WRAPPERS:
        return WRAPPERS[piece].format(_argument(pieces))
    if piece in SYMBOLS:
        return SYMBOLS[piece]
    if piece.startswith("\\"):
        raise ValueError(f"no plain text for {piece}; add it to SYMBOLS")
    return piece


def _argument(pieces: Iterator[str]) -> str:
    """Return the next piece or group, without the spaces before it."""
    for piece in pieces:
        if not piece.isspace():
            return _one(piece, pieces)
    return ""


def _index(kind: str, index: str) -> str:
    """Return a subscript or superscript."""
    index = re.sub(r"\s*([≤≥<>=∈])\s*", r"\1", index).strip()
    if kind == "^":
        return f"^{index}"
    return f"_{index}" if re.fullmatch(r"[^\W_]+|.", index) else f"[{index}]"


def _in_parentheses(text: str) -> str:
    """Return one side of a fraction, in parentheses unless it is a single term."""
    single = re.fullmatch(r"[\w.]+(\[[^\[\]]*\]|\^\w)?|\|\w+\|", text)
    return text if single else f"({text.strip()})"


# fmt: off
STREAM_METRICS: dict[str, Metric] = {
    "min_acc": Metric(
        "average minimum accuracy", r"\text{min-ACC}",
        r"\frac{1}{k-1} \sum_{i<k} \min_{t_i < n \le t} A(E_i, f_n)", f"{DELANGE} eq. 2",
        "stream", worst_case.min_acc, needs=("boundaries",), is_score=True,
        curve=worst_case.min_acc_curve,
        distinction="Strictly after a task's last iteration, over tasks left behind only. The "
        "minimum of many noisy evaluations is biased low: read the interval or the bias next to "
        "it. The paper's code resamples its test subset at every step, which biases more than a "
        "fixed one.",
        interpretation="The worst score retained; far below acc means a stability gap."),
    "wc_acc": Metric(
        "worst-case accuracy", r"\text{WC-ACC}",
        r"\tfrac1k A(E_k, f_t) + (1 - \tfrac1k)\,\text{min-ACC}", f"{DELANGE} eq. 6",
        "stream", worst_case.wc_acc, needs=("boundaries",), is_score=True,
        curve=worst_case.wc_acc_curve,
        distinction="min_acc with the score on the current task added; at the end of a task it "
        "never exceeds acc on the same examples.",
        interpretation="A lower bound of the accuracy on all tasks seen, at this iteration."),
    "wf": Metric(
        "windowed forgetting", r"\mathrm{WF}^w",
        r"\frac1N \sum_i \max_{m \le n,\, n-m < w} \big(A(E_i, f_m) - A(E_i, f_n)\big)",
        f"{DELANGE} eq. 3, 4", "stream", worst_case.wf, better="lower", parameter="window",
        distinction="wf10, wf100, wfall: the window counts evaluations, not iterations; state "
        "the periodicity. Never negative, and biased high by noise.",
        interpretation="wf10 shows sharp drops, wf100 and wfall slow ones. 0 is a score that "
        "never falls."),
    "wp": Metric(
        "windowed plasticity", r"\mathrm{WP}^w",
        r"\frac1N \sum_i \max_{m \le n,\, n-m < w} \big(A(E_i, f_n) - A(E_i, f_m)\big)",
        f"{DELANGE} eq. 5, 10", "stream", worst_case.wp, parameter="window",
        distinction="The mirror image of wf. The paper's routine prunes on a running maximum, "
        "which is right for drops and wrong for rises: [.9, .1, .8] gives -.1 there and .7 here.",
        interpretation="The largest gain within a window."),
    "current": Metric(
        "current task accuracy", r"A(E_k, f_t)", r"A(E_k, f_t)", f"{DELANGE} sec. 3.2",
        "stream", learning.current_accuracy, needs=("boundaries",), is_score=True,
        curve=learning.current_accuracy_curve,
        distinction="The score on the task being learned, at the end of its training.",
        interpretation="Plasticity: close to the single-task score is good."),
    "lca": Metric(
        "learning curve area", r"\mathrm{LCA}_\beta",
        r"\frac{1}{\beta+1} \sum_{b=0}^{\beta} \frac1T \sum_k A(E_k, f_{t_{k-1}+b})",
        "Chaudhry et al. 2019 (A-GEM) def. 3", "stream", learning.lca,
        needs=("boundaries", "every iteration"), is_score=True, curve=learning.lca_curve, parameter="beta",
        distinction="A-GEM's definition, with b = 0 (before the first update) included.",
        interpretation="High: new tasks are learned within few batches."),
    "aaa": Metric(
        "average anytime accuracy", r"\mathrm{AAA}",
        r"\frac1N \sum_n \frac{1}{|\mathrm{seen}_n|} \sum_{i \in \mathrm{seen}_n} A(E_i, f_n)",
        "Caccia et al. 2022", "stream", learning.aaa, is_score=True,
        distinction="The mean over all evaluations, not only those at task ends as in "
        "acc.incremental.",
        interpretation="The accuracy a user sees on average at any time."),
    "gap.depth": Metric(
        "stability gap: depth", r"\mathrm{gap}_{\downarrow}",
        r"\mathrm{mean}\; A(E_i, f_{t_k}) - \min_{t_k < n \le t_{k+1}} A(E_i, f_n)", OURS,
        "stream", gap.gap_depth, low=-1, better="lower", needs=("boundaries",),
        distinction="Per switch and older task, relative to the score at the switch; min_acc is "
        "absolute and covers the whole remaining stream.",
        interpretation="0 is no gap; negative: the score only rose."),
    "gap.area": Metric(
        "stability gap: area", r"\mathrm{gap}_{\int}",
        r"\mathrm{mean} \sum_{t_k < n \le t_{k+1}} \max(0, A(E_i, f_{t_k}) - A(E_i, f_n))\,\Delta n",
        OURS, "stream", gap.gap_area, high=inf, better="lower", needs=("boundaries",),
        distinction="Depth times duration: a short deep dip and a long shallow one can be equal.",
        interpretation="Score lost times iterations, summed over one new task."),
    "gap.recovery": Metric(
        "stability gap: iterations to recover (median)", r"\mathrm{gap}_{t}",
        r"\mathrm{median}\; \min\{n - t_k : n \ge \arg\min,\; A(E_i, f_n) \ge .95\,A(E_i, f_{t_k})\}",
        OURS, "stream", gap.gap_recovery, high=inf, better="lower", needs=("boundaries",),
        accepts="not negative", unit="none",
        distinction="The median over dips; those that never recover count as longest, and 0 "
        "where the score never fell below 95%.",
        interpretation="Few iterations: the dip is transient. Undefined if more than half never "
        "recover."),
    "gap.recovered": Metric(
        "stability gap: fraction recovered", r"\mathrm{gap}_{\%}",
        r"\text{share of dips that came back to } .95\,A(E_i, f_{t_k})", OURS,
        "stream", gap.gap_recovered, needs=("boundaries",), accepts="not negative",
        unit="none",
        distinction="The fraction of dips behind gap.recovery. A task that is at 0 at the switch "
        "cannot fall and counts as recovered.",
        interpretation="1: every dip recovered while the new task was learned."),
}

CONTROL_METRICS: dict[str, Metric] = {
    "retention": Metric(
        "retention of control tasks", r"\mathrm{RET}", r"\frac{1}{C} \sum_{c} (F_c - b_c)",
        OURS, "control", forgetting.retention, low=-1, needs=("control",),
        distinction="Over tasks that are evaluated but never trained: the final score minus the "
        "score before training. bwt compares tasks that were trained with their score when they "
        "were learned.",
        interpretation="About 0: general abilities survived fine-tuning. Negative: they were "
        "lost. A mean hides a task that collapsed: read retention.worst next to it."),
    "retention.worst": Metric(
        "retention of the worst control task", r"\mathrm{RET}_{\mathrm{worst}}", r"\min_{c} (F_c - b_c)",
        OURS, "control", forgetting.retention_worst, low=-1, needs=("control",),
        distinction="The control task that lost most; retention is the mean. The minimum of "
        "several noisy changes is biased low: read its interval.",
        interpretation="About 0: no control task lost anything."),
    "retention.relative": Metric(
        "relative retention of control tasks", r"\mathrm{RET}_{\mathrm{rel}}",
        r"\frac{1}{C} \sum_{c} F_c / b_c",
        OURS, "control", forgetting.retention_relative, high=inf, needs=("control",),
        accepts="not negative", unit="none",
        distinction="A ratio, so that a loss of 0.1 weighs more on a task that was at 0.2 than "
        "on one at 0.9. Undefined for losses, perplexities and scores below 0: use retention.",
        interpretation="1 means that nothing was lost; 0.9 that a tenth of the initial scores "
        "was. Scores at chance inflate it, since they cannot fall to 0."),
}

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
