"""The command that gives a run again, written out from its description."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["make_command"]

# Options of `perdure run` by the field that they set; what a field is without the option.
OPTIONS: dict[str, tuple[str, Any]] = {
    "model": ("--model", None),
    "setting": ("--setting", None),
    "batch": ("--batch", None),
    "optimizer": ("--optimizer", None),
    "every": ("--every", None),
    "image_size": ("--image-size", None),
    "boundaries": ("--boundaries", "sharp"),
    "blur": ("--blur", 0.0),
    "patience": ("--patience", None),
    "early_stopping_split": ("--early-stopping-split", 0.0),
    "validation_split": ("--validation-split", 0.0),
    "gradients": ("--gradients", None),
    "threads": ("--threads", 1),
    "device": ("--device", None),
}
# What is off unless the flag is there; hits are on.
FLAGS = {"mask_unseen": "--mask-unseen", "resample": "--resample", "unseen": "--unseen"}


def make_command(said: Mapping[str, Any], seeds: Sequence[int]) -> str | None:
    """Return `perdure run …` for a description, every choice written out; None for other runs.

    Example:
        >>> said = {"scenario": "split-digits", "strategy": "replay", "epochs": 5, "batch": 10}
        >>> make_command(said, [0, 1])
        'perdure run split-digits replay --seeds 0,1 --epochs 5 --batch 10'
    """
    if not {"scenario", "strategy", "epochs"} <= said.keys():
        return None
    words = ["perdure", "run", str(said["scenario"]), str(said["strategy"])]
    words += _which(seeds)
    if said.get("iterations") is not None:
        words += ["--iterations", str(said["iterations"])]
    else:
        words += ["--epochs", str(said["epochs"])]
    for field, (option, usual) in OPTIONS.items():
        if field in said and said[field] is not None and said[field] != usual:
            words += [option, str(said[field])]
    if "subset" in said:
        words += ["--subset", "all" if said["subset"] is None else str(said["subset"])]
    if said.get("order") is not None:
        order = said["order"]
        words += ["--order", ",".join(map(str, order)) if isinstance(order, list) else str(order)]
    words += [flag for field, flag in FLAGS.items() if said.get(field)]
    words += ["--no-per-example"] if said.get("hits") is False else []
    for group in ("optimizer_options", "options", "model_options"):
        for name, value in (said.get(group) or {}).items():
            words += ["--set", f"{name}={_plain(value)}"]
    return shlex.join(words)


def _which(seeds: Sequence[int]) -> list[str]:
    # A number alone says how many seeds; one with a comma says which.
    end = "," if len(seeds) == 1 else ""
    return ["--seeds", ",".join(map(str, seeds)) + end] if seeds else []


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
