"""Checkpoints on disk: which there are, in which order they were saved, and their weights."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from .._display import list_some
from ..record import InputError
from ..record.io.files import find_matches, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor, nn

__all__ = ["CheckpointFile", "Order", "find_checkpoints", "load_weights", "read_weights"]

Order = Literal["step", "name", "time", "given"]
PICKLES = (".ckpt", ".pt", ".pth", ".bin")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
STEP = re.compile(r"(?:global_?)?steps?[=_-]?(\d+)", re.IGNORECASE)
NUMBER = re.compile(r"\d+")


class CheckpointFile(NamedTuple):
    """A saved model: a file, or a folder with model.safetensors in it."""

    path: Path
    step: int  # training iterations so far, or its position

    @property
    def name(self) -> str:
        """The name that messages and records use."""
        return self.path.name


def find_checkpoints(
    patterns: str | Sequence[str], order: Order | None = None
) -> tuple[list[CheckpointFile], str]:
    """Return the checkpoints in the order of training, and that order in words.

    Args:
        patterns: paths or patterns like `ckpt-*`.
        order: "step" by the step numbers in the names, "name", "time" of the last change, or
            "given" as the patterns list them. None takes step numbers, and raises InputError if
            the names have none.
    """
    paths: list[Path] = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matches = find_matches(pattern) if glob.has_magic(pattern) else [pattern]
        paths += [Path(match) for match in matches if _may_be_checkpoint(Path(match))]
        if not matches or not os.path.lexists(matches[0]):
            raise InputError(f"checkpoints is {pattern!r:.80}, and there is no such file or folder")
    paths = list(dict.fromkeys(paths))
    if not paths:
        raise InputError(
            f"checkpoints is {list_some(list(patterns))!r:.80}, expected .safetensors files, "
            "folders with model.safetensors, or .ckpt files"
        )
    if order in (None, "step"):
        return _order_by_step(paths), "by the step numbers in their names"
    if order == "name":
        paths.sort(key=lambda path: path.name)
    elif order == "time":
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
    words = {"name": "by name", "time": "by the time of their last change", "given": "as given"}
    return [CheckpointFile(path, k) for k, path in enumerate(paths, start=1)], words[str(order)]


def _may_be_checkpoint(path: Path) -> bool:
    return path.is_dir() or path.suffix in (".safetensors", *PICKLES)


def _order_by_step(paths: Sequence[Path]) -> list[CheckpointFile]:
    steps: dict[int, Path] = {}
    for path in paths:
        step = _step_in(path)
        if step is None:
            raise InputError(
                f"{path.name}: its name has no step number (as ckpt-100 and epoch=1-step=50 have), "
                "so the order of training is unknown; state it with `order=name`, `order=time` or "
                "`order=given`"
            )
        if step in steps:
            raise InputError(
                f"{path.name} and {steps[step].name} both have step {step}; state the order with "
                "`order=given`"
            )
        steps[step] = path
    return [CheckpointFile(steps[step], step) for step in sorted(steps)]


def _step_in(path: Path) -> int | None:
    """Return the step number in a name; None if it has none, or several numbers without `step`.

    Example:
        >>> [_step_in(Path(name)) for name in ("checkpoint-100", "epoch=1-step=50.ckpt", "a1-b2")]
        [100, 50, None]
    """
    stem = path.name if path.is_dir() else path.stem
    marked = STEP.findall(stem)
    numbers = marked if len(marked) == 1 else NUMBER.findall(stem)
    return int(numbers[0]) if len(numbers) == 1 and len(numbers[0]) < 19 else None


def read_weights(path: Path, *, allow_pickle: bool = False) -> dict[str, Tensor]:
    """Return the weights in a checkpoint by name, on the CPU, or raise InputError.

    Pickles are read with PyTorch's restricted unpickler (`weights_only=True`), which creates
    tensors and plain Python values and calls nothing else, and only with `allow_pickle`.
    """
    if path.is_dir():
        return _read_folder(path, allow_pickle=allow_pickle)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if not allow_pickle:
        raise InputError(
            f"{path}: a pickle, which is not read unless you trust it: `allow_pickle=True` reads "
            "tensors and plain values only (torch.load with weights_only=True)"
        )
    return _read_pickle(path)


def _read_folder(folder: Path, *, allow_pickle: bool) -> dict[str, Tensor]:
    if (folder / WEIGHTS).is_file():
        return _read_safetensors(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        shards = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(shards, dict) or not all(_is_file_name(name) for name in shards.values()):
            raise InputError(f"{folder / INDEX}: expected a weight_map with names of files")
        weights: dict[str, Tensor] = {}
        for name in dict.fromkeys(map(str, shards.values())):
            weights |= _read_safetensors(folder / name)
        return weights
    pickle = folder / "pytorch_model.bin"
    if pickle.is_file():
        return read_weights(pickle, allow_pickle=allow_pickle)
    hint = ""
    if (folder / "adapter_model.safetensors").is_file():
        hint = "; it holds an adapter, which a factory with a parameter can load: factory(path)"
    raise InputError(f"{folder}: no {WEIGHTS} in it{hint}")


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and name.endswith(".safetensors") and name == Path(name).name


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: cannot be read as safetensors ({error})") from None


def _read_pickle(path: Path) -> dict[str, Tensor]:
    import torch

    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not only tensors and plain values ({type(error).__name__}: {reason}); save "
            "it as safetensors, or let a factory with a parameter load it: factory(path)"
        ) from None
    if isinstance(contents, dict) and isinstance(contents.get("state_dict"), dict):
        contents = contents["state_dict"]  # of Lightning
    if not isinstance(contents, dict) or not any(map(torch.is_tensor, contents.values())):
        names = list_some(list(contents)) if isinstance(contents, dict) else type(contents).__name__
        raise InputError(f"{path}: no weights by name but {names}; expected a state_dict")
    return {str(name): value for name, value in contents.items() if torch.is_tensor(value)}


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], prefix: str, checkpoint: str
) -> None:
    """Load weights into a model, those whose names begin with `prefix`, without it."""
    chosen = {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
    if prefix and not chosen:
        raise InputError(
            f"{checkpoint}: no weight's name begins with {prefix!r}, as in `prefix=`; they are "
            f"{list_some(list(weights))}"
        )
    expected = set(model.state_dict())
    missing, unexpected = sorted(expected - set(chosen)), sorted(set(chosen) - expected)
    # Tied weights are saved once: names that share a tensor with a loaded one are there as well.
    state = model.state_dict(keep_vars=True)
    loaded = {state[name].data_ptr() for name in expected & set(chosen)}
    missing = [name for name in missing if state[name].data_ptr() not in loaded]
    if missing or unexpected:
        hint = _suggest_prefix(expected, weights) if not prefix else ""
        which = f"it lacks {missing[0]!r}" if missing else f"it has {unexpected[0]!r}"
        raise InputError(f"{checkpoint}: its weights are not those of the model: {which}{hint}")
    try:
        model.load_state_dict(chosen, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{checkpoint}: {reason}") from None


def _suggest_prefix(expected: set[str], weights: Mapping[str, Tensor]) -> str:
    """Return the advice to use the prefix with which the names would be those of the model."""
    for name in weights:
        for end in (k for k, letter in enumerate(name, start=1) if letter == "."):
            prefix = name[:end]
            chosen = {n.removeprefix(prefix) for n in weights if n.startswith(prefix)}
            if expected <= chosen:
                return f"; `prefix={prefix}` would fit"
    return ""
