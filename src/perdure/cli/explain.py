"""`perdure explain`: one metric in words."""

from __future__ import annotations

import textwrap

from ..metrics import DIAGNOSIS, METRICS, NEEDS, READINGS, find_metric

__all__ = ["explain"]

CURVES = {"aa": "acc", "af": "forgetting.best"}
LEGEND = {
    "matrix": "R_{i,j} score on task j after task i; T tasks; b untrained, J joint, S single model",
    "stream": "A(E_i, f_n) score on task i after iteration n; t_i last iteration of task i",
}


def explain(*ids: str) -> None:
    """Explain metrics: formula, source, what they need, their namesakes and how to read them.

    Args:
        ids: ids of metrics, as in `perdure list metrics`.
    """
    if not ids:
        raise ValueError("no metric to explain; name one, wc_acc say (see `perdure list metrics`)")
    pages = [_page(CURVES.get(id_, id_)) for id_ in ids]
    print("\n\n".join(pages))


def _page(id_: str) -> str:
    metric = find_metric(id_)
    base = next(name for name, row in METRICS.items() if row is metric)
    reading = READINGS[base]
    needs = "; ".join(NEEDS[need] for need in metric.needs)
    parts = [
        ("formula", metric.formula),
        ("symbol", metric.symbol),
        ("source", metric.source),
        ("range", f"{metric.low:g} to {metric.high:g} for accuracies; {metric.better} is better"),
        ("from", {"runs": "the other metrics"}.get(metric.of, f"the {metric.of}")),
        ("needs", needs or "nothing else"),
        ("scores", {"any": "any, losses too"}.get(metric.scores, metric.scores)),
        ("where", LEGEND.get(metric.of, "")),
        ("differs", reading.differs),
        ("reading", reading.meaning),
    ]
    lines = [f"{id_}: {metric.name}"]
    for label, text in parts:
        if metric.of not in LEGEND and label in ("scores", "where"):
            continue
        lines += textwrap.wrap(
            text, 96, initial_indent=f"  {label:<9}", subsequent_indent=" " * 11,
            break_on_hyphens=False,
        )  # fmt: skip
    if base in ("acc", "acc.learning", "bwt"):
        lines += ["", "  together (the guide's table)", textwrap.indent(DIAGNOSIS, "  ")]
    return "\n".join(lines)
